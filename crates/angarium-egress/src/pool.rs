//! Connections that wait for another request to the same endpoint.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;
use crate::dial::Endpoint;

/// Most idle connections over all endpoints.
const MAX_IDLE: usize = 256;

struct Idle {
    endpoint: Endpoint,
    connection: Connection,
    since: Instant,
}

/// Idle connections, the longest idle first.
pub(crate) struct Pool {
    idle: Mutex<VecDeque<Idle>>,
    idle_timeout: Duration,
    max_idle_per_host: usize,
}

impl Pool {
    pub(crate) fn new(idle_timeout: Duration, max_idle_per_host: usize) -> Self {
        Pool { idle: Mutex::default(), idle_timeout, max_idle_per_host }
    }

    /// The connection to `endpoint` that was used last, if one is young enough.
    pub(crate) fn take(&self, endpoint: &Endpoint) -> Option<Connection> {
        let mut idle = self.lock();
        self.drop_old(&mut idle);
        let found = idle.iter().rposition(|idle| idle.endpoint == *endpoint)?;
        idle.remove(found).map(|idle| idle.connection)
    }

    /// Keeps `connection` for another request. Whatever is one too many is closed.
    pub(crate) fn put(&self, endpoint: Endpoint, connection: Connection) {
        let mut idle = self.lock();
        self.drop_old(&mut idle);
        if idle.iter().filter(|idle| idle.endpoint == endpoint).count() >= self.max_idle_per_host {
            return;
        }
        if idle.len() >= MAX_IDLE {
            idle.pop_front();
        }
        idle.push_back(Idle { endpoint, connection, since: Instant::now() });
    }

    fn drop_old(&self, idle: &mut VecDeque<Idle>) {
        while idle.front().is_some_and(|idle| idle.since.elapsed() >= self.idle_timeout) {
            idle.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
