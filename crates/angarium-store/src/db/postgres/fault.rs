//! What PostgreSQL's errors mean here.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::StoreError;

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(told) => told_by_server(told),
            None if is_ours(&error) => StoreError::Statement(with_cause(&error)),
            None => StoreError::Unavailable(with_cause(&error)),
        }
    }
}

/// A value that does not fit its parameter or its column: nothing that another connection would do better.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    ["error serializing", "error deserializing", "expected", "invalid column"]
        .iter()
        .any(|sign| text.starts_with(sign))
}

/// The driver's text alone says little: `db error`, `error connecting to server`.
fn with_cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn told_by_server(error: &DbError) -> StoreError {
    let detail = format!("{} ({})", error.message(), error.code().code());
    match error.code() {
        // Whoever comes again gets through: the whole transaction was undone.
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::LOCK_NOT_AVAILABLE => StoreError::Contended(detail),
        &SqlState::QUERY_CANCELED => StoreError::QueryTimeout,
        &SqlState::DISK_FULL => StoreError::Full,
        // Somebody took a right away, and can give it back; it is no fault of any one item.
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unavailable(detail),
        &SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT => {
            StoreError::Unavailable(format!(
                "{detail}: a pooler that shares sessions stands in between? Connect to the server itself"
            ))
        }
        code => match code.code().get(..2) {
            // Data exceptions, constraints, syntax: one item, or a fault in this program.
            Some("21" | "22" | "23" | "42" | "0A") => StoreError::Statement(detail),
            Some("XX" | "58") => StoreError::Disk(detail),
            // No connection, no rights, read only, out of something, shutting down, and all that is not known.
            _ => StoreError::Unavailable(detail),
        },
    }
}

/// Whether a COMMIT that ended so may have been done all the same: the server did not say that it undid it. One that ends,
/// or panics, may have written it before.
pub(super) fn leaves_commit_open(error: &tokio_postgres::Error) -> bool {
    let Some(told) = error.as_db_error() else { return true };
    let ended = matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    ended && told.code() != &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
}
