//! Connections that are kept and lent out. Ours and not a library's, because how a connection is given back decides
//! what is true: one whose commit is still open must not be dropped (see [`mod@super::run`]), and after a failover all of
//! them must go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::url::PostgresUrl;
use crate::error::{Result, StoreError};

/// How often the server is asked about a commit that it does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Statements that a new connection prepares at once, at most.
const POPULAR: usize = 64;

/// So many connections at most, all set alike.
pub(super) struct Pool {
    url: PostgresUrl,
    /// The longest that one statement may take.
    statement_limit: Duration,
    /// The longest that a whole unit of work may take, the wait for a connection included.
    pub(super) limit: Duration,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    /// One question about a commit that hangs at a time.
    asking: tokio::sync::Mutex<()>,
    /// What connections had prepared: a new one prepares it at once instead of one after the other.
    popular: Mutex<Vec<String>>,
}

/// A connection that was lent out. When this is dropped it goes back if it was [`Lent::keep`]t, and else ends.
pub(super) struct Lent {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    kept: bool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(
        url: &PostgresUrl,
        connections: usize,
        statement_limit: Duration,
        limit: Duration,
    ) -> Arc<Self> {
        Arc::new(Pool {
            url: url.clone(),
            statement_limit,
            limit,
            permits: Arc::new(Semaphore::new(connections)),
            idle: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            popular: Mutex::default(),
        })
    }

    /// A connection, by `deadline`. `Overloaded` if all are busy until then.
    pub(super) async fn lend(self: &Arc<Self>, deadline: Instant) -> Result<Lent> {
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| StoreError::Overloaded)?.map_err(|_| super::closed())?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => {
                let late = || StoreError::Unavailable("connecting took too long".into());
                timeout_at(deadline, self.open()).await.map_err(|_| late())??
            }
        };
        Ok(Lent { connection: Some(connection), pool: Arc::clone(self), kept: false, _permit: permit })
    }

    /// Whether the server is at work for this process of its, as another connection sees it. Yes if that cannot be asked.
    pub(super) async fn is_at_work(&self, process: i32) -> bool {
        const AT_WORK: &str =
            "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event IS DISTINCT FROM 'ClientRead'";
        let _one_at_a_time = self.asking.lock().await;
        let Ok(beside) = Connection::open(&self.url, self.statement_limit, None).await else { return true };
        let asked =
            tokio::time::timeout(self.statement_limit, beside.client.query_opt(AT_WORK, &[&process])).await;
        !matches!(asked, Ok(Ok(None)))
    }

    async fn open(&self) -> Result<Connection> {
        let mut connection = Connection::open(&self.url, self.statement_limit, None).await?;
        let popular = self.popular.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connection.prepare_all(&popular).await;
        Ok(connection)
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(connection) = idle.pop() {
            if self.is_current(&connection) && !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Whether no other server has taken over since it was made.
    fn is_current(&self, connection: &Connection) -> bool {
        connection.timeline == *self.url.timeline.borrow()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Returns once the server does nothing for it any more, though no answer came: a connection that died without a word.
    pub(super) async fn forsaken(&self) {
        let process = self.process;
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if !self.pool.is_at_work(process).await {
                return;
            }
        }
    }

    /// What is to be done if it does not answer in time: what is idle may be as silent, and of several hosts another is
    /// tried first.
    pub(super) fn distrust(&self) -> impl Fn() + Send + Sync + use<> {
        let (pool, host) = (Arc::clone(&self.pool), self.host);
        move || {
            pool.lock().clear();
            pool.url.turn_away_from(host);
        }
    }

    /// Returns once another server has taken over.
    pub(super) fn outdated(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut newest, timeline) = (self.pool.url.timeline.subscribe(), self.timeline);
        async move {
            let _the_pool_is_gone = newest.wait_for(|newest| *newest != timeline).await;
        }
    }

    pub(super) fn is_outdated(&self) -> bool {
        !self.pool.is_current(self)
    }

    /// Nothing is open on it: it may be lent out again.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl std::ops::Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("it is taken out only when this is dropped"))
    }
}

impl std::ops::DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().unwrap_or_else(|| unreachable!("it is taken out only when this is dropped"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.kept && !connection.is_closed() && self.pool.is_current(&connection) {
            let mut popular = self.pool.popular.lock().unwrap_or_else(PoisonError::into_inner);
            if popular.len() < connection.prepared_texts().len().min(POPULAR) {
                *popular = connection.prepared_texts().take(POPULAR).cloned().collect();
            }
            self.pool.lock().push(connection);
        }
    }
}
