//! What went wrong with a request, and whether the receiver can have it all the same.

use std::error::Error;
use std::fmt;

use crate::guard::Blocked;

/// Longest text kept of an error that comes from outside, in characters.
const DETAIL_CHARS: usize = 300;

/// No answer came. Shown without URL, headers or body, so that it can be stored and logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Fault {
    /// In which step it happened.
    pub kind: FaultKind,
    /// Whether the last byte of the request was handed to the socket: the receiver may have acted on it. While
    /// this is false, it cannot have the whole request.
    pub request_written: bool,
    /// One line for an operator.
    pub detail: String,
}

/// The step in which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request cannot be written as HTTP/1.1: another scheme than http and https, no host.
    Request,
    /// The address may not be dialled.
    Blocked(Blocked),
    /// The name did not resolve, for now.
    Dns,
    /// There is no such name, or it has no address.
    NoSuchName,
    /// No address took the connection.
    Connect,
    /// This machine could not make a connection: no descriptor, port or memory left. Not the receiver's fault.
    Local,
    /// TLS could not be established, for another reason than the certificate.
    Tls,
    /// The certificate is not to be trusted, or is for another name.
    Certificate,
    /// The time was up before an answer came.
    Timeout,
    /// What came back is not HTTP/1.1, or more of it than is read.
    Protocol,
    /// The connection broke before an answer came.
    Reset,
}

impl FaultKind {
    /// `otherwise`, unless the error says that this machine lacked something.
    pub(crate) fn or_local(error: &std::io::Error, otherwise: FaultKind) -> Self {
        // EMFILE, ENFILE, ENOBUFS, ENOMEM and EADDRNOTAVAIL on Linux.
        match error.raw_os_error() {
            Some(24 | 23 | 105 | 12 | 99) => FaultKind::Local,
            _ => otherwise,
        }
    }

    /// The kind in one word, for what is stored and counted.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Request => "request",
            FaultKind::Blocked(Blocked::PlainHttp) => "plain_http",
            FaultKind::Blocked(_) => "blocked_address",
            FaultKind::Dns | FaultKind::NoSuchName => "dns",
            FaultKind::Connect => "connect",
            FaultKind::Local => "local",
            FaultKind::Tls | FaultKind::Certificate => "tls",
            FaultKind::Timeout => "timeout",
            FaultKind::Protocol => "protocol",
            FaultKind::Reset => "reset",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Fault {
    /// A fault from before the first byte of the request was written.
    pub(crate) fn unsent(kind: FaultKind, detail: impl fmt::Display) -> Self {
        Fault { kind, request_written: false, detail: one_line(&detail.to_string()) }
    }

    pub(crate) fn blocked(blocked: Blocked) -> Self {
        Fault::unsent(FaultKind::Blocked(blocked), blocked)
    }

    /// What came of asking for a name's addresses. What the system's resolver says is text alone.
    pub(crate) fn resolving(error: &std::io::Error) -> Self {
        let text = error.to_string();
        let unknown = ["not known", "does not resolve", "No address associated"];
        let kind = match FaultKind::or_local(error, FaultKind::Dns) {
            FaultKind::Dns if unknown.iter().any(|words| text.contains(words)) => FaultKind::NoSuchName,
            kind => kind,
        };
        Fault::unsent(kind, text)
    }

    /// What came of a TLS handshake.
    pub(crate) fn handshake(error: &std::io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let kind = match inner {
            Some(rustls::Error::InvalidCertificate(_)) => FaultKind::Certificate,
            _ => FaultKind::Tls,
        };
        Fault::unsent(kind, error)
    }

    /// What hyper reports about an exchange.
    pub(crate) fn exchange(error: &hyper::Error, request_written: bool) -> Self {
        let root = root_cause(error);
        let kind = if error.is_parse() {
            FaultKind::Protocol
        } else if is_tls(root) {
            FaultKind::Tls
        } else {
            FaultKind::Reset
        };
        let detail = match root.to_string() {
            root if root == error.to_string() => root,
            root => format!("{error}: {root}"),
        };
        Fault { kind, request_written, detail: one_line(&detail) }
    }
}

fn one_line(text: &str) -> String {
    angarium_domain::text::one_line(text, DETAIL_CHARS)
}

fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root
}

/// An I/O error shows the error inside it as its own text, not as its source.
fn is_tls(root: &(dyn Error + 'static)) -> bool {
    let inner = root.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    root.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
}
