//! Somebody else's transaction that holds a table.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use angarium_testbed::postgres::{self, Fresh};
use angarium_testbed::programs;

/// A table that nobody can look at.
pub(super) struct Lock {
    session: Child,
    input: ChildStdin,
    table: &'static str,
}

impl Lock {
    pub(super) fn take(database: &Fresh, table: &'static str) -> Self {
        let mut psql = Command::new(programs::of_postgres("psql").unwrap());
        psql.args(["-XqAt", "-d", &postgres::shared().admin_url(&database.name)]);
        let mut session = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = session.stdin.take().unwrap();
        let lock = format!("LOCK TABLE angarium.{table} IN ACCESS EXCLUSIVE MODE");
        writeln!(input, "BEGIN; {lock}; SELECT 'locked';").unwrap();
        let mut said = String::new();
        BufReader::new(session.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said.trim(), "locked");
        Lock { session, input, table }
    }

    /// How many sessions wait for it.
    pub(super) fn waiting(&self, database: &Fresh) -> usize {
        let waiting = format!(
            "SELECT count(*) FROM pg_locks
             WHERE NOT granted AND relation = 'angarium.{}'::regclass AND locktype = 'relation'",
            self.table
        );
        database.sql(&waiting).parse().unwrap()
    }

    pub(super) fn release(mut self) {
        writeln!(self.input, "COMMIT;").unwrap();
        drop(self.input);
        assert!(self.session.wait().unwrap().success());
    }
}
