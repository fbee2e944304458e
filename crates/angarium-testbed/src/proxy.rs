//! A proxy between a client and a server that does to their connections what networks do: stall one way or both,
//! delay, reset, refuse, and break off between a request and its answer.
//!
//! Each connection has two threads, one per direction, which read a chunk, pass the gate where all faults are decided
//! ([`state`]), and write it. What one side closes or resets is closed or reset on the other, unless that way is frozen.
//!
//! Deliberately absent: knowledge of what flows through. Bytes that are watched for must be legible, so not within TLS.

mod link;
mod state;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use link::Link;
use state::{Switch, Trap};

/// The most connections at a time; further ones are refused.
const CONNECTIONS: usize = 500;

/// How long the server may take to accept.
const CONNECTING: Duration = Duration::from_secs(10);

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What the client sends.
    ToServer,
    /// What the server sends.
    ToClient,
    /// What either sends.
    Both,
}

/// A proxy on a port of its own. Dropping it resets all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    switch: Arc<Switch>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and connects everyone to `server`. Panics if there is no port.
    pub fn start(server: SocketAddr) -> Self {
        Self::try_start(server).unwrap_or_else(|error| panic!("no proxy to {server}: {error}"))
    }

    fn try_start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let switch = Arc::new(Switch::default());
        let accepting = std::thread::Builder::new().spawn({
            let switch = Arc::clone(&switch);
            move || accept(&listener, server, &switch)
        })?;
        Ok(Proxy { address, switch, accepting: Some(accepting) })
    }

    /// Where clients connect to instead of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back what flows in this direction from now on, the end of a connection included. Nothing is closed and
    /// nothing is lost.
    pub fn freeze(&self, direction: Direction) {
        self.switch.change(|state| state.set_frozen(direction, true));
    }

    /// Lets flow what was held back.
    pub fn thaw(&self, direction: Direction) {
        self.switch.change(|state| state.set_frozen(direction, false));
    }

    /// Holds back each chunk from the server for so long; zero ends it.
    pub fn delay(&self, delay: Duration) {
        self.switch.change(|state| state.delay = delay);
    }

    /// Resets all connections, frozen ones too. Returns when they are gone.
    pub fn cut(&self) {
        self.switch.cut();
    }

    /// Whether new connections are reset as soon as they are made.
    pub fn refuse(&self, on: bool) {
        self.switch.change(|state| state.refuse = on);
    }

    /// As [`cut_after_next`](Self::cut_after_next), at the first occurrence.
    pub fn cut_after(&self, bytes: &[u8]) {
        self.cut_after_next(bytes, 1);
    }

    /// Cuts a connection, once, when a client sends `bytes` for the `n`th time from now on, counted over all
    /// connections: the server still gets them and whatever came in the same chunk, and may well act upon them; the
    /// client gets a reset instead of an answer. A later call replaces an earlier one.
    pub fn cut_after_next(&self, bytes: &[u8], n: usize) {
        assert!(!bytes.is_empty() && n > 0, "nothing to wait for");
        self.switch.change(|state| state.trap = Some(Trap { bytes: bytes.to_owned(), left: n }));
    }

    /// How many connections were cut, for whichever of these reasons.
    pub fn cuts(&self) -> usize {
        self.switch.look(|state| state.cuts)
    }

    /// Waits until so many connections were cut in all. Panics if it takes minutes.
    pub fn await_cuts(&self, cuts: usize) {
        self.switch.await_state("cuts", |state| state.cuts >= cuts);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.switch.look(|state| state.links.len())
    }

    /// Waits until so many connections are open, no more and no less. Panics if it takes minutes.
    pub fn await_connections(&self, connections: usize) {
        self.switch.await_state("connections", |state| state.links.len() == connections);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switch.change(|state| state.closing = true);
        // Wakes the thread that accepts; it looks, and leaves.
        let _woken = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _panicked = accepting.join();
        }
        self.switch.cut();
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, switch: &Arc<Switch>) {
    while let Ok((client, _)) = listener.accept() {
        if switch.look(|state| state.closing) {
            return;
        }
        if switch.look(|state| state.refuse || state.links.len() >= CONNECTIONS) {
            link::reset(&client);
            continue;
        }
        match TcpStream::connect_timeout(&server, CONNECTING) {
            Ok(server) => switch.connect(Link::new(client, server)),
            Err(_) => link::reset(&client),
        }
    }
}
