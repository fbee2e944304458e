//! The body of a request in chunks of lines. Each chunk must arrive within the time that other bodies have as a whole: what
//! is stored meanwhile takes as long as it takes.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::super::super::body;
use super::super::super::problem::{Code, Problem};

/// Lines of a request.
pub(super) const MOST_LINES: usize = 100_000;
/// Bytes of a request.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Lines of a chunk.
const CHUNK_LINES: usize = 1000;
/// Bytes of a chunk, but for its last line.
pub(super) const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// As it came, without its end.
    Whole(Vec<u8>),
    /// It has more bytes than a line may have.
    TooLong,
}

/// Lines that belong together, each with its number.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) lines: Vec<(usize, Line)>,
    /// There is no more, or there is and it is not read, and why.
    pub(super) end: Option<Result<(), Problem>>,
}

/// A body that is read line by line. Lines are counted from 1, empty ones too, which are passed over.
pub(super) struct Lines {
    body: Body,
    line_bytes: usize,
    timeout: Duration,
    /// What arrived and belongs to lines that were not begun.
    arrived: Bytes,
    /// The line that was begun.
    line: Vec<u8>,
    too_long: bool,
    /// Lines, and bytes, so far.
    number: usize,
    read: usize,
}

impl Lines {
    /// The lines of a body, of at most so many bytes each.
    pub(super) fn of(body: Body, line_bytes: usize, timeout: Duration) -> Self {
        let (arrived, line) = (Bytes::new(), Vec::new());
        Lines { body, line_bytes, timeout, arrived, line, too_long: false, number: 0, read: 0 }
    }

    /// Bytes that were announced; none if it was not said how many.
    pub(super) fn announced(&self) -> usize {
        let exact = self.body.size_hint().exact().unwrap_or(0);
        usize::try_from(exact).unwrap_or(usize::MAX)
    }

    /// The next lines. What came before a fault is among them.
    pub(super) async fn next(&mut self) -> Chunk {
        let deadline = Instant::now() + self.timeout;
        let (mut chunk, mut bytes) = (Chunk::default(), 0);
        while chunk.end.is_none() && chunk.lines.len() < CHUNK_LINES && bytes < CHUNK_BYTES {
            if self.number == MOST_LINES && !self.arrived.is_empty() {
                let detail = format!("more than {MOST_LINES} lines; those up to here were looked at");
                chunk.end = Some(Err(Problem::new(Code::BatchTooLarge, detail)));
            } else if let Some(end) = self.arrived.iter().position(|byte| *byte == b'\n') {
                let rest = self.arrived.split_to(end + 1);
                self.begin(rest.get(..end).unwrap_or_default());
                bytes += self.line.len();
                chunk.lines.extend(self.ended());
            } else {
                let rest = std::mem::take(&mut self.arrived);
                self.begin(&rest);
                match timeout_at(deadline, self.arrive()).await {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => {
                        if self.too_long || !self.line.is_empty() {
                            chunk.lines.extend(self.ended());
                        }
                        chunk.end = Some(Ok(()));
                    }
                    Ok(Err(problem)) => chunk.end = Some(Err(problem)),
                    Err(_) => chunk.end = Some(Err(body::timed_out(self.timeout))),
                }
            }
        }
        chunk
    }

    /// Waits for more; false if there is none.
    async fn arrive(&mut self) -> Result<bool, Problem> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| Problem::plain(Code::BodyIncomplete))?;
            let Ok(data) = frame.into_data() else { continue };
            self.read += data.len();
            if self.read > MOST_BYTES {
                return Err(body::too_large(MOST_BYTES));
            }
            if !data.is_empty() {
                self.arrived = data;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes more of the line that was begun.
    fn begin(&mut self, bytes: &[u8]) {
        self.too_long |= bytes.len() > self.line_bytes - self.line.len();
        if self.too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    /// The line that came to its end, if it says something.
    fn ended(&mut self) -> Option<(usize, Line)> {
        self.number += 1;
        let line = std::mem::take(&mut self.line);
        match std::mem::take(&mut self.too_long) {
            true => Some((self.number, Line::TooLong)),
            false if line.iter().all(u8::is_ascii_whitespace) => None,
            false => Some((self.number, Line::Whole(line))),
        }
    }

    /// Lets arrive what nobody looks at: a connection that is closed while its other end still sends may lose the answer.
    pub(super) async fn pass_over(mut self) {
        let deadline = Instant::now() + self.timeout;
        while let Ok(Ok(true)) = timeout_at(deadline, self.arrive()).await {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that arrives in pieces of so many bytes.
    fn lines(text: &[u8], piece: usize) -> Lines {
        struct Pieces(std::collections::VecDeque<Bytes>);

        impl HttpBody for Pieces {
            type Data = Bytes;
            type Error = std::convert::Infallible;

            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
                std::task::Poll::Ready(self.0.pop_front().map(|piece| Ok(hyper::body::Frame::data(piece))))
            }
        }

        let pieces = text.chunks(piece).map(Bytes::copy_from_slice).collect();
        Lines::of(Body::new(Pieces(pieces)), 10, Duration::from_secs(60))
    }

    async fn all(mut lines: Lines) -> (Vec<(usize, Line)>, Vec<usize>, Result<(), Code>) {
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let chunk = lines.next().await;
            sizes.push(chunk.lines.len());
            found.extend(chunk.lines);
            if let Some(end) = chunk.end {
                return (found, sizes, end.map_err(|problem| problem.code));
            }
        }
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_arrive() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        for piece in 1..40 {
            let (found, _, end) =
                all(lines(b"{\"a\":1}\r\n\n \t\n0123456789\n0123456789x\n\xff\nlast", piece)).await;
            assert_eq!(end, Ok(()));
            let expected = [
                (1, whole("{\"a\":1}\r")),
                (4, whole("0123456789")),
                (5, Line::TooLong),
                (6, Line::Whole(vec![0xff])),
                (7, whole("last")),
            ];
            assert_eq!(found, expected, "in pieces of {piece}");
        }
        assert!(all(lines(b"", 1)).await.0.is_empty());
    }

    #[tokio::test]
    async fn a_chunk_and_a_request_have_bounds() {
        let (found, sizes, end) = all(lines(&b"{}\n".repeat(2500), 4096)).await;
        assert_eq!((found.len(), &sizes[..], end), (2500, &[1000, 1000, 500][..], Ok(())));
        let (found, _, end) = all(lines(&b"{}\n".repeat(MOST_LINES), 65536)).await;
        assert_eq!((found.len(), end), (MOST_LINES, Ok(())));
        let (found, _, end) = all(lines(&b"{}\n".repeat(MOST_LINES + 1), 65536)).await;
        assert_eq!((found.len(), end), (MOST_LINES, Err(Code::BatchTooLarge)));
        let (found, _, end) = all(lines(&vec![b'x'; MOST_BYTES + 1], 1 << 20)).await;
        assert_eq!((found.len(), end), (0, Err(Code::BodyTooLarge)));
    }
}
