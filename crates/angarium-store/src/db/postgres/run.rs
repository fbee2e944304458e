//! One unit of work on PostgreSQL, from its beginning to a known end.
//!
//! - What loses against somebody else (a deadlock, a lock that is not let go of) or finds its connection dead before
//!   it commits is run again from its beginning, a few times, within the limit.
//! - It runs as a task: whoever asked may go away without cutting off a transaction in its middle.
//! - A commit that is not answered within the limit is reported as not known. Its connection is not dropped as long as the
//!   server is at work for it (it waits for a standby, say): if others took its place their number would grow without bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::pool::{Lent, Pool};
use super::tx::Tx;
use crate::db::{Op, tx};
use crate::error::{Result, StoreError};

/// How often one unit of work is begun at most.
const TRIES: u32 = 5;
/// The pause before it is begun again, doubled each time, plus chance.
const PAUSE: Duration = Duration::from_millis(10);

/// How a unit of work sees the database.
#[derive(Clone, Copy)]
pub(super) enum View {
    /// A transaction that writes.
    Writing,
    /// One snapshot, which is only read.
    Snapshot,
    /// Each statement on its own: for questions whose answers are checked again anyway.
    Loose,
}

impl View {
    fn begin(self) -> Option<&'static str> {
        match self {
            View::Writing => Some("BEGIN"),
            View::Snapshot => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            View::Loose => None,
        }
    }
}

/// Runs it, however often that takes.
pub(super) async fn run<O: Op>(pool: &Arc<Pool>, op: O, view: View) -> Result<O::Output> {
    let pool = Arc::clone(pool);
    let work = tokio::spawn(async move {
        let deadline = Instant::now() + pool.limit;
        let mut tries = 1;
        let mut lost_to = None;
        loop {
            let lent = pool.lend(deadline).await?;
            let cause = match once(lent, &op, view, deadline).await {
                Ok(found) => return Ok(found),
                Err(Ended::ForGood(error)) => return Err(error),
                Err(Ended::MayBeginAgain(error)) => error,
            };
            // A try that is cut off after others lost would have lost too.
            let cause = match (cause, lost_to.take()) {
                (StoreError::QueryTimeout, Some(earlier)) => earlier,
                (cause, _) => cause,
            };
            let pause = PAUSE * 2u32.pow(tries) + spread();
            if tries == TRIES || Instant::now() + pause >= deadline {
                return Err(cause);
            }
            tries += 1;
            lost_to = matches!(cause, StoreError::Contended(_)).then_some(cause);
            tokio::time::sleep(pause).await;
        }
    });
    work.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the work on it was cut off".into())))
}

/// Spreads out those who lost at the same time.
fn spread() -> Duration {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed).wrapping_add(u64::from(std::process::id()));
    Duration::from_millis(turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59)
}

/// How a try that failed ended.
enum Ended {
    /// Nothing of it stands, and another try may fare better.
    MayBeginAgain(StoreError),
    ForGood(StoreError),
}

async fn once<O: Op>(mut lent: Lent, op: &O, view: View, deadline: Instant) -> Result<O::Output, Ended> {
    let outdated = lent.outdated();
    let worked = tokio::select! {
        worked = timeout_at(deadline, work(&mut lent, op, view)) => worked.unwrap_or(Err(StoreError::QueryTimeout)),
        () = outdated => Err(StoreError::Unavailable("another server took over".into())),
    };
    let (found, unsaid) = match worked {
        Ok(worked) => worked,
        Err(error) => return Err(give_up(lent, error, view, deadline).await),
    };
    match view {
        View::Writing => commit(lent, unsaid, deadline).await.map(|()| found),
        View::Snapshot => {
            if matches!(timeout_at(deadline, lent.say("COMMIT")).await, Ok(Ok(()))) {
                lent.keep();
            }
            Ok(found)
        }
        View::Loose => {
            lent.keep();
            Ok(found)
        }
    }
}

/// What was found, and the words that are still to be said.
async fn work<O: Op>(lent: &mut Lent, op: &O, view: View) -> Result<(O::Output, String)> {
    let mut tx = tx::Tx::Postgres(Tx::on(lent, view.begin()));
    let found = op.run(&mut tx).await?;
    match tx {
        tx::Tx::Postgres(tx) => Ok((found, tx.sound()?)),
        tx::Tx::Sqlite(_) => unreachable!("it was made a line above"),
    }
}

async fn commit(lent: Lent, unsaid: String, deadline: Instant) -> Result<(), Ended> {
    let distrust = lent.distrust();
    let mut committing = tokio::spawn(async move {
        let committed = tokio::select! {
            committed = lent.commit(&unsaid) => committed,
            () = lent.outdated() => return Err(StoreError::OutcomeUnknown),
            () = lent.forsaken() => return Err(StoreError::OutcomeUnknown),
        };
        if committed.is_ok() {
            lent.keep();
        }
        committed
    });
    match timeout_at(deadline, &mut committing).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error @ StoreError::Contended(_)))) => Err(Ended::MayBeginAgain(error)),
        Ok(Ok(Err(error))) => Err(Ended::ForGood(error)),
        // The task goes on by itself and holds its connection until the server has said something or does nothing for it
        // any more, or another server took over.
        Ok(Err(_)) | Err(_) => {
            distrust();
            Err(Ended::ForGood(StoreError::OutcomeUnknown))
        }
    }
}

async fn give_up(lent: Lent, error: StoreError, view: View, deadline: Instant) -> Ended {
    let died = lent.is_closed() || lent.is_outdated();
    // A statement that is cut off is still running: its connection ends with it.
    let undone = match view.begin() {
        _ if died || matches!(error, StoreError::Unavailable(_)) => false,
        Some(_) => matches!(timeout_at(deadline, lent.say("ROLLBACK")).await, Ok(Ok(()))),
        None => error != StoreError::QueryTimeout,
    };
    if undone {
        lent.keep();
    } else if error == StoreError::QueryTimeout {
        lent.distrust()();
    }
    match error {
        StoreError::Contended(_) => Ended::MayBeginAgain(error),
        // Nothing was committed: the server undoes what its lost connection had begun.
        StoreError::Unavailable(_) if died => Ended::MayBeginAgain(error),
        StoreError::QueryTimeout if matches!(view, View::Writing) => Ended::MayBeginAgain(error),
        error => Ended::ForGood(error),
    }
}
