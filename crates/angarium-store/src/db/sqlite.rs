//! SQLite: one thread that writes, a few that read.
//!
//! Everything that changes the database is a job in one queue. The writer takes what is queued, runs each job
//! inside a savepoint of one transaction, commits, and only then answers all of them: producers, claims and
//! settlements share one `fdatasync`, a failed job harms no other, and nobody hears of success before it is
//! durable. Under light load a batch is one job and nothing waits.
//!
//! After an I/O error the connection is not trusted any more: it is closed, reopened and checked before
//! another job is taken. A full disk needs no such care; it heals when there is space.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::dialect::Dialect;
use super::open::{self, ProcessLock};
use super::options::{DatabaseStatus, Migrated, Options};
use super::writer::Writer;
use super::{Op, Row, Statement, Value, tx};
use crate::error::{Result, StoreError};

/// Jobs that may wait for the writer before new ones are turned away.
const WRITE_QUEUE: usize = 8192;
/// Questions that may wait for a reader before new ones are turned away.
const READ_QUEUE: usize = 1024;
/// How many steps of SQLite's virtual machine pass between two looks at a question's deadline.
const STEPS_BETWEEN_LOOKS: i32 = 20_000;

/// An open transaction.
pub(crate) struct Tx<'c> {
    pub(super) connection: &'c mut Connection,
    /// How many commits have failed: what was read inside of one was never so.
    pub(super) timeline: i64,
}

/// Counts the commits that failed.
pub(super) type FailedCommits = Arc<AtomicI64>;

impl Tx<'_> {
    pub(super) fn execute(&mut self, statement: &Statement, params: &[Value<'_>]) -> Result<usize> {
        let mut statement = self.connection.prepare_cached(statement.said_by(Dialect::Sqlite))?;
        bind(&mut statement, params)?;
        Ok(statement.raw_execute()?)
    }

    pub(super) fn query<T>(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(statement.said_by(Dialect::Sqlite))?;
        bind(&mut statement, params)?;
        let mut rows = statement.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(map(&Row::Sqlite(row))?);
        }
        Ok(found)
    }

    /// Runs a word of transactions, such as `SAVEPOINT item`.
    pub(super) fn say(&mut self, word: &str) -> Result<()> {
        self.connection.prepare_cached(word)?.raw_execute()?;
        Ok(())
    }
}

/// SQLite takes `$3` for a name, not for a place: names are numbered as they first appear in the text. So
/// each is bound by what it says.
fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &[Value<'_>]) -> Result<()> {
    for place in 1..=statement.parameter_count() {
        let number = statement.parameter_name(place).and_then(|name| name.get(1..)?.parse::<usize>().ok());
        let value = number.and_then(|number| params.get(number.checked_sub(1)?));
        let value = value.ok_or_else(|| StoreError::Statement(format!("no value for parameter {place}")))?;
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

/// Runs a future that has nothing to wait for.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a statement on SQLite is finished when its call returns"),
    }
}

/// A job on its way to a database thread and its answer on the way back.
pub(super) trait Job: Send {
    fn weight(&self) -> usize;
    /// Whether anybody still waits for the answer.
    fn is_wanted(&self) -> bool;
    /// Runs inside the transaction; says whether it may stay.
    fn run(&mut self, tx: &mut tx::Tx<'_>) -> Result<()>;
    /// Answers whoever waits. `committed` is what became of the transaction.
    fn answer(self: Box<Self>, committed: Result<()>);
}

struct Task<O: Op> {
    op: O,
    found: Option<Result<O::Output>>,
    reply: oneshot::Sender<Result<O::Output>>,
}

impl<O: Op> Job for Task<O> {
    fn weight(&self) -> usize {
        self.op.weight()
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, tx: &mut tx::Tx<'_>) -> Result<()> {
        let found = at_once(self.op.run(tx));
        let verdict = found.as_ref().map(drop).map_err(StoreError::clone);
        self.found = Some(found);
        verdict
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let found = match (self.found, committed) {
            (Some(Ok(_)), Err(error)) => Err(error),
            (Some(found), _) => found,
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(StoreError::Unavailable("the job was not run".into())),
        };
        let _nobody_waits_any_more = self.reply.send(found);
    }
}

/// The open database: its writer and its readers.
pub(crate) struct Sqlite {
    write: mpsc::Sender<Box<dyn Job>>,
    read: mpsc::Sender<Box<dyn Job>>,
    read_for_dispatch: mpsc::Sender<Box<dyn Job>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    identity: Option<(u64, u64)>,
    path: PathBuf,
    closed_before: bool,
    /// Keeps other processes out; the writer shares it until its last commit.
    _lock: Arc<ProcessLock>,
}

impl Sqlite {
    /// Opens the file, brings it up to date and starts the threads.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        let path = open::one_name(path);
        let lock = Arc::new(ProcessLock::take(&path)?);
        open::refuse_orphaned_log(&path)?;
        let had_log = open::has_log(&path);
        let (connection, _) = open::writer(&path)?;
        let closed_before = open::note_opened(&connection)?;
        if !closed_before && !had_log {
            tracing::error!(
                "durability_regression: the last process did not close the database and its log is gone; what it acknowledged last may be lost"
            );
        }
        let (write, jobs) = mpsc::channel(WRITE_QUEUE);
        let failed = FailedCommits::default();
        let writer = Writer::new(path.clone(), connection, jobs, Arc::clone(&lock), Arc::clone(&failed));
        let mut threads = vec![spawn("store-writer", move || writer.work())?];
        let read = readers(&path, (options.readers, options.query_timeout), &failed, &mut threads)?;
        let read_for_dispatch = readers(&path, (1, Duration::from_secs(60)), &failed, &mut threads)?;
        let (threads, identity) = (Mutex::new(threads), open::identity(&path));
        Ok(Sqlite { identity, write, read, read_for_dispatch, threads, path, closed_before, _lock: lock })
    }

