//! One connection: how it is set, and that it is set so; what it has prepared; and how a commit ends.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket, Statement as Prepared};

use super::fault::leaves_commit_open;
use super::tls;
use super::url::{PostgresUrl, host_of};
use crate::error::{Result, StoreError};

/// Our tables stand in a schema of their own, beside whatever else the database holds.
pub(super) const SCHEMA: &str = "angarium";

/// Statements that one connection keeps prepared; beyond this it forgets them all.
const PREPARED: usize = 256;

/// How long one host may take until a session on it is ready; longer if connecting may.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the server lets a transaction stand idle.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);
/// How long a statement waits for a row that somebody else has locked.
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// The server's timeline: the first eight hex digits of the name of the log's file that is being written.
pub(super) const TIMELINE: &str =
    "('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint";

/// What is told to whoever looks after messages that nobody asked for.
pub(super) type OnHint = Arc<dyn Fn(&str) + Send + Sync>;

/// An open connection. It ends when this is dropped.
pub(super) struct Connection {
    pub(super) client: Client,
    prepared: HashMap<String, Prepared>,
    warned: Arc<AtomicBool>,
    driver: AbortHandle,
    /// Moves on at every failover: what was learned on another timeline may not be so here.
    pub(super) timeline: i64,
    /// The place of its host among those of the URL.
    pub(super) host: usize,
    /// The server's process for this connection.
    pub(super) process: i32,
    /// The server's own default for `synchronous_commit`, if that is weaker than what was set.
    pub(super) weak_default: Option<String>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to the host that takes writes, the one that did so last first. No statement may take longer than
    /// `limit`.
    pub(super) async fn open(url: &PostgresUrl, limit: Duration, on_hint: Option<OnHint>) -> Result<Self> {
        let preferred = url.preferred.load(Ordering::Relaxed);
        let mut refused = None;
        for turn in 0..url.servers.len() {
            let turn = (preferred + turn) % url.servers.len();
            let Some(server) = url.servers.get(turn) else { break };
            let opening = Connection::open_one(url, server, limit, on_hint.clone());
            let late = || StoreError::Unavailable(format!("{} does not answer", host_of(server)));
            let patience = server.get_connect_timeout().copied().unwrap_or(PATIENCE).max(PATIENCE);
            match tokio::time::timeout(patience, opening).await.unwrap_or_else(|_| Err(late())) {
                Ok(connection) if connection.timeline < *url.timeline.borrow() => {
                    let behind = format!("another server has taken over from {}", host_of(server));
                    refused.get_or_insert(StoreError::Unavailable(behind));
                }
                Ok(mut connection) => {
                    connection.host = turn;
                    url.timeline.send_if_modified(|newest| {
                        let is_newer = connection.timeline > *newest;
                        *newest = connection.timeline.max(*newest);
                        is_newer
                    });
                    url.preferred.store(turn, Ordering::Relaxed);
                    return Ok(connection);
                }
                // What will not go away by itself is what an operator must hear of.
                Err(error @ StoreError::Refused(_)) => refused = Some(error),
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        Err(refused.unwrap_or_else(|| StoreError::Refused("the database URL names no host".into())))
    }

    async fn open_one(
        url: &PostgresUrl,
        server: &tokio_postgres::Config,
        limit: Duration,
        on_hint: Option<OnHint>,
    ) -> Result<Self> {
        let mut config = server.clone();
        config.options(session_options(limit));
        let warned = Arc::new(AtomicBool::new(false));
        let (client, driver) = match &url.tls {
            None => connect(&config, NoTls, &warned, on_hint).await?,
            Some(tls) => connect(&config, tls::connector(tls)?, &warned, on_hint).await?,
        };
        let mut connection = Connection {
            client,
            prepared: HashMap::new(),
            warned,
            driver,
            timeline: 0,
            host: 0,
            process: 0,
            weak_default: None,
        };
        connection.check(limit).await?;
        Ok(connection)
    }

    /// Reads back what was asked for: a pooler may have kept it to itself. What a commit waits for is set for good, so
    /// that a new default of the server does not change it while the session lasts.
    async fn check(&mut self, limit: Duration) -> Result<()> {
        let check = format!(
            "SELECT current_setting('search_path'), setting, current_setting('synchronous_commit'),
                {TIMELINE}, pg_backend_pid(),
                current_setting('client_min_messages'), set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
            FROM pg_settings WHERE name = 'statement_timeout'");
        let rows = self.client.query(&check, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable("no settings can be read".into()))?;
        let (path, timeout, commit): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let messages: &str = row.try_get(5)?;
        if path != SCHEMA || timeout != limit.as_millis().to_string() || messages != "warning" {
            return Err(pooled("the session is not set as was asked"));
        }
        (self.timeline, self.process) = (row.try_get(3)?, row.try_get(4)?);
        self.weak_default = ["off", "local", "remote_write"].contains(&commit).then(|| commit.to_owned());
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs one or more statements that take and return nothing.
    pub(super) async fn say(&self, text: &str) -> Result<()> {
        Ok(self.client.batch_execute(text).await?)
    }

    /// Prepares these all at once; those that cannot be are left to whoever uses them.
    pub(super) async fn prepare_all(&mut self, texts: &[String]) {
        let prepared = join_all(texts.iter().map(|text| self.client.prepare(text))).await;
        self.prepared
            .extend(texts.iter().zip(prepared).filter_map(|(text, one)| Some((text.clone(), one.ok()?))));
    }

    /// The texts that are prepared.
    pub(super) fn prepared_texts(&self) -> impl ExactSizeIterator<Item = &String> {
        self.prepared.keys()
    }

    /// The statement, prepared before or now.
    pub(super) async fn prepared(&mut self, text: &str) -> Result<Prepared> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        let prepared = self.client.prepare(text).await?;
        if self.prepared.len() >= PREPARED {
            self.prepared.clear();
        }
        self.prepared.insert(text.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Commits, and says truthfully what is known of it.
    ///
    /// A time limit must not end the wait for a synchronous standby: the server would say that it committed, with no
    /// more than a warning that no standby has it. The limit is taken off for that; whoever cancels the wait by hand
    /// brings about the same, so that a warning here counts as not knowing.
    /// `before` are words that are still to be said.
    pub(super) async fn commit(&self, before: &str) -> Result<()> {
        self.warned.store(false, Ordering::SeqCst);
        let commit = format!("{before}SET LOCAL statement_timeout = 0; COMMIT");
        match self.client.batch_execute(&commit).await {
            Ok(()) if self.warned.load(Ordering::SeqCst) => Err(StoreError::OutcomeUnknown),
            Ok(()) => Ok(()),
            Err(error) if leaves_commit_open(&error) => {
                tracing::warn!(store.error = %StoreError::from(error), "the server did not say whether it committed");
                Err(StoreError::OutcomeUnknown)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What a pooler that shares sessions looks like.
pub(super) fn pooled(sign: &str) -> StoreError {
    StoreError::Refused(format!(
        "{sign}: a connection pooler stands before PostgreSQL; connect to the server itself, or let the pooler give each client a session of its own and pass on startup parameters"
    ))
}

fn session_options(limit: Duration) -> String {
    let settings = [
        ("search_path", SCHEMA.to_owned()),
        ("statement_timeout", limit.as_millis().to_string()),
        ("lock_timeout", LOCK_WAIT.as_millis().to_string()),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION.as_millis().to_string()),
        ("default_transaction_isolation", r"read\ committed".to_owned()),
        // A commit that no standby has is told of by a warning.
        ("client_min_messages", "warning".to_owned()),
        // A plan that was made while a table was empty must not outlive that.
        ("plan_cache_mode", "force_custom_plan".to_owned()),
        ("jit", "off".to_owned()),
    ];
    settings.map(|(name, value)| format!("-c {name}={value}")).join(" ")
}

async fn connect<T>(
    config: &tokio_postgres::Config,
    tls: T,
    warned: &Arc<AtomicBool>,
    on_hint: Option<OnHint>,
) -> Result<(Client, AbortHandle)>
where
    T: MakeTlsConnect<Socket> + Send,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect(tls).await.map_err(refusal)?;
    let warned = Arc::clone(warned);
    let driver = tokio::spawn(async move {
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notice(notice))) if notice.code() == &SqlState::WARNING => {
                    warned.store(true, Ordering::SeqCst);
                }
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Some(on_hint) = &on_hint {
                        on_hint(notification.payload());
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    });
    Ok((client, driver.abort_handle()))
}

/// What does not go away by itself is told apart from what does.
fn refusal(error: tokio_postgres::Error) -> StoreError {
    let code = error.code().cloned();
    match code.as_ref().map(SqlState::code) {
        Some("08P01") => pooled(&format!("{}", StoreError::from(error))),
        Some(code) if code.starts_with("28") || code == "3D000" => {
            let told = error.as_db_error().map(|told| told.message().to_owned()).unwrap_or_default();
            StoreError::Refused(format!("the database server refuses the connection: {told}"))
        }
        _ => StoreError::from(error),
    }
}
