//! Whose database it is, which schema it has, and how that is brought up to date.
//!
//! Our tables stand in a schema of their own. All that is to be done is one transaction, under a lock that
//! only migrations take, so that nodes that start together wait for each other. The program needs the right to
//! change the schema only when there is something to migrate.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::connection::{Connection, SCHEMA};
use crate::db::options::{Migrated, Standby};
use crate::error::{Result, StoreError};

/// One text for each schema version, in order.
const MIGRATIONS: [&str; 3] = [
    include_str!("../../../migrations/postgres/0001_outbox.sql"),
    include_str!("../../../migrations/postgres/0002_nodes.sql"),
    include_str!("../../../migrations/postgres/0003_events.sql"),
];

/// The schema version this program works with.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// How long the commit of a migration may take.
const COMMIT_LIMIT: Duration = Duration::from_secs(60);

/// How often a migration is tried, and the pause in between.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(2);

/// The oldest server whose words are used here.
const OLDEST_SERVER: i32 = 12;

/// The schema version of the database: none if there is nothing of ours yet.
pub(super) async fn version(connection: &Connection) -> Result<Option<i64>> {
    const OURS: &str = "SELECT to_regclass('angarium.meta') IS NOT NULL,
        EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'angarium')";
    let row = connection.client.query_one(OURS, &[]).await.map_err(unreadable)?;
    match (row.try_get(0)?, row.try_get(1)?) {
        (false, false) => return Ok(None),
        (false, true) => return Err(not_ours()),
        (true, _) => {}
    }
    let found =
        connection.client.query_opt("SELECT value FROM angarium.meta WHERE name = 'schema'", &[]).await;
    let found = found.map_err(unreadable)?;
    let version: String = found.ok_or_else(not_ours)?.try_get(0).map_err(|_| not_ours())?;
    version.parse().map(Some).map_err(|_| not_ours())
}

/// What keeps the version from being read.
fn unreadable(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::UNDEFINED_COLUMN) => not_ours(),
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            StoreError::Refused(format!("this role may not use the schema {SCHEMA} of the database"))
        }
        _ => error.into(),
    }
}

fn not_ours() -> StoreError {
    StoreError::NotOurs(format!("the schema {SCHEMA} of this database"))
}

/// Refuses what this program must not touch.
pub(super) async fn refuse_newer(connection: &Connection) -> Result<Option<i64>> {
    let found = version(connection).await?;
    match found {
        Some(found) if found > KNOWN => Err(StoreError::NewerSchema { found, known: KNOWN }),
        found => Ok(found),
    }
}

