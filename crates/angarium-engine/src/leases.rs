//! What this process holds, and until when it may believe that.
//!
//! A lease is granted in the database by wall-clock time, but the process trusts it only for nine tenths of
//! its length, counted on its own monotonic clock from before the claim or the renewal was sent. So a process
//! that was paused knows that it may have lost a claim before it sends the first byte. A third of a lease is left for
//! the sending: as long as renewals come through, there is always more than that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use angarium_domain::time::Clock;
use angarium_store::{Claim, Key, Renewed, Store, StoreError};
use tokio::time::Instant;

use crate::delivery::Context;

/// The leases held by this process.
#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<Key, Held>>,
}

struct Held {
    generation: i64,
    /// Until when (monotonic) something may be begun under it.
    begin_until: Duration,
}

/// The part of a lease that is trusted.
pub(crate) fn trusted(lease: Duration) -> Duration {
    lease.mul_f64(0.9)
}

/// The part of a lease in which something may be begun.
fn for_beginning(lease: Duration) -> Duration {
    trusted(lease).saturating_sub(lease / 3)
}

/// Renews what is held, three times a lease. A renewal that takes longer than that is followed by the next at once, one
/// that fails by another try soon.
pub(crate) async fn keep(context: Arc<Context>, lease: Duration) {
    let mut failing = false;
    loop {
        let begun = Instant::now();
        let renewed = context.leases.renew(&context.store, context.clock.as_ref(), lease).await;
        if let Err(error) = &renewed
            && !failing
        {
            tracing::warn!(store.error = %error, "leases could not be renewed; it is tried again");
        }
        failing = renewed.is_err();
        let pause = if failing { lease / 30 } else { lease / 3 };
        tokio::time::sleep_until(begun + pause).await;
    }
}

impl Leases {
    /// Remembers a claim for which the request left at `asked` (monotonic).
    pub(crate) fn hold(&self, claim: &Claim, asked: Duration, lease: Duration) {
        let held = Held { generation: claim.generation, begin_until: asked + for_beginning(lease) };
        self.lock().insert(claim.key, held);
    }

    /// Forgets a claim: it was settled, dropped or given back.
    pub(crate) fn forget(&self, key: Key, generation: i64) {
        let mut held = self.lock();
        if held.get(&key).is_some_and(|lease| lease.generation == generation) {
            held.remove(&key);
        }
    }

    /// Whether something may be begun under the claim at `now` (monotonic).
    pub(crate) fn may_begin(&self, claim: &Claim, now: Duration) -> bool {
        let held = self.lock();
        held.get(&claim.key)
            .is_some_and(|lease| lease.generation == claim.generation && now < lease.begin_until)
    }

    /// Whether this process works on the row under this generation.
    pub(crate) fn holds(&self, key: Key, generation: i64) -> bool {
        self.lock().get(&key).is_some_and(|lease| lease.generation == generation)
    }

    /// Renews everything held. What turns out to be lost is forgotten, so that nothing is begun under it; what the
    /// store says nothing about stays as it is.
    async fn renew(&self, store: &Store, clock: &dyn Clock, lease: Duration) -> Result<(), StoreError> {
        let asked = clock.monotonic();
        let held: Vec<_> = self.lock().iter().map(|(key, lease)| (*key, lease.generation)).collect();
        if held.is_empty() {
            return Ok(());
        }
        let Renewed { renewed, lost } = store.renew(held, clock.now().plus(lease)).await?;
        for (key, generation) in renewed {
            if let Some(held) = self.lock().get_mut(&key).filter(|held| held.generation == generation) {
                held.begin_until = asked + for_beginning(lease);
            }
        }
        for (key, generation) in lost {
            self.forget(key, generation);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P6c: between two renewals on time there is always enough of a lease left to begin something; and whatever is
    /// begun has a third of it.
    #[test]
    fn a_third_of_a_lease_is_left_for_sending() {
        for lease in [2, 60, 3600].map(Duration::from_secs) {
            assert!(for_beginning(lease) > lease / 2);
            assert!(for_beginning(lease) + lease / 3 <= trusted(lease));
        }
    }
}
