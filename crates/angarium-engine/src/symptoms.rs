//! What a heartbeat can tell that is wrong, though nothing has failed yet: clocks that disagree, and a database that
//! cannot clear up behind itself. Each is told in the log once, when it begins.

use std::time::Duration;

use angarium_store::Pulse;

/// From here on an operator should know that this machine's clock and the database's disagree.
const CLOCKS_DISAGREE: Duration = Duration::from_secs(30);
/// From here on a node leaves the work to those whose clocks are right, if there are any.
pub(crate) const CLOCKS_TOO_FAR_APART: Duration = Duration::from_secs(120);
/// Nobody's snapshot should stay open for so long.
const SNAPSHOT_TOO_OLD: Duration = Duration::from_secs(300);

/// How far this machine's clock is from the database's.
#[derive(Default)]
pub(crate) struct Skew {
    ahead: Duration,
    behind: Duration,
    /// Another node lives whose clock agrees with the database's.
    another_in_step: bool,
}

/// What follows from a skew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Doubtful,
    /// Nobody's clock agrees with the database's. It may be the database's that is wrong; somebody must deliver.
    TooFarLikeAll,
    TooFar,
}

impl Skew {
    fn verdict(&self) -> Verdict {
        match self.ahead.max(self.behind) {
            apart if apart > CLOCKS_TOO_FAR_APART && self.another_in_step => Verdict::TooFar,
            apart if apart > CLOCKS_TOO_FAR_APART => Verdict::TooFarLikeAll,
            apart if apart > CLOCKS_DISAGREE => Verdict::Doubtful,
            _ => Verdict::Fine,
        }
    }

    /// Takes in how far ahead and how far behind it is now; true, and told, if something else follows from it.
    pub(crate) fn changed(&mut self, (ahead, behind): (Duration, Duration), another_in_step: bool) -> bool {
        let before = self.verdict();
        *self = Skew { ahead, behind, another_in_step };
        if self.verdict() == before {
            return false;
        }
        let (ahead_s, behind_s) = (ahead.as_secs(), behind.as_secs());
        match self.verdict() {
            Verdict::Fine => tracing::info!("this machine's clock and the database's agree again"),
            Verdict::Doubtful => tracing::warn!(
                clock.ahead_s = ahead_s,
                clock.behind_s = behind_s,
                "clock_skew: this machine's clock and the database's disagree; see to it that both are synchronised"
            ),
            Verdict::TooFarLikeAll => tracing::error!(
                clock.ahead_s = ahead_s,
                clock.behind_s = behind_s,
                "clock_skew: this machine's clock and the database's are far apart, and no other node's agrees with the \
                 database's; work goes on by the database's. See to it that all are synchronised"
            ),
            Verdict::TooFar => tracing::error!(
                clock.ahead_s = ahead_s,
                clock.behind_s = behind_s,
                "clock_skew: this machine's clock and the database's are so far apart that this node leaves the \
                 work to others until they agree; see to it that both are synchronised"
            ),
        }
        true
    }

    /// Why this node claims nothing, if it does not.
    pub(crate) fn trouble(&self) -> Option<String> {
        (self.verdict() == Verdict::TooFar).then(|| {
            let seconds = self.ahead.max(self.behind).as_secs();
            let way = if self.ahead > self.behind { "ahead of" } else { "behind" };
            format!(
                "this machine's clock is {seconds} s {way} the database's; nothing is sent until they agree"
            )
        })
    }
}

/// What is kept from being cleared away by a snapshot that stays open.
#[derive(Default)]
pub(crate) struct Horizon {
    oldest: Option<i64>,
    since: Duration,
    dead_rows: i64,
    told: bool,
}

impl Horizon {
    /// Takes in a pulse at `now` (monotonic); true if an operator was told.
    pub(crate) fn look(&mut self, pulse: &Pulse, now: Duration) -> bool {
        if self.oldest.is_none() || pulse.oldest_snapshot != self.oldest {
            let (oldest, dead_rows) = (pulse.oldest_snapshot, pulse.dead_rows);
            *self = Horizon { oldest, since: now, dead_rows, told: false };
            return false;
        }
        let held_for = now.saturating_sub(self.since);
        if self.told || held_for < SNAPSHOT_TOO_OLD || pulse.dead_rows <= self.dead_rows {
            return false;
        }
        self.told = true;
        tracing::warn!(
            database.dead_rows = pulse.dead_rows,
            database.held_for_s = held_for.as_secs(),
            "a transaction that stays open keeps the database from clearing up, and everything slows down: look in \
             pg_stat_activity for the oldest backend_xmin, and end it"
        );
        true
    }
}

#[cfg(test)]
mod tests {
    use angarium_domain::time::Timestamp;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// P4a: from 30 s it is told, from 120 s nothing is claimed, and each change is told once.
    #[test]
    fn clocks_that_disagree() {
        let mut skew = Skew::default();
        let steps = [(30, false, false), (31, true, false), (119, false, false), (121, true, true)];
        for (apart, told, stops) in steps {
            assert_eq!(skew.changed((seconds(apart), Duration::ZERO), true), told, "{apart} s ahead");
            assert_eq!(skew.trouble().is_some(), stops, "{apart} s ahead");
        }
        assert!(skew.trouble().unwrap().contains("121 s ahead of"));
        for (apart, told, stops) in [(500, false, true), (100, true, false), (0, true, false)] {
            assert_eq!(skew.changed((Duration::ZERO, seconds(apart)), true), told, "{apart} s behind");
            assert_eq!(skew.trouble().is_some(), stops, "{apart} s behind");
        }
    }

    /// P4a, P4b: where all nodes are as far from the database's clock, it may be that which is wrong: they go on.
    #[test]
    fn a_clock_that_disagrees_with_all_others() {
        let mut skew = Skew::default();
        let hour = (seconds(3600), Duration::ZERO);
        assert!(skew.changed(hour, false) && skew.trouble().is_none());
        assert!(skew.changed(hour, true) && skew.trouble().is_some());
        assert!(skew.changed(hour, false) && skew.trouble().is_none());
    }

    /// P10: a snapshot that stays open for five minutes while dead rows grow is told of, once; one that does no harm,
    /// or that moves on, is not.
    #[test]
    fn a_snapshot_that_stays_open() {
        let mut horizon = Horizon::default();
        let mut look = |snapshot, dead_rows, at| {
            let now = Timestamp::EPOCH;
            horizon.look(&Pulse { now, timeline: 1, oldest_snapshot: snapshot, dead_rows }, seconds(at))
        };
        assert!(!look(Some(7), 1000, 0));
        assert!(!look(Some(7), 1000, 400), "nothing grows");
        assert!(!look(Some(8), 2000, 401), "it moved on");
        assert!(!look(Some(8), 5000, 700), "not yet five minutes");
        assert!(look(Some(8), 5000, 701));
        assert!(!look(Some(8), 9000, 2000), "it was told");
        assert!(!look(None, 9000, 2001), "nobody has a snapshot");
        assert!(!look(None, 99_000, 9000));
        assert!(!look(Some(9), 99_000, 9001));
        assert!(look(Some(9), 99_001, 9301));
    }
}
