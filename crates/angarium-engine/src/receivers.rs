//! How receivers did lately, for those who choose among several: an attempt at a list sends to the members behind
//! receivers that work before it sends to those behind receivers that fail.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// Receivers that are remembered; beyond this all are given a fresh start.
const REMEMBERED: usize = 10_000;

/// Failures in a row, by receiver.
#[derive(Default)]
pub(crate) struct Receivers(Mutex<HashMap<String, u32>>);

impl Receivers {
    /// The receiver took a message, or failed to.
    pub(crate) fn note(&self, receiver: &str, failed: bool) {
        let mut known = self.lock();
        if !failed {
            known.remove(receiver);
            return;
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let failures = known.entry(receiver.to_owned()).or_insert(0);
        *failures = failures.saturating_add(1);
    }

    /// How often in a row it failed.
    pub(crate) fn failures(&self, receiver: &str) -> u32 {
        self.lock().get(receiver).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
