//! What was acknowledged last, to be looked for after a failover: a standby that was behind has lost it, and somebody
//! must be told.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use angarium_domain::id::NotificationId;
use uuid::Uuid;

use crate::Store;
use crate::db::{Op, Pulse, Tx, row, statements};
use crate::error::Result;
use crate::types::Acceptance;

/// Ids that are remembered: more than can be on their way to a standby.
const REMEMBERED: usize = 65_536;
/// Ids that are looked for at once.
const STEP: usize = 1024;

statements! {
    STORED_IDS = "SELECT 1 FROM ids WHERE id = $1";
}

impl Store {
    /// What the database's server says of itself: its clock, above all. None where there is no server.
    pub async fn pulse(&self) -> Result<Option<Pulse>> {
        match self.db.shared() {
            Some(db) => db.pulse().await.map(Some),
            None => Ok(None),
        }
    }

    /// Another server took over, or the one there was went back in time. What was remembered is not used any
    /// more. Returns which of the notifications acknowledged last are not there.
    pub async fn after_a_failover(&self) -> Result<Vec<NotificationId>> {
        self.remembered().clear();
        let mut lost = Vec::new();
        for ids in self.acknowledged.in_steps() {
            let missing = self.db.read_for_dispatch(FindLost { ids }).await?;
            lost.extend(missing);
        }
        self.acknowledged.forget(&lost);
        Ok(lost.into_iter().map(NotificationId::from).collect())
    }
}

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

/// Which of these ids are not stored.
pub(crate) struct FindLost {
    pub(crate) ids: Vec<Uuid>,
}

impl Op for FindLost {
    type Output = Vec<Uuid>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Uuid>> {
        let asked: Vec<_> = self.ids.iter().map(|id| row![*id]).collect();
        let found = tx.query_each(&STORED_IDS, &asked, |_| Ok(())).await?;
        let missing = self.ids.iter().zip(found).filter(|(_, found)| found.is_empty());
        Ok(missing.map(|(id, _)| *id).collect())
    }
}
