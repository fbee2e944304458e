//! What a receiver does with one request.

use std::time::Duration;

use super::bomb;
use crate::gate::Gate;

/// One step of a script: an answer, or one of the ways in which receivers fail to give one.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    reason: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    effect: Option<bool>,
    pub(super) before_reading: Duration,
    pub(super) before_answering: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) manner: Manner,
    /// Close the connection after the answer, whether or not a header announced it.
    pub(super) last: bool,
}

/// How the answer is given, if it is.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// The head and the body, as they should be.
    Whole,
    /// Close once the head was read, the body unread.
    HangUpAfterHead,
    /// Close once the body was read.
    HangUpAfterBody,
    /// Read everything, then neither answer nor close.
    Silence,
    /// Close after this many bytes of head and body.
    Cut(usize),
    /// The head at once, then one byte of the body at a time with a pause before each.
    Drip(Duration),
    /// These bytes instead of an answer.
    Raw(Vec<u8>),
    /// `start`, then `unit` again and again until the client has had enough.
    Forever { start: Vec<u8>, unit: Vec<u8> },
}

impl Default for Reply {
    /// 204, what a path without a script answers.
    fn default() -> Self {
        Reply::status(204)
    }
}

impl Reply {
    /// An answer with this status code and an empty body.
    pub fn status(code: u16) -> Reply {
        Reply {
            status: code,
            reason: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            effect: None,
            before_reading: Duration::ZERO,
            before_answering: Duration::ZERO,
            gate: None,
            manner: Manner::Whole,
            last: false,
        }
    }

    /// 200 with an empty body.
    pub fn ok() -> Reply {
        Reply::status(200)
    }

    /// A redirect to `location`; `code` is one of 301, 302, 303, 307, 308.
    pub fn redirect(code: u16, location: &str) -> Reply {
        Reply::status(code).header("location", location)
    }

    /// Closes the connection once the head was read. No effect: the body was never seen.
    pub fn hang_up_after_head() -> Reply {
        Reply::status(200).manner(Manner::HangUpAfterHead)
    }

    /// Takes the whole request, then closes the connection without a word. An effect: the answer was lost.
    pub fn hang_up_after_body() -> Reply {
        Reply::status(200).manner(Manner::HangUpAfterBody)
    }

    /// Takes the whole request, then says nothing and keeps the connection open. An effect.
    pub fn silence() -> Reply {
        Reply::status(200).manner(Manner::Silence)
    }

    /// Sends exactly `bytes` instead of an answer, then closes. No effect unless [`Reply::effect`] says so.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::status(0).manner(Manner::Raw(bytes.as_ref().to_vec()))
    }

    /// A head and then a chunked body without end.
    pub fn endless_body(code: u16) -> Reply {
        let start = format!("HTTP/1.1 {code} \r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
        let unit = [b"2000\r\n".as_slice(), &[b'x'; 0x2000], b"\r\n"].concat();
        Reply::status(code).manner(Manner::Forever { start, unit })
    }

    /// A status line and then header lines without end.
    pub fn endless_head(code: u16) -> Reply {
        let start = format!("HTTP/1.1 {code} \r\n").into_bytes();
        let unit = [b"x-filler: ".as_slice(), &[b'x'; 1000], b"\r\n"].concat();
        Reply::status(code).manner(Manner::Forever { start, unit })
    }

    /// Interim answers (`100 Continue`) without end, and never a final one. No effect.
    pub fn interim_flood() -> Reply {
        let unit = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(64);
        Reply::status(0).manner(Manner::Forever { start: Vec::new(), unit })
    }

    /// A gzip body that unpacks to `unpacked` zero bytes, about a thousand times its size on the wire.
    pub fn gzip_bomb(code: u16, unpacked: usize) -> Reply {
        Reply::status(code).header("content-encoding", "gzip").body(bomb::gzip_of_zeros(unpacked))
    }

    /// Adds a header. The value may be any bytes. A `content-length` or `transfer-encoding` given here
    /// replaces the true one.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Reply {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Reply {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Sets the reason phrase, empty otherwise.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Reply {
        self.reason = reason.to_owned();
        self
    }

    /// Waits this long between the whole request and the answer.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Reply {
        self.before_answering = wait;
        self
    }

    /// Waits this long between the head and reading the body.
    #[must_use]
    pub fn reading_after(mut self, wait: Duration) -> Reply {
        self.before_reading = wait;
        self
    }

    /// Answers only once `gate` is open.
    #[must_use]
    pub fn gate(mut self, gate: &Gate) -> Reply {
        self.gate = Some(gate.clone());
        self
    }

    /// Sends the head at once and then the body byte by byte, `pause` before each.
    #[must_use]
    pub fn drip(self, pause: Duration) -> Reply {
        self.manner(Manner::Drip(pause))
    }

    /// Closes after the first `bytes` bytes of the answer, counted from the status line.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Reply {
        self.manner(Manner::Cut(bytes))
    }

    /// Closes the connection after the answer without having announced it. To announce it, add the header
    /// `connection: close` as well.
    #[must_use]
    pub fn then_hang_up(mut self) -> Reply {
        self.last = true;
        self
    }

    /// Says whether a real receiver would have acted upon the request. Without this: yes for a 2xx status,
    /// however much of that answer arrives, and no for everything else.
    #[must_use]
    pub fn effect(mut self, effect: bool) -> Reply {
        self.effect = Some(effect);
        self
    }

    /// Whether a request that was read to its end counts as an effect.
    pub(super) fn acts(&self) -> bool {
        self.effect.unwrap_or((200..300).contains(&self.status))
    }

    /// The head of the answer, up to and with its empty line.
    pub(super) fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {:03} {}\r\n", self.status, self.reason).into_bytes();
        if self.needs_length() {
            head.extend_from_slice(format!("content-length: {}\r\n", self.body.len()).as_bytes());
        }
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The body of the answer.
    pub(super) fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    fn manner(mut self, manner: Manner) -> Reply {
        self.manner = manner;
        self
    }

    /// 1xx, 204 and 304 have no body and no length (RFC 9110, 8.6); a length given by hand stands.
    fn needs_length(&self) -> bool {
        let bodiless = self.status < 200 || self.status == 204 || self.status == 304;
        let by_hand = |name: &str| ["content-length", "transfer-encoding"].contains(&name);
        !bodiless && !self.headers.iter().any(|(name, _)| by_hand(&name.to_ascii_lowercase()))
    }
}
