//! What was acknowledged last, to be looked for after a failover: a standby that was behind has lost it, and somebody
//! must be told.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

pub use crate::db::Pulse;
use crate::types::Acceptance;

/// Ids that are remembered: more than can be on their way to a standby.
const REMEMBERED: usize = 65_536;
/// Ids that are looked for at once.
const STEP: usize = 1024;

/// The ids acknowledged last.
#[derive(Default)]
pub(crate) struct Acknowledged(Mutex<VecDeque<Uuid>>);

impl Acknowledged {
    pub(crate) fn note(&self, accepted: &[Acceptance]) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for acceptance in accepted {
            if let Acceptance::Accepted { id, .. } = acceptance {
                if ids.len() == REMEMBERED {
                    ids.pop_front();
                }
                ids.push_back(id.uuid());
            }
        }
    }

    /// These were told of; nobody is told twice.
    pub(crate) fn forget(&self, lost: &[Uuid]) {
        let lost: HashSet<&Uuid> = lost.iter().collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| !lost.contains(id));
    }

    /// All of them, in portions.
    pub(crate) fn in_steps(&self) -> Vec<Vec<Uuid>> {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let once: HashSet<Uuid> = ids.iter().copied().collect();
        let ids: Vec<Uuid> = once.into_iter().collect();
        ids.chunks(STEP).map(<[Uuid]>::to_vec).collect()
    }
}
