//! Bare connections, for protocols that are not HTTP. They pass the same guard and trust the same certificates.

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Host;

use crate::client::Options;
use crate::dial::{BadRoot, Dialler, Endpoint};
use crate::fault::{Fault, FaultKind};
use crate::guard::Trust;
use crate::wire::Stream;

/// Makes bare connections.
pub struct Connector(Dialler);

/// A connection without TLS. What may be sent over it, its protocol decides.
pub struct Unprotected {
    endpoint: Endpoint,
    stream: TcpStream,
}

impl Connector {
    /// A connector with these options; those that concern requests do not matter to it.
    pub fn new(options: Options) -> Result<Self, BadRoot> {
        let Options { guard, extra_roots, hosts, connect_timeout, .. } = options;
        Dialler::new(guard, hosts, extra_roots, connect_timeout, &[]).map(Connector)
    }

    /// Connects to a host, until `deadline` at most.
    pub async fn connect(
        &self,
        host: &Host<String>,
        port: u16,
        trust: Trust,
        deadline: Instant,
    ) -> Result<Unprotected, Fault> {
        let endpoint = Endpoint::of_stream(host.clone(), port, trust);
        let stream = in_time(deadline, self.0.open(&endpoint)).await?;
        Ok(Unprotected { endpoint, stream })
    }

    /// Begins TLS on a connection, for the host that it was made to. Nothing that came in before may be left unread.
    pub async fn secure(&self, connection: Unprotected, deadline: Instant) -> Result<Box<dyn Stream>, Fault> {
        let Unprotected { endpoint, stream } = connection;
        in_time(deadline, self.0.secure(&endpoint, stream)).await
    }
}

impl Unprotected {
    /// The stream as it is, to speak over until TLS is begun or for good.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

async fn in_time<T>(deadline: Instant, step: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout_at(deadline, step)
        .await
        .unwrap_or_else(|_| Err(Fault::unsent(FaultKind::Timeout, "no connection in time")))
}
