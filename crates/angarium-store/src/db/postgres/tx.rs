//! Statements on one connection, inside a transaction or each on its own.

use std::future::Future;

use futures_util::future::{join, try_join_all};
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use crate::db::dialect::Dialect;
use crate::db::{Row, Statement, Value};
use crate::error::{Result, StoreError};

/// An open transaction.
pub(crate) struct Tx<'c> {
    connection: &'c mut Connection,
    /// A statement failed, and nothing undid that: a COMMIT now would undo everything, and say nothing of it.
    failed: Option<StoreError>,
    /// Words of transactions that were not said yet: they go out with what follows, and cost no journey of their own.
    unsaid: String,
}

impl<'c> Tx<'c> {
    /// One that begins with this word, if there is one.
    pub(super) fn on(connection: &'c mut Connection, begin: Option<&str>) -> Self {
        let unsaid = begin.map_or_else(String::new, |begin| format!("{begin}; "));
        Tx { connection, failed: None, unsaid }
    }

    /// Whether it can be committed; if so, the words that are still to be said before.
    pub(super) fn sound(self) -> Result<String> {
        self.failed.map_or(Ok(self.unsaid), Err)
    }

    /// The timeline of the server; it moves on at every failover.
    pub(in crate::db) fn timeline(&self) -> i64 {
        self.connection.timeline
    }

    pub(in crate::db) async fn execute(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
    ) -> Result<usize> {
        let done = self.run(statement, params).await;
        self.noted(done).map(|rows| rows.1)
    }

    pub(in crate::db) async fn query<T>(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
        map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let done = self.run(statement, params).await;
        mapped(&self.noted(done)?.0, map)
    }

    /// All are on their way before the first answer is awaited.
    pub(in crate::db) async fn query_each<T, const N: usize>(
        &mut self,
        statement: &Statement,
        each: &[[Value<'_>; N]],
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<Vec<T>>> {
        let done = self.run_each(statement, each).await;
        self.noted(done)?.iter().map(|rows| mapped(rows, &mut map)).collect()
    }

    pub(in crate::db) async fn query_rows<T, const N: usize>(
        &mut self,
        statement: &Statement,
        rows: &[[Value<'_>; N]],
        map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let done = self.run_rows(statement, rows).await;
        mapped(&self.noted(done)?.0, map)
    }

    pub(in crate::db) async fn execute_rows<const N: usize>(
        &mut self,
        statement: &Statement,
        rows: &[[Value<'_>; N]],
    ) -> Result<usize> {
        let done = self.run_rows(statement, rows).await;
        self.noted(done).map(|rows| rows.1)
    }

    /// Says a word of transactions, sooner or later; one that undoes at once, which makes a failed transaction sound again.
    pub(in crate::db) async fn say(&mut self, word: &str) -> Result<()> {
        self.unsaid.push_str(word);
        self.unsaid.push_str("; ");
        if !word.starts_with("ROLLBACK TO") {
            return Ok(());
        }
        let words = std::mem::take(&mut self.unsaid);
        let done = self.connection.say(&words).await;
        if done.is_ok() {
            self.failed = None;
        }
        self.noted(done)
    }

    fn noted<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.failed.get_or_insert_with(|| error.clone());
        }
        done
    }

    async fn run(&mut self, statement: &Statement, params: &[Value<'_>]) -> Result<Answer> {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        self.ask(statement, &params).await
    }

    async fn ask(&mut self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Answer> {
        let prepared = self.connection.prepared(statement.said_by(Dialect::Postgres)).await?;
        let words = std::mem::take(&mut self.unsaid);
        after(self.connection, &words, answer(&self.connection.client, &prepared, params)).await
    }

    async fn run_each<const N: usize>(
        &mut self,
        statement: &Statement,
        each: &[[Value<'_>; N]],
    ) -> Result<Vec<Vec<tokio_postgres::Row>>> {
        let prepared = self.connection.prepared(statement.said_by(Dialect::Postgres)).await?;
        let words = std::mem::take(&mut self.unsaid);
        let client = &self.connection.client;
        let asked = each.iter().map(|params| async {
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
            client.query(&prepared, &params).await
        });
        after(self.connection, &words, async { Ok(try_join_all(asked).await?) }).await
    }

    async fn run_rows<const N: usize>(
        &mut self,
        statement: &Statement,
        rows: &[[Value<'_>; N]],
    ) -> Result<Answer> {
        if rows.is_empty() {
            return Ok(Answer::default());
        }
        let columns: Vec<Vec<Value<'_>>> =
            (0..N).map(|column| rows.iter().filter_map(|row| row.get(column).copied()).collect()).collect();
        let params: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| column as _).collect();
        self.ask(statement, &params).await
    }
}

/// What follows on words of transactions, which leave first and are not waited for.
async fn after<T>(connection: &Connection, words: &str, what: impl Future<Output = Result<T>>) -> Result<T> {
    if words.is_empty() {
        return what.await;
    }
    let (said, done) = join(connection.say(words), what).await;
    said.and(done)
}

/// What a statement returned, and how many rows it touched.
type Answer = (Vec<tokio_postgres::Row>, usize);

async fn answer(
    client: &tokio_postgres::Client,
    prepared: &tokio_postgres::Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Answer> {
    if prepared.columns().is_empty() {
        let changed = client.execute(prepared, params).await?;
        return Ok((Vec::new(), usize::try_from(changed).unwrap_or(usize::MAX)));
    }
    let rows = client.query(prepared, params).await?;
    let found = rows.len();
    Ok((rows, found))
}

fn mapped<T>(rows: &[tokio_postgres::Row], mut map: impl FnMut(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(|row| map(&Row::Postgres(row))).collect()
}
