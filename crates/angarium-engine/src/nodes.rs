//! This node among the others that use the database.
//!
//! A heartbeat, every five seconds, asks the database's server for its pulse and follows its clock, gives a sign of
//! life, keeps or takes the [leadership](crate::leadership), and looks at what can go wrong with clocks and servers
//! ([`crate::symptoms`]). What comes of it is told in the log, once, and shown in [`Vitals`]. On SQLite, where one
//! process is alone, all of this is the same but for the pulse, which there is none of.
//!
//! Deliberately absent: anything that deliveries rest on. Whoever misses its heartbeats keeps its leases, and loses
//! them, by time alone.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{NewNode, Pulse, Store, StoreError, Tenure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::{FollowingClock, apart};
use crate::leadership::Leadership;
use crate::symptoms::{CLOCKS_TOO_FAR_APART, Horizon, Skew};
use crate::vitals::Vitals;

/// How often a node gives a sign of life.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a node that stops waits for the database to hear of it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A clock that moved this much more or less than time did was set by somebody.
const CLOCK_STEP: Duration = Duration::from_secs(5);
/// Ids in one line of the log.
const IDS_A_LINE: usize = 100;

/// One process that uses the database.
pub struct Node {
    store: Arc<Store>,
    clock: Arc<FollowingClock>,
    me: NewNode,
    leadership: Arc<Leadership>,
    vitals: Arc<Vitals>,
    before: Option<Before>,
    timeline: Option<i64>,
    skew: Skew,
    horizon: Horizon,
    missed: bool,
    ledger_retention: Duration,
}

/// How long it is remembered what a subscription was told of, unless the configuration says otherwise (FP-18).
pub const LEDGER_RETENTION: Duration = Duration::from_secs(180 * 86_400);

/// How it was at an earlier heartbeat, the last one after which no waits were left to be moved.
struct Before {
    /// The clock that all follow, and monotonic time.
    reading: (Timestamp, Duration),
    /// What this node led under, if it did.
    led: Option<Tenure>,
}

impl Node {
    /// A node that has not signed in yet: its first heartbeat does that.
    pub fn new(store: Arc<Store>, clock: Arc<FollowingClock>, me: NewNode) -> Self {
        let ours = Arc::clone(&clock) as Arc<dyn Clock>;
        Node {
            leadership: Arc::new(Leadership::new(Arc::clone(&store), ours)),
            store,
            clock,
            me,
            vitals: Arc::default(),
            before: None,
            timeline: None,
            skew: Skew::default(),
            horizon: Horizon::default(),
            missed: false,
            ledger_retention: LEDGER_RETENTION,
        }
    }

    /// The same, which as leader forgets what was told longer ago than this.
    #[must_use]
    pub fn remembering(self, ledger_retention: Duration) -> Self {
        Node { ledger_retention, ..self }
    }

