//! Reads HTTP/1.1 requests from a byte stream: a head, then a body by length or in chunks (RFC 9112).
//!
//! Strict where a lenient reader would hide a fault of the sender: a bare line feed, a header without a
//! colon, both kinds of framing at once are all refused.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest head that is read, in bytes.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;
/// The longest body that is read, in bytes.
pub(super) const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// The parts of a request's head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) raw: String,
    pub(super) headers: BTreeMap<String, String>,
    framing: Framing,
    /// Whether the client will send another request after this one.
    pub(super) keep_alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// A stream and the bytes of it that were read but not used yet.
pub(super) struct Requests<R> {
    stream: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(stream: R) -> Self {
        Requests { stream, buffer: Vec::new() }
    }

    /// The next head, or none when the client closed between requests.
    ///
    /// # Errors
    /// `InvalidData` with what is wrong with the head; `UnexpectedEof` when it breaks off.
    pub(super) async fn head(&mut self) -> io::Result<Option<Head>> {
        match self.until(b"\r\n\r\n", HEAD_LIMIT).await {
            Ok(raw) => parse(&raw).map(Some),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.buffer.is_empty() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The body that follows `head`, put into `body`, which holds what had come when this fails.
    ///
    /// # Errors
    /// `InvalidData` with what is wrong with the framing; `UnexpectedEof` when the body breaks off.
    pub(super) async fn body(&mut self, head: &Head, body: &mut Vec<u8>) -> io::Result<()> {
        match head.framing {
            Framing::Length(length) => self.exactly(length, body).await,
            Framing::Chunked => self.chunks(body).await,
        }
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.until(b"\r\n", HEAD_LIMIT).await?;
            let line = String::from_utf8_lossy(&line);
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk without a size"))?;
            if size == 0 {
                break;
            }
            self.exactly(size, body).await?;
            if self.until(b"\r\n", 2).await? != b"\r\n" {
                return Err(invalid("a chunk longer than its size"));
            }
        }
        while self.until(b"\r\n", HEAD_LIMIT).await? != b"\r\n" {}
        Ok(())
    }

    /// Moves the next `count` bytes to the end of `into`.
    async fn exactly(&mut self, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let end = into.len().saturating_add(count);
        if end > BODY_LIMIT {
            return Err(invalid("a body over the limit"));
        }
        loop {
            let take = self.buffer.len().min(end - into.len());
            into.extend(self.buffer.drain(..take));
            if into.len() == end {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// The next bytes up to and with `mark`, at most `limit` of them.
    async fn until(&mut self, mark: &[u8], limit: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.buffer.windows(mark.len()).position(|window| window == mark) {
                if at + mark.len() > limit {
                    return Err(invalid("a line or head over the limit"));
                }
                return Ok(self.buffer.drain(..at + mark.len()).collect());
            }
            if self.buffer.len() >= limit {
                return Err(invalid("a line or head over the limit"));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn parse(raw: &[u8]) -> io::Result<Head> {
    let raw = String::from_utf8_lossy(raw).into_owned();
    let mut lines = raw.trim_end_matches("\r\n").split("\r\n");
    let request_line: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, version] = request_line.as_slice() else {
        return Err(invalid("a request line that is not method, target, version"));
    };
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Err(invalid("an unknown version"));
    }
    let headers = parse_headers(lines)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Head {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        framing: framing(&headers)?,
        keep_alive: version == "HTTP/1.1"
            && !headers.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        headers,
        raw,
    })
}

fn parse_headers<'a>(lines: impl Iterator<Item = &'a str>) -> io::Result<BTreeMap<String, String>> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header without a colon"))?;
        if name.is_empty() || name.contains([' ', '\t']) || line.contains(['\n', '\r']) {
            return Err(invalid("a header with a stray blank or line break"));
        }
        let value = value.trim_matches([' ', '\t']);
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|all| {
                all.push_str(", ");
                all.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    Ok(headers)
}

fn framing(headers: &BTreeMap<String, String>) -> io::Result<Framing> {
    match (headers.get("content-length"), headers.get("transfer-encoding")) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(length), None) => {
            length.parse().map(Framing::Length).map_err(|_| invalid("a length that is not a number"))
        }
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        (None, Some(_)) => Err(invalid("an unknown transfer coding")),
        (Some(_), Some(_)) => Err(invalid("both a length and a transfer coding")),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn first(bytes: &[u8]) -> io::Result<(Head, Vec<u8>)> {
        let mut requests = Requests::new(bytes);
        let head = requests.head().await?.expect("a head");
        let mut body = Vec::new();
        requests.body(&head, &mut body).await?;
        Ok((head, body))
    }

    #[tokio::test]
    async fn reads_a_body_by_length_and_leaves_the_next_request() {
        let bytes = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n";
        let mut requests = Requests::new(bytes.as_slice());
        let head = requests.head().await.unwrap().unwrap();
        let mut body = Vec::new();
        requests.body(&head, &mut body).await.unwrap();
        assert_eq!(
            (head.path.as_str(), head.query.as_str(), body.as_slice()),
            ("/a", "b=c", b"abc".as_slice())
        );
        assert!(head.keep_alive);
        let next = requests.head().await.unwrap().unwrap();
        assert_eq!(next.method, "GET");
        assert!(!next.keep_alive);
        assert_eq!(requests.head().await.unwrap(), None);
    }

    #[tokio::test]
    async fn reads_a_body_in_chunks_with_extension_and_trailer() {
        let bytes =
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        let (_, body) = first(bytes).await.unwrap();
        assert_eq!(body, b"abc0123456789");
    }

    #[tokio::test]
    async fn joins_repeated_headers_and_trims_values() {
        let (head, _) = first(b"GET / HTTP/1.1\r\nX-A: 1 \r\nx-a:\t2\r\n\r\n").await.unwrap();
        assert_eq!(head.headers["x-a"], "1, 2");
    }

    #[tokio::test]
    async fn refuses_what_a_lenient_reader_would_hide() {
        let wrong: [&[u8]; 8] = [
            b"GET  / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/2\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\na: b\nc: d\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        ];
        for bytes in wrong {
            let error = first(bytes).await.expect_err(&String::from_utf8_lossy(bytes));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[tokio::test]
    async fn bounds_the_head_and_the_body() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(HEAD_LIMIT));
        assert_eq!(first(long.as_bytes()).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let large = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", BODY_LIMIT + 1);
        assert_eq!(first(large.as_bytes()).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let error = first(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
