//! The dispatcher: permits first, then claims, then deliveries side by side.
//!
//! It looks whenever it is woken, whenever something ended, when the next row is due, and on a fixed interval
//! regardless. It never waits for a single delivery. A soft stop ends the claiming and waits for what is in
//! flight; a hard stop may come at any point, since whatever was in flight is a lease that another start (or
//! node) takes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use angarium_domain::chance::Chance;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::FailureClass;
use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{Claim, Settlement, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::catalog::Catalog;
use crate::delivery::Context;
use crate::leases::Leases;
use crate::permits::{Permit, Permits};
use crate::receivers::Receivers;
use crate::registry::Registry;
use crate::settler::{self, Done, Finished};
use crate::wake::Wake;
use crate::{audit_job, recovery};

/// Told the kind of channel of every send, and its class of failure if it failed.
pub type Observer = Arc<dyn Fn(ChannelKind, Option<FailureClass>) + Send + Sync>;

/// How the dispatcher works (OB-23).
#[derive(Clone, Debug)]
pub struct Settings {
    /// It looks for due rows at least this often.
    pub dispatch_interval: Duration,
    /// Deliveries in flight at once, over all channels; 1 is strictly sequential.
    pub max_parallel_deliveries: usize,
    /// How long a claim is good for unless it is renewed.
    pub lease: Duration,
    /// The name of this node, as attempts show it.
    pub node: String,
}

/// What the dispatcher works with.
pub struct Parts {
    /// Where notifications are.
    pub store: Arc<Store>,
    /// Channels and lists.
    pub catalog: Arc<Catalog>,
    /// Who delivers.
    pub adapters: Registry,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, for jitter.
    pub chance: Arc<dyn Chance>,
    /// Who wakes it.
    pub wake: Wake,
    /// Who is told of every send.
    pub observer: Observer,
}

/// A running dispatcher.
pub struct Dispatcher {
    stop: watch::Sender<bool>,
    main: JoinHandle<()>,
    settler: JoinHandle<()>,
    beside: JoinSet<()>,
    context: Arc<Context>,
}

impl Dispatcher {
    /// Takes back what a dead process held and starts. On SQLite every lease found at the start is a dead
    /// process's, since one file serves one process.
    pub async fn start(parts: Parts, settings: Settings) -> Result<Dispatcher, StoreError> {
        let context = Arc::new(Context {
            store: parts.store,
            catalog: parts.catalog,
            adapters: parts.adapters,
            clock: parts.clock,
            chance: parts.chance,
            leases: Arc::new(Leases::default()),
            node: settings.node.clone(),
            observer: parts.observer,
            receivers: Receivers::default(),
            stopping: AtomicBool::new(false),
        });
        let taken_back = recovery::take_back(&context, Timestamp::LAST).await?;
        if taken_back > 0 {
            tracing::info!(notifications = taken_back, "claims of a process that ended were taken back");
        }
        let (stop, stopped) = watch::channel(false);
        let (finished, settlements) = mpsc::channel(settings.max_parallel_deliveries.max(1));
        let (done, ended) = mpsc::unbounded_channel();
        let (store, leases) = (Arc::clone(&context.store), Arc::clone(&context.leases));
        let settler = tokio::spawn(settler::run(store, leases, settlements, done));
        let mut beside = JoinSet::new();
        beside.spawn(keep_leases(Arc::clone(&context), settings.lease));
        beside.spawn(audit_job::run(Arc::clone(&context.store), Duration::from_secs(30)));
        let worker = Worker {
            permits: Permits::new(settings.max_parallel_deliveries.max(1)),
            context: Arc::clone(&context),
            settings,
            wake: parts.wake,
            finished,
            ended,
            deliveries: JoinSet::new(),
        };
        let main = tokio::spawn(worker.run(stopped));
        Ok(Dispatcher { stop, main, settler, beside, context })
    }

    /// Waits until the dispatcher ends by itself, which it must not.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = &mut self.main => {}
            _ = &mut self.settler => {}
            _ = self.beside.join_next() => {}
        }
    }

    /// Claims nothing more and waits until what is in flight is settled, but no longer than `grace`. Says
    /// whether all of it was.
    pub async fn stop(mut self, grace: Duration) -> bool {
        self.context.stopping.store(true, Ordering::Relaxed);
        let _it_ended_already = self.stop.send(true);
        let in_time = tokio::time::timeout(grace, &mut self.main).await.is_ok();
        if !in_time {
            self.main.abort();
            let _it_was_cut_off = (&mut self.main).await;
        }
        // Outcomes that are known are still written, unless the database does not take them.
        if tokio::time::timeout(LAST_OUTCOMES, &mut self.settler).await.is_err() {
            self.settler.abort();
        }
        self.beside.shutdown().await;
        in_time
    }
}

