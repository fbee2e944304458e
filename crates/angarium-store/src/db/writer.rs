//! The one thread that writes: takes what is queued, commits it together, and then answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::open::{self, ProcessLock};
use super::sqlite::{self, FailedCommits, Job};
use super::tx::Tx;
use crate::error::{Result, StoreError};

/// A transaction takes no more jobs once it has written about this many rows.
const BATCH_ROWS: usize = 2048;

/// The writing thread's own. It holds the lock that keeps other processes out until its last commit.
pub(super) struct Writer {
    path: PathBuf,
    connection: Option<Connection>,
    /// The file was found damaged; it is not looked through again for every job.
    damaged: Option<StoreError>,
    jobs: mpsc::Receiver<Box<dyn Job>>,
    failed: FailedCommits,
    _lock: Arc<ProcessLock>,
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        connection: Connection,
        jobs: mpsc::Receiver<Box<dyn Job>>,
        lock: Arc<ProcessLock>,
        failed: FailedCommits,
    ) -> Self {
        Writer { path, connection: Some(connection), damaged: None, jobs, failed, _lock: lock }
    }

    /// Works until nobody can hand in a job any more.
    pub(super) fn work(mut self) {
        while let Some(first) = self.jobs.blocking_recv() {
            match self.batch(first) {
                (batch, Ok(())) => batch.into_iter().for_each(|job| job.answer(Ok(()))),
                (batch, Err(error)) => {
                    self.failed.fetch_add(1, Ordering::AcqRel);
                    tracing::error!(store.error = %error, "the database could not commit; nothing of it was acknowledged");
                    batch.into_iter().for_each(|job| job.answer(Err(error.clone())));
                }
            }
        }
        if let Some(connection) = self.connection.take() {
            if let Err(error) = open::note_closed(&connection) {
                tracing::warn!(store.error = %error, "the database could not be marked as closed");
            }
            let _checkpoint_at_next_start =
                connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA optimize;");
        }
    }

    /// One transaction over `first` and whatever else is queued.
    fn batch(&mut self, first: Box<dyn Job>) -> (Vec<Box<dyn Job>>, Result<()>) {
        let mut batch = vec![first];
        let mut connection = match self.take_connection() {
            Ok(connection) => connection,
            Err(error) => return (batch, Err(error)),
        };
        let timeline = self.failed.load(Ordering::Acquire);
        let done = commit_together(&mut connection, timeline, &mut batch, &mut self.jobs);
        let over = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        let doubtful = done.as_ref().is_err_and(StoreError::casts_doubt);
        if over && !doubtful {
            self.connection = Some(connection);
        }
        (batch, done)
    }

    /// The connection; after one that could not be trusted, a new one, once the file was looked through.
    fn take_connection(&mut self) -> Result<Connection> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        if let Some(damage) = &self.damaged {
            return Err(damage.clone());
        }
        let connection = open::writer_again(&self.path)?;
        match open::quick_check(&self.path) {
            Ok(()) => tracing::info!("the database was reopened and is sound"),
            Err(error) => {
                self.damaged = matches!(error, StoreError::Corrupt(_)).then(|| error.clone());
                return Err(error);
            }
        }
        Ok(connection)
    }
}

fn commit_together(
    connection: &mut Connection,
    timeline: i64,
    batch: &mut Vec<Box<dyn Job>>,
    jobs: &mut mpsc::Receiver<Box<dyn Job>>,
) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut rows = 0;
    let mut next = 0;
    while let Some(job) = batch.get_mut(next) {
        run_alone(connection, timeline, job.as_mut())?;
        rows += job.weight().max(1);
        next += 1;
        if rows < BATCH_ROWS
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
    }
    Ok(connection.execute_batch("COMMIT")?)
}

