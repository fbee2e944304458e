//! From a host to a connected stream: resolve, guard, connect, TLS. The addresses that passed the guard are the
//! addresses that are dialled; nothing is resolved twice.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::fault::{Fault, FaultKind};
use crate::guard::{Guard, Trust};
use crate::wire::Stream;

/// Most addresses of one name that are tried.
const ADDRESSES: usize = 8;

/// Who is dialled, and how. Two requests may share a connection if and only if these agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    host: Host<String>,
    port: u16,
    tls: bool,
    trust: Trust,
}

impl Endpoint {
    pub(crate) fn of(url: &Url, trust: Trust) -> Result<Self, Fault> {
        let refuse = |detail: &str| Fault::unsent(FaultKind::Request, detail);
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(refuse("the scheme is neither http nor https")),
        };
        let host = url.host().ok_or_else(|| refuse("the URL has no host"))?.to_owned();
        let port = url.port_or_known_default().ok_or_else(|| refuse("the URL has no port"))?;
        Ok(Endpoint { host, port, tls, trust })
    }

    /// For another protocol than HTTP, whose own rules say what may be sent before TLS.
    pub(crate) fn of_stream(host: Host<String>, port: u16, trust: Trust) -> Self {
        Endpoint { host, port, tls: true, trust }
    }
}

/// Makes connections.
pub(crate) struct Dialler {
    guard: Guard,
    hosts: HashMap<String, Vec<IpAddr>>,
    tls: TlsConnector,
    connect_timeout: Duration,
}

impl Dialler {
    /// A dialler; `protocols` are those that TLS offers to speak (ALPN).
    pub(crate) fn new(
        guard: Guard,
        hosts: HashMap<String, Vec<IpAddr>>,
        extra_roots: Vec<CertificateDer<'static>>,
        connect_timeout: Duration,
        protocols: &[&[u8]],
    ) -> Result<Self, BadRoot> {
        let tls = TlsConnector::from(Arc::new(tls_config(extra_roots, protocols)?));
        Ok(Dialler { guard, hosts, tls, connect_timeout })
    }

    /// Connects to `endpoint`, with TLS where it asks for that. Takes as long as it takes; the caller holds the
    /// watch.
    pub(crate) async fn dial(&self, endpoint: &Endpoint) -> Result<Box<dyn Stream>, Fault> {
        let stream = self.open(endpoint).await?;
        if endpoint.tls { self.secure(endpoint, stream).await } else { Ok(Box::new(stream)) }
    }

    /// A connection without TLS, for the time being.
    pub(crate) async fn open(&self, endpoint: &Endpoint) -> Result<TcpStream, Fault> {
        let addresses = self.resolve(endpoint).await?;
        self.vet(endpoint, &addresses)?;
        self.connect(&addresses).await
    }

    async fn resolve(&self, endpoint: &Endpoint) -> Result<Vec<SocketAddr>, Fault> {
        let port = endpoint.port;
        let name = match &endpoint.host {
            Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(IpAddr::V4(*ip), port)]),
            Host::Ipv6(ip) => return Ok(vec![SocketAddr::new(IpAddr::V6(*ip), port)]),
            Host::Domain(name) => name,
        };
        self.guard.check_name(name).map_err(Fault::blocked)?;
        let addresses: Vec<SocketAddr> = match self.hosts.get(name) {
            Some(fixed) => fixed.iter().map(|&ip| (ip, port).into()).collect(),
            None => tokio::net::lookup_host((name.as_str(), port))
                .await
                .map_err(|error| Fault::resolving(&error))?
                .collect(),
        };
        if addresses.is_empty() {
            return Err(Fault::unsent(FaultKind::NoSuchName, "the name has no address"));
        }
        Ok(addresses)
    }

    /// One blocked address among many refuses them all: whoever mixes them means no good.
    fn vet(&self, endpoint: &Endpoint, addresses: &[SocketAddr]) -> Result<(), Fault> {
        for address in addresses {
            let verdict = if endpoint.tls {
                self.guard.check(address.ip(), endpoint.trust)
            } else {
                self.guard.check_plain(address.ip(), endpoint.trust)
            };
            verdict.map_err(|blocked| {
                tracing::warn!(host = %endpoint.host, net.peer.address = %address, reason = %blocked, "refused to dial");
                Fault::blocked(blocked)
            })?;
        }
        Ok(())
    }

    /// Tries the addresses in order. Each gets an even share of the time that is left, so that one that swallows
    /// packets does not keep us from the next.
    async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Fault> {
        let end = Instant::now() + self.connect_timeout;
        let mut last = Fault::unsent(FaultKind::Connect, "no address was tried");
        let tried = addresses.len().min(ADDRESSES);
        for (left, address) in (1..=tried).rev().zip(addresses) {
            let share = end.saturating_duration_since(Instant::now()) / u32::try_from(left).unwrap_or(1);
            last = match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => Fault::unsent(FaultKind::or_local(&error, FaultKind::Connect), error),
                Err(_) => {
                    Fault::unsent(FaultKind::Connect, "the address did not take the connection in time")
                }
            };
        }
        Err(last)
    }

    /// TLS over `stream`, for the name that was dialled.
    pub(crate) async fn secure(
        &self,
        endpoint: &Endpoint,
        stream: TcpStream,
    ) -> Result<Box<dyn Stream>, Fault> {
        let name = match &endpoint.host {
            Host::Ipv4(ip) => ServerName::from(*ip),
            Host::Ipv6(ip) => ServerName::from(*ip),
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| {
                Fault::unsent(FaultKind::Tls, "the host is no name that a certificate can have")
            })?,
        };
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(Fault::handshake(&error)),
        }
    }
}

/// A certificate that cannot serve as a root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a certificate authority's certificate: {0}")]
pub struct BadRoot(String);

/// Reads the certificates in a PEM text; other sections are passed over. Fails if there is none.
pub fn roots_from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BadRoot> {
    let roots: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| BadRoot(error.to_string()))?;
    if roots.is_empty() { Err(BadRoot("no certificate found".to_owned())) } else { Ok(roots) }
}

/// Mozilla's roots and `extra_roots`; TLS 1.2 and 1.3; no switch that would make it insecure.
fn tls_config(
    extra_roots: Vec<CertificateDer<'static>>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, BadRoot> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for root in extra_roots {
        roots.add(root).map_err(|error| BadRoot(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BadRoot(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
