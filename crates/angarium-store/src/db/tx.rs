//! An open transaction, on either database.

use super::{Row, Statement, Value, postgres, sqlite};
use crate::error::Result;

/// An open transaction. Everything is one call to the database, except on SQLite, where calls cost next to nothing.
pub(crate) enum Tx<'c> {
    Sqlite(sqlite::Tx<'c>),
    Postgres(postgres::Tx<'c>),
}

impl Tx<'_> {
    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&mut self, statement: &Statement, params: &[Value<'_>]) -> Result<usize> {
        match self {
            Tx::Sqlite(tx) => tx.execute(statement, params),
            Tx::Postgres(tx) => tx.execute(statement, params).await,
        }
    }

    /// Runs a statement and maps each row of its result.
    pub(crate) async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        match self {
            Tx::Sqlite(tx) => tx.query(statement, params, map),
            Tx::Postgres(tx) => tx.query(statement, params, map).await,
        }
    }

    /// Runs a statement that has one row at most.
    pub(crate) async fn query_opt<T: Send>(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Option<T>> {
        Ok(self.query(statement, params, map).await?.pop())
    }

    /// Runs a statement once for each list of parameters, and maps the rows of each.
    pub(crate) async fn query_each<T: Send, const N: usize>(
        &mut self,
        statement: &Statement,
        each: &[[Value<'_>; N]],
        mut map: impl FnMut(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<Vec<T>>> {
        match self {
            Tx::Sqlite(tx) => each.iter().map(|params| tx.query(statement, params, &mut map)).collect(),
            Tx::Postgres(tx) => tx.query_each(statement, each, map).await,
        }
    }

    /// Runs a statement over many rows, which `{rows: …}` or `{values: …}` stands for, and maps what it returns, in
    /// whatever order.
    pub(crate) async fn query_rows<T: Send, const N: usize>(
        &mut self,
        statement: &Statement,
        rows: &[[Value<'_>; N]],
        mut map: impl FnMut(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        match self {
            Tx::Sqlite(tx) => {
                let mut found = Vec::new();
                for row in rows {
                    found.extend(tx.query(statement, row, &mut map)?);
                }
                Ok(found)
            }
            Tx::Postgres(tx) => tx.query_rows(statement, rows, map).await,
        }
    }

    /// As [`Self::query_rows`], for a statement that returns nothing. Says how many rows it changed.
    pub(crate) async fn execute_rows<const N: usize>(
        &mut self,
        statement: &Statement,
        rows: &[[Value<'_>; N]],
    ) -> Result<usize> {
        match self {
            Tx::Sqlite(tx) => rows.iter().map(|row| tx.execute(statement, row)).sum(),
            Tx::Postgres(tx) => tx.execute_rows(statement, rows).await,
        }
    }

    /// Moves on whenever what was learned from the database before may not be so any more: at a failover, and when a
    /// commit failed.
    pub(crate) fn timeline(&self) -> i64 {
        match self {
            Tx::Sqlite(tx) => tx.timeline,
            Tx::Postgres(tx) => tx.timeline(),
        }
    }

    /// Opens a savepoint inside the transaction; savepoints nest.
    pub(crate) async fn savepoint(&mut self) -> Result<()> {
        match self {
            Tx::Sqlite(tx) => tx.say("SAVEPOINT item"),
            Tx::Postgres(tx) => tx.say("SAVEPOINT item").await,
        }
    }

    /// Closes the innermost savepoint: keeps its changes if `done` is a success, else undoes them and hands
    /// the error back inside. Fails only when the whole transaction is lost, with what caused that.
    pub(crate) async fn close_savepoint<T: Send>(&mut self, done: Result<T>) -> Result<Result<T>> {
        let close = match &done {
            Ok(_) => ["RELEASE item"].as_slice(),
            Err(_) => ["ROLLBACK TO item", "RELEASE item"].as_slice(),
        };
        let mut closed = Ok(());
        for word in close {
            closed = match self {
                Tx::Sqlite(tx) => closed.and(tx.say(word)),
                Tx::Postgres(tx) if closed.is_ok() => tx.say(word).await,
                Tx::Postgres(_) => closed,
            };
        }
        match (closed, done) {
            (Ok(()), done) => Ok(done),
            // A full disk can undo everything at once; then the savepoint is gone, and why is what matters.
            (Err(_), Err(cause)) => Err(cause),
            (Err(error), Ok(_)) => Err(error),
        }
    }
}
