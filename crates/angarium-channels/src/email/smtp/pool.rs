//! Sessions that wait for their next message. One that waited too long is ended politely, so that the relay need
//! not end it first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::session::Session;

/// How long a session may wait; relays wait for minutes.
const IDLE: Duration = Duration::from_secs(30);

/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// The idle sessions of one channel.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Arc<Mutex<Idle>>,
    /// Told of each session that comes back.
    back: Notify,
    /// Held by every session of this channel, idle or not.
    sessions: Arc<()>,
}

#[derive(Default)]
struct Idle {
    sessions: Vec<Session>,
    swept: bool,
}

impl Pool {
    /// The session that was used last, if one waits.
    pub(crate) fn take(&self) -> Option<Session> {
        let session = lock(&self.idle).sessions.pop()?;
        let fresh = session.idle_since.elapsed() < IDLE;
        fresh.then_some(Session { reused: true, ..session })
    }

    /// What a session of this channel holds as long as it lives.
    pub(crate) fn membership(&self) -> Arc<()> {
        Arc::clone(&self.sessions)
    }

    /// A session that comes back before `deadline`, for a relay that takes no more of them; none at once if there is
    /// none that could.
    pub(crate) async fn take_before(&self, deadline: Instant) -> Option<Session> {
        while Arc::strong_count(&self.sessions) > 1 {
            let back = self.back.notified();
            if let Some(session) = self.take() {
                return Some(session);
            }
            timeout_at(deadline, back).await.ok()?;
        }
        None
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
        self.back.notify_one();
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
