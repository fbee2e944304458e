//! What this process holds, and until when it may believe that.
//!
//! A lease is granted in the database by wall-clock time, but the process trusts it only for nine tenths of
//! its length, counted on its own monotonic clock from before the claim or the renewal was sent. So a process
//! that was paused knows that it may have lost a claim before it sends the first byte.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use angarium_domain::time::Clock;
use angarium_store::{Claim, Key, Store};

/// The leases held by this process.
#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Key, Held>>,
}

struct Held {
    generation: i64,
    trusted_until: Duration,
}

/// The part of a lease that is trusted.
fn trusted(lease: Duration) -> Duration {
    lease.mul_f64(0.9)
}

impl Leases {
    /// Remembers a claim for which the request left at `asked` (monotonic).
    pub(crate) fn hold(&self, claim: &Claim, asked: Duration, lease: Duration) {
        let held = Held { generation: claim.generation, trusted_until: asked + trusted(lease) };
        self.lock().insert(claim.key, held);
    }

    /// Forgets a claim: it was settled, dropped or given back.
    pub(crate) fn forget(&self, key: Key, generation: i64) {
        let mut held = self.lock();
        if held.get(&key).is_some_and(|lease| lease.generation == generation) {
            held.remove(&key);
        }
    }

    /// Whether the claim may still be believed in at `now` (monotonic).
    pub(crate) fn trusts(&self, claim: &Claim, now: Duration) -> bool {
        let held = self.lock();
        held.get(&claim.key)
            .is_some_and(|lease| lease.generation == claim.generation && now < lease.trusted_until)
    }

    /// Whether this process works on the row under this generation.
    pub(crate) fn holds(&self, key: Key, generation: i64) -> bool {
        self.lock().get(&key).is_some_and(|lease| lease.generation == generation)
    }

    /// Renews everything held; what turns out to be lost is forgotten, so that nothing is sent under it.
    pub(crate) async fn renew(&self, store: &Store, clock: &dyn Clock, lease: Duration) {
        let asked = clock.monotonic();
        let held: Vec<_> = self.lock().iter().map(|(key, lease)| (*key, lease.generation)).collect();
        if held.is_empty() {
            return;
        }
        let lost = match store.renew(held.clone(), clock.now().plus(lease)).await {
            Ok(lost) => lost,
            Err(error) => {
                tracing::warn!(store.error = %error, leases.held = held.len(), "leases could not be renewed");
                return;
            }
        };
        for (key, generation) in held {
            if lost.contains(&(key, generation)) {
                self.forget(key, generation);
            } else if let Some(lease_held) = self.lock().get_mut(&key)
                && lease_held.generation == generation
            {
                lease_held.trusted_until = asked + trusted(lease);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