/// Runs a job inside a savepoint. Fails only when the whole transaction is lost.
fn run_alone(connection: &mut Connection, timeline: i64, job: &mut dyn Job) -> Result<()> {
    connection.prepare_cached("SAVEPOINT job")?.raw_execute()?;
    let verdict = job.run(&mut Tx::Sqlite(sqlite::Tx { connection, timeline }));
    if connection.is_autocommit() {
        let ended_early = || StoreError::Unavailable("the transaction ended early".into());
        return Err(verdict.err().unwrap_or_else(ended_early));
    }
    if verdict.is_err() {
        connection.prepare_cached("ROLLBACK TO job")?.raw_execute()?;
    }
    connection.prepare_cached("RELEASE job")?.raw_execute()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Op, Sqlite, Statement, params};
    use crate::{Options, Result};

    /// Writes a value down, and then does as it says.
    struct Put(i64, &'static str);

    impl Op for Put {
        type Output = i64;

        async fn run(&self, tx: &mut Tx<'_>) -> Result<i64> {
            static PUT: Statement = Statement::fixed("INSERT INTO meta (name, value) VALUES ($1, 'x')");
            tx.execute(&PUT, params![self.0.to_string().as_str()]).await?;
            if !self.1.is_empty() {
                tx.execute(&Statement::fixed(self.1), &[]).await?;
            }
            Ok(self.0)
        }
    }

    struct Stored;

    impl Op for Stored {
        type Output = Vec<String>;

        async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<String>> {
            static NAMES: Statement =
                Statement::fixed("SELECT name FROM meta WHERE name <> 'closed' ORDER BY name");
            tx.query(&NAMES, &[], |row| row.text(0)).await
        }
    }

    fn database() -> (Sqlite, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let options = Options { query_timeout: std::time::Duration::ZERO, ..Options::new(&path) };
        (Sqlite::open(&path, &options).unwrap(), folder)
    }

    async fn all(db: &Sqlite, ops: impl IntoIterator<Item = Put>) -> Vec<Result<i64>> {
        let mut waiting: Vec<_> = ops.into_iter().map(|op| Box::pin(db.write(op))).collect();
        let mut answers: Vec<Option<Result<i64>>> = waiting.iter().map(|_| None).collect();
        std::future::poll_fn(|context| {
            for (future, answer) in waiting.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
                {
                    *answer = Some(value);
                }
            }
            if answers.iter().all(Option::is_some) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        answers.into_iter().flatten().collect()
    }

    #[tokio::test]
    async fn a_job_that_fails_harms_no_other() {
        let (db, _folder) = database();
        let answers = all(&db, [Put(1, ""), Put(2, "INSERT INTO nowhere VALUES (1)"), Put(3, "")]).await;
        assert!(matches!(answers[..], [Ok(1), Err(StoreError::Statement(_)), Ok(3)]), "{answers:?}");
        assert_eq!(db.read_for_dispatch(Stored).await.unwrap(), ["1", "3"]);
    }

    /// When the transaction is lost, nobody in it hears of success, and the next one works.
    #[tokio::test]
    async fn a_lost_transaction_is_acknowledged_to_nobody() {
        let (db, _folder) = database();
        let answers = all(&db, [Put(1, ""), Put(2, "ROLLBACK"), Put(3, "")]).await;
        let stored = db.read_for_dispatch(Stored).await.unwrap();
        for (answer, name) in answers.iter().zip(["1", "2", "3"]) {
            assert_eq!(
                answer.is_ok(),
                stored.iter().any(|one| one == name),
                "{name}: {answer:?}, {stored:?}"
            );
        }
        assert!(answers[1].is_err());
        assert_eq!(db.write(Put(4, "")).await, Ok(4));
    }

    /// A full disk inside a statement undoes the transaction at once; what is told is that the disk is full.
    #[tokio::test]
    async fn a_full_disk_in_the_middle_is_told_as_such() {
        struct Overfill;
        impl Op for Overfill {
            type Output = ();
            async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
                for limit in ["PRAGMA max_page_count = 70", "PRAGMA cache_size = 1"] {
                    tx.query(&Statement::fixed(limit), &[], |_| Ok(())).await?;
                }
                tx.savepoint().await?;
                let big = "x".repeat(2_000_000);
                let fill = Statement::fixed("INSERT INTO meta (name, value) VALUES ('big', $1)");
                let filled = tx.execute(&fill, params![big.as_str()]).await;
                tx.close_savepoint(filled).await?.map(drop)
            }
        }
        let (db, _folder) = database();
        assert_eq!(db.write(Overfill).await, Err(StoreError::Full));
        assert_eq!(db.write(Put(1, "")).await, Ok(1), "what fits is still taken");
    }

    /// A question that takes too long is cut off, and the reader goes on.
    #[tokio::test]
    async fn a_long_question_is_cut_off() {
        struct Endless;
        impl Op for Endless {
            type Output = ();
            async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
                static COUNT: Statement = Statement::fixed(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
                );
                tx.query(&COUNT, &[], |_| Ok(())).await.map(drop)
            }
        }
        let (db, _folder) = database();
        assert_eq!(db.read(Endless).await, Err(StoreError::QueryTimeout));
        assert_eq!(db.read(Stored).await, Ok(vec![]));
    }

    /// The bound of the queue is told, not waited for.
    #[tokio::test]
    async fn too_much_waiting_work_is_turned_away() {
        struct Wait(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);
        impl Op for Wait {
            type Output = ();
            async fn run(&self, _: &mut Tx<'_>) -> Result<()> {
                let _let_go = self.0.lock().unwrap().recv();
                Ok(())
            }
        }
        let (db, _folder) = database();
        let (let_go, wait) = std::sync::mpsc::channel();
        let jobs = (0..9000).map(|n| Put(n, ""));
        let (held, answers) = tokio::join!(db.write(Wait(std::sync::Mutex::new(wait))), async {
            let answers = all(&db, jobs);
            tokio::pin!(answers);
            let first =
                std::future::poll_fn(|context| std::task::Poll::Ready(answers.as_mut().poll(context))).await;
            assert!(first.is_pending());
            let_go.send(()).unwrap();
            answers.await
        });
        held.unwrap();
        let turned_away = answers.iter().filter(|answer| **answer == Err(StoreError::Overloaded)).count();
        assert!((800..=810).contains(&turned_away), "{turned_away}");
    }
}
