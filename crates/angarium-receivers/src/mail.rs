//! An SMTP server that follows a script.
//!
//! ```no_run
//! # async fn story() -> std::io::Result<()> {
//! use angarium_receivers::mail::{Options, Phase, Receiver, Reply};
//!
//! let receiver = Receiver::start(Options::default()).await?;
//! receiver.script(Phase::Final, [Reply::text("451 4.3.0 later"), Reply::hang_up().taking()]);
//! receiver.refuse_rcpt("nobody@example.com", "550 5.1.1 no such user");
//! // … hand two mails to receiver.address() …
//! let mails = receiver.mail_count_reaches(1).await;
//! assert_eq!(mails[0].recipients[0].address, "a@example.com");
//! assert!(receiver.sessions().iter().all(|session| session.sins.is_empty()));
//! # Ok(())
//! # }
//! ```
//!
//! Left alone it is a correct and generous server: it takes every mail and answers with a running queue id. A
//! script changes single answers: one [`Reply`] per answer of a [`Phase`], then normal again. What an answer
//! says is what happens: a recipient refused by script is not in the envelope, a mail refused by script is not
//! among [`Receiver::mails`] but among [`Receiver::refused`].
//!
//! The journal has every command as it came and every mail as bytes, and it names the sins: what a careful
//! client never does, although this server may let it pass. For measuring there is [`Sink`], which only counts.
//!
//! All that a client can make it keep is bounded: the length of a line, of a mail, and of the whole journal.
//! A full journal takes no more mail and says so; it forgets nothing.
//!
//! Deliberately absent: relaying, storage, `CHUNKING`, password schemes with a challenge, and time limits.

mod auth;
mod body;
mod envelope;
mod journal;
mod options;
mod script;
mod session;
mod sink;
mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

pub use crate::gate::Gate;
pub use envelope::Mailbox;
pub use journal::{JOURNAL_LIMIT, Mail, Session};
pub use options::{Auth, MAIL_LIMIT, Mechanism, Options, Tls};
pub use script::{Phase, Reply};
pub use sink::Sink;

use journal::Journal;
use script::Script;

/// How many sessions go on at a time; whoever comes later waits to be accepted.
const SESSIONS_AT_A_TIME: usize = 1024;

/// One listener on loopback. Dropping it closes the port and every session.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

/// What the listener, its sessions and the test's handle have in common.
struct Shared {
    options: Options,
    script: Mutex<Script>,
    journal: Journal,
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(options: Options) -> io::Result<Receiver> {
        Receiver::start_on(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options).await
    }

    /// Listens on `address`: for the demo, or to come back where an earlier receiver was dropped.
    ///
    /// # Errors
    /// When the address is taken or not of this machine.
    pub async fn start_on(address: SocketAddr, options: Options) -> io::Result<Receiver> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { options, script: Mutex::default(), journal: Journal::default() });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Ok(Receiver { address, shared, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the script of `phase`: one reply per answer, whichever session asks; normal after the last.
    pub fn script(&self, phase: Phase, steps: impl IntoIterator<Item = Reply>) {
        self.scripts(|script| script.set(phase, steps.into_iter().collect()));
    }

    /// Replaces the script for `RCPT` of this very address. While it lasts, that of [`Phase::Rcpt`] waits.
    pub fn script_rcpt(&self, address: &str, steps: impl IntoIterator<Item = Reply>) {
        self.scripts(|script| script.set_rcpt(address, steps.into_iter().collect()));
    }

    /// From now on `RCPT` of this very address is answered with `text`, such as `550 5.1.1 no such user`,
    /// unless a script says otherwise.
    pub fn refuse_rcpt(&self, address: &str, text: &str) {
        self.scripts(|script| script.refuse_rcpt(address, text));
    }

    /// From now on a transaction has at most `count` recipients; those after them are answered with `text`, such
    /// as `452 4.5.3 too many recipients`.
    pub fn limit_rcpt(&self, count: usize, text: &str) {
        self.scripts(|script| script.limit_rcpt(count, text));
    }

    /// The mails taken so far, in the order of their queue ids.
    pub fn mails(&self) -> Vec<Arc<Mail>> {
        self.shared.journal.mails()
    }

    /// The mails that came whole, to the final dot, and were refused then.
    pub fn refused(&self) -> Vec<Arc<Mail>> {
        self.shared.journal.refused()
    }

    /// The sessions so far, in the order in which they were accepted.
    pub fn sessions(&self) -> Vec<Session> {
        self.shared.journal.sessions()
    }

    /// Returns the mails taken once there are at least `count`. A mail is there before its answer is sent, so
    /// that an answer behind a [`Gate`] does not hold up this wait.
    ///
    /// # Panics
    /// When that has not happened within [`WAIT_LIMIT`](crate::http::WAIT_LIMIT).
    pub async fn mail_count_reaches(&self, count: usize) -> Vec<Arc<Mail>> {
        self.shared.journal.wait_until(&format!("{count} mails"), |book| book.mails.len() >= count).await;
        self.mails()
    }

    /// Returns the sessions once there are at least `count`, over or not.
    ///
    /// # Panics
    /// When that has not happened within [`WAIT_LIMIT`](crate::http::WAIT_LIMIT).
    pub async fn sessions_reach(&self, count: usize) -> Vec<Session> {
        self.wait_until(|sessions| sessions.len() >= count).await
    }

    /// Returns the sessions once `enough` holds for them; it is asked again at every command, sin and end.
    ///
    /// # Panics
    /// When that has not happened within [`WAIT_LIMIT`](crate::http::WAIT_LIMIT).
    pub async fn wait_until(&self, enough: impl Fn(&[Session]) -> bool) -> Vec<Session> {
        self.shared.journal.wait_until("enough from the sessions", |book| enough(&book.sessions)).await;
        self.sessions()
    }

    fn scripts(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.shared.script.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Accepts until aborted; the sessions end with it.
async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut sessions = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        sessions.spawn(session::serve(stream, Arc::clone(&shared)));
        while sessions.try_join_next().is_some() {}
        if sessions.len() >= SESSIONS_AT_A_TIME {
            sessions.join_next().await;
        }
    }
}
