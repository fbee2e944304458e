//! What a server is told before it starts.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{DATA, command};
use crate::folder::Folder;
use crate::programs;

/// Files in a server's folder: the port, which is only known at the start, and the time it believes in.
pub(super) const PORT: &str = "data/port.conf";
pub(super) const CLOCK: &str = "clock";

/// Durability is PostgreSQL's own default (`fsync`, `synchronous_commit`). Enough log is kept for a standby that
/// stands still for a while.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
wal_level = replica
min_wal_size = 512MB
log_line_prefix = '%m [%p] %q%u@%d %a: '
";

/// What a test asks of its server.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Settings as in `postgresql.conf`, name and value; later ones win, and all of them over the testbed's own.
    pub settings: Vec<(String, String)>,
    /// What role `angarium` must prove to know, by SCRAM; otherwise it is let in unasked, as `postgres` always is.
    pub password: Option<String>,
    /// Offers TLS; whether to use it is up to the client unless [`access`](Self::access) says otherwise.
    pub tls: Option<Tls>,
    /// Lines of `pg_hba.conf` that come before the testbed's, as `hostnossl all angarium all reject`.
    pub access: Vec<String>,
    /// What the server takes for the time, as libfaketime spells it: `+3d`, `-90s`, `@2031-01-01 00:00:00`. Timeouts
    /// are not touched by it.
    pub faketime: Option<String>,
}

/// A certificate of the server, both as PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate, and what leads from there to its authority.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Setup {
    /// Writes it all into the data that `initdb` has made.
    pub(super) fn write_into(&self, folder: &Folder) -> io::Result<()> {
        let mut settings = SETTINGS.to_owned();
        if let Some(tls) = &self.tls {
            folder.write("data/server.crt", &tls.certificate)?;
            folder.write("data/server.key", &tls.key)?;
            settings += "ssl = on\n";
        }
        for (name, value) in &self.settings {
            settings += &format!("{name} = {}\n", quoted(value));
        }
        folder.write("data/testbed.conf", &settings)?;
        let defaults = std::fs::read_to_string(folder.path().join(DATA).join("postgresql.conf"))?;
        let includes = "include 'testbed.conf'\ninclude 'port.conf'\n";
        folder.write("data/postgresql.conf", &(defaults + includes))?;
        folder.write("data/pg_hba.conf", &self.rules())
    }

    /// The statement that creates role `angarium`.
    pub(super) fn role(&self) -> String {
        let password = self.password.as_deref().map(|password| format!(" PASSWORD {}", quoted(password)));
        format!("CREATE ROLE angarium LOGIN{}", password.unwrap_or_default())
    }

    fn rules(&self) -> String {
        let method = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let own = [
            "host all,replication postgres 127.0.0.1/32 trust".to_owned(),
            format!("host all all 127.0.0.1/32 {method}"),
        ];
        let rules: Vec<String> = self.access.iter().cloned().chain(own).collect();
        rules.join("\n") + "\n"
    }
}

/// A program of PostgreSQL that believes in the time that [`CLOCK`] says, `time` at first, and looks it up each time.
/// Only that program is told so, not the shell that guards it.
pub(super) fn with_fake_time(program: &str, time: &str, folder: &Folder) -> io::Result<Command> {
    folder.write(CLOCK, time)?;
    let mut env = command(folder, Path::new("env"));
    let set = |name: &str, value: &Path| format!("{name}={}", value.display());
    env.arg(set("LD_PRELOAD", &programs::libfaketime()?));
    env.arg(set("FAKETIME_TIMESTAMP_FILE", &folder.path().join(CLOCK)));
    env.args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]).arg(programs::of_postgres(program)?);
    Ok(env)
}

/// A text as both settings and SQL spell it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
