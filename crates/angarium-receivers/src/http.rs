//! An HTTP/1.1 receiver that follows a script.
//!
//! ```no_run
//! # async fn story() -> std::io::Result<()> {
//! use angarium_receivers::http::{Receiver, Reply};
//!
//! let receiver = Receiver::start().await?;
//! receiver.script("/hook", [Reply::status(503).header("retry-after", "7"), Reply::hang_up_after_body(), Reply::ok()]);
//! // … deliver three times to receiver.url("/hook") …
//! let requests = receiver.wait_for("/hook", 3).await;
//! assert_eq!(requests.iter().filter(|request| request.effect).count(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Each path has its own script: one [`Reply`] per request, in the order in which heads arrive; the last one
//! repeats for ever. A path without a script answers 204. Connections are kept alive unless a reply or the
//! client says otherwise, and every request names the connection it came on.
//!
//! Waiting is by signal, never by polling. A wait that nothing ends fails after [`WAIT_LIMIT`] and says what
//! had arrived, so that a broken promise shows as a failed test and not as a hung one.
//!
//! Deliberately absent: TLS, HTTP/2, `Expect: 100-continue`, and any check of what a request says.

mod bomb;
mod connection;
mod journal;
mod reply;
mod request;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

pub use crate::gate::Gate;
pub use journal::Received;
pub use reply::Reply;

use journal::Journal;

/// How long a wait for requests lasts before it fails: far beyond what a working test needs.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// One listener on loopback. Dropping it closes the port and every connection.
pub struct Receiver {
    addr: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

/// What the listener, its connections and the test's handle have in common.
struct Shared {
    scripts: Mutex<HashMap<String, VecDeque<Reply>>>,
    journal: Journal,
    gate: Gate,
    accepted: AtomicU64,
    refusals: AtomicU64,
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> io::Result<Receiver> {
        Receiver::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// Listens on `addr`: a receiver that comes back where an earlier one was dropped.
    ///
    /// # Errors
    /// When the address is taken or not of this machine.
    pub async fn start_at(addr: SocketAddr) -> io::Result<Receiver> {
        Receiver::over(TcpListener::bind(addr).await?)
    }

    /// Begins to listen on a socket that held its port until now: a receiver that comes late.
    ///
    /// # Errors
    /// When the socket cannot listen.
    pub fn start_on(socket: TcpSocket) -> io::Result<Receiver> {
        Receiver::over(socket.listen(1024)?)
    }

    fn over(listener: TcpListener) -> io::Result<Receiver> {
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            scripts: Mutex::default(),
            journal: Journal::default(),
            gate: Gate::opened(),
            accepted: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Ok(Receiver { addr, shared, listening })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT` and `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Replaces the script of `path` (without query): one reply per request, the last one for ever.
    pub fn script(&self, path: &str, steps: impl IntoIterator<Item = Reply>) {
        let mut scripts = self.shared.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        scripts.insert(path.to_owned(), steps.into_iter().collect());
    }

    /// Closes the next `count` connections as soon as they are accepted, before a byte is read.
    pub fn hang_up_on_accept(&self, count: u64) {
        self.shared.refusals.store(count, Ordering::SeqCst);
    }

    /// Lets requests in but keeps every answer back until [`Receiver::release`].
    pub fn hold(&self) {
        self.shared.gate.close();
    }

    /// Lets the answers that were held go, and all later ones.
    pub fn release(&self) {
        self.shared.gate.open();
    }

    /// Connections accepted so far, those hung up on included.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Every request so far, on all paths, in the order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.journal.all()
    }

    /// The requests on `path` that a real receiver would have acted upon: read to the end and then answered
    /// with 2xx, or read to the end and the answer lost. See [`Reply::effect`].
    pub fn effects(&self, path: &str) -> Vec<Received> {
        self.shared.journal.on(path).into_iter().filter(|request| request.effect).collect()
    }

    /// How many effects each `webhook-id` had on `path`; requests without one count under the empty id.
    pub fn effects_by_id(&self, path: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in self.effects(path) {
            *counts.entry(request.header("webhook-id").unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
        counts
    }

    /// Returns the requests on `path` once there are at least `count`.
    ///
    /// # Panics
    /// When that has not happened within [`WAIT_LIMIT`].
    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<Received> {
        let arrived = |all: &[Received]| all.iter().filter(|request| request.path == path).count() >= count;
        self.shared.journal.wait_until(&format!("{count} requests on {path}"), arrived).await;
        self.shared.journal.on(path)
    }

    /// Returns all requests once `enough` holds for them; it is asked again at each arrival.
    ///
    /// # Panics
    /// When that has not happened within [`WAIT_LIMIT`].
    pub async fn wait_until(&self, enough: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        self.shared.journal.wait_until("enough requests", enough).await;
        self.shared.journal.all()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Shared {
    /// The reply that the script of `path` has for its next request.
    fn next_reply(&self, path: &str) -> Reply {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        match scripts.get_mut(path) {
            Some(steps) if steps.len() > 1 => steps.pop_front().unwrap_or_default(),
            Some(steps) => steps.front().cloned().unwrap_or_default(),
            None => Reply::default(),
        }
    }

    /// Whether a connection just accepted is one of those to hang up on.
    fn refuses(&self) -> bool {
        self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

/// Accepts until aborted; the connections end with it.
async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        if !shared.refuses() {
            connections.spawn(connection::serve(stream, number, Arc::clone(&shared)));
        }
        while connections.try_join_next().is_some() {}
    }
}
