//! The databases that stories are told on.

use std::path::PathBuf;

use angarium_store::{Database, Options, PostgresUrl};
use angarium_testbed::postgres::{Fresh, fresh_database};

use crate::support::NEVER;

/// Which kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Sqlite,
    Postgres,
}

/// A fresh database; it goes when nobody is on it any more.
pub(crate) enum Home {
    Sqlite { file: PathBuf, _folder: tempfile::TempDir },
    Postgres(Fresh),
}

impl Home {
    pub(crate) fn fresh(on: On) -> Self {
        match on {
            On::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                Home::Sqlite { file: folder.path().join("angarium.db"), _folder: folder }
            }
            On::Postgres => Home::Postgres(fresh_database()),
        }
    }

    /// How it is opened.
    pub(crate) fn options(&self) -> Options {
        match self {
            Home::Sqlite { file, .. } => Options::new(file),
            Home::Postgres(fresh) => Options::at(Database::Postgres(PostgresUrl::parse(&fresh.url).unwrap())),
        }
    }

    /// Changes it behind everybody's back; returns what PostgreSQL outputs.
    pub(crate) fn tamper(&self, sql: &str) -> String {
        match self {
            Home::Sqlite { file, .. } => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(NEVER).unwrap();
                connection.execute_batch(sql).unwrap();
                String::new()
            }
            Home::Postgres(fresh) => fresh.sql(&format!("SET search_path = angarium;\n{sql}")),
        }
    }

    /// From now on no row of this table can be changed.
    pub(crate) fn break_table(&self, table: &str) {
        let refuse = match self {
            Home::Sqlite { .. } => {
                format!("CREATE TRIGGER broken BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
            }
            Home::Postgres(_) => format!(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
                CREATE TRIGGER broken BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse();"
            ),
        };
        self.tamper(&refuse);
    }

    pub(crate) fn mend_table(&self, table: &str) {
        self.tamper(&match self {
            Home::Sqlite { .. } => "DROP TRIGGER broken".to_owned(),
            Home::Postgres(_) => format!("DROP TRIGGER broken ON {table}"),
        });
    }
}
