//! The line to a relay: commands out, answers in, each within its time, and everything that is said written down
//! where somebody wants to see it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use angarium_domain::transcript::{Speaker, Transcript};
use angarium_egress::{Connector, Fault, Stream, Unprotected};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use super::reply::{REPLY_BYTES, Reply};
use crate::mask::Mask;

/// The conversation broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// The relay closed the connection, or something on the way did.
    #[error("the connection was closed")]
    Closed,
    /// The connection failed.
    #[error("the connection broke: {0}")]
    Failed(String),
    /// The time was up.
    #[error("no answer in time")]
    Timeout,
    /// What the relay said is no SMTP, or too much of it.
    #[error("what came back is not SMTP")]
    Protocol,
    /// The relay sent something before TLS that would be taken for an answer under TLS.
    #[error("the relay sent more than its answer before TLS was begun")]
    Injected,
    /// No connection, or no TLS.
    #[error("{0}")]
    Dial(Fault),
}

/// How a message's bytes are handed over: so many at a time, each piece within the time for a command.
const PIECE: usize = 64 * 1024;

/// A connection to a relay.
pub(crate) struct Wire {
    line: Line,
    unread: Vec<u8>,
    transcript: Option<Arc<Transcript>>,
    /// What must not show in a transcript, whoever says it.
    hidden: Mask,
}

enum Line {
    Unprotected(Unprotected),
    Open(Box<dyn Stream>),
    /// TLS was begun and failed.
    Gone,
}

impl Line {
    fn stream(&mut self) -> Result<&mut dyn Stream, Broken> {
        match self {
            Line::Unprotected(connection) => Ok(connection.stream()),
            Line::Open(stream) => Ok(stream),
            Line::Gone => Err(Broken::Closed),
        }
    }
}

impl Wire {
    pub(crate) fn over(connection: Unprotected) -> Self {
        Wire {
            line: Line::Unprotected(connection),
            unread: Vec::new(),
            transcript: None,
            hidden: Mask::default(),
        }
    }

    /// From here on, what is said is written down there, or nowhere.
    pub(crate) fn tell(&mut self, transcript: Option<Arc<Transcript>>) {
        self.transcript = transcript;
    }

    /// From here on, these do not show in a transcript.
    pub(crate) fn hide(&mut self, secrets: &Mask) {
        self.hidden = secrets.clone();
    }

    /// What was said over this line and must not show.
    pub(crate) fn hidden(&self) -> Mask {
        self.hidden.clone()
    }

    /// Our own address and the relay's, as long as TLS was not begun.
    pub(crate) fn addresses(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        let Line::Unprotected(connection) = &mut self.line else { return None };
        let stream = connection.stream();
        Some((stream.local_addr().ok()?, stream.peer_addr().ok()?))
    }

    /// Begins TLS. Whatever came in before the handshake must have been read: it would be taken for what was said
    /// under TLS.
    pub(crate) async fn secure(&mut self, connector: &Connector, deadline: Instant) -> Result<(), Broken> {
        if !self.unread.is_empty() {
            return Err(Broken::Injected);
        }
        let Line::Unprotected(connection) = std::mem::replace(&mut self.line, Line::Gone) else {
            return Err(Broken::Protocol);
        };
        self.line = Line::Open(connector.secure(connection, deadline).await.map_err(Broken::Dial)?);
        self.remark("TLS was begun");
        Ok(())
    }

    /// Sends one command and reads the answer.
    pub(crate) async fn ask(&mut self, command: &str, limit: Duration) -> Result<Reply, Broken> {
        self.say(&format!("{command}\r\n"), limit).await?;
        self.hear(limit).await
    }

    /// As [`Self::ask`], but `shown` is what is written down.
    pub(crate) async fn ask_secretly(
        &mut self,
        command: &str,
        shown: &str,
        limit: Duration,
    ) -> Result<Reply, Broken> {
        self.note(Speaker::Us, shown);
        self.write(format!("{command}\r\n").as_bytes(), limit).await?;
        self.hear(limit).await
    }

    /// Sends commands with their line ends and waits for nothing.
    pub(crate) async fn say(&mut self, commands: &str, limit: Duration) -> Result<(), Broken> {
        self.note(Speaker::Us, commands);
        self.write(commands.as_bytes(), limit).await
    }

    /// Hands over a message that ends in its final dot, piece by piece. When this returns, the relay may have it.
    pub(crate) async fn say_message(&mut self, message: &[u8], limit: Duration) -> Result<(), Broken> {
        if self.transcript.is_some() {
            self.note(Speaker::Us, &String::from_utf8_lossy(message));
        }
        for piece in message.chunks(PIECE) {
            self.write(piece, limit).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), Broken> {
        let stream = self.line.stream()?;
        let written = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match timeout(limit, written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(Broken::Timeout),
        }
    }

    /// The next answer, all of it within `limit`.
    pub(crate) async fn hear(&mut self, limit: Duration) -> Result<Reply, Broken> {
        let deadline = Instant::now() + limit;
        let mut looked_at = 0;
        loop {
            if has_last_line(&self.unread, &mut looked_at)
                && let Some((reply, used)) = Reply::parse(&self.unread).map_err(|_| Broken::Protocol)?
            {
                self.unread.drain(..used);
                if self.transcript.is_some() {
                    let line_start = format!("{} ", reply.code);
                    let text = reply.text.replace('\n', &format!("\n{line_start}"));
                    self.note(Speaker::Them, &(line_start + &text));
                }
                return Ok(reply);
            }
            if self.unread.len() > REPLY_BYTES {
                return Err(Broken::Protocol);
            }
            let stream = self.line.stream()?;
            match timeout_at(deadline, stream.read_buf(&mut self.unread)).await {
                Ok(Ok(0)) => return Err(Broken::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(broken(&error)),
                Err(_) => return Err(Broken::Timeout),
            }
        }
    }

    /// Whether the relay has said nothing that was not asked for, and has not gone.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let Ok(stream) = self.line.stream() else { return false };
        let mut one = [0];
        let heard = poll_fn(|cx| {
            let mut byte = ReadBuf::new(&mut one);
            let heard = Pin::new(&mut *stream).poll_read(cx, &mut byte);
            Poll::Ready(heard.is_ready())
        });
        self.unread.is_empty() && !heard.await
    }

    /// Writes down something that nobody said.
    pub(crate) fn remark(&self, text: &str) {
        self.note(Speaker::Remark, text);
    }

    fn note(&self, speaker: Speaker, text: &str) {
        if let Some(transcript) = &self.transcript {
            transcript.note(speaker, &self.hidden.apply(text));
        }
    }
}

/// Whether `bytes` have a line that can be the last one of an answer, or is none at all; looks at each byte once.
fn has_last_line(bytes: &[u8], looked_at: &mut usize) -> bool {
    while let Some(rest) = bytes.get(*looked_at..)
        && let Some(length) = rest.iter().position(|&byte| byte == b'\n')
    {
        if rest.get(3) != Some(&b'-') || length < 4 {
            return true;
        }
        *looked_at += length + 1;
    }
    false
}

fn broken(error: &io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Broken::Closed,
        _ => Broken::Failed(error.to_string()),
    }
}