    /// What can be told of a file without changing it.
    pub(crate) fn status(path: &Path) -> Result<DatabaseStatus> {
        open::status(&open::one_name(path))
    }

    /// Brings the schema of a file up to date, and does nothing else.
    pub(crate) fn migrate(path: &Path) -> Result<Migrated> {
        let path = open::one_name(path);
        let _lock = ProcessLock::take(&path)?;
        open::refuse_orphaned_log(&path)?;
        open::migrate_file(&path)
    }

    /// Runs `op` in a transaction that writes. Returns once it is durable. Turned away with
    /// [`StoreError::Overloaded`] when too much waits already.
    pub(crate) async fn write<O: Op>(&self, op: O) -> Result<O::Output> {
        submit(&self.write, op).await
    }

    /// As [`Self::write`], but waits for a place in the queue: for work that must not be turned away.
    pub(crate) async fn write_patiently<O: Op>(&self, op: O) -> Result<O::Output> {
        submit_patiently(&self.write, op).await
    }

    /// Runs `op` on a snapshot.
    pub(crate) async fn read<O: Op>(&self, op: O) -> Result<O::Output> {
        submit(&self.read, op).await
    }

    /// Runs `op` on a snapshot, apart from the API's questions, so that these never hold up deliveries. Waits
    /// for a place in the queue: what is in flight is bounded already.
    pub(crate) async fn read_for_dispatch<O: Op>(&self, op: O) -> Result<O::Output> {
        submit_patiently(&self.read_for_dispatch, op).await
    }

    /// Whether the process before this one closed the database; if not, it died, or the power went.
    pub(crate) fn closed_before(&self) -> bool {
        self.closed_before
    }

    /// Whether the file that is open is still the one under its name.
    pub(crate) fn is_in_place(&self) -> bool {
        open::identity(&self.path) == self.identity
    }

    /// Returns when the writing thread has ended, which it must not while the database is open.
    pub(crate) async fn ended(&self) {
        self.write.closed().await;
    }

    /// Looks through the whole file on a thread of its own.
    pub(crate) async fn quick_check(&self) -> Result<()> {
        let (answer, verdict) = oneshot::channel();
        let path = self.path.clone();
        spawn("store-check", move || drop(answer.send(open::quick_check(&path))))?;
        verdict.await.map_err(|_| closed())?
    }

    /// Finishes what is queued, writes the log back into the file and closes it.
    pub(crate) fn close(self) {
        drop((self.write, self.read, self.read_for_dispatch));
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a database thread had panicked");
            }
        }
    }
}

fn task<O: Op>(op: O) -> (Box<dyn Job>, oneshot::Receiver<Result<O::Output>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Task { op, found: None, reply }), answer)
}

async fn submit<O: Op>(queue: &mpsc::Sender<Box<dyn Job>>, op: O) -> Result<O::Output> {
    let (task, answer) = task(op);
    queue.try_send(task).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => StoreError::Overloaded,
        mpsc::error::TrySendError::Closed(_) => closed(),
    })?;
    answer.await.map_err(|_| closed())?
}

async fn submit_patiently<O: Op>(queue: &mpsc::Sender<Box<dyn Job>>, op: O) -> Result<O::Output> {
    let (task, answer) = task(op);
    queue.send(task).await.map_err(|_| closed())?;
    answer.await.map_err(|_| closed())?
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".into())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| StoreError::Unavailable(format!("no thread for it: {error}")))
}

fn readers(
    path: &Path,
    (count, limit): (usize, Duration),
    failed: &FailedCommits,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<mpsc::Sender<Box<dyn Job>>> {
    let (queue, jobs) = mpsc::channel::<Box<dyn Job>>(READ_QUEUE);
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..count {
        let connection = open::reader(path)?;
        let (jobs, failed) = (Arc::clone(&jobs), Arc::clone(failed));
        threads.push(spawn("store-reader", move || read(connection, &jobs, &failed, limit))?);
    }
    Ok(queue)
}

/// The work of one reader: a question at a time, each on one snapshot, none longer than `limit`.
fn read(
    mut connection: Connection,
    jobs: &Mutex<mpsc::Receiver<Box<dyn Job>>>,
    failed: &FailedCommits,
    limit: Duration,
) {
    loop {
        let next = jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).blocking_recv();
        let Some(mut job) = next else { return };
        if !job.is_wanted() {
            continue;
        }
        let asked = tokio::time::Instant::now();
        let late = move || asked.elapsed() > limit;
        let snapshot = connection
            .progress_handler(STEPS_BETWEEN_LOOKS, Some(late))
            .and_then(|()| connection.execute_batch("BEGIN DEFERRED"))
            .map_err(StoreError::from);
        let tx = Tx { connection: &mut connection, timeline: failed.load(Ordering::Acquire) };
        let answered = snapshot.and_then(|()| job.run(&mut tx::Tx::Sqlite(tx)));
        if !connection.is_autocommit() {
            let _nothing_to_keep = connection.execute_batch("ROLLBACK");
        }
        job.answer(answered);
    }
}
