//! What a server stores in.

use std::process::Command;
use std::sync::Arc;

use angarium_testbed::{postgres, programs};

/// A place to store in. Clones name the same one.
#[derive(Clone)]
pub(crate) enum Database {
    /// As the configuration spells it; a file beside it if it says nothing.
    At(Option<String>),
    /// A database of its own on the server that all tests share. It ends with the last clone.
    Fresh(Arc<postgres::Fresh>),
}

impl Database {
    /// A file beside the configuration.
    pub(crate) fn sqlite() -> Self {
        Database::At(None)
    }

    /// A new PostgreSQL database.
    pub(crate) fn postgres() -> Self {
        Database::Fresh(Arc::new(postgres::fresh_database()))
    }

    /// As the configuration spells it.
    pub(crate) fn at(place: &str) -> Self {
        Database::At(Some(place.to_owned()))
    }

    /// The line of the table `server` that names it.
    pub(crate) fn setting(&self) -> String {
        let place = match self {
            Database::At(place) => place.as_deref(),
            Database::Fresh(fresh) => Some(&*fresh.url),
        };
        place.map(|place| format!("database = \"{place}\"\n")).unwrap_or_default()
    }

    /// The table `outbox` for tests in which a server dies: where other servers may live, what it held is free only
    /// once its lease has ended.
    pub(crate) fn lease(&self, length: &str) -> String {
        match self {
            Database::At(None) => String::new(),
            _ => format!("\n[outbox]\nlease = \"{length}\"\n"),
        }
    }

    /// Everything that is stored, unless it lies in files beside the configuration.
    pub(crate) fn dump(&self) -> Option<Vec<u8>> {
        let Database::Fresh(fresh) = self else { return None };
        let mut dump = Command::new(programs::of_postgres("pg_dump").unwrap());
        let dumped = dump.arg(postgres::shared().admin_url(&fresh.name)).output().unwrap();
        assert!(dumped.status.success(), "{dumped:?}");
        Some(dumped.stdout)
    }
}
