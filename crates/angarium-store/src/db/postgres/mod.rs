//! PostgreSQL: any number of processes on one database.
//!
//! Producers, deliveries and the console have connections of their own, so that none of them keeps another waiting.
//! Every statement, every wait for a lock and every idle transaction has a limit on the server, and the whole of each
//! unit of work one here, so that a server that is slow or silent is told as such and holds up nothing for ever.

mod connection;
mod fault;
mod hints;
mod pool;
mod run;
mod schema;
mod tls;
mod tx;
mod url;

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::tx::Tx;
pub use self::url::PostgresUrl;
use super::options::{DatabaseStatus, Migrated, Options};
use super::{INGEST_LIMIT, Op};
use crate::error::{Result, StoreError};
use connection::{Connection, TIMELINE};
use pool::Pool;
use run::{View, run};

/// Connections for what producers hand in: a few commits that many share.
const INGEST: usize = 4;
/// Left for telling producers what became of it, before they are told that it is not known.
const TELLING: Duration = Duration::from_millis(250);
/// Connections for claims, looks and settlements.
const DISPATCH: usize = 6;
/// The longest that a unit of work of the dispatcher may take: it is asked for again if it failed.
const DISPATCH_LIMIT: Duration = Duration::from_secs(15);
/// The longest that a server may take to say how it is: as long as two hosts may take to be connected to, and a moment.
const PULSE_LIMIT: Duration = Duration::from_secs(5);
/// The longest that a question about the database itself may take.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// The open database.
pub(crate) struct Postgres {
    url: PostgresUrl,
    ingest: Arc<Pool>,
    dispatch: Arc<Pool>,
    console: Arc<Pool>,
    pulse: Arc<Pool>,
    hints: Option<Notify>,
}

/// What the server says of itself at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Its clock.
    pub now: Timestamp,
    /// Moves on at every failover.
    pub timeline: i64,
    /// The oldest transaction that somebody's snapshot still asks for; as long as it stays the same, no row that was
    /// changed since is cleared away.
    pub oldest_snapshot: Option<i64>,
    /// Versions of notifications that wait to be cleared away.
    pub dead_rows: i64,
}

impl Postgres {
    pub(crate) async fn open(url: &PostgresUrl, options: &Options) -> Result<Self> {
        let connection = Connection::open(url, STATUS_LIMIT, None).await?;
        schema::refuse_unfit(&connection).await?;
        refuse_shared_sessions(url, &connection).await?;
        let migrated = schema::migrate(&connection).await?;
        if migrated.from != migrated.to {
            tracing::info!(
                schema.from = migrated.from,
                schema.to = migrated.to,
                "the database schema was brought up to date"
            );
        }
        for warning in schema::warnings(&schema::settings(&connection).await?.1) {
            tracing::error!("durability at risk: {warning}");
        }
        let limit = options.query_timeout.max(Duration::from_millis(1));
        let statement = |limit: Duration| limit.mul_f64(0.8);
        Ok(Postgres {
            url: url.clone(),
            ingest: Pool::new(url, INGEST, statement(INGEST_LIMIT), INGEST_LIMIT.saturating_sub(TELLING)),
            dispatch: Pool::new(url, DISPATCH, statement(DISPATCH_LIMIT), DISPATCH_LIMIT),
            console: Pool::new(url, options.readers.max(1), limit, limit + Duration::from_secs(1)),
            pulse: Pool::new(url, 1, PULSE_LIMIT, PULSE_LIMIT),
            hints: (!options.poll_only).then(Notify::new),
        })
    }

    /// What can be told without changing anything.
    pub(crate) async fn status(url: &PostgresUrl) -> Result<DatabaseStatus> {
        let connection = Connection::open(url, STATUS_LIMIT, None).await?;
        let (server_version, settings) = schema::settings(&connection).await?;
        Ok(DatabaseStatus {
            database: "postgres",
            place: url.place(),
            schema: schema::version(&connection).await?,
            known: schema::KNOWN,
            server_version,
            warnings: url.warnings().into_iter().chain(schema::warnings(&settings)).collect(),
            settings,
            standbys: schema::standbys(&connection).await?,
        })
    }

    /// Brings the schema up to date, and nothing else.
    pub(crate) async fn migrate(url: &PostgresUrl) -> Result<Migrated> {
        let connection = Connection::open(url, STATUS_LIMIT, None).await?;
        schema::refuse_unfit(&connection).await?;
        schema::migrate(&connection).await
    }

    pub(crate) async fn write<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.console, op, View::Writing).await
    }

    pub(crate) async fn write_for_ingest<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.ingest, op, View::Writing).await
    }

    pub(crate) async fn write_for_dispatch<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.dispatch, op, View::Writing).await
    }

    pub(crate) async fn read<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.console, op, View::Snapshot).await
    }

    pub(crate) async fn read_for_ingest<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.ingest, op, View::Loose).await
    }

    pub(crate) async fn read_for_dispatch<O: Op>(&self, op: O) -> Result<O::Output> {
        run(&self.dispatch, op, View::Loose).await
    }

    /// What the server says of itself. The connection for that is its own, and goes if there is no answer soon: it is by
    /// this that a node notices that another server has taken over.
    pub(crate) async fn pulse(&self) -> Result<Pulse> {
        let pulse = format!(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, {TIMELINE},
            (SELECT backend_xmin::text::bigint FROM pg_stat_activity WHERE backend_xmin IS NOT NULL
             ORDER BY age(backend_xmin) DESC LIMIT 1),
            coalesce((SELECT n_dead_tup FROM pg_stat_user_tables
                      WHERE schemaname = 'angarium' AND relname = 'notifications'), 0)"
        );
        let deadline = Instant::now() + PULSE_LIMIT;
        let lent = self.pulse.lend(deadline).await?;
        let asked = tokio::time::timeout_at(deadline, lent.client.query_one(&pulse, &[])).await;
        let row = asked.map_err(|_| StoreError::QueryTimeout)??;
        let pulse = Pulse {
            now: Timestamp::from_micros(row.try_get(0)?),
            timeline: row.try_get(1)?,
            oldest_snapshot: row.try_get(2)?,
            dead_rows: row.try_get(3)?,
        };
        lent.keep();
        Ok(pulse)
    }

    /// There may be work for others.
    pub(crate) fn hint(&self) {
        if let Some(hints) = &self.hints {
            hints.notify_one();
        }
    }

    /// Gives hints to other nodes and takes theirs, for ever.
    pub(crate) async fn exchange_hints(&self, from: &str, on_hint: impl Fn() + Send + Sync + 'static) {
        match &self.hints {
            Some(given) => hints::exchange(&self.url, from, given, on_hint).await,
            None => std::future::pending().await,
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".into())
}

/// A pooler that lends the same session to two clients in turn would lose what a session prepares and listens to.
/// With one session marked, a second client that is in a transaction must not see the mark, nor may the first lose it.
async fn refuse_shared_sessions(url: &PostgresUrl, first: &Connection) -> Result<()> {
    const MARK: &str = "SET angarium.session = 'marked'";
    const SEEN: &str = "SELECT coalesce(current_setting('angarium.session', true), '') = 'marked'";
    first.say(MARK).await?;
    let second = Connection::open(url, STATUS_LIMIT, None).await?;
    second.say("BEGIN").await?;
    let other_sees: bool = second.client.query_one(SEEN, &[]).await?.try_get(0)?;
    let first_sees: bool = first.client.query_one(SEEN, &[]).await?.try_get(0)?;
    second.say("ROLLBACK").await?;
    if other_sees || !first_sees {
        return Err(connection::pooled("two clients share one session"));
    }
    Ok(())
}
