//! How receivers did lately, for attempts at lists, which choose among several: they send to the members behind
//! receivers that work before they send to those behind receivers that fail.
//!
//! A receiver that failed several times in a row has trouble. Whether it still has, one attempt at a list finds out for
//! all lists: it probes the receiver, and while it is at it no other waits there. Nor do two notifications of one list
//! probe at the same time, whatever receivers they are after: with many receivers in trouble, a probe in each would
//! fill the list's share of deliveries in flight. Notifications to a single address are not held to this: they have a
//! lane of their own, which slows down by itself.
//!
//! All this is for adapters that send to one address at a time. Where one message goes to many (OB-11), nothing is
//! noted here, so that no receiver ever has trouble: members are neither put in order nor made to wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use angarium_domain::time::Timestamp;
use angarium_store::{Claim, Key};

/// Receivers that fail and are remembered; beyond this, the one that failed the longest ago is forgotten.
const REMEMBERED: usize = 10_000;

/// After so many failures in a row a receiver has trouble.
const TROUBLE_AFTER: u32 = 3;

/// What is known of receivers.
#[derive(Default)]
pub(crate) struct Receivers(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Receivers that fail.
    failing: HashMap<String, Failing>,
    /// Who probes which receiver: the name of a list, and the row.
    probed_by: HashMap<String, (String, Key)>,
}

struct Failing {
    in_a_row: u32,
    last: Timestamp,
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
    /// The receiver took a message at `now`, or failed to.
    pub(crate) fn note(&self, receiver: &str, failed: bool, now: Timestamp) {
        let failing = &mut lock(&self.0).failing;
        if !failed {
            failing.remove(receiver);
            return;
        }
        if let Some(known) = failing.get_mut(receiver) {
            *known = Failing { in_a_row: known.in_a_row.saturating_add(1), last: now };
            return;
        }
        if failing.len() >= REMEMBERED {
            let oldest = failing.iter().min_by_key(|(_, failing)| failing.last);
            let oldest = oldest.map(|(receiver, _)| receiver.clone()).unwrap_or_default();
            failing.remove(&oldest);
        }
        failing.insert(receiver.to_owned(), Failing { in_a_row: 1, last: now });
    }

    /// How often in a row it failed.
    pub(crate) fn failures(&self, receiver: &str) -> u32 {
        lock(&self.0).failing.get(receiver).map_or(0, |failing| failing.in_a_row)
    }

    /// Whether it failed after `time`, and has not worked since.
    pub(crate) fn failed_since(&self, receiver: &str, time: Timestamp) -> bool {
        lock(&self.0).failing.get(receiver).is_some_and(|failing| failing.last > time)
    }

    /// Whether an attempt at the list's row that is claimed here may send to this receiver now.
    pub(crate) fn turn(&self, receiver: &str, claim: &Claim) -> Turn {
        let mut known = lock(&self.0);
        if known.failing.get(receiver).is_none_or(|failing| failing.in_a_row < TROUBLE_AFTER) {
            return Turn::Open;
        }
        let list = claim.list.as_deref().unwrap_or_default();
        let of_the_list = |(probing, row): &(String, Key)| probing == list && *row != claim.key;
        if known.probed_by.contains_key(receiver) || known.probed_by.values().any(of_the_list) {
            return Turn::Later;
        }
        known.probed_by.insert(receiver.to_owned(), (list.to_owned(), claim.key));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// When there is no room, what is forgotten is the receiver that failed the longest ago, and nothing else.
    #[test]
    fn the_oldest_failure_makes_room() {
        let receivers = Receivers::default();
        let at = |micros: usize| Timestamp::from_micros(micros as i64);
        receivers.note("oldest", true, at(1));
        receivers.note("old", true, at(0));
        receivers.note("old", true, at(2));
        for n in 2..REMEMBERED {
            receivers.note(&n.to_string(), true, at(n + 1));
        }
        receivers.note("old", true, at(3));
        assert_eq!(["oldest", "old", "2"].map(|name| receivers.failures(name)), [1, 3, 1], "there is room");
        receivers.note("new", true, at(REMEMBERED + 1));
        let left = ["oldest", "old", "2", "new"].map(|name| receivers.failures(name));
        assert_eq!(left, [0, 3, 1, 1]);
        receivers.note("2", false, at(REMEMBERED + 2));
        receivers.note("newer", true, at(REMEMBERED + 3));
        assert_eq!(
            (receivers.failures("old"), receivers.failures("newer")),
            (3, 1),
            "one that works leaves room"
        );
    }

    #[test]
    fn a_failure_counts_until_the_receiver_works() {
        let receivers = Receivers::default();
        let [before, then, after] = [1, 2, 3].map(Timestamp::from_micros);
        receivers.note("a", true, then);
        assert!(receivers.failed_since("a", before) && !receivers.failed_since("a", then));
        receivers.note("a", false, after);
        assert!(!receivers.failed_since("a", before));
    }
}
