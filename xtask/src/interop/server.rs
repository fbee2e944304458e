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

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    /// What the tests need to know, as variables of their environment.
    pub(crate) environment: Vec<(&'static str, String)>,
    process: Child,
}

impl Server {
    /// Starts `command`, which must stay in the foreground, and waits until every address takes connections.
    /// What it writes goes to `log`.
    pub(crate) fn start(
        mut command: Command,
        log: &Path,
        addresses: &[SocketAddr],
        environment: Vec<(&'static str, String)>,
    ) -> Result<Self, Failure> {
        let output = File::create(log).map_err(at(log))?;
        let errors = output.try_clone().map_err(at(log))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        // Postfix ends its children as a group, which must not be ours.
        let process = command.process_group(0).spawn();
        let process = process.map_err(|error| Failure::Usage(format!("{command:?}: {error}")))?;
        let mut server = Server { environment, process };
        for address in addresses {
            server.wait_for(*address, log)?;
        }
        Ok(server)
    }

    fn wait_for(&mut self, address: SocketAddr, log: &Path) -> Result<(), Failure> {
        for _ in 0..LOOKS {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                let told = std::fs::read_to_string(log).unwrap_or_default();
                return Err(Failure::Wrong(format!("a server ended with {status} and said:\n{told}")));
            }
            std::thread::sleep(PAUSE);
        }
        Err(Failure::Wrong(format!("nobody listens on {address}; see {}", log.display())))
    }
}

impl Drop for Server {
    /// Asks it to end, because only then does it end its own children, and waits until it has.
    fn drop(&mut self) {
        let kill = format!("kill -TERM {}", self.process.id());
        let _it_may_have_ended = Command::new("sh").args(["-c", &kill]).status();
        let _nothing_to_learn = self.process.wait();
    }
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| Failure::Wrong(format!("no free port: {error}")))
}
