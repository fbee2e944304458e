//! A mail server that was started here, and its end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use angarium_testbed::guard::{self, Plan, Process};

use crate::failure::Failure;

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    /// What the tests need to know, as variables of their environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    _process: Process,
}

impl Server {
    /// Starts `command`, which must stay in the foreground, and waits until every address takes connections.
    /// What it writes goes to `log`.
    pub(crate) fn start(
        command: &Command,
        log: &Path,
        addresses: &[SocketAddr],
        environment: Vec<(&'static str, String)>,
    ) -> Result<Self, Failure> {
        let process = run(command, log, addresses).map_err(|error| Failure::Wrong(error.to_string()))?;
        Ok(Server { environment, _process: process })
    }
}

fn run(command: &Command, log: &Path, addresses: &[SocketAddr]) -> io::Result<Process> {
    let mut process =
        Process::prepare(command, &Plan { log, user: None, last_signal: "TERM", folder: None })?;
    process.start()?;
    let listens = |_| addresses.iter().all(|address| TcpStream::connect(address).is_ok());
    if process.wait_until(listens)? { Ok(process) } else { Err(process.trouble("the server ends at once")) }
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    let port = guard::free_port().map_err(|error| Failure::Wrong(format!("no free port: {error}")))?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}
