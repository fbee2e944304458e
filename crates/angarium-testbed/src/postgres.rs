//! PostgreSQL servers: one for a test that mistreats it ([`Server`]), one for all others ([`fresh_database`]).
//!
//! A server is as durable as one in production: `fsync` is on. Role `angarium` owns the databases and nothing more,
//! role `postgres` may do everything; both are let in from loopback without a password unless [`Setup::password`]
//! asks for one.

mod endpoint;
mod replication;
mod settings;
mod shared;

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use endpoint::{Endpoint, psql};
pub use settings::{Setup, Tls};
pub use shared::{Fresh, SHARED_SERVER, fresh_database, shared};

use crate::folder::Folder;
use crate::guard::{Plan, Process};
use crate::programs;

/// Where the data lies in a server's folder.
const DATA: &str = "data";

/// A PostgreSQL server of its own. It ends, and its data with it, when this is dropped or this process dies.
///
/// Methods panic when the server does not do as it is told, with its own words.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    process: Mutex<Process>,
    /// Removed by the guard, not by this.
    folder: Folder,
    standbys: AtomicU32,
}

impl Server {
    /// A server that nothing special is asked of. Ready for connections.
    pub fn start() -> Self {
        Self::start_with(&Setup::default())
    }

    /// A server as `setup` has it. Ready for connections.
    pub fn start_with(setup: &Setup) -> Self {
        expect(Self::try_start(setup))
    }

    /// As [`start_with`](Self::start_with).
    ///
    /// # Errors
    ///
    /// A program is missing, or the server does not start; the message says what to do, or what the server said.
    pub fn try_start(setup: &Setup) -> io::Result<Self> {
        let folder = Folder::create()?;
        let mut initdb = tool(&folder, "initdb")?;
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
        run(initdb.args(["--no-sync", "--pgdata", DATA]))?;
        setup.write_into(&folder)?;
        let server = Self::launch(folder, setup.faketime.as_deref(), setup.password.clone())?;
        server.endpoint.try_sql("postgres", &setup.role())?;
        Ok(server)
    }

    /// Starts the server on the data that lie in `folder` already.
    fn launch(mut folder: Folder, clock: Option<&str>, password: Option<String>) -> io::Result<Self> {
        let mut postgres = match clock {
            Some(time) => settings::with_fake_time("postgres", time, &folder)?,
            None => tool(&folder, "postgres")?,
        };
        postgres.args(["-D", DATA]);
        let log = folder.path().join("log");
        // QUIT, as a crash: nobody needs the data any more, and no client is waited for.
        let plan = Plan { log: &log, user: folder.user(), last_signal: "QUIT", folder: Some(folder.path()) };
        let mut process = Process::prepare(&postgres, &plan)?;
        folder.keep();
        let tell = |port| folder.write(settings::PORT, &format!("port = {port}\n"));
        let port = process.start_on_free_port(tell, |pid| is_ready(&folder, pid))?;
        let endpoint = Endpoint::on_loopback(port, password);
        Ok(Server { endpoint, process: Mutex::new(process), folder, standbys: AtomicU32::new(0) })
    }

    /// Where the server listens, and how to speak to it: what a [`Pooler`](crate::pgbouncer::Pooler) wants to know.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where the server listens: what a [`Proxy`](crate::proxy::Proxy) wants to know.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address()
    }

    /// The URL of a database for role `angarium`.
    pub fn url(&self, database: &str) -> String {
        self.endpoint.url(database)
    }

    /// The URL of a database for role `postgres`, which may do everything.
    pub fn admin_url(&self, database: &str) -> String {
        self.endpoint.admin_url(database)
    }

    /// A new database that belongs to role `angarium`; its URL.
    pub fn create_database(&self) -> String {
        self.url(&self.endpoint.create_database())
    }

    /// Runs SQL statements as role `postgres`, each in a transaction of its own, and returns what they output: columns
    /// between `|`, rows in lines. Waits as long as the server does.
    pub fn sql(&self, database: &str, text: &str) -> String {
        self.endpoint.sql(database, text)
    }

    /// Ends the server as a crash does: the next start has to recover. Returns when it has ended.
    pub fn stop_immediately(&self) {
        expect(self.process().stop("QUIT"));
    }

    /// Ends the server properly, though its clients are cut off. Returns when it has ended.
    pub fn stop_fast(&self) {
        expect(self.process().stop("INT"));
    }

    /// Starts a stopped server again, with its data and on its port. Ready for connections when this returns.
    pub fn start_again(&self) {
        let mut process = self.process();
        expect(process.start());
        let is_up = expect(process.wait_until(|pid| is_ready(&self.folder, pid)));
        assert!(is_up, "{}", process.trouble("the server ends at once"));
    }

    /// The process number of the postmaster.
    pub fn pid(&self) -> u32 {
        self.process().pid().expect("the server runs")
    }

    /// Sends a signal, named without `SIG`, to the postmaster alone.
    pub fn signal(&self, signal: &str) {
        self.process().signal(signal);
    }

    /// Stops the postmaster and all of its processes where they stand: connections stay open, nothing answers.
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Sets the clock of a server with [`Setup::faketime`], in the same spelling. New backends see it at once, and those
    /// that run do with their next look at the time.
    pub fn set_clock(&self, time: &str) {
        expect(self.folder.write(settings::CLOCK, time));
    }

    /// Everything the server has logged since it was first started.
    pub fn log(&self) -> String {
        let log = expect(std::fs::read(self.folder.path().join("log")));
        String::from_utf8_lossy(&log).into_owned()
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server with this process number says so itself, as `pg_ctl` looks: who answers on the port could be
/// somebody else.
fn is_ready(folder: &Folder, pid: u32) -> bool {
    let status = std::fs::read_to_string(folder.path().join(DATA).join("postmaster.pid")).unwrap_or_default();
    let mut lines = status.lines().map(str::trim);
    lines.next() == Some(&pid.to_string()) && matches!(lines.nth(6), Some("ready" | "standby"))
}

/// A program of PostgreSQL that runs in `folder` as its owner.
fn tool(folder: &Folder, name: &str) -> io::Result<Command> {
    Ok(command(folder, &programs::of_postgres(name)?))
}

fn command(folder: &Folder, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").current_dir(folder.path());
    if let Some(user) = folder.user() {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

fn run(command: &mut Command) -> io::Result<Output> {
    judge(&format!("{:?}", command.get_program()), command.output()?)
}

/// What a program answered, if it is content.
fn judge(what: &str, output: Output) -> io::Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{what}: {}\n{errors}", output.status)))
}

#[track_caller]
fn expect<T>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
