//! Why the store could not do what was asked. None of the texts holds data of a notification.

/// A failure of the store itself; never an answer about a notification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full. Nothing was stored; it will work again once there is space.
    #[error("the disk that holds the database is full")]
    Full,
    /// More work waits for the database than it may hold. Nothing was stored; try again shortly.
    #[error("the database has more work waiting than it can take")]
    Overloaded,
    /// Others were at the same rows, again and again. Nothing was stored; try again shortly.
    #[error("others are at the same rows of the database: {0}")]
    Contended(String),
    /// The database did not say whether it stored this. Whoever asks again with the same id learns it.
    #[error("the database did not say whether it stored this")]
    OutcomeUnknown,
    /// The database could not be read or written. Nothing was stored.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The disk failed. Nothing was stored; the file is reopened and looked through before it is used again.
    #[error("the disk failed: {0}")]
    Disk(String),
    /// A query took longer than its limit.
    #[error("the query took too long")]
    QueryTimeout,
    /// The database cannot be used as it is or as it was asked for, and will not be by itself.
    #[error("{0}")]
    Refused(String),
    /// Another process has the database open.
    #[error("{0}")]
    Locked(String),
    /// The file is something else, or a database of another program.
    #[error("{0} is not an Angarium database; it was left untouched")]
    NotOurs(String),
    /// The database was written by a newer Angarium.
    #[error(
        "the database has schema version {found}, this program knows up to {known}; it was left untouched"
    )]
    NewerSchema {
        /// What stands in the file.
        found: i64,
        /// What this program can read.
        known: i64,
    },
    /// The database is damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// A statement was refused: a fault in this program.
    #[error("a statement failed: {0}")]
    Statement(String),
}

impl StoreError {
    /// Whether the error says something about the database, so that nothing else in the transaction can be
    /// expected to fare better; otherwise it concerns one item alone.
    pub(crate) fn concerns_the_database(&self) -> bool {
        !matches!(self, StoreError::Statement(_) | StoreError::Corrupt(_))
    }

    /// Whether the connection, and the file, must be looked at before they are used again.
    pub(crate) fn casts_doubt(&self) -> bool {
        matches!(self, StoreError::Disk(_) | StoreError::Corrupt(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            Some(ErrorCode::NotADatabase) => StoreError::NotOurs("the file".into()),
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(detail),
            Some(ErrorCode::OperationInterrupted) => StoreError::QueryTimeout,
            Some(ErrorCode::SystemIoFailure) => StoreError::Disk(detail),
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport,
            ) => StoreError::Unavailable(detail),
            _ => StoreError::Statement(detail),
        }
    }
}

/// What every operation of the store returns.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
