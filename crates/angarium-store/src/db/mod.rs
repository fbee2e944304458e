//! The seam: one transaction type, one value type and one row type, behind which a database driver stands.
//!
//! Every statement is written once, with `$1 … $n`, next to the function that runs it, as an [`Op`]. An `Op`
//! never sees the driver. Its functions are `async` because a network database needs it; on SQLite, whose
//! driver is synchronous, such a future is finished when it is first polled, and the writer thread runs it
//! like a plain call. What differs between databases in the text of a statement stands in [`dialect`].
//!
//! A write `Op` may be run again from its beginning (after a serialization failure) and shares its
//! transaction with others (group commit), so it keeps nothing but its arguments and returns what it found.

pub(crate) mod dialect;
mod open;
mod sqlite;
mod value;
mod writer;

use std::future::Future;

pub use open::Options;
pub(crate) use sqlite::{Sqlite, Tx};
pub(crate) use value::{Row, Value, params};

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
