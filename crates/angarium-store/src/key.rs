//! The keys that this node gives out: ordered by arrival, and its own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use angarium_domain::time::Timestamp;

use crate::nodes::Seat;
use crate::types::Key;

/// The low bits of a key tell nodes apart that accept in the same microsecond.
pub(crate) const KEY_SLOT_BITS: u32 = 10;

/// Gives out keys.
pub(crate) struct Keys {
    last: AtomicI64,
    /// This node's place among the others; its low bits are those of the keys it gives out.
    seat: Mutex<Seat>,
}

impl Keys {
    /// Keys beyond `newest`, so that they go on rising after a restart whatever the clock says.
    pub(crate) fn after(newest: i64) -> Self {
        Keys { last: AtomicI64::new(newest), seat: Mutex::new(Seat { instance: 0, slot: 0 }) }
    }

    pub(crate) fn seat(&self) -> Seat {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sit(&self, seat: Seat) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = seat;
    }

    /// Rises with every call, follows `now`, and never repeats.
    pub(crate) fn next(&self, now: Timestamp) -> Key {
        let step = 1 << KEY_SLOT_BITS;
        let slot = self.seat().slot;
        let at_least = (now.micros() << KEY_SLOT_BITS) + slot;
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            // The next one with our low bits.
            let next = at_least.max((last + step) / step * step + slot);
            match self.last.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Key(next),
                Err(newer) => last = newer,
            }
        }
    }
}