/// Brings the schema up to date. A table's lock is waited for only shortly, because everybody else waits behind us; if it
/// cannot be had, all is tried again a little later.
pub(super) async fn migrate(connection: &Connection) -> Result<Migrated> {
    let found = refuse_newer(connection).await?;
    if found == Some(KNOWN) {
        return Ok(Migrated { from: KNOWN, to: KNOWN });
    }
    let mut tries = 1;
    loop {
        match try_to_migrate(connection).await {
            Err(StoreError::Contended(why)) if tries < TRIES => {
                tracing::info!(
                    store.error = why,
                    "somebody is at the tables; the schema is brought up to date a little later"
                );
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

async fn try_to_migrate(connection: &Connection) -> Result<Migrated> {
    connection.say("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'").await?;
    let migrated = migrate_alone(connection).await;
    match &migrated {
        // Behind a standby that hangs this would wait for ever, and nobody would know why nothing starts.
        Ok(_) => {
            let committed = tokio::time::timeout(COMMIT_LIMIT, connection.commit("")).await;
            committed.unwrap_or(Err(StoreError::OutcomeUnknown))?;
        }
        Err(_) => connection.say("ROLLBACK").await?,
    }
    migrated
}

async fn migrate_alone(connection: &Connection) -> Result<Migrated> {
    connection.say("SELECT pg_advisory_xact_lock(4705161401); SET LOCAL lock_timeout = '2s'").await?;
    // The right to make a schema is asked for even if it is there.
    const MAKE: &str =
        "DO $$ BEGIN IF to_regnamespace('angarium') IS NULL THEN CREATE SCHEMA angarium; END IF; END $$";
    let from = refuse_newer(connection).await?;
    if from.is_none() {
        connection.say(MAKE).await.map_err(may_not)?;
    }
    let done = usize::try_from(from.unwrap_or(0)).unwrap_or(0);
    for text in MIGRATIONS.iter().skip(done) {
        connection.say(text).await.map_err(may_not)?;
    }
    const NOTE: &str = "INSERT INTO angarium.meta (name, value) VALUES ('schema', $1)
        ON CONFLICT (name) DO UPDATE SET value = $1";
    let version = KNOWN.to_string();
    connection.client.execute(NOTE, &[&version as &(dyn ToSql + Sync)]).await?;
    Ok(Migrated { from: from.unwrap_or(0), to: KNOWN })
}

fn may_not(error: StoreError) -> StoreError {
    if matches!(error, StoreError::Contended(_)) {
        return error;
    }
    StoreError::Refused(format!(
        "the schema cannot be brought up to version {KNOWN}: {error}. Run `angarium db migrate` as a role that may"
    ))
}

/// Refuses a server that is too old, and a database that has no place for every character.
pub(super) async fn refuse_unfit(connection: &Connection) -> Result<()> {
    const FIT: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')";
    let row = connection.client.query_one(FIT, &[]).await?;
    let (version, encoding): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
    if version / 10_000 < OLDEST_SERVER {
        let told =
            format!("the database server is PostgreSQL {}, Angarium needs {OLDEST_SERVER}", version / 10_000);
        return Err(StoreError::Refused(told));
    }
    if encoding != "UTF8" {
        let told = format!(
            "the database has the encoding {encoding}, Angarium needs UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        );
        return Err(StoreError::Refused(told));
    }
    Ok(())
}

/// The server's version and the settings that durability rests on.
pub(super) async fn settings(connection: &Connection) -> Result<(String, Vec<(String, String)>)> {
    const SETTINGS: [&str; 4] =
        ["fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names"];
    let mut settings = Vec::new();
    for name in SETTINGS {
        let row = connection.client.query_one("SELECT current_setting($1)", &[&name]).await?;
        settings.push((name.to_owned(), row.try_get(0)?));
    }
    if let Some(weak) = &connection.weak_default
        && let Some(commit) = settings.iter_mut().find(|(name, _)| name == "synchronous_commit")
    {
        commit.1 = weak.clone();
    }
    let row = connection.client.query_one("SELECT current_setting('server_version')", &[]).await?;
    Ok((row.try_get(0)?, settings))
}

/// What in these settings endangers what was acknowledged.
pub(super) fn warnings(settings: &[(String, String)]) -> Vec<String> {
    let is = |name: &str, value: &str| settings.iter().any(|(n, v)| n == name && v == value);
    let mut warnings = Vec::new();
    if is("fsync", "off") {
        warnings.push(
            "fsync is off: what is acknowledged does not survive a power cut, and the database may be lost"
                .into(),
        );
    }
    if is("full_page_writes", "off") {
        warnings.push("full_page_writes is off: a power cut may damage the database".into());
    }
    for weak in ["off", "local", "remote_write"] {
        if is("synchronous_commit", weak) {
            warnings.push(format!(
                "synchronous_commit is {weak} on the server; Angarium sets it to on for its own sessions"
            ));
        }
    }
    warnings
}

/// Standbys, as far as this role may see them.
pub(super) async fn standbys(connection: &Connection) -> Result<Vec<Standby>> {
    const STANDBYS: &str = "SELECT coalesce(application_name, ''), coalesce(state, 'hidden from this role'),
        coalesce(sync_state, 'hidden from this role') FROM pg_stat_replication ORDER BY 1 LIMIT 100";
    let rows = connection.client.query(STANDBYS, &[]).await?;
    let standby = |row: &tokio_postgres::Row| {
        Ok(Standby { name: row.try_get(0)?, state: row.try_get(1)?, sync_state: row.try_get(2)? })
    };
    rows.iter().map(standby).collect()
}
