//! Sessions that wait for their next message. One that waited too long is ended politely, so that the relay need
//! not end it first.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::session::Session;

/// How long a session may wait; relays wait for minutes.
const IDLE: Duration = Duration::from_secs(30);

/// How long saying goodbye may take.
pub(crate) const GOODBYE: Duration = Duration::from_secs(5);

/// The idle sessions of one channel.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Arc<Mutex<Idle>>,
    members: Arc<Members>,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<Session>,
    swept: bool,
}

/// The sessions of one channel, idle or not.
#[derive(Default)]
struct Members {
    count: AtomicUsize,
    /// Told when a session comes back, and when one ends.
    change: Notify,
}

/// What a session holds as long as it lives.
pub(crate) struct Membership(Arc<Members>);

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.change.notify_one();
    }
}

/// What a message finds that waited because the relay took no more sessions.
pub(crate) enum Change {
    /// One came back.
    Back(Box<Session>),
    /// One ended: there may be room for another.
    Ended,
}

impl Pool {
    /// The session that was used last, if one waits. One that waited too long is ended.
    pub(crate) fn take(&self) -> Option<Session> {
        let mut session = lock(&self.idle).sessions.pop()?;
        if session.idle_since.elapsed() >= IDLE {
            tokio::spawn(session.quit(GOODBYE));
            return None;
        }
        session.reused = true;
        Some(session)
    }

    /// Counts a session that was opened as one of this channel's, as long as it lives.
    pub(crate) fn adopt(&self, session: Session) -> Session {
        self.members.count.fetch_add(1, Ordering::Relaxed);
        Session { _membership: Some(Membership(Arc::clone(&self.members))), ..session }
    }

    /// Whether any session of this channel lives.
    pub(crate) fn has_sessions(&self) -> bool {
        self.members.count.load(Ordering::Relaxed) > 0
    }

    /// The next session that comes back before `deadline`.
    pub(crate) async fn back(&self, deadline: Instant) -> Option<Session> {
        loop {
            if let Change::Back(session) = self.change(deadline).await? {
                return Some(*session);
            }
        }
    }

    /// Waits until a session comes back or ends, but not beyond `deadline`; none at once if there is none that could.
    pub(crate) async fn change(&self, deadline: Instant) -> Option<Change> {
        let mut change = pin!(self.members.change.notified());
        change.as_mut().enable();
        if let Some(session) = self.take() {
            return Some(Change::Back(Box::new(session)));
        }
        if !self.has_sessions() {
            return None;
        }
        timeout_at(deadline, change).await.ok()?;
        Some(self.take().map_or(Change::Ended, |session| Change::Back(Box::new(session))))
    }

    /// Keeps a session for the next message, at most `most` of them.
    pub(crate) fn put(&self, mut session: Session, most: usize) {
        session.idle_since = Instant::now();
        session.wire.tell(None);
        let mut idle = lock(&self.idle);
        if idle.sessions.len() >= most {
            drop(idle);
            tokio::spawn(session.quit(GOODBYE));
            return;
        }
        idle.sessions.push(session);
        self.members.change.notify_one();
        if !std::mem::replace(&mut idle.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.idle)));
        }
    }
}

/// Ends sessions that waited too long, until none is left.
async fn sweep(pool: Weak<Mutex<Idle>>) {
    loop {
        tokio::time::sleep(IDLE / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let (ended, go_on) = {
            let mut idle = lock(&pool);
            let too_long = |session: &mut Session| session.idle_since.elapsed() >= IDLE;
            let ended: Vec<Session> = idle.sessions.extract_if(.., too_long).collect();
            idle.swept = !idle.sessions.is_empty();
            (ended, idle.swept)
        };
        for session in ended {
            session.quit(GOODBYE).await;
        }
        if !go_on {
            return;
        }
    }
}

fn lock(pool: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}
