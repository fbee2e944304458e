//! Short ways to say what is asked of the store, and what somebody else does at the same database.

use std::future::Future;
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::content::{ContentHash, Recipient};
use angarium_domain::id::{NotificationId, uuid_from};
use angarium_domain::limits::Limits;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::{State, Status};
use angarium_domain::text::{Actor, Body, ChannelName, KeyName, Provenance, Subject};
use angarium_domain::time::Timestamp;
use angarium_store::*;
use angarium_testbed::postgres::{self, Fresh};
use angarium_testbed::proxy::Proxy;

pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Nothing takes so long unless it is broken.
const NEVER: Duration = Duration::from_secs(120);

/// Noon on an ordinary day, and `seconds` later.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).plus(Duration::from_secs(seconds))
}

/// What `future` comes to. It must come to something.
#[track_caller]
pub(crate) fn in_time<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let ended = tokio::time::timeout(NEVER, future).await;
        ended.unwrap_or_else(|_| panic!("it hangs at {caller}"))
    }
}

/// Looks again and again until it is so; what other processes do has no way to tell.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    in_time(async move {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await; // tidy: sleep between two looks at the server
        }
    })
}

pub(crate) fn options(url: &str) -> Options {
    Options::at(Database::Postgres(PostgresUrl::parse(url).unwrap()))
}

pub(crate) async fn opened(url: &str) -> Store {
    in_time(Store::open(&options(url))).await.unwrap()
}

/// Why it does not open.
#[track_caller]
pub(crate) fn refusal(url: &str) -> impl Future<Output = StoreError> {
    let options = options(url);
    let opening = in_time(async move { Store::open(&options).await });
    async move { opening.await.err().expect("it must not open") }
}

/// A database of the shared server, behind a proxy.
pub(crate) struct Behind {
    pub(crate) proxy: Proxy,
    pub(crate) database: Fresh,
    pub(crate) url: String,
}

impl Behind {
    pub(crate) fn proxy() -> Self {
        let database = postgres::fresh_database();
        let proxy = Proxy::start(postgres::shared().address());
        let url = postgres::shared().url_by_way_of(proxy.address(), &database.name);
        Behind { proxy, database, url }
    }

    pub(crate) fn count(&self, table: &str) -> usize {
        count(&self.database, table)
    }
}

/// Rows of a table of ours.
pub(crate) fn count(database: &Fresh, table: &str) -> usize {
    database.sql(&format!("SELECT count(*) FROM angarium.{table}")).parse().unwrap()
}

/// Every notification is there as often as it should be: in all of its tables.
pub(crate) fn assert_stored(database: &Fresh, rows: usize) {
    let tables = ["ids", "notifications", "contents", "audit"];
    assert_eq!(tables.map(|table| count(database, table)), [rows; 4], "{tables:?}");
}

/// Somebody else at the same database, in a session of their own.
pub(crate) struct Somebody {
    client: tokio_postgres::Client,
}

impl Somebody {
    pub(crate) async fn at(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        Somebody { client }
    }

    /// One who may do everything.
    pub(crate) async fn in_charge_of(database: &Fresh) -> Self {
        Self::at(&postgres::shared().admin_url(&database.name)).await
    }

    pub(crate) async fn says(&self, text: &str) {
        in_time(self.client.batch_execute(text)).await.unwrap();
    }

    /// How their session is set.
    pub(crate) async fn shows(&self, setting: &str) -> String {
        self.client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap().get(0)
    }
}

/// The condition for backends of the store that wait for a lock.
pub(crate) const WAITS_FOR_A_LOCK: &str = "usename = 'angarium' AND wait_event_type = 'Lock'";
/// The condition for backends of the store that have committed and wait for a standby.
pub(crate) const WAITS_FOR_A_STANDBY: &str = "usename = 'angarium' AND wait_event = 'SyncRep'";

/// A statement that asks how many backends in this database are so.
pub(crate) fn backends(so: &str) -> String {
    format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {so}")
}

/// A statement that does something (`pg_cancel_backend`) to every backend in this database that is so.
pub(crate) fn to_backends(does: &str, so: &str) -> String {
    format!("SELECT {does}(pid) FROM pg_stat_activity WHERE datname = current_database() AND {so}")
}

