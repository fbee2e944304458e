//! A fresh database, and short ways to say what is in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::content::{ContentHash, Recipient};
use angarium_domain::disposition::{Progress, Scope};
use angarium_domain::id::{NotificationId, uuid_from};
use angarium_domain::limits::Limits;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::State;
use angarium_domain::text::{Body, ChannelName, ListName, Provenance, SourceName, Subject};
use angarium_domain::time::Timestamp;
use angarium_store::*;
use angarium_testbed::postgres;

pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Noon on an ordinary day, and `seconds` later.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).plus(Duration::from_secs(seconds))
}

pub(crate) struct Database {
    pub(crate) store: Store,
    place: Place,
}

enum Place {
    Sqlite { path: PathBuf, _folder: tempfile::TempDir },
    Postgres(postgres::Fresh),
}

impl Place {
    async fn opened(&self) -> Store {
        let options = match self {
            Place::Sqlite { path, .. } => Options::new(path),
            Place::Postgres(database) => {
                Options::at(angarium_store::Database::Postgres(PostgresUrl::parse(&database.url).unwrap()))
            }
        };
        Store::open(&options).await.unwrap()
    }
}

impl Database {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Sqlite { path: folder.path().join("angarium.db"), _folder: folder };
        Database { store: place.opened().await, place }
    }

    pub(crate) async fn postgres() -> Self {
        let place = Place::Postgres(tokio::task::spawn_blocking(postgres::fresh_database).await.unwrap());
        Database { store: place.opened().await, place }
    }

    /// The store of another process on the same database; none where there can be only one.
    pub(crate) async fn beside(&self) -> Option<Store> {
        match &self.place {
            Place::Sqlite { .. } => None,
            Place::Postgres(_) => Some(self.place.opened().await),
        }
    }

    pub(crate) async fn reopened(self) -> Self {
        self.store.close();
        Database { store: self.place.opened().await, ..self }
    }

    /// The SQLite file.
    pub(crate) fn path(&self) -> &Path {
        match &self.place {
            Place::Sqlite { path, .. } => path,
            Place::Postgres(_) => panic!("it is no file"),
        }
    }

    /// Changes the database behind the store's back.
    pub(crate) fn tamper(&self, sql: &str) {
        match &self.place {
            Place::Sqlite { path, .. } => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(Duration::from_secs(10)).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            Place::Postgres(database) => {
                database.sql(&format!("SET search_path = angarium; {sql}"));
            }
        }
    }

    /// What a question with one column of texts finds, without asking the store.
    pub(crate) fn ask(&self, sql: &str) -> Vec<String> {
        match &self.place {
            Place::Sqlite { path, .. } => {
                let connection = rusqlite::Connection::open(path).unwrap();
                let mut asked = connection.prepare(sql).unwrap();
                asked.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
            }
            Place::Postgres(database) => {
                let found = database.sql(&format!("SET search_path = angarium; {sql}"));
                found.lines().map(str::to_owned).collect()
            }
        }
    }

    /// From now on nothing can be written into the audit trail, until it is mended.
    pub(crate) fn break_the_trail(&self) {
        self.tamper(match &self.place {
            Place::Sqlite { .. } => {
                "CREATE TRIGGER broken BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END"
            }
            Place::Postgres(_) => "ALTER TABLE audit ADD CONSTRAINT broken CHECK (false) NOT VALID",
        });
    }

    pub(crate) fn mend_the_trail(&self) {
        self.tamper(match &self.place {
            Place::Sqlite { .. } => "DROP TRIGGER broken",
            Place::Postgres(_) => "ALTER TABLE audit DROP CONSTRAINT broken",
        });
    }

    /// From now on no attempt can be stored with what the receiver answered.
    pub(crate) fn refuse_answers(&self) {
        self.tamper(match &self.place {
            Place::Sqlite { .. } => {
                "CREATE TRIGGER speechless BEFORE INSERT ON attempts WHEN NEW.response_excerpt IS NOT NULL
                 BEGIN SELECT RAISE(ABORT, 'no'); END"
            }
            Place::Postgres(_) => {
                "ALTER TABLE attempts ADD CONSTRAINT speechless CHECK (response_excerpt IS NULL) NOT VALID"
            }
        });
    }

    /// From now on no row that says this in this column can be added to a table, until it is allowed again.
    pub(crate) fn refuse(&self, table: &str, column: &str, word: &str) {
        self.tamper(&match &self.place {
            Place::Sqlite { .. } => format!(
                "CREATE TRIGGER refused BEFORE INSERT ON {table} WHEN NEW.{column} = '{word}'
                 BEGIN SELECT RAISE(ABORT, 'no'); END"
            ),
            Place::Postgres(_) => {
                format!("ALTER TABLE {table} ADD CONSTRAINT refused CHECK ({column} <> '{word}') NOT VALID")
            }
        });
    }

    pub(crate) fn allow(&self, table: &str) {
        self.tamper(&match &self.place {
            Place::Sqlite { .. } => "DROP TRIGGER refused".to_owned(),
            Place::Postgres(_) => format!("ALTER TABLE {table} DROP CONSTRAINT refused"),
        });
    }

    /// How many rows each table has.
    pub(crate) fn rows(&self) -> Vec<String> {
        let tables = self.ask(match &self.place {
            Place::Sqlite { .. } => "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
            Place::Postgres(_) => {
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'angarium' ORDER BY table_name"
            }
        });
        let counts = tables.iter().map(|table| format!("SELECT '{table} ' || count(*) AS rows FROM {table}"));
        self.ask(&counts.collect::<Vec<_>>().join(" UNION ALL "))
    }

    /// The job under which this process may do what one does for all.
    pub(crate) async fn tenure(&self) -> Tenure {
        self.store.take_job("housekeeping", at(0), at(0)).await.unwrap().unwrap()
    }

    pub(crate) async fn accept(&self, note: &Note) -> Acceptance {
        self.store.accept(vec![note.build()], note.now).await.unwrap().pop().unwrap()
    }

    /// Claims everything that is due, up to 1,000 rows a lane.
    pub(crate) async fn claim_all(&self, now: Timestamp) -> Vec<Claim> {
        let lanes = self.store.waiting_lanes(now).await.unwrap();
        let quotas = lanes.iter().map(|lane| Quota { lane: lane.lane, rows: 1000 }).collect();
        self.store.claim(quotas, "node-a", now, LEASE).await.unwrap()
    }

    pub(crate) async fn claim_one(&self, now: Timestamp) -> Claim {
        let mut claims = self.claim_all(now).await;
        assert_eq!(claims.len(), 1, "exactly one row should be due");
        claims.pop().unwrap()
    }

    pub(crate) async fn settle(&self, settlement: Settlement) -> Settled {
        self.store.settle(vec![settlement]).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn view(&self, note: &Note) -> View {
        self.store.get(note.id()).await.unwrap().unwrap()
    }

    pub(crate) async fn act(&self, note: &Note, action: Action, now: Timestamp) -> ActionOutcome {
        let actor = angarium_domain::text::Actor::key(&angarium_domain::text::KeyName::parse("ann").unwrap());
        let request = ActionRequest { id: note.id(), action, actor, reason: Some("asked to".into()) };
        self.store.act(request, now).await.unwrap()
    }

    /// Accepts a note and parks it.
    pub(crate) async fn parked(&self, note: &Note) {
        self.accept(note).await;
        let claim = self.claim_one(note.now).await;
        let settlement = parked(&claim, note.now);
        assert_eq!(self.settle(settlement).await, Settled::Applied);
    }

    /// Accepts a note and delivers it.
    pub(crate) async fn delivered(&self, note: &Note) {
        self.accept(note).await;
        let claim = self.claim_one(note.now).await;
        assert_eq!(self.settle(delivered(&claim, note.now)).await, Settled::Applied);
    }
}

