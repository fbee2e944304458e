//! A dispatcher on a fresh database, with an adapter that does as told and remembers what it was asked.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use angarium_domain::adapter::{Adapter, Delivery, Sending};
use angarium_domain::address::Address;
use angarium_domain::chance::SeededChance;
use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::content::{ContentHash, Recipient};
use angarium_domain::id::{NotificationId, uuid_from};
use angarium_domain::limits::Limits;
use angarium_domain::outcome::{Failure, FailureClass, Outcome, Receipt};
use angarium_domain::retry::RetryPolicy;
use angarium_domain::state::Status;
use angarium_domain::text::{Actor, Body, ChannelName, ListName, Locale, Provenance, Subject};
use angarium_domain::time::{Clock, ManualClock, Timestamp};
use angarium_engine::catalog::{Catalog, List};
use angarium_engine::clock::FollowingClock;
use angarium_engine::dispatcher::{Dispatcher, Parts, Settings};
use angarium_engine::nodes::Node;
use angarium_engine::registry::Registry;
use angarium_engine::wake::Wake;
use angarium_store::*;
use angarium_testbed::postgres::shared;
use angarium_testbed::proxy::Proxy;
use tokio::sync::{Semaphore, watch};

use crate::home::{Home, On};

/// Nothing here takes so long unless it is broken.
pub(crate) const NEVER: Duration = Duration::from_secs(60);

pub(crate) fn fail(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure::new(class, class.as_str()))
}

pub(crate) fn ok() -> Outcome {
    Outcome::Delivered(Receipt::default())
}

/// What a send is to do.
pub(crate) enum Act {
    Report(Outcome),
    Panic,
    /// Panics when it is asked how long it may take.
    PanicEarly,
}

/// An adapter that follows a script for each address; without one, it delivers.
pub(crate) struct Scripted {
    kind: ChannelKind,
    addresses_per_send: usize,
    script: Mutex<HashMap<String, VecDeque<Act>>>,
    /// Addresses whose sends wait until the gate is opened.
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    sent: watch::Sender<Vec<String>>,
    exchanges: Mutex<Vec<Vec<String>>>,
    in_flight: watch::Sender<usize>,
    pub(crate) most_in_flight: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(kind: ChannelKind) -> Arc<Self> {
        Scripted::to_many(kind, 1)
    }

    /// An adapter that sends one message to many addresses.
    pub(crate) fn to_many(kind: ChannelKind, addresses_per_send: usize) -> Arc<Self> {
        Arc::new(Scripted {
            kind,
            addresses_per_send,
            script: Mutex::default(),
            gates: Mutex::default(),
            sent: watch::channel(Vec::new()).0,
            exchanges: Mutex::default(),
            in_flight: watch::Sender::new(0),
            most_in_flight: AtomicUsize::new(0),
        })
    }

    pub(crate) fn script(&self, address: &str, acts: impl IntoIterator<Item = Act>) {
        self.script.lock().unwrap().insert(url(address), acts.into_iter().collect());
    }

    pub(crate) fn outcomes(&self, address: &str, outcomes: impl IntoIterator<Item = Outcome>) {
        self.script(address, outcomes.into_iter().map(Act::Report));
    }

    /// Sends to this address wait for [`Self::open`].
    pub(crate) fn close(&self, address: &str) {
        self.gates.lock().unwrap().insert(url(address), Arc::new(Semaphore::new(0)));
    }

    pub(crate) fn open(&self, address: &str) {
        self.gates.lock().unwrap()[&url(address)].add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Lets those that wait now go on; whoever comes later waits for the next time.
    pub(crate) fn let_go(&self, address: &str) {
        let gate = self.gates.lock().unwrap().insert(url(address), Arc::new(Semaphore::new(0)));
        gate.unwrap().add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// The addresses that were sent to, in order.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.sent.borrow().clone()
    }

    pub(crate) fn sent_to(&self, host: &str) -> usize {
        self.sent().iter().filter(|sent| *sent == host).count()
    }

    /// Which addresses were sent to together, in order.
    pub(crate) fn exchanges(&self) -> Vec<Vec<String>> {
        self.exchanges.lock().unwrap().clone()
    }

    /// Returns once this many addresses have been sent to.
    pub(crate) async fn begun(&self, count: usize) {
        let mut sent = self.sent.subscribe();
        within(sent.wait_for(|sent| sent.len() >= count)).await.unwrap();
    }

    /// Returns once nothing is being sent.
    pub(crate) async fn idle(&self) {
        let mut in_flight = self.in_flight.subscribe();
        within(in_flight.wait_for(|in_flight| *in_flight == 0)).await.unwrap();
    }

    fn next(&self, address: &Address) -> Option<Act> {
        self.script.lock().unwrap().get_mut(address.as_str())?.pop_front()
    }
}

impl Adapter for Scripted {
    fn kind(&self) -> ChannelKind {
        self.kind
    }

