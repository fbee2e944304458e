//! Small units of work of many producers, joined into one: on PostgreSQL each transaction is a handful of journeys over
//! the network and a commit, whoever is in it. SQLite's writer lets them share a commit anyway, so that there nothing
//! is joined.
//!
//! A batch is what is queued now: nothing waits for a batch to fill.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Db, INGEST_LIMIT, Op};
use crate::error::{Result, StoreError};

/// Units of work that may wait before new ones are turned away.
const QUEUE: usize = 8192;
/// Those that work side by side: while one commits, another gathers.
const WORKERS: usize = 2;
/// A batch takes no more once it writes about this many rows.
const BATCH_ROWS: usize = 2048;

/// An `Op` over independent items, so that two of them are one over the items of both.
pub(crate) trait Joinable: Op {
    /// How many items it holds.
    fn items(&self) -> usize;

    /// Takes in the items of another, after its own.
    fn join(&mut self, other: Self);

    /// Takes what was found for the first `items` items out of what was found for all.
    fn take(found: &mut Self::Output, items: usize) -> Self::Output;
}

/// Where producers hand in their work.
pub(crate) enum Joined<O: Joinable> {
    /// Each as it comes.
    Apart,
    Queue {
        queue: mpsc::Sender<Waiting<O>>,
        _workers: JoinSet<()>,
    },
}

/// One unit of work, and who waits for it.
pub(crate) struct Waiting<O: Op> {
    op: O,
    reply: oneshot::Sender<Result<O::Output>>,
}

impl<O: Joinable> Joined<O> {
    pub(crate) fn over(db: &Arc<Db>) -> Self {
        if db.shared().is_none() {
            return Joined::Apart;
        }
        let (queue, waiting) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(work(Arc::clone(db), Arc::clone(&waiting)));
        }
        Joined::Queue { queue, _workers: workers }
    }

    /// Returns once it is durable. Turned away when too much waits already.
    pub(crate) async fn write(&self, db: &Db, op: O) -> Result<O::Output> {
        let queue = match self {
            Joined::Apart => return db.write_for_ingest(op).await,
            Joined::Queue { queue, .. } => queue,
        };
        let (reply, answer) = oneshot::channel();
        queue.try_send(Waiting { op, reply }).map_err(|_| StoreError::Overloaded)?;
        match tokio::time::timeout(INGEST_LIMIT, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(StoreError::Unavailable("it is closed".into()))),
            // It may be in the batch that is under way.
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }
}

async fn work<O: Joinable>(db: Arc<Db>, waiting: Arc<Mutex<mpsc::Receiver<Waiting<O>>>>) {
    while let Some((op, shares)) = gather(&waiting).await {
        match db.write_for_ingest(op).await {
            Ok(mut found) => {
                for (items, reply) in shares {
                    let _nobody_waits_any_more = reply.send(Ok(O::take(&mut found, items)));
                }
            }
            Err(error) => {
                for (_, reply) in shares {
                    let _nobody_waits_any_more = reply.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Who waits for how many of the items.
type Shares<O> = Vec<(usize, oneshot::Sender<Result<<O as Op>::Output>>)>;

/// Whatever is queued by now, as one; none when nobody can hand in any more.
async fn gather<O: Joinable>(waiting: &Mutex<mpsc::Receiver<Waiting<O>>>) -> Option<(O, Shares<O>)> {
    let mut waiting = waiting.lock().await;
    let Waiting { mut op, reply } = loop {
        let next = waiting.recv().await?;
        if !next.reply.is_closed() {
            break next;
        }
    };
    let mut shares = vec![(op.items(), reply)];
    let mut rows = op.weight();
    while rows < BATCH_ROWS
        && let Ok(next) = waiting.try_recv()
    {
        // Nobody waits for it any more.
        if next.reply.is_closed() {
            continue;
        }
        rows += next.op.weight();
        shares.push((next.op.items(), next.reply));
        op.join(next.op);
    }
    Some((op, shares))
}
