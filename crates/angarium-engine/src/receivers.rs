//! How receivers did lately, for those who choose among several: an attempt at a list sends to the members behind
//! receivers that work before it sends to those behind receivers that fail.
//!
//! A receiver that failed several times in a row has trouble. Whether it still has, one attempt finds out for all:
//! it probes the receiver, and while it is at it nobody else waits there. Nor do two rows of one list probe at the
//! same time, whatever receivers they are after: with many receivers in trouble, a probe in each row would fill
//! the list's share of deliveries in flight.
//!
//! All this is for adapters that send to one address at a time. Where one message goes to many (OB-11), nothing is
//! noted here, so that no receiver ever has trouble: members are neither put in order nor made to wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use angarium_store::{Claim, Key, LaneKey};

/// Receivers that are remembered; beyond this all are given a fresh start.
const REMEMBERED: usize = 10_000;

/// After so many failures in a row a receiver has trouble.
const TROUBLE_AFTER: u32 = 3;

/// What is known of receivers.
#[derive(Default)]
pub(crate) struct Receivers(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Failures in a row, by receiver.
    failures: HashMap<String, u32>,
    /// Who probes which receiver: a row, and its list's lane.
    probed_by: HashMap<String, (LaneKey, Key)>,
}

/// Whether a receiver may be sent to now.
pub(crate) enum Turn {
    /// It works, as far as is known.
    Open,
    /// It has trouble, and this is the one attempt that sees whether it still has.
    Probe(Probe),
    /// It has trouble, and another attempt is at it, or another row of the list probes.
    Later,
}

/// The right to probe a receiver. Given back by dropping it.
pub(crate) struct Probe {
    known: Arc<Mutex<Known>>,
    receiver: String,
}

impl Receivers {
    /// The receiver took a message, or failed to.
    pub(crate) fn note(&self, receiver: &str, failed: bool) {
        let failures = &mut lock(&self.0).failures;
        if !failed {
            failures.remove(receiver);
            return;
        }
        if failures.len() >= REMEMBERED {
            failures.clear();
        }
        let in_a_row = failures.entry(receiver.to_owned()).or_insert(0);
        *in_a_row = in_a_row.saturating_add(1);
    }

    /// How often in a row it failed.
    pub(crate) fn failures(&self, receiver: &str) -> u32 {
        lock(&self.0).failures.get(receiver).copied().unwrap_or(0)
    }

    /// Whether an attempt at the list's row that is claimed here may send to this receiver now.
    pub(crate) fn turn(&self, receiver: &str, claim: &Claim) -> Turn {
        let mut known = lock(&self.0);
        if known.failures.get(receiver).is_none_or(|failures| *failures < TROUBLE_AFTER) {
            return Turn::Open;
        }
        let of_the_list = |(lane, row): &(LaneKey, Key)| *lane == claim.lane && *row != claim.key;
        if known.probed_by.contains_key(receiver) || known.probed_by.values().any(of_the_list) {
            return Turn::Later;
        }
        known.probed_by.insert(receiver.to_owned(), (claim.lane, claim.key));
        Turn::Probe(Probe { known: Arc::clone(&self.0), receiver: receiver.to_owned() })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        lock(&self.known).probed_by.remove(&self.receiver);
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
