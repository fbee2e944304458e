//! PgBouncer before a server, as many installations have it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use crate::folder::Folder;
use crate::guard::{Plan, Process};
use crate::postgres::Endpoint;
use crate::programs;

const CONFIGURATION: &str = "pgbouncer.ini";

/// How long a client keeps a connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Until its transaction ends: what is set or prepared for a session gets lost, or meets somebody else.
    Transaction,
    /// Until it disconnects.
    Session,
}

/// A pooler of its own. It ends when this is dropped or this process dies.
#[derive(Debug)]
pub struct Pooler {
    endpoint: Endpoint,
    address: SocketAddr,
    process: Process,
}

impl Pooler {
    /// Starts a pooler before the server at `endpoint`. `settings` are lines of its `[pgbouncer]` section, name and
    /// value, as `("ignore_startup_parameters", "extra_float_digits")`; they win over the testbed's own. Panics if it
    /// does not start.
    pub fn start(endpoint: &Endpoint, mode: Mode, settings: &[(&str, &str)]) -> Self {
        Self::try_start(endpoint, mode, settings).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(endpoint: &Endpoint, mode: Mode, settings: &[(&str, &str)]) -> io::Result<Self> {
        let mut folder = Folder::create()?;
        folder.write("users", &users(endpoint))?;
        let mut pgbouncer = Command::new(programs::pgbouncer()?);
        pgbouncer.arg(CONFIGURATION).current_dir(folder.path());
        let log = folder.path().join("log");
        // KILL, because how patient it is with other signals depends on its version.
        let plan = Plan { log: &log, user: folder.user(), last_signal: "KILL", folder: Some(folder.path()) };
        let mut process = Process::prepare(&pgbouncer, &plan)?;
        folder.keep();
        let tell = |port| folder.write(CONFIGURATION, &configuration(endpoint, mode, settings, port));
        let is_up = |_| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("process up"));
        let port = process.start_on_free_port(tell, is_up)?;
        Ok(Pooler { endpoint: endpoint.clone(), address: (Ipv4Addr::LOCALHOST, port).into(), process })
    }

    /// Where the pooler listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a database of the server, by way of the pooler, for role `angarium`.
    pub fn url(&self, database: &str) -> String {
        self.endpoint.url_by_way_of(self.address, database)
    }

    /// The process number of the pooler.
    pub fn pid(&self) -> u32 {
        self.process.pid().expect("the pooler runs")
    }
}

fn users(endpoint: &Endpoint) -> String {
    let password = endpoint.password().unwrap_or_default().replace('"', "\"\"");
    format!("\"angarium\" \"{password}\"\n\"postgres\" \"\"\n")
}

fn configuration(endpoint: &Endpoint, mode: Mode, settings: &[(&str, &str)], port: u16) -> String {
    let mode = match mode {
        Mode::Transaction => "transaction",
        Mode::Session => "session",
    };
    let proof = if endpoint.password().is_some() { "scram-sha-256" } else { "trust" };
    let (host, server_port) = (endpoint.address().ip(), endpoint.address().port());
    let mut text = format!(
        "[databases]\n\
         * = host={host} port={server_port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = {proof}\n\
         auth_file = users\n\
         pool_mode = {mode}\n\
         max_client_conn = 400\n\
         default_pool_size = 50\n"
    );
    for (name, value) in settings {
        text += &format!("{name} = {value}\n");
    }
    text
}