    fn addresses_per_send(&self) -> usize {
        self.addresses_per_send
    }

    fn longest(&self, delivery: &Delivery, timeout: Duration) -> Duration {
        let early =
            |acts: &mut VecDeque<Act>| acts.pop_front_if(|act| matches!(act, Act::PanicEarly)).is_some();
        let mut script = self.script.lock().unwrap();
        let panics =
            delivery.addresses.iter().any(|address| script.get_mut(address.as_str()).is_some_and(early));
        drop(script);
        assert!(!panics, "as the script says");
        timeout
    }

    fn send<'a>(&'a self, delivery: &'a Delivery) -> Sending<'a> {
        Box::pin(async move {
            self.in_flight.send_modify(|in_flight| {
                *in_flight += 1;
                self.most_in_flight.fetch_max(*in_flight, Ordering::SeqCst);
            });
            let names: Vec<String> = delivery.addresses.iter().map(name).collect();
            self.exchanges.lock().unwrap().push(names.clone());
            self.sent.send_modify(|sent| sent.extend(names));
            for address in &delivery.addresses {
                let gate = self.gates.lock().unwrap().get(address.as_str()).cloned();
                if let Some(gate) = gate {
                    drop(gate.acquire().await.unwrap());
                }
            }
            tokio::task::yield_now().await;
            self.in_flight.send_modify(|in_flight| *in_flight -= 1);
            let act = |address| match self.next(address) {
                Some(Act::Report(outcome)) => outcome,
                Some(Act::Panic | Act::PanicEarly) => panic!("as the script says"),
                None => ok(),
            };
            delivery.addresses.iter().map(act).collect()
        })
    }
}

/// What [`url`] made an address of.
fn name(address: &Address) -> String {
    address.as_str().trim_start_matches("https://").trim_end_matches('/').replace(".example", "")
}

/// `a` stands for `https://a.example/`, `a/1` for another address of the same receiver.
pub(crate) fn url(name: &str) -> String {
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    format!("https://{host}.example/{path}")
}

/// A clock that counts how often it is read.
struct ReadClock {
    clock: Arc<FollowingClock>,
    readings: watch::Sender<usize>,
}

impl Clock for ReadClock {
    fn now(&self) -> Timestamp {
        self.readings.send_modify(|readings| *readings += 1);
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// How a world is set up.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) channel: ChannelSettings,
    pub(crate) lists: Vec<(&'static str, Vec<&'static str>)>,
    pub(crate) max_parallel_deliveries: usize,
    pub(crate) dispatch_interval: Duration,
    pub(crate) lease: Duration,
    pub(crate) adapters: Vec<Arc<Scripted>>,
    /// The channel is not (any more) in the configuration.
    pub(crate) unconfigured: bool,
    /// Nodes give each other no hints.
    pub(crate) poll_only: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let retry = RetryPolicy::fixed(Duration::from_secs(10), 2);
        Setup {
            channel: ChannelSettings { retry, ..ChannelSettings::of(ChannelKind::Webhook) },
            lists: Vec::new(),
            max_parallel_deliveries: 256,
            dispatch_interval: Duration::from_millis(10),
            lease: Duration::from_secs(60),
            adapters: vec![Scripted::new(ChannelKind::Webhook)],
            unconfigured: false,
            poll_only: false,
        }
    }
}

/// A database, a node with a dispatcher on it, and everything a story needs to see.
pub(crate) struct World {
    pub(crate) home: Arc<Home>,
    pub(crate) store: Arc<Store>,
    /// The machine's.
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) adapter: Arc<Scripted>,
    pub(crate) wake: Wake,
    pub(crate) node: Option<Node>,
    pub(crate) followed: Arc<FollowingClock>,
    /// How often the clock was read by the dispatcher and its deliveries.
    readings: watch::Sender<usize>,
    pub(crate) dispatcher: Option<Dispatcher>,
    pub(crate) setup: Setup,
    name: &'static str,
}

impl World {
    pub(crate) async fn new(on: On, setup: Setup) -> Self {
        let mut world = World::asleep(on, setup).await;
        world.start().await;
        world
    }

    /// A world whose node has not started yet.
    pub(crate) async fn asleep(on: On, setup: Setup) -> Self {
        let home = Arc::new(Home::fresh(on));
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let options = Options { poll_only: setup.poll_only, ..home.options() };
        World::at_home(home, &options, setup, "node-a", now).await
    }

