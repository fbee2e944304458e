//! The client: a request out, an answer or a fault back.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use angarium_domain::limits::RESPONSE_READ_BYTES;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Uri};
use http_body_util::Full;
use rustls_pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};
use url::{Position, Url};

use crate::connection::Connection;
use crate::dial::{BadRoot, Dialler, Endpoint};
use crate::fault::{Fault, FaultKind};
use crate::guard::{Guard, Trust};
use crate::pool::Pool;

/// The longest that any request may take, whatever it asks for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Headers that belong to the connection or frame the body; what a caller says about them is not sent.
const RESERVED: [HeaderName; 8] =
    [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, EXPECT, UPGRADE, TE, TRAILER];

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who may be dialled.
    pub guard: Guard,
    /// Certificate authorities trusted besides Mozilla's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Names (in lower case) whose addresses are fixed, as in a hosts file. The guard looks at those too.
    pub hosts: HashMap<String, Vec<IpAddr>>,
    /// How long a connection may wait for its next request; 10 s, shorter than most receivers wait.
    pub idle_timeout: Duration,
    /// How long connecting may take over all addresses of a name, TLS not included; 5 s.
    pub connect_timeout: Duration,
    /// Idle connections kept for one endpoint; 8.
    pub max_idle_per_host: usize,
    /// Bytes of an answer's body that are read; [`RESPONSE_READ_BYTES`]. More for a server that is trusted.
    pub read_limit: usize,
}

impl Options {
    /// The usual options behind `guard`.
    pub fn new(guard: Guard) -> Self {
        Options {
            guard,
            extra_roots: Vec::new(),
            hosts: HashMap::new(),
            idle_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            max_idle_per_host: 8,
            read_limit: RESPONSE_READ_BYTES,
        }
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to: http or https. User name, password and fragment are not sent.
    pub url: Url,
    /// Headers, sent in this order. `host`, `content-length` and what concerns the connection are set here.
    pub headers: HeaderMap,
    /// The body, possibly empty.
    pub body: Bytes,
    /// How long it may take altogether, from resolving the name to the last byte of the answer's body.
    pub timeout: Duration,
    /// Where the URL came from.
    pub trust: Trust,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers as they came.
    pub headers: HeaderMap,
    /// The body as it came, at most [`Options::read_limit`] bytes of it.
    pub body: Bytes,
    /// The body is not whole: it was longer, it broke off, or the time was up.
    pub truncated: bool,
}

/// Sends requests. To be shared: it holds the idle connections.
pub struct Client {
    dialler: Dialler,
    pool: Pool,
    read_limit: usize,
}

impl Client {
    /// A client with these options. Fails if one of the extra roots is none.
    pub fn new(options: Options) -> Result<Self, BadRoot> {
        let Options {
            guard,
            extra_roots,
            hosts,
            idle_timeout,
            connect_timeout,
            max_idle_per_host,
            read_limit,
        } = options;
        let dialler = Dialler::new(guard, hosts, extra_roots, connect_timeout, &[b"http/1.1"])?;
        Ok(Client { dialler, pool: Pool::new(idle_timeout, max_idle_per_host), read_limit })
    }

    /// Sends `request` once and waits for the answer, whatever its status. Dropping the future closes the
    /// connection.
    ///
    /// A pooled connection that turns out closed before a byte of the request left is passed over. That is the
    /// only case in which another connection is tried.
    pub async fn send(&self, request: Request) -> Result<Response, Fault> {
        let deadline = Instant::now() + request.timeout.min(LONGEST);
        let endpoint = Endpoint::of(&request.url, request.trust)?;
        let request = on_the_wire(request)?;
        while let Some(mut pooled) = self.pool.take(&endpoint) {
            match pooled.ask(request.clone(), deadline).await {
                Ok(head) => return Ok(self.finish(endpoint, pooled, head, deadline).await),
                Err(_) if pooled.is_untouched() => {}
                Err(fault) => return Err(fault),
            }
        }
        let stream = timeout_at(deadline, self.dialler.dial(&endpoint))
            .await
            .unwrap_or_else(|_| Err(Fault::unsent(FaultKind::Timeout, "no connection in time")))?;
        let mut fresh = Connection::over(stream).await?;
        let head = fresh.ask(request, deadline).await?;
        Ok(self.finish(endpoint, fresh, head, deadline).await)
    }

    async fn finish(
        &self,
        endpoint: Endpoint,
        mut connection: Connection,
        head: http::Response<hyper::body::Incoming>,
        deadline: Instant,
    ) -> Response {
        let (head, incoming) = head.into_parts();
        let (body, truncated) = connection.read(incoming, self.read_limit, deadline).await;
        if !truncated && connection.is_idle() {
            self.pool.put(endpoint, connection);
        }
        Response { status: head.status.as_u16(), headers: head.headers, body, truncated }
    }
}

/// The request in origin form, with the headers that only we may set.
fn on_the_wire(request: Request) -> Result<http::Request<Full<Bytes>>, Fault> {
    let Request { method, url, headers: given, body, .. } = request;
    let refuse = |_| Fault::unsent(FaultKind::Request, "the URL cannot be written in a request");
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
    let target = Uri::try_from(&url[Position::BeforePath..Position::AfterQuery]);

    let mut headers = HeaderMap::with_capacity(given.len() + 2);
    headers.insert(HOST, host.map_err(|_| refuse(()))?);
    for (name, value) in given.iter().filter(|(name, _)| !RESERVED.contains(name)) {
        headers.append(name, value.clone());
    }
    if !body.is_empty() || !matches!(method, Method::GET | Method::HEAD) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }

    let mut wire = http::Request::new(Full::new(body));
    *wire.method_mut() = method;
    *wire.uri_mut() = target.map_err(|_| refuse(()))?;
    *wire.headers_mut() = headers;
    Ok(wire)
}
