//! The time where several machines work on one database: the database's.
//!
//! What is due and whose lease has ended must not depend on whose clock is asked, so that a node counts on from what
//! the database's clock read last, by its own monotonic clock. How its own wall clock is set then matters to nobody;
//! that it is set wrong is told all the same ([`FollowingClock::skew`]).
//!
//! A clock that is never told anything, as on SQLite, is the machine's own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use angarium_domain::time::{Clock, Timestamp};

/// A monotonic clock is trusted to run right to one part in so many.
const DRIFT: u32 = 5000;

/// A clock that follows the database's.
pub struct FollowingClock {
    inner: Arc<dyn Clock>,
    reading: Mutex<Option<Reading>>,
}

/// What the database's clock read.
#[derive(Clone, Copy)]
struct Reading {
    now: Timestamp,
    /// When that was, on our monotonic clock: in the middle between question and answer.
    at: Duration,
    /// How far off that may be.
    uncertain: Duration,
}

impl Reading {
    /// What it reads by now, as far as this reading can tell.
    fn now(&self, monotonic: Duration) -> Timestamp {
        self.now.plus(monotonic.saturating_sub(self.at))
    }

    /// How far off that may be.
    fn uncertain(&self, monotonic: Duration) -> Duration {
        self.uncertain + monotonic.saturating_sub(self.at) / DRIFT
    }

    /// Whether it says the same as `newer` and says it better.
    fn is_better_than(&self, newer: &Reading) -> bool {
        let (ours, theirs) = (self.uncertain(newer.at), newer.uncertain);
        let (ahead, behind) = apart(self.now(newer.at), newer.now);
        ours < theirs && ahead.max(behind) <= ours + theirs
    }
}

impl FollowingClock {
    /// The machine's clock, until it is told what the database's reads.
    pub fn new(inner: Arc<dyn Clock>) -> Self {
        FollowingClock { inner, reading: Mutex::new(None) }
    }

    /// The database's clock read `now` when it was asked between `asked` and `answered`, both monotonic. If the answer
    /// took long, what is known from before counts for more, unless the clock was set meanwhile.
    pub fn follow(&self, now: Timestamp, asked: Duration, answered: Duration) {
        let uncertain = answered.saturating_sub(asked) / 2;
        let newer = Reading { now, at: asked + uncertain, uncertain };
        let mut reading = self.reading();
        if reading.is_none_or(|known| !known.is_better_than(&newer)) {
            *reading = Some(newer);
        }
    }

    /// How far the machine's wall clock is ahead of the database's, and how far behind it; one of them is zero.
    pub fn skew(&self) -> (Duration, Duration) {
        apart(self.inner.now(), self.now())
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FollowingClock {
    fn now(&self) -> Timestamp {
        let reading = *self.reading();
        reading.map_or_else(|| self.inner.now(), |reading| reading.now(self.inner.monotonic()))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}

/// How far `one` is ahead of `other`, and how far behind it.
pub(crate) fn apart(one: Timestamp, other: Timestamp) -> (Duration, Duration) {
    (one.since(other), other.since(one))
}

#[cfg(test)]
mod tests {
    use angarium_domain::time::ManualClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn noon() -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000)
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A machine whose clock reads noon, and a clock on it.
    fn machine() -> (Arc<ManualClock>, FollowingClock) {
        let machine = Arc::new(ManualClock::at(noon()));
        let clock = FollowingClock::new(Arc::clone(&machine) as Arc<dyn Clock>);
        (machine, clock)
    }

    /// The database's clock is asked, which takes no time, and reads this.
    fn told(clock: &FollowingClock, now: Timestamp) {
        clock.follow(now, clock.monotonic(), clock.monotonic());
    }

    /// A clock that is told nothing is the machine's, whatever becomes of that.
    #[test]
    fn alone_it_is_the_machines() {
        let (machine, clock) = machine();
        machine.step_wall_clock(noon().plus(HOUR));
        machine.advance(millis(1));
        assert_eq!(clock.now(), noon().plus(HOUR + millis(1)));
        assert_eq!(clock.skew(), (Duration::ZERO, Duration::ZERO));
    }

    /// P4a: how the machine's clock is set, minutes or ten years off, changes nothing but the skew.
    #[test]
    fn the_machines_wall_clock_does_not_matter() {
        let (machine, clock) = machine();
        told(&clock, noon());
        machine.advance(millis(1000));
        for off in [Duration::from_secs(600), 24 * 3652 * HOUR] {
            let right = noon().plus(millis(1000));
            machine.step_wall_clock(right.plus(off));
            assert_eq!((clock.now(), clock.skew()), (right, (off, Duration::ZERO)));
            machine.step_wall_clock(right.minus(off));
            assert_eq!((clock.now(), clock.skew()), (right, (Duration::ZERO, off)));
        }
    }

    /// P4b: when the database's clock is set, an hour ahead or back, it is followed at the next reading, be that slow.
    #[test]
    fn a_database_clock_that_is_set_is_followed() {
        let (machine, clock) = machine();
        told(&clock, noon());
        for set_to in [noon().plus(HOUR), noon().minus(HOUR)] {
            machine.advance(millis(5000));
            let asked = clock.monotonic();
            machine.advance(millis(4000));
            clock.follow(set_to, asked, clock.monotonic());
            assert_eq!(
                clock.now(),
                set_to.plus(millis(2000)),
                "the reading is from the middle of the journey"
            );
        }
    }

    /// An answer that took long says little: it does not replace a better one, until that has become old.
    #[test]
    fn a_long_journey_does_not_replace_a_better_reading() {
        let (machine, clock) = machine();
        told(&clock, noon());
        machine.advance(millis(1000));
        let slow = |read: Timestamp| {
            let asked = clock.monotonic();
            machine.advance(millis(400));
            clock.follow(read, asked, clock.monotonic());
        };
        slow(noon().plus(millis(1000)));
        assert_eq!(clock.now(), noon().plus(millis(1400)), "all of the journey was the answer's way back");
        machine.advance(HOUR);
        let read = noon().plus(HOUR + millis(1400));
        slow(read);
        assert_eq!(clock.now(), read.plus(millis(200)), "in an hour, a monotonic clock may err by more");
    }
}