/// A notification in the making: named, so that its id follows from its name.
#[derive(Clone)]
pub(crate) struct Note {
    name: String,
    subject: String,
    body: String,
    kind: ChannelKind,
    recipient: Recipient,
    from: Provenance,
    now: Timestamp,
}

pub(crate) fn note(name: &str) -> Note {
    Note {
        name: name.into(),
        subject: format!("about {name}"),
        body: "it happened".into(),
        kind: ChannelKind::Webhook,
        recipient: hook("https://a.example/hook"),
        from: Provenance::default(),
        now: at(0),
    }
}

pub(crate) fn hook(url: &str) -> Recipient {
    Recipient::Address {
        channel: ChannelName::parse("hooks").unwrap(),
        address: Address::parse(ChannelKind::Webhook, url).unwrap(),
    }
}

/// The channel for mail.
pub(crate) fn relay() -> ChannelName {
    ChannelName::parse("relay").unwrap()
}

pub(crate) fn mailbox(address: &str) -> Address {
    Address::parse(ChannelKind::Email, address).unwrap()
}

impl Note {
    pub(crate) fn id(&self) -> NotificationId {
        uuid_from([&*self.name]).into()
    }

    pub(crate) fn to(mut self, url: &str) -> Self {
        self.recipient = hook(url);
        self
    }