    /// Another node on the same database that has not started yet, by itself in all else: its own clock, its own adapter.
    pub(crate) async fn neighbour(&self, name: &'static str) -> Self {
        let options = Options { poll_only: self.setup.poll_only, ..self.home.options() };
        self.neighbour_by(name, &options).await
    }

    /// As [`Self::neighbour`], by another way to the database.
    pub(crate) async fn neighbour_by(&self, name: &'static str, options: &Options) -> Self {
        let setup = Setup { adapters: vec![Scripted::new(self.setup.channel.kind)], ..self.setup.clone() };
        World::at_home(Arc::clone(&self.home), options, setup, name, self.clock.now()).await
    }

    /// A neighbour on PostgreSQL whose way to the database leads through this proxy.
    pub(crate) async fn neighbour_behind(&self, proxy: &Proxy) -> Self {
        let Home::Postgres(fresh) = &*self.home else { panic!("it is on PostgreSQL") };
        let url = PostgresUrl::parse(&shared().url_by_way_of(proxy.address(), &fresh.name)).unwrap();
        self.neighbour_by("node-b", &Options::at(Database::Postgres(url))).await
    }

    async fn at_home(
        home: Arc<Home>,
        options: &Options,
        setup: Setup,
        name: &'static str,
        now: Timestamp,
    ) -> Self {
        let clock = Arc::new(ManualClock::at(now));
        World {
            home,
            store: Arc::new(Store::open(options).await.unwrap()),
            followed: Arc::new(FollowingClock::new(Arc::clone(&clock) as Arc<dyn Clock>)),
            clock,
            adapter: Arc::clone(setup.adapters.last().unwrap()),
            wake: Wake::default(),
            node: None,
            readings: watch::Sender::new(0),
            dispatcher: None,
            setup,
            name,
        }
    }

    /// Signs in, without a pulse, so that the clock goes on as the story says, and dispatches.
    pub(crate) async fn start(&mut self) {
        let me = NewNode { name: self.name.into(), version: "1.2.3".into(), address: "127.0.0.1:1".into() };
        let mut node = Node::new(Arc::clone(&self.store), Arc::clone(&self.followed), me);
        node.live(None).await.unwrap();
        self.dispatch(&node).await;
        self.node = Some(node);
    }

    async fn dispatch(&mut self, node: &Node) {
        let hooks = ChannelName::parse("hooks").unwrap();
        let lists = self.setup.lists.iter().map(|(name, members)| {
            let members =
                members.iter().map(|host| Address::parse(ChannelKind::Webhook, &url(host)).unwrap());
            (ListName::parse(name).unwrap(), List { channel: hooks.clone(), members: members.collect() })
        });
        let mut catalog = Catalog {
            lists: lists.collect(),
            channels: BTreeMap::from([(hooks, self.setup.channel.clone())]),
        };
        if self.setup.unconfigured {
            catalog = Catalog::default();
        }
        let mut adapters = Registry::default();
        for adapter in &self.setup.adapters {
            adapters.register(Arc::clone(adapter) as Arc<dyn Adapter>);
        }
        let parts = Parts {
            store: Arc::clone(&self.store),
            catalog: Arc::new(catalog),
            adapters,
            clock: Arc::new(ReadClock { clock: Arc::clone(&self.followed), readings: self.readings.clone() }),
            vitals: node.vitals(),
            chance: Arc::new(SeededChance::new(1)),
            renderings: Arc::default(),
            default_locale: Locale::parse("en-US").unwrap(),
            wake: self.wake.clone(),
            observer: Arc::new(|_, _| ()),
        };
        let settings = Settings {
            dispatch_interval: self.setup.dispatch_interval,
            max_parallel_deliveries: self.setup.max_parallel_deliveries,
            lease: self.setup.lease,
            node: self.name.into(),
        };
        self.dispatcher = Some(Dispatcher::start(parts, settings).await.unwrap());
    }

    /// A heartbeat, without a pulse.
    pub(crate) async fn beat(&mut self) {
        self.node.as_mut().unwrap().live(None).await.unwrap();
    }

    /// Whether the node leads.
    pub(crate) fn leads(&self) -> bool {
        self.node.as_ref().unwrap().leadership().tenure().is_some()
    }

