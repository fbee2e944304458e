//! `db status` and `db migrate`: the database itself, from its configuration, whether a node runs or not.
//!
//! `status` opens nothing for writing. Its exit code says whether the schema is this program's, so that a deployment can
//! wait for that or migrate first; a start of `serve` migrates by itself.

use std::future::Future;
use std::path::Path;

use angarium_store::{DatabaseStatus, Migrated, Options, Store, StoreError};
use serde_json::{Value, json};

use super::exit::{Exit, Failure, say};
use super::output::{Format, Out};
use super::table::{Column, Table, escape};
use crate::config::Config;

const COLUMNS: &[Column] = &[("WHAT", 40), ("VALUE", 100)];

pub(super) fn status(config: Option<&Path>, out: &mut Out) -> Result<Exit, Failure> {
    let options = options(config, out)?;
    let status = wait(Store::status(&options))?;
    match out.format() {
        Format::Json => out.line(&as_json(&status).to_string()),
        _ => {
            status.warnings.iter().for_each(|warning| say(&format!("warning: {}\n", escape(warning))));
            Table::new(COLUMNS).write(&rows(&status), out);
        }
    }
    Ok(if status.schema == Some(status.known) { Exit::Fine } else { Exit::Failed })
}

pub(super) fn migrate(config: Option<&Path>, out: &mut Out) -> Result<Exit, Failure> {
    let options = options(config, out)?;
    let Migrated { from, to } = wait(Store::migrate(&options))?;
    match out.format() {
        Format::Json => out.line(&json!({"from": from, "to": to}).to_string()),
        _ if from == to => out.line(&format!("the schema has version {to} already")),
        _ => out.line(&format!("the schema had version {from} and has version {to} now")),
    }
    Ok(Exit::Fine)
}

/// How the configured database is opened.
fn options(config: Option<&Path>, out: &Out) -> Result<Options, Failure> {
    if out.format() == Format::Ids {
        return Err(Failure::usage("a database has no ids to show: leave out -o ids"));
    }
    let database = Config::load_database(config).map_err(|problems| Failure::configuration(&problems))?;
    Ok(Options::at(database))
}

/// Runs to its end what talks to the database.
fn wait<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("no_runtime", &format!("no threads to work with: {error}")))?;
    runtime.block_on(asked).map_err(|error| match error {
        StoreError::Unavailable(_) => Failure::no_database(&error.to_string()),
        other => Failure::failed("database_failed", &other.to_string()),
    })
}

/// How a schema stands to the one that this program works with, as a word for programs and a sentence for people.
fn standing(status: &DatabaseStatus) -> (&'static str, &'static str) {
    match status.schema {
        None => ("empty", "nothing is stored yet; db migrate, or the start of a node, prepares it"),
        Some(found) if found < status.known => {
            ("older", "db migrate, or the start of a node, brings it up to date")
        }
        Some(found) if found > status.known => ("newer", "only a newer program can use it"),
        Some(_) => ("current", "up to date"),
    }
}

fn as_json(status: &DatabaseStatus) -> Value {
    let settings = status.settings.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let standbys = status.standbys.iter().map(
        |standby| json!({"name": standby.name, "state": standby.state, "sync_state": standby.sync_state}),
    );
    json!({
        "database": status.database,
        "place": status.place,
        "server_version": status.server_version,
        "schema": status.schema,
        "known": status.known,
        "standing": standing(status).0,
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "standbys": standbys.collect::<Vec<_>>(),
        "warnings": status.warnings,
    })
}

fn rows(status: &DatabaseStatus) -> Vec<Vec<String>> {
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let found = status.schema.map_or_else(|| "none".to_owned(), |found| found.to_string());
    let schema = format!("{found} of {}: {}", status.known, standing(status).1);
    let mut rows = vec![
        row("database", format!("{} {}", status.database, status.server_version)),
        row("place", status.place.clone()),
        row("schema", schema),
    ];
    rows.extend(status.settings.iter().map(|(name, value)| row(name, value.clone())));
    rows.extend(status.standbys.iter().map(|standby| {
        row(&format!("standby {}", standby.name), format!("{}, {}", standby.state, standby.sync_state))
    }));
    rows
}

#[cfg(test)]
mod tests {
    use angarium_store::Standby;

    use super::*;
    use crate::cli::output::tests::Captured;

    fn status_of(schema: Option<i64>) -> DatabaseStatus {
        DatabaseStatus {
            database: "postgres",
            place: "db.example.com/angarium".to_owned(),
            schema,
            known: 3,
            server_version: "15.18".to_owned(),
            settings: vec![("synchronous_commit".to_owned(), "on".to_owned())],
            standbys: vec![Standby {
                name: "standby".to_owned(),
                state: "streaming".to_owned(),
                sync_state: "sync".to_owned(),
            }],
            warnings: vec!["is odd".to_owned()],
        }
    }

    #[test]
    fn how_a_schema_stands() {
        for (schema, word) in [(None, "empty"), (Some(2), "older"), (Some(3), "current"), (Some(4), "newer")]
        {
            assert_eq!(standing(&status_of(schema)).0, word, "{schema:?}");
        }
    }

    #[test]
    fn a_status_as_it_is_shown() {
        let shown = rows(&status_of(Some(3)));
        let lines: Vec<String> = shown.iter().map(|row| row.join(": ")).collect();
        let expected = [
            "database: postgres 15.18",
            "place: db.example.com/angarium",
            "schema: 3 of 3: up to date",
            "synchronous_commit: on",
            "standby standby: streaming, sync",
        ];
        assert_eq!(lines, expected);
        let expected = json!({
            "database": "postgres", "place": "db.example.com/angarium", "server_version": "15.18", "schema": 3,
            "known": 3, "standing": "current", "settings": {"synchronous_commit": "on"},
            "standbys": [{"name": "standby", "state": "streaming", "sync_state": "sync"}], "warnings": ["is odd"],
        });
        assert_eq!(as_json(&status_of(Some(3))), expected);
        assert_eq!(as_json(&status_of(None))["schema"], Value::Null);
    }

    /// Looking changes nothing, a migration prepares the database, and the exit codes are what scripts go by.
    #[test]
    fn a_database_is_looked_at_and_prepared() {
        let folder = tempfile::tempdir().unwrap();
        let (config, file) = (folder.path().join("angarium.toml"), folder.path().join("a.db"));
        std::fs::write(
            &config,
            "[server]\ndatabase = \"sqlite:a.db\"\n[channels.h]\nsecret = \"${env:NONE}\"\n",
        )
        .unwrap();
        let captured = Captured::default();
        let mut out = captured.out(Format::Json);
        assert_eq!(status(Some(&config), &mut out), Ok(Exit::Failed), "it is empty");
        assert!(!file.exists(), "looking made a file");
        assert_eq!(migrate(Some(&config), &mut out), Ok(Exit::Fine));
        assert_eq!(status(Some(&config), &mut out), Ok(Exit::Fine));
        assert_eq!(migrate(Some(&config), &mut out), Ok(Exit::Fine));
        let text = captured.text();
        let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&told[0]["standing"], &told[2]["standing"]), (&json!("empty"), &json!("current")));
        assert_eq!((&told[1]["from"], &told[3]["from"]), (&json!(0), &told[3]["to"]));
        let ids = status(Some(&config), &mut captured.out(Format::Ids)).unwrap_err();
        assert_eq!(ids.exit(), Exit::Usage);
        std::fs::write(&config, "[server]\ndatabase = \"sqlite:missing/a.db\"").unwrap();
        assert_eq!(migrate(Some(&config), &mut out).unwrap_err().exit(), Exit::Unreachable);
    }
}
