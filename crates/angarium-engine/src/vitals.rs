//! What a node knows of its own state, for whoever must heed it (the dispatcher) or show it (readiness, metrics).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a node is. Written by its heartbeat.
#[derive(Default)]
pub struct Vitals {
    trouble: Mutex<Option<String>>,
    leads: AtomicBool,
    failed_heartbeats: AtomicU64,
    lost_acknowledgements: AtomicU64,
    round_trip_micros: AtomicU64,
    dead_rows: AtomicI64,
}

impl Vitals {
    /// Why this node claims nothing, though what is in flight goes on; nothing if it does claim. Fit to be shown to
    /// anybody.
    pub fn trouble(&self) -> Option<String> {
        self.trouble_now().clone()
    }

    /// Whether this node may claim.
    pub fn may_claim(&self) -> bool {
        self.trouble_now().is_none()
    }

    /// Whether this node does the work that one does for all, as of its last heartbeat.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// Heartbeats that failed, since the start.
    pub fn failed_heartbeats(&self) -> u64 {
        self.failed_heartbeats.load(Ordering::Relaxed)
    }

    /// Notifications that this node had acknowledged and that were not in the database after a failover.
    pub fn lost_acknowledgements(&self) -> u64 {
        self.lost_acknowledgements.load(Ordering::Relaxed)
    }

    /// How long the database's server took to answer last; zero where there is none.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_micros.load(Ordering::Relaxed))
    }

    /// Versions of notifications that the database's server has not cleared away yet; zero where there is none.
    pub fn dead_rows(&self) -> i64 {
        self.dead_rows.load(Ordering::Relaxed)
    }

    pub(crate) fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble_now() = trouble;
    }

    pub(crate) fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    pub(crate) fn heartbeat_failed(&self) {
        self.failed_heartbeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn acknowledgements_lost(&self, count: usize) {
        self.lost_acknowledgements.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_round_trip(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.round_trip_micros.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn set_dead_rows(&self, rows: i64) {
        self.dead_rows.store(rows, Ordering::Relaxed);
    }

    fn trouble_now(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
