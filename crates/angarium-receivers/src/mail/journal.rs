//! What reached a mail server, in the order of arrival.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::body;
use super::envelope::Mailbox;
use crate::http::WAIT_LIMIT;

/// What the mails, commands and sessions of one receiver may take, in octets. When they do, mails are refused
/// with 452 4.3.1 and sessions ended with 421 4.3.2.
pub const JOURNAL_LIMIT: usize = 256 * 1024 * 1024;

/// What an entry counts beside its text.
const ENTRY: usize = 64;

/// One mail that came whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The [`Session::number`] it came in.
    pub session: u64,
    /// The running id, from 1, that the usual answer names; `None` for a mail that was refused at its end.
    pub queue_id: Option<u64>,
    /// From `MAIL`.
    pub sender: Mailbox,
    /// From each `RCPT` that was accepted, in their order.
    pub recipients: Vec<Mailbox>,
    /// As on the wire, dots stuffed, without the final one.
    pub raw: Vec<u8>,
    /// Whether a CR or LF stood alone.
    pub bare_line_ends: bool,
    /// Octets of the longest line, without its CRLF and without a stuffed dot.
    pub longest_line: usize,
    /// Whether there are octets beyond ASCII.
    pub eight_bit: bool,
}

impl Mail {
    /// The mail itself, as [`Mail::raw`] but with the stuffed dots gone.
    pub fn data(&self) -> Vec<u8> {
        body::unstuffed(&self.raw)
    }

    /// [`Mail::data`] as text; what is not UTF-8 shows as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data()).into_owned()
    }

    /// The addresses of the recipients.
    pub fn to(&self) -> Vec<&str> {
        self.recipients.iter().map(|recipient| recipient.address.as_str()).collect()
    }
}

/// One connection and what was said on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The first one accepted is 1.
    pub number: u64,
    /// Whether it is under TLS.
    pub tls: bool,
    /// The lines that the client sent, mails excepted, without line ends; AUTH with all its secrets. What is not
    /// UTF-8 shows as U+FFFD.
    pub commands: Vec<String>,
    /// What a careful client never does, in words; empty for a good one.
    ///
    /// A bare CR or LF; a line over 998 octets, a command over 512 (what extensions add to that is not granted);
    /// octets beyond ASCII that were not announced; what was not offered; commands out of order; anything sent
    /// before its time. RFC 2920 would let commands follow the final dot at once: here that is a sin, as the
    /// answer to the dot is the one that matters.
    pub sins: Vec<String>,
    /// Whether it is over, by whoever's doing.
    pub over: bool,
}

/// All that is written down.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) mails: Vec<Arc<Mail>>,
    pub(super) refused: Vec<Arc<Mail>>,
    pub(super) sessions: Vec<Session>,
}

#[derive(Debug)]
pub(super) struct Journal {
    book: Mutex<Book>,
    pub(super) room: Room,
    /// Touched after each entry; carries nothing, whoever wakes looks for itself.
    entries: watch::Sender<()>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal { book: Mutex::default(), room: Room::of(JOURNAL_LIMIT), entries: watch::Sender::new(()) }
    }
}

impl Journal {
    /// Begins a session and gives its number; `None` when there is no room.
    pub(super) fn begin(&self) -> Option<u64> {
        self.write(ENTRY, |book| {
            let number = book.sessions.len() as u64 + 1;
            let (commands, sins) = (Vec::new(), Vec::new());
            book.sessions.push(Session { number, tls: false, commands, sins, over: false });
            number
        })
    }

    /// Notes a command as it came; false when there is no room.
    pub(super) fn command(&self, session: u64, line: &str) -> bool {
        self.write(ENTRY + line.len(), |book| book.session(session).commands.push(line.to_owned())).is_some()
    }

    /// Notes a sin, as long as there is room.
    pub(super) fn sin(&self, session: u64, sin: String) {
        self.write(ENTRY + sin.len(), |book| book.session(session).sins.push(sin));
    }

    pub(super) fn secured(&self, session: u64) {
        self.write(0, |book| book.session(session).tls = true);
    }

    pub(super) fn over(&self, session: u64) {
        self.write(0, |book| book.session(session).over = true);
    }

    /// Files a mail, whose room was taken as it came, and gives the queue id if it is `taken`.
    pub(super) fn file(&self, mut mail: Mail, taken: bool) -> Option<u64> {
        self.write(0, |book| {
            mail.queue_id = taken.then_some(book.mails.len() as u64 + 1);
            let queue_id = mail.queue_id;
            let shelf = if taken { &mut book.mails } else { &mut book.refused };
            shelf.push(Arc::new(mail));
            queue_id
        })?
    }

    pub(super) fn mails(&self) -> Vec<Arc<Mail>> {
        self.read().mails.clone()
    }

    pub(super) fn refused(&self) -> Vec<Arc<Mail>> {
        self.read().refused.clone()
    }

    pub(super) fn sessions(&self) -> Vec<Session> {
        self.read().sessions.clone()
    }

    #[expect(clippy::panic, reason = "a wait that nothing ends must fail its test, with what had arrived")]
    pub(super) async fn wait_until(&self, what: &str, enough: impl Fn(&Book) -> bool) {
        let mut entries = self.entries.subscribe();
        let arrived = async {
            // The sender lives in `self`, so `changed` cannot fail.
            while !enough(&self.read()) && entries.changed().await.is_ok() {}
        };
        if tokio::time::timeout(WAIT_LIMIT, arrived).await.is_err() {
            let book = self.read();
            let (taken, refused) = (book.mails.len(), book.refused.len());
            let sessions = &book.sessions;
            panic!(
                "waited {WAIT_LIMIT:?} for {what}; {taken} mails taken, {refused} refused, sessions: {sessions:#?}"
            );
        }
    }

    fn read(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, octets: usize, entry: impl FnOnce(&mut Book) -> T) -> Option<T> {
        if !self.room.take(octets) {
            return None;
        }
        let written = entry(&mut self.read());
        self.entries.send_replace(());
        Some(written)
    }
}

impl Book {
    /// The session of this number, which [`Journal::begin`] gave.
    fn session(&mut self, number: u64) -> &mut Session {
        &mut self.sessions[number as usize - 1]
    }
}

/// How much may still be kept, in octets.
#[derive(Debug)]
pub(super) struct Room(AtomicUsize);

impl Room {
    pub(super) fn of(octets: usize) -> Room {
        Room(AtomicUsize::new(octets))
    }

    /// Takes so many octets; false, and nothing taken, when there are fewer.
    pub(super) fn take(&self, octets: usize) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(octets)).is_ok()
    }

    pub(super) fn give_back(&self, octets: usize) {
        self.0.fetch_add(octets, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_journal_begins_no_session_and_notes_no_command() {
        let journal = Journal { room: Room::of(2 * ENTRY + 5), ..Journal::default() };
        assert_eq!(journal.begin(), Some(1));
        assert!(journal.command(1, "NOOP"));
        assert!(!journal.command(1, ""));
        assert_eq!(journal.begin(), None);
        journal.sin(1, "one too many".to_owned());
        let [session] = journal.sessions().try_into().unwrap();
        assert_eq!((session.commands, session.sins), (vec!["NOOP".to_owned()], Vec::new()));
    }
}