impl Drop for Dispatcher {
    /// A hard stop: whatever is under way is cut off where it stands.
    fn drop(&mut self) {
        self.main.abort();
        self.settler.abort();
    }
}

/// How long a stop waits for outcomes that are known but not written.
const LAST_OUTCOMES: Duration = Duration::from_secs(2);

/// Renews what is held and takes back what others lost, three times a lease. On the way it notices when
/// somebody sets the clock: what is due follows the wall clock, so that an operator should know.
async fn keep_leases(context: Arc<Context>, lease: Duration) {
    let mut before = (context.clock.now(), context.clock.monotonic());
    loop {
        tokio::time::sleep(lease / 3).await;
        let now = (context.clock.now(), context.clock.monotonic());
        let (ahead, behind) = clock_step(before, now);
        if ahead.max(behind) > CLOCK_STEP {
            tracing::warn!(
                clock.ahead_s = ahead.as_secs(),
                clock.behind_s = behind.as_secs(),
                "clock_jump: the wall clock was set; what is due is due by it, and waits are moved with it"
            );
        }
        if behind <= CLOCK_STEP || shift_waits(&context, behind).await {
            before = now;
        }
        context.leases.renew(&context.store, context.clock.as_ref(), lease).await;
        if let Err(error) = recovery::take_back(&context, context.clock.now()).await {
            tracing::warn!(store.error = %error, "claims of dead processes could not be taken back");
        }
    }
}

/// A wait is meant in seconds from when it was set, whatever the wall clock read then. One that was set since the clock
/// was, but before that was noticed, is over too early: that is the lesser evil. False if it is to be tried again.
async fn shift_waits(context: &Context, behind: Duration) -> bool {
    let shifted = context.store.shift_waits(behind, context.clock.now()).await;
    if let Err(error) = &shifted {
        tracing::warn!(store.error = %error, "waits of receivers could not be moved with the clock");
    }
    shifted.is_ok()
}

/// A wall clock that moved this much more or less than time did was set by somebody.
const CLOCK_STEP: Duration = Duration::from_secs(5);

/// By how much the wall clock ran ahead of, or behind, monotonic time between two looks.
fn clock_step(before: (Timestamp, Duration), now: (Timestamp, Duration)) -> (Duration, Duration) {
    let expected = before.0.plus(now.1.saturating_sub(before.1));
    (now.0.since(expected), expected.since(now.0))
}

/// A delivery under way. However it ends, by a panic too, its permit and its lease are given up.
struct Underway {
    finished: mpsc::Sender<Finished>,
    held: Option<(Claim, Permit)>,
}

