//! The dispatcher: permits first, then claims, then deliveries side by side.
//!
//! It looks whenever it is woken, whenever something ended, when the next row is due, and on a fixed interval
//! regardless. It never waits for a single delivery. A soft stop ends the claiming and waits for what is in
//! flight; a hard stop may come at any point, since whatever was in flight is a lease that another start (or
//! node) takes back.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::chance::Chance;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::FailureClass;
use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{Claim, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::catalog::Catalog;
use crate::delivery::Context;
use crate::leases::Leases;
use crate::permits::Permits;
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
    helpers: JoinSet<()>,
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
        });
        let taken_back = recovery::take_back(&context, Timestamp::LAST).await?;
        if taken_back > 0 {
            tracing::info!(notifications = taken_back, "claims of a process that ended were taken back");
        }
        let (stop, stopped) = watch::channel(false);
        let (finished, settlements) = mpsc::channel(settings.max_parallel_deliveries.max(1));
        let (done, ended) = mpsc::unbounded_channel();
        let mut helpers = JoinSet::new();
        helpers.spawn(settler::run(
            Arc::clone(&context.store),
            Arc::clone(&context.leases),
            settlements,
            done,
        ));
        helpers.spawn(keep_leases(Arc::clone(&context), settings.lease));
        helpers.spawn(audit_job::run(Arc::clone(&context.store), Duration::from_secs(30)));
        let worker = Worker {
            permits: Permits::new(settings.max_parallel_deliveries.max(1)),
            context,
            settings,
            wake: parts.wake,
            finished,
            ended,
            deliveries: JoinSet::new(),
        };
        let main = tokio::spawn(worker.run(stopped));
        Ok(Dispatcher { stop, main, helpers })
    }

    /// Waits until the dispatcher ends by itself, which it must not.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = &mut self.main => {}
            _ = self.helpers.join_next() => {}
        }
    }

    /// Claims nothing more and waits until what is in flight is settled, but no longer than `grace`. Says
    /// whether all of it was.
    pub async fn stop(mut self, grace: Duration) -> bool {
        let _it_ended_already = self.stop.send(true);
        let in_time = tokio::time::timeout(grace, &mut self.main).await.is_ok();
        if !in_time {
            self.main.abort();
            let _it_was_cut_off = (&mut self.main).await;
        }
        self.helpers.shutdown().await;
        in_time
    }
}

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
                "clock_jump: the wall clock was set; due times follow it"
            );
        }
        before = now;
        context.leases.renew(&context.store, context.clock.as_ref(), lease).await;
        if let Err(error) = recovery::take_back(&context, context.clock.now()).await {
            tracing::warn!(store.error = %error, "claims of dead processes could not be taken back");
        }
    }
}

/// A wall clock that moved this much more or less than time did was set by somebody.
const CLOCK_STEP: Duration = Duration::from_secs(5);

/// By how much the wall clock ran ahead of, or behind, monotonic time between two looks.
fn clock_step(before: (Timestamp, Duration), now: (Timestamp, Duration)) -> (Duration, Duration) {
    let expected = before.0.plus(now.1.saturating_sub(before.1));
    (now.0.since(expected), expected.since(now.0))
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
            let wait = match self.fill().await {
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
    async fn fill(&mut self) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let waiting = self.context.store.waiting_lanes().await?;
            let now = self.context.clock.now();
            let plan = self.permits.plan(waiting, &self.context.catalog, now);
            if plan.quotas.is_empty() {
                return Ok(plan.next_look);
            }
            let asked = self.context.clock.monotonic();
            let claims =
                self.context.store.claim(plan.quotas, &self.settings.node, now, self.settings.lease).await?;
            if claims.is_empty() {
                return Ok(plan.next_look);
            }
            for claim in claims {
                self.context.leases.hold(&claim, asked, self.settings.lease);
                self.start(claim).await;
            }
            self.take_in_all();
        }
    }

    async fn start(&mut self, claim: Claim) {
        let channel = claim.channel.as_ref().map_or("", |name| name.as_str()).to_owned();
        let Some(permit) = self.permits.take(claim.lane, &channel, &self.context.catalog) else {
            self.context.leases.forget(claim.key, claim.generation);
            let _the_lease_ends_by_itself =
                self.context.store.release(vec![(claim.key, claim.generation)]).await;
            return;
        };
        let spare = self.permits.shared(&channel, &self.context.catalog);
        let (context, finished) = (Arc::clone(&self.context), self.finished.clone());
        self.deliveries.spawn(async move {
            let settlement = context.deliver(&claim, spare).await;
            let _the_settler_is_gone = finished.send(Finished { claim, permit, settlement }).await;
        });
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
