//! The dispatcher: permits first, then claims, then deliveries side by side.
//!
//! It looks whenever it is woken, whenever something ended, when the next row is due, and on a fixed interval
//! regardless. It never waits for a single delivery. A soft stop ends the claiming and waits for what is in
//! flight; a hard stop may come at any point, since whatever was in flight is a lease that another start (or
//! node) takes back. A node whose [`Vitals`] forbid it claims nothing, and goes on with what it has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use angarium_domain::chance::Chance;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::FailureClass;
use angarium_domain::text::Locale;
use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{Claim, Quota, Settlement, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::catalog::Catalog;
use crate::delivery::Context;
use crate::leases::Leases;
use crate::permits::{Permit, Permits};
use crate::receivers::Receivers;
use crate::registry::Registry;
use crate::render::Renderings;
use crate::settler::{self, Done, Finished};
use crate::vitals::Vitals;
use crate::wake::Wake;
use crate::{leases, planner, recovery};

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
    /// The time; where nodes share a database, the one that all of them follow.
    pub clock: Arc<dyn Clock>,
    /// Whether this node may claim.
    pub vitals: Arc<Vitals>,
    /// Chance, for jitter.
    pub chance: Arc<dyn Chance>,
    /// Texts of events, rendered.
    pub renderings: Arc<Renderings>,
    /// The language of texts where the one that was asked for is not there.
    pub default_locale: Locale,
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
    /// Takes back what nobody holds any more and starts. On SQLite every lease found at the start is a dead process's,
    /// since one file serves one process; where other nodes live, only those that have ended are.
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
            renderings: parts.renderings,
            default_locale: parts.default_locale,
            untemplated: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let ended_by = if context.store.is_shared() { context.clock.now() } else { Timestamp::LAST };
        let taken_back = recovery::take_back(&context, ended_by).await?;
        if taken_back > 0 {
            tracing::info!(notifications = taken_back, "claims whose leases had ended were taken back");
        }
        let (stop, stopped) = watch::channel(false);
        let (finished, settlements) = mpsc::channel(settings.max_parallel_deliveries.max(1));
        let (done, ended) = mpsc::unbounded_channel();
        let (store, leases) = (Arc::clone(&context.store), Arc::clone(&context.leases));
        let settler = tokio::spawn(settler::run(store, leases, settlements, done));
        let mut beside = JoinSet::new();
        beside.spawn(leases::keep(Arc::clone(&context), settings.lease));
        beside.spawn(recovery::keep_looking(Arc::clone(&context), settings.lease));
        beside.spawn(planner::keep_planning(
            Arc::clone(&context),
            parts.wake.clone(),
            settings.dispatch_interval,
        ));
        beside.spawn(take_hints(Arc::clone(&context.store), parts.wake.clone()));
        let worker = Worker {
            permits: Permits::new(settings.max_parallel_deliveries.max(1)),
            context: Arc::clone(&context),
            settings,
            vitals: parts.vitals,
            wake: parts.wake,
            unanswered: Vec::new(),
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
/// Unanswered claims that are looked for, at most; of one beyond them the lease ends by itself.
const MOST_UNANSWERED: usize = 16;

/// What other nodes have work for, this one looks for too.
async fn take_hints(store: Arc<Store>, wake: Wake) {
    store.exchange_hints(move || wake.now()).await;
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
    vitals: Arc<Vitals>,
    wake: Wake,
    /// When claims were asked for of which it is not known whether they were made, for as long as they would last.
    unanswered: Vec<Timestamp>,
    finished: mpsc::Sender<Finished>,
    ended: mpsc::UnboundedReceiver<Done>,
    deliveries: JoinSet<()>,
}

impl Worker {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut failing = false;
        while !*stopped.borrow() {
            let filled = self.fill(&stopped).await;
            match &filled {
                Ok(_) if failing => tracing::info!("due notifications can be claimed again"),
                Err(error) if !failing => {
                    tracing::error!(store.error = %error, "due notifications could not be claimed; it is tried again");
                }
                _ => {}
            }
            failing = filled.is_err();
            let wait = filled.map_or(self.settings.dispatch_interval, |next_look| self.until(next_look));
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
        self.give_back_unanswered().await?;
        while self.vitals.may_claim() {
            let now = self.context.clock.now();
            let waiting = self.context.store.waiting_lanes(now).await?;
            let plan = self.permits.plan(waiting, &self.context.catalog, now);
            if plan.quotas.is_empty() || *stopped.borrow() {
                return Ok(plan.next_look);
            }
            let asked = self.context.clock.monotonic();
            let claims = self.claim(plan.quotas, now).await?;
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
        Ok(None)
    }

    async fn claim(&mut self, quotas: Vec<Quota>, now: Timestamp) -> Result<Vec<Claim>, StoreError> {
        let claims = self.context.store.claim(quotas, &self.settings.node, now, self.settings.lease).await;
        if claims == Err(StoreError::OutcomeUnknown) && self.unanswered.len() < MOST_UNANSWERED {
            self.unanswered.push(now);
        }
        claims
    }

    /// Nobody works on what was claimed without our being told; it is given back as soon as it shows.
    async fn give_back_unanswered(&mut self) -> Result<(), StoreError> {
        let now = self.context.clock.now();
        for asked_at in &self.unanswered {
            let mut taken = self.context.store.claimed_at(*asked_at).await?;
            taken.retain(|(key, generation)| !self.context.leases.holds(*key, *generation));
            if !taken.is_empty() {
                tracing::info!(notifications = taken.len(), "claims that were made unnoticed are given back");
                self.context.store.release_all(taken, now).await?;
            }
        }
        self.unanswered.retain(|asked_at| now.since(*asked_at) < self.settings.lease);
        Ok(())
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