impl Underway {
    fn finish(&mut self, settlement: Option<Settlement>) {
        if let Some((claim, permit)) = self.held.take() {
            // There is room for as many as there are permits.
            let _the_settler_is_gone = self.finished.try_send(Finished { claim, permit, settlement });
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some((claim, _)) = &self.held {
            tracing::warn!(notification.id = %claim.id, "a delivery was cut off; its lease ends by itself");
        }
        self.finish(None);
    }
}

struct Worker {
    context: Arc<Context>,
    settings: Settings,
    permits: Permits,
    wake: Wake,
    finished: mpsc::Sender<Finished>,
    ended: mpsc::UnboundedReceiver<Done>,
    deliveries: JoinSet<()>,
}

impl Worker {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let wait = match self.fill(&stopped).await {
                Ok(next_look) => self.until(next_look),
                Err(error) => {
                    tracing::error!(store.error = %error, "due notifications could not be claimed");
                    self.settings.dispatch_interval
                }
            };
            tokio::select! {
                () = self.wake.wait() => {}
                Some(done) = self.ended.recv() => self.take_in(done),
                () = tokio::time::sleep(wait) => {}
                changed = stopped.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            self.take_in_all();
        }
        while self.permits.in_flight() > 0 {
            match self.ended.recv().await {
                Some(done) => self.take_in(done),
                None => return,
            }
        }
    }

    /// Claims as much as there are permits for and starts delivering it. Says when to look again at the latest.
    async fn fill(&mut self, stopped: &watch::Receiver<bool>) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let now = self.context.clock.now();
            let waiting = self.context.store.waiting_lanes(now).await?;
            let plan = self.permits.plan(waiting, &self.context.catalog, now);
            if plan.quotas.is_empty() || *stopped.borrow() {
                return Ok(plan.next_look);
            }
            let asked = self.context.clock.monotonic();
            let claims =
                self.context.store.claim(plan.quotas, &self.settings.node, now, self.settings.lease).await?;
            let mut started = false;
            for claim in claims {
                self.context.leases.hold(&claim, asked, self.settings.lease);
                started |= self.start(claim).await;
            }
            if !started {
                return Ok(plan.next_look);
            }
            self.take_in_all();
        }
    }

    /// Starts the delivery of a claim; false if there was no permit for it after all.
    async fn start(&mut self, claim: Claim) -> bool {
        let channel = claim.channel.as_ref().map_or("", |name| name.as_str()).to_owned();
        let Some(permit) = self.permits.take(claim.lane, &channel, &self.context.catalog) else {
            self.context.leases.forget(claim.key, claim.generation);
            let _the_lease_ends_by_itself =
                self.context.store.release(&claim, self.context.clock.now()).await;
            return false;
        };
        let spare = self.permits.spare(&channel, &self.context.catalog);
        let context = Arc::clone(&self.context);
        let mut delivery = Underway { finished: self.finished.clone(), held: Some((claim.clone(), permit)) };
        self.deliveries.spawn(async move {
            let settlement = context.deliver(&claim, spare).await;
            delivery.finish(settlement);
        });
        true
    }

    fn take_in(&mut self, done: Done) {
        self.permits.done(done.lane, done.failed);
    }

    fn take_in_all(&mut self) {
        while let Ok(done) = self.ended.try_recv() {
            self.take_in(done);
        }
        while self.deliveries.try_join_next().is_some() {}
    }

    /// How long to wait: until the next row may be served, at most one interval.
    fn until(&self, next_look: Option<Timestamp>) -> Duration {
        let most = self.settings.dispatch_interval;
        next_look.map_or(most, |at| at.since(self.context.clock.now()).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C051: a clock that is set is noticed, whichever way it goes.
    #[test]
    fn c051_wall_clock_steps() {
        let start = Timestamp::from_micros(1_800_000_000_000_000);
        let (minute, hours) = (Duration::from_secs(60), Duration::from_secs(7200));
        let at = |wall: Timestamp| clock_step((start, Duration::ZERO), (wall, minute));
        assert_eq!(at(start.plus(minute)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(at(start.plus(minute + hours)), (hours, Duration::ZERO));
        assert_eq!(at(start.plus(minute).minus(hours)), (Duration::ZERO, hours));
    }
}