    /// How it is.
    pub fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.vitals)
    }

    /// Whether it leads.
    pub fn leadership(&self) -> Arc<Leadership> {
        Arc::clone(&self.leadership)
    }

    /// One heartbeat. It fails if the database does, and leaves what it did not come to for the next one.
    pub async fn beat(&mut self) -> Result<(), StoreError> {
        let lived = self.ask_and_live().await;
        self.vitals.set_leads(self.leadership.tenure().is_some());
        match &lived {
            Ok(()) if self.missed => tracing::info!("heartbeats reach the database again"),
            Ok(()) => {}
            Err(error) => {
                self.vitals.heartbeat_failed();
                if !self.missed {
                    tracing::warn!(store.error = %error, "a heartbeat did not reach the database; it is tried again");
                }
            }
        }
        self.missed = lived.is_err();
        lived
    }

    async fn ask_and_live(&mut self) -> Result<(), StoreError> {
        let asked = self.clock.monotonic();
        let pulse = self.store.pulse().await?;
        let answered = self.clock.monotonic();
        if let Some(pulse) = &pulse {
            self.clock.follow(pulse.now, asked, answered);
            self.vitals.set_round_trip(answered.saturating_sub(asked));
        }
        self.live(pulse).await
    }

    /// What a heartbeat does once the pulse is known and the clock follows it.
    pub async fn live(&mut self, pulse: Option<Pulse>) -> Result<(), StoreError> {
        if let Some(pulse) = pulse {
            self.horizon.look(&pulse, self.clock.monotonic());
            self.vitals.set_dead_rows(pulse.dead_rows);
            self.after_a_failover(pulse.timeline).await?;
        }
        let (now, skew) = (self.clock.now(), self.clock.skew());
        let sign_of_life = self.store.alive(now, skew.0.max(skew.1), CLOCKS_TOO_FAR_APART).await?;
        if !sign_of_life.listed {
            self.store.sign_in(self.me.clone(), now).await?;
        }
        if self.skew.changed(skew, sign_of_life.another_in_step) {
            self.vitals.set_trouble(self.skew.trouble());
        }
        self.heed_clock().await
    }

    /// Keeps or takes the leadership, and moves waits with the clock if it was set back. If they could not be moved,
    /// that is to be tried again as long as nobody else leads: until then everything is as it was before.
    async fn heed_clock(&mut self) -> Result<(), StoreError> {
        let reading = (self.clock.now(), self.clock.monotonic());
        let set_back = self.look_at_clock(reading);
        let led = self.before.as_ref().and_then(|before| before.led.clone());
        if set_back.is_some() && led.is_none() {
            self.leadership.stand_back();
        }
        let leads = self.leadership.renew().await?;
        let moved = match (set_back, &leads) {
            (Some(by), Some(tenure)) if leads == led => self.shift_waits(by, reading.0, tenure).await,
            _ => true,
        };
        if moved {
            self.before = Some(Before { reading, led: leads });
        }
        Ok(())
    }

    /// Where another server has taken over, somebody must be told what it does not know.
    async fn after_a_failover(&mut self, timeline: i64) -> Result<(), StoreError> {
        if self.timeline.is_some_and(|before| before != timeline) {
            tracing::warn!(database.timeline = timeline, "another database server has taken over");
            let lost = self.store.after_a_failover().await?;
            self.vitals.acknowledgements_lost(lost.len());
            for ids in lost.chunks(IDS_A_LINE) {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                tracing::error!(
                    lost.count = lost.len(),
                    notification.ids = ids.join(" "),
                    "durability_regression: notifications that were acknowledged are not in the database any more; \
                     hand them in again"
                );
            }
        }
        self.timeline = Some(timeline);
        Ok(())
    }

    /// Notices when somebody sets the clock that all follow, and says by how much it was set back.
    fn look_at_clock(&self, reading: (Timestamp, Duration)) -> Option<Duration> {
        let (ahead, behind) = step(self.before.as_ref()?.reading, reading);
        if ahead.max(behind) > CLOCK_STEP {
            tracing::warn!(
                clock.ahead_s = ahead.as_secs(),
                clock.behind_s = behind.as_secs(),
                "clock_jump: the clock was set; what is due is due by it, and waits are moved with it"
            );
        }
        (behind > CLOCK_STEP).then_some(behind)
    }

    /// A wait is meant in seconds from when it was set, whatever the clock read then. It is moved by the node that led
    /// before the clock was set and does so still, and by nobody else, so that it is moved once. One that was set since
    /// the clock was, but before that was noticed, is over too early: that is the lesser evil. False if it is to be
    /// tried again.
    async fn shift_waits(&self, behind: Duration, now: Timestamp, tenure: &Tenure) -> bool {
        match self.store.shift_waits(behind, now, tenure).await {
            Ok(()) => true,
            // They may have been moved, and twice is worse than not at all.
            Err(StoreError::OutcomeUnknown) => true,
            Err(error) => {
                tracing::warn!(store.error = %error, "waits of receivers could not be moved with the clock");
                self.leadership.doubt();
                false
            }
        }
    }

    /// Lets it live by itself from here on.
    pub fn start(mut self) -> Running {
        let (store, leadership) = (Arc::clone(&self.store), self.leadership());
        let mut tasks = JoinSet::new();
        tasks.spawn(self.leadership().keep_house(self.ledger_retention));
        tasks.spawn(async move {
            let mut last = Instant::now();
            loop {
                tokio::time::sleep_until(last + HEARTBEAT).await;
                last = Instant::now();
                let _it_was_told = self.beat().await;
            }
        });
        Running { tasks, store, leadership }
    }
}

/// A node that lives by itself. Dropping it is a hard stop: the others find out by time.
pub struct Running {
    tasks: JoinSet<()>,
    store: Arc<Store>,
    leadership: Arc<Leadership>,
}

impl Running {
    /// Waits until it ends by itself, which it must not.
    pub async fn ended(&mut self) {
        self.tasks.join_next().await;
    }

    /// Lets another node lead, and signs out.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        let leaving = async {
            self.leadership.resign().await?;
            self.store.sign_out().await
        };
        match tokio::time::timeout(LAST_WORDS, leaving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(store.error = %error, "this node could not sign out"),
            Err(_) => tracing::warn!("this node could not sign out: the database does not answer"),
        }
    }
}

/// By how much a clock ran ahead of, or behind, monotonic time between two looks.
fn step(before: (Timestamp, Duration), now: (Timestamp, Duration)) -> (Duration, Duration) {
    apart(now.0, before.0.plus(now.1.saturating_sub(before.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C051: a clock that is set is noticed, whichever way it goes.
    #[test]
    fn c051_wall_clock_steps() {
        let start = Timestamp::from_micros(1_800_000_000_000_000);
        let (minute, hours) = (Duration::from_secs(60), Duration::from_secs(7200));
        let at = |wall: Timestamp| step((start, Duration::ZERO), (wall, minute));
        assert_eq!(at(start.plus(minute)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(at(start.plus(minute + hours)), (hours, Duration::ZERO));
        assert_eq!(at(start.plus(minute).minus(hours)), (Duration::ZERO, hours));
    }
}
