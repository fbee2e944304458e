//! A server that was started here, and its end.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::tree::at;
use crate::failure::Failure;

/// Looks at a starting server, and the pause between two of them.
const LOOKS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a server until its own input ends, which it does when this program does, however that comes about.
/// The server has a session of its own, because Postfix ends its children as a group.
const GUARD: &str = r#"setsid "$@" & read -r _; kill -TERM $!; wait"#;

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    /// What the tests need to know, as variables of their environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    guard: Child,
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
        let output = File::create(log).map_err(at(log))?;
        let errors = output.try_clone().map_err(at(log))?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh"]).arg(command.get_program()).args(command.get_args());
        // What a terminal sends to this program must not end the guard before its server.
        guard.process_group(0).stdin(Stdio::piped()).stdout(output).stderr(errors);
        let guard = guard.spawn().map_err(|error| Failure::Usage(format!("{guard:?}: {error}")))?;
        let server = Server { environment, guard };
        addresses.iter().try_for_each(|address| wait_for(*address, log))?;
        Ok(server)
    }
}

fn wait_for(address: SocketAddr, log: &Path) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        if TcpStream::connect(address).is_ok() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    let told = std::fs::read_to_string(log).unwrap_or_default();
    Err(Failure::Wrong(format!("nobody listens on {address}; {} says:\n{told}", log.display())))
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _nothing_to_learn = self.guard.wait();
    }
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| Failure::Wrong(format!("no free port: {error}")))
}