/// The id of the note with this name.
pub(crate) fn id(name: &str) -> NotificationId {
    uuid_from([name]).into()
}

fn channel() -> ChannelName {
    ChannelName::parse("hooks").unwrap()
}

pub(crate) fn note(name: &str) -> NewNotification {
    note_to("a.example", name)
}

pub(crate) fn note_to(receiver: &str, name: &str) -> NewNotification {
    let limits = Limits::default();
    let url = format!("https://{receiver}/hook");
    let address = Address::parse(ChannelKind::Webhook, &url).unwrap();
    let recipient = Recipient::Address { channel: channel(), address };
    let subject = Subject::parse(format!("about {name}"), &limits).unwrap();
    let body = Body::parse("it happened".to_owned(), &limits).unwrap();
    NewNotification {
        id: id(name),
        hash: ContentHash::of(&recipient, &subject, &body, None),
        kind: ChannelKind::Webhook,
        channel: Some(channel()),
        recipient,
        subject,
        body,
        data: None,
        provenance: Provenance::default(),
        enqueued_at: None,
        accepted_by: Actor::key(&KeyName::parse("erp").unwrap()),
    }
}

/// Names of so many notes.
pub(crate) fn names(about: &str, notes: usize) -> Vec<String> {
    (0..notes).map(|n| format!("{about} {n}")).collect()
}

/// Hands in one note.
#[track_caller]
pub(crate) fn accept<'a>(store: &'a Store, name: &str) -> impl Future<Output = Result<Acceptance>> + 'a {
    let note = note(name);
    let accepting = in_time(async move { store.accept(vec![note], at(0)).await });
    async move { accepting.await.map(|mut answers| answers.pop().unwrap()) }
}

/// The answer to a note that is stored.
pub(crate) fn taken(name: &str, duplicate: bool) -> Result<Acceptance> {
    Ok(Acceptance::Accepted { id: id(name), status: Status::Pending, duplicate })
}

/// Whether it is stored for certain.
pub(crate) fn is_taken(answer: &Result<Acceptance>) -> bool {
    matches!(answer, Ok(Acceptance::Accepted { .. }))
}

/// Claims everything that is due, up to 1,000 rows a lane.
pub(crate) async fn claim_all(store: &Store, now: Timestamp) -> Result<Vec<Claim>> {
    let lanes = store.waiting_lanes(now).await?;
    let quotas = lanes.iter().map(|lane| Quota { lane: lane.lane, rows: 1000 }).collect();
    store.claim(quotas, "node-a", now, LEASE).await
}

pub(crate) async fn claim_one(store: &Store, now: Timestamp) -> Claim {
    let mut claims = in_time(claim_all(store, now)).await.unwrap();
    assert_eq!(claims.len(), 1, "exactly one row should be due");
    claims.pop().unwrap()
}

pub(crate) async fn settle(store: &Store, settlement: &Settlement) -> Result<Settled> {
    let settled = in_time(store.settle(vec![settlement.clone()])).await;
    settled.map(|mut settled| settled.pop().unwrap())
}

pub(crate) fn delivered(claim: &Claim, now: Timestamp) -> Settlement {
    settlement(claim, now, claim.state.clone().deliver(now, None).unwrap())
}

pub(crate) fn parked(claim: &Claim, now: Timestamp) -> Settlement {
    settlement(claim, now, claim.state.clone().park(now, busy()).unwrap())
}

pub(crate) fn retried(claim: &Claim, now: Timestamp, due: Timestamp) -> Settlement {
    settlement(claim, now, claim.state.clone().retry_at(due, busy()).unwrap())
}

fn busy() -> LastError {
    LastError { class: FailureClass::Transient, detail: "HTTP 503".into() }
}

fn settlement(claim: &Claim, now: Timestamp, state: State) -> Settlement {
    let error = state.error().cloned();
    let attempt = AttemptRecord {
        started_at: now,
        ended_at: now,
        node: "node-a".into(),
        class: error.as_ref().map(|error| error.class),
        detail: error.map(|error| error.detail),
        status_code: None,
        duplicate_risk: false,
        retry_after_s: None,
        response_excerpt: None,
        targets: None,
        template: None,
    };
    Settlement { attempt: Some(attempt), ..Settlement::of(claim, state, claim.progress) }
}