    pub(crate) fn mail(mut self, address: &str) -> Self {
        self.kind = ChannelKind::Email;
        self.recipient = Recipient::Address { channel: relay(), address: mailbox(address) };
        self
    }

    pub(crate) fn list(mut self, list: &str) -> Self {
        self.recipient = Recipient::List(ListName::parse(list).unwrap());
        self
    }

    pub(crate) fn about(mut self, subject: &str) -> Self {
        self.subject = subject.into();
        self
    }

    pub(crate) fn saying(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn from(mut self, site: &str, node: &str) -> Self {
        self.from.site = Some(SourceName::parse(site).unwrap());
        self.from.node = Some(SourceName::parse(node).unwrap());
        self
    }

    pub(crate) fn when(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    pub(crate) fn build(&self) -> NewNotification {
        let limits = Limits::default();
        let subject = Subject::parse(self.subject.clone(), &limits).unwrap();
        let body = Body::parse(self.body.clone(), &limits).unwrap();
        NewNotification {
            id: self.id(),
            hash: ContentHash::of(&self.recipient, &subject, &body, None),
            kind: self.kind,
            channel: Some(match &self.recipient {
                Recipient::Address { channel, .. } => channel.clone(),
                Recipient::List(_) => ChannelName::parse("hooks").unwrap(),
            }),
            recipient: self.recipient.clone(),
            subject,
            body,
            data: Some(r#"{"n": 1.50}"#.into()),
            provenance: self.from.clone(),
            enqueued_at: None,
            accepted_by: angarium_domain::text::Actor::key(
                &angarium_domain::text::KeyName::parse("erp").unwrap(),
            ),
        }
    }
}

pub(crate) fn members(urls: &[&str]) -> Vec<Address> {
    urls.iter().map(|url| Address::parse(ChannelKind::Webhook, url).unwrap()).collect()
}

pub(crate) fn error(detail: &str) -> LastError {
    LastError { class: FailureClass::Transient, detail: detail.into() }
}

fn settlement(claim: &Claim, now: Timestamp, state: State, failed: bool) -> Settlement {
    Settlement {
        attempt: Some(AttemptRecord {
            started_at: now,
            ended_at: now,
            node: "node-a".into(),
            class: failed.then_some(FailureClass::Transient),
            detail: failed.then(|| "HTTP 503".to_owned()),
            status_code: Some(if failed { 503 } else { 204 }),
            duplicate_risk: false,
            retry_after_s: None,
            response_excerpt: failed.then(|| "busy".to_owned()),
            targets: None,
            template: None,
        }),
        ..Settlement::of(claim, state, claim.progress)
    }
}

pub(crate) fn delivered(claim: &Claim, now: Timestamp) -> Settlement {
    settlement(claim, now, claim.state.clone().deliver(now, None).unwrap(), false)
}

pub(crate) fn parked(claim: &Claim, now: Timestamp) -> Settlement {
    settlement(claim, now, claim.state.clone().park(now, error("HTTP 503")).unwrap(), true)
}

pub(crate) fn retried(claim: &Claim, now: Timestamp, due: Timestamp) -> Settlement {
    let state = claim.state.clone().retry_at(due, error("HTTP 503")).unwrap();
    let progress = Progress { budget_used: 1, retry_count: 1, interruptions: 0 };
    Settlement { progress, ..settlement(claim, now, state, true) }
}

/// The settlement, with this consequence beyond its row.
pub(crate) fn with_scope(mut settlement: Settlement, claim: &Claim, scope: Scope) -> Settlement {
    settlement.scopes = vec![ScopeChange {
        scope,
        lane: ScopedLane::Key(claim.lane),
        channel: claim.channel.clone(),
        address: claim.address.as_ref().map(|address| address.as_str().to_owned()),
        reason: "HTTP 410".into(),
    }];
    settlement
}
