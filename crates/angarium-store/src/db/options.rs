//! Where the database is, how it is opened, and what can be told of it without opening it.

use std::path::PathBuf;
use std::time::Duration;

use super::postgres::PostgresUrl;

/// Which database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// The SQLite file; made if it does not exist. Beside it stand `-wal`, `-shm` and `.lock` files. One process uses it.
    Sqlite(PathBuf),
    /// A PostgreSQL server, 12 or newer. Any number of processes use it together.
    Postgres(PostgresUrl),
}

/// Where and how the database is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which one.
    pub database: Database,
    /// Connections that answer the API's questions.
    pub readers: usize,
    /// The longest that one question of the API may take.
    pub query_timeout: Duration,
    /// On PostgreSQL: never LISTEN and NOTIFY.
    pub poll_only: bool,
}

impl Options {
    /// The usual settings for the SQLite file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Options::at(Database::Sqlite(path.into()))
    }

    /// The usual settings for a database.
    pub fn at(database: Database) -> Self {
        Options { database, readers: 3, query_timeout: Duration::from_secs(5), poll_only: false }
    }
}

/// What can be told of a database without changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// `sqlite` or `postgres`.
    pub database: &'static str,
    /// Where it is, without any secret.
    pub place: String,
    /// Its schema version; none if it holds nothing yet.
    pub schema: Option<i64>,
    /// The schema version this program works with.
    pub known: i64,
    /// The version of the database's own program.
    pub server_version: String,
    /// Settings that durability rests on: name and value.
    pub settings: Vec<(String, String)>,
    /// Standbys that follow it.
    pub standbys: Vec<Standby>,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// A standby, as PostgreSQL tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Its `application_name`.
    pub name: String,
    /// `streaming`, or what else it does.
    pub state: String,
    /// `sync`, `async`, `quorum` or `potential`.
    pub sync_state: String,
}

/// What a migration did. Both are the same if there was nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0 if there was nothing.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
}
