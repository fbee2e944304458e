//! The seam: one transaction type, one value type and one row type, behind which two database drivers stand.
//!
//! Every statement is written once ([`statements!`]), with `$1 … $n`, in the module of the function that runs it, an
//! [`Op`]. An `Op` never sees the driver. Its functions are `async` because PostgreSQL needs it; on SQLite, whose
//! driver is synchronous, such a future is finished when it is first polled, and the writer thread runs it
//! like a plain call. What differs between databases in the text of a statement stands in [`dialect`].
//!
//! A write `Op` may be run again from its beginning (after a deadlock) and shares its transaction with others (group
//! commit), so it keeps nothing but its arguments and returns what it found.

pub(crate) mod dialect;
mod joined;
mod open;
mod options;
mod postgres;
mod sqlite;
mod statement;
#[cfg(test)]
mod tests;
mod together;
mod tx;
mod value;
mod writer;

use std::future::Future;
use std::time::Duration;

pub(crate) use joined::{Joinable, Joined};
pub use options::{Database, DatabaseStatus, Migrated, Options, Standby};
pub(crate) use postgres::Postgres;
pub use postgres::{PostgresUrl, Pulse};
pub(crate) use sqlite::Sqlite;
pub(crate) use statement::{Statement, statements};
pub(crate) use together::{Together, together};
pub(crate) use tx::Tx;
pub(crate) use value::{Row, Value, params, row};

use crate::error::Result;

/// One unit of work inside a transaction.
pub(crate) trait Op: Send + Sync + 'static {
    /// What it finds or did. Valid only once the transaction is durable, which the caller awaits.
    type Output: Send + 'static;

    /// How many rows it writes, roughly: the writer closes a batch when enough have come together.
    fn weight(&self) -> usize {
        1
    }

    /// Does the work. An error undoes all of it and nothing else.
    fn run(&self, tx: &mut Tx<'_>) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// The open database, of either kind.
pub(crate) enum Db {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Db {
    pub(crate) async fn open(options: &Options) -> Result<Self> {
        Ok(match &options.database {
            Database::Sqlite(path) => Db::Sqlite(Sqlite::open(path, options)?),
            Database::Postgres(url) => Db::Postgres(Postgres::open(url, options).await?),
        })
    }

    /// Runs `op` in a transaction that writes. Returns once it is durable. Turned away with
    /// [`crate::StoreError::Overloaded`] when too much waits already.
    pub(crate) async fn write<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.write(op).await,
            Db::Postgres(db) => db.write(op).await,
        }
    }

    /// As [`Self::write`], for what producers hand in.
    pub(crate) async fn write_for_ingest<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.write(op).await,
            Db::Postgres(db) => db.write_for_ingest(op).await,
        }
    }

    /// As [`Self::write`], apart from what producers and the console want. On SQLite it waits for its turn; on PostgreSQL
    /// it fails after a while, and whoever asked asks again.
    pub(crate) async fn write_for_dispatch<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.write_patiently(op).await,
            Db::Postgres(db) => db.write_for_dispatch(op).await,
        }
    }

    /// Runs `op` on a snapshot.
    pub(crate) async fn read<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.read(op).await,
            Db::Postgres(db) => db.read(op).await,
        }
    }

    /// As [`Self::read`], apart from the console's questions, which must never hold up a producer.
    pub(crate) async fn read_for_ingest<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.read(op).await,
            Db::Postgres(db) => db.read_for_ingest(op).await,
        }
    }

    /// Reads apart from the API's questions, so that these never hold up deliveries. Waits for its turn: what is in
    /// flight is bounded already.
    pub(crate) async fn read_for_dispatch<O: Op>(&self, op: O) -> Result<O::Output> {
        match self {
            Db::Sqlite(db) => db.read_for_dispatch(op).await,
            Db::Postgres(db) => db.read_for_dispatch(op).await,
        }
    }

    /// Whether the process before this one closed the database; on a server that is not ours to know.
    pub(crate) fn closed_before(&self) -> bool {
        match self {
            Db::Sqlite(db) => db.closed_before(),
            Db::Postgres(_) => true,
        }
    }

    /// Whether what is open is still what stands under its name.
    pub(crate) fn is_in_place(&self) -> bool {
        match self {
            Db::Sqlite(db) => db.is_in_place(),
            Db::Postgres(_) => true,
        }
    }

    /// Returns when the database can no longer be written, ever, which must not happen while it is open.
    pub(crate) async fn ended(&self) {
        match self {
            Db::Sqlite(db) => db.ended().await,
            Db::Postgres(_) => std::future::pending().await,
        }
    }

    /// Looks through the whole file; a server looks after its own.
    pub(crate) async fn quick_check(&self) -> Result<()> {
        match self {
            Db::Sqlite(db) => db.quick_check().await,
            Db::Postgres(_) => Ok(()),
        }
    }

    /// Finishes what is queued and closes the database.
    pub(crate) fn close(self) {
        if let Db::Sqlite(db) = self {
            db.close();
        }
    }

    /// The server, if other processes may use the same database.
    pub(crate) fn shared(&self) -> Option<&Postgres> {
        match self {
            Db::Sqlite(_) => None,
            Db::Postgres(db) => Some(db),
        }
    }
}

/// The longest that anything a producer waits for may take.
pub(crate) const INGEST_LIMIT: Duration = Duration::from_secs(5);
