//! A byte stream that knows how much of the request it has handed on.
//!
//! The bytes of a request are counted where they leave: its head up to the empty line, then as many as
//! `content-length` says. The request counts as written once the last of them was taken and the stream below
//! has nothing of it left in a buffer. For TLS that matters: the plain text is taken at once, but only a flush
//! says that the last encrypted byte reached the socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection runs over: TCP, or TLS over TCP.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How far a request has come. Shared between the stream and whoever waits for the answer.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<Progress>>);

#[derive(Clone, Copy, Default)]
struct Progress {
    step: Step,
    touched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// In the head, of whose closing CR LF CR LF so many bytes have just passed.
    Head { matched: usize, body: usize },
    /// In the body, of which so many bytes are missing.
    Body { missing: usize },
    /// All bytes were taken; some may still stand in a buffer.
    Taken,
    /// All bytes reached the socket.
    Written,
}

impl Default for Step {
    fn default() -> Self {
        Step::Head { matched: 0, body: 0 }
    }
}

impl Meter {
    /// Starts to count a request whose body has `body` bytes.
    pub(crate) fn start(&self, body: usize) {
        *self.lock() = Progress { step: Step::Head { matched: 0, body }, touched: false };
    }

    /// Whether the last byte of the request reached the socket.
    pub(crate) fn is_written(&self) -> bool {
        self.lock().step == Step::Written
    }

    /// Whether a byte of the request may have left.
    pub(crate) fn is_touched(&self) -> bool {
        self.lock().touched
    }

    fn touch(&self) {
        self.lock().touched = true;
    }

    fn took(&self, bytes: &[u8]) {
        let mut progress = self.lock();
        progress.step = progress.step.after(bytes);
    }

    fn flushed(&self) {
        let mut progress = self.lock();
        if progress.step == Step::Taken {
            progress.step = Step::Written;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Step {
    fn after(self, bytes: &[u8]) -> Step {
        match self {
            Step::Head { mut matched, body } => {
                for (i, &byte) in bytes.iter().enumerate() {
                    matched = match (byte, matched) {
                        (b'\r', 0 | 2) | (b'\n', 1 | 3) => matched + 1,
                        (b'\r', _) => 1,
                        _ => 0,
                    };
                    if matched == 4 {
                        return Step::body(body).after(bytes.get(i + 1..).unwrap_or_default());
                    }
                }
                Step::Head { matched, body }
            }
            Step::Body { missing } => Step::body(missing.saturating_sub(bytes.len())),
            Step::Taken | Step::Written => self,
        }
    }

    fn body(missing: usize) -> Step {
        if missing == 0 { Step::Taken } else { Step::Body { missing } }
    }
}

/// A stream with a meter on what is written to it.
pub(crate) struct Metered {
    stream: Box<dyn Stream>,
    meter: Meter,
}

impl Metered {
    pub(crate) fn new(stream: Box<dyn Stream>, meter: Meter) -> Self {
        Metered { stream, meter }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.meter.touch();
        let taken = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.meter.took(bytes.get(..taken).unwrap_or(bytes));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.meter.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request is taken with its last byte and not before, however it is cut into pieces.
    #[test]
    fn the_last_byte_decides() {
        let request = b"POST / HTTP/1.1\r\nx: \r\r\n\r\n\r\n\r\nab";
        for piece in 1..=request.len() {
            let mut step = Step::Head { matched: 0, body: 6 };
            for (i, bytes) in request.chunks(piece).enumerate() {
                assert!(step != Step::Taken, "taken before piece {i} of {piece} bytes");
                step = step.after(bytes);
            }
            assert!(step == Step::Taken, "pieces of {piece}");
        }
        assert!(Step::Head { matched: 0, body: 0 }.after(b"GET / HTTP/1.1\r\n\r\n") == Step::Taken);
        assert!(Step::Head { matched: 0, body: 1 }.after(b"GET / HTTP/1.1\r\n\r\n") != Step::Taken);
    }

    #[test]
    fn taken_is_not_written_until_flushed() {
        let meter = Meter::default();
        meter.start(1);
        meter.took(b"\r\n\r\n");
        meter.flushed();
        assert!(!meter.is_written());
        meter.took(b"x");
        assert!(!meter.is_written());
        meter.flushed();
        assert!(meter.is_written());
        meter.start(0);
        assert!(!meter.is_written());
    }
}
