//! One connection: a client's half and a server's half.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// How long a write waits for room before it looks whether it should go on.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
}

impl Link {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> Self {
        for half in [&client, &server] {
            let _gone_already = half.set_nodelay(true);
            let _gone_already = half.set_write_timeout(Some(PATIENCE));
        }
        Link { client, server }
    }

    /// Ends both halves with a reset as soon as nobody holds this any more, and lets nobody wait for their bytes.
    pub(super) fn reset(&self) {
        reset(&self.client);
        reset(&self.server);
    }

    /// As [`reset`](Self::reset), but the server reads what was sent to it and then a proper end.
    pub(super) fn reset_client(&self) {
        reset(&self.client);
        let _gone_already = self.server.shutdown(Shutdown::Read);
    }
}

/// Ends a connection with a reset as soon as it is dropped. The other side notices nothing before that.
pub(super) fn reset(stream: &TcpStream) {
    let _gone_already = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
    let _gone_already = stream.shutdown(Shutdown::Read);
}

/// Writes all of `chunk`, as long as it is `wanted` while there is no room for it.
pub(super) fn write(mut to: &TcpStream, mut chunk: &[u8], wanted: impl Fn() -> bool) -> io::Result<()> {
    while !chunk.is_empty() {
        match to.write(chunk) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => chunk = &chunk[written..],
            Err(error) if is_full(&error) && wanted() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