    /// The process dies: whatever was in flight is cut off. The database is opened anew, and what the dead one held is
    /// free.
    pub(crate) async fn crash(&mut self) {
        self.dispatcher = None;
        self.node = None;
        let options = self.home.options();
        self.store = within(async {
            loop {
                match Store::open(&options).await {
                    Ok(store) => return Arc::new(store),
                    Err(StoreError::Locked(_)) => pause().await,
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await;
        self.free_leases();
    }

    /// What a process held that ended is free at once on SQLite, and once its lease has ended on PostgreSQL.
    pub(crate) fn free_leases(&self) {
        if self.store.is_shared() {
            self.clock.advance(self.setup.lease);
        }
    }

    /// Lets go of the database, as a process does that ends.
    pub(crate) fn let_go(&mut self) {
        self.node = None;
        let folder = tempfile::tempdir().unwrap();
        let nowhere = Options::new(folder.path().join("nowhere.db"));
        let runtime = tokio::runtime::Handle::current();
        let other =
            std::thread::spawn(move || runtime.block_on(Store::open(&nowhere)).unwrap()).join().unwrap();
        self.store = Arc::new(other);
    }

    pub(crate) async fn accept(&self, name: &str, recipient: Recipient) {
        let known = match &recipient {
            Recipient::List(list) => self.setup.lists.iter().any(|(name, _)| *name == list.as_str()),
            Recipient::Address { .. } => true,
        };
        self.accept_stamped(name, recipient, known).await;
    }

    /// Accepts a notification whose list was, or was not, known at that time.
    pub(crate) async fn accept_stamped(&self, name: &str, recipient: Recipient, known: bool) {
        let limits = Limits::default();
        let subject = Subject::parse(name.into(), &limits).unwrap();
        let body = Body::parse("it happened".into(), &limits).unwrap();
        let notification = NewNotification {
            id: id(name),
            hash: ContentHash::of(&recipient, &subject, &body, None),
            kind: if known { self.setup.channel.kind } else { ChannelKind::Email },
            channel: known.then(|| ChannelName::parse("hooks").unwrap()),
            recipient,
            subject,
            body,
            data: None,
            provenance: Provenance::default(),
            enqueued_at: None,
            accepted_by: Actor::system(),
        };
        self.store.accept(vec![notification], self.followed.now()).await.unwrap();
    }

    pub(crate) async fn hand_in(&self, name: &str, host: &str) {
        self.accept(name, hook(host)).await;
        self.wake.now();
    }

    pub(crate) async fn view(&self, name: &str) -> View {
        self.store.get(id(name)).await.unwrap().unwrap()
    }

    pub(crate) async fn act(&self, name: &str, action: Action) -> ActionOutcome {
        let request = ActionRequest { id: id(name), action, actor: Actor::system(), reason: None };
        let outcome = self.store.act(request, self.followed.now()).await.unwrap();
        self.wake.now();
        outcome
    }

    /// Returns the row once it has this status and nobody works on it.
    pub(crate) async fn until(&self, name: &str, status: Status) -> View {
        self.until_it(name, |row| row.status == status && !row.in_flight).await
    }

    /// Returns the row once this holds for it.
    pub(crate) async fn until_it(&self, name: &str, holds: impl Fn(&View) -> bool) -> View {
        within(async {
            loop {
                let row = self.view(name).await;
                if holds(&row) {
                    return row;
                }
                pause().await;
            }
        })
        .await
    }

    pub(crate) async fn attempts(&self, name: &str) -> Vec<AttemptView> {
        self.store.attempts(id(name), 0, 1000).await.unwrap().unwrap()
    }

    /// Moves the clock and lets the dispatcher look.
    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.wake.now();
    }

    /// Returns once the dispatcher has looked again, by itself and more than once. Nothing may be under way, so that nobody
    /// else reads its clock, which each look begins with.
    pub(crate) async fn looks_again(&self) {
        let mut readings = self.readings.subscribe();
        let before = *readings.borrow();
        within(readings.wait_for(|now| *now >= before + 12)).await.unwrap();
    }

    /// Returns once the dispatcher has looked at everything that is due now: a marker handed in last has been
    /// delivered, on a lane of its own.
    pub(crate) async fn looked(&self, marker: &str) {
        self.hand_in(marker, &format!("marker-{}", marker.replace(' ', "-"))).await;
        self.until(marker, Status::Delivered).await;
    }
}

pub(crate) fn id(name: &str) -> NotificationId {
    uuid_from([name]).into()
}

pub(crate) fn hook(host: &str) -> Recipient {
    Recipient::Address {
        channel: ChannelName::parse("hooks").unwrap(),
        address: Address::parse(ChannelKind::Webhook, &url(host)).unwrap(),
    }
}

pub(crate) fn list(name: &str) -> Recipient {
    Recipient::List(ListName::parse(name).unwrap())
}

/// The database gives no signal when a row changes, so that a story looks again.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await; // tidy: sleep between two looks at the database
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(NEVER, future).await.expect("it never happened")
}
