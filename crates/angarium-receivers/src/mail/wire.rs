//! The connection: lines in, bytes out, in clear or under TLS.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How much is read at a time, and the longest piece of a line of mail that is handed on.
const CHUNK: usize = 16 * 1024;

/// The longest command line that is read at all: what RFC 4954 wants for AUTH, and more than any other needs.
const COMMAND_LIMIT: usize = 12 * 1024;

pub(super) struct Wire {
    stream: Stream,
    /// Read and not yet looked at; never much more than two [`CHUNK`]s.
    buffer: BytesMut,
    /// Whether the connection is to end with a reset.
    resets: bool,
}

enum Stream {
    Clear(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// A connection in clear that sends everything at once.
    pub(super) fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream: Stream::Clear(stream), buffer: BytesMut::new(), resets: false })
    }

    /// The same connection after the handshake. What came in clear before it is thrown away.
    pub(super) async fn secured(self, config: Arc<ServerConfig>) -> io::Result<Wire> {
        let Stream::Clear(stream) = self.stream else {
            return Err(io::Error::other("under TLS already"));
        };
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Wire { stream: Stream::Secure(Box::new(stream)), buffer: BytesMut::new(), resets: false })
    }

    /// The next command line with its line end; `None` when the client has closed.
    ///
    /// # Errors
    /// `InvalidData` when the line is far too long; whatever the connection has.
    pub(super) async fn line(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.line_end() {
                return Ok(Some(self.buffer.split_to(end).freeze()));
            }
            if self.buffer.len() > COMMAND_LIMIT {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The octets up to the next LF, or those of a very long line so far, without a CR at the end.
    ///
    /// # Errors
    /// `UnexpectedEof` when the client has closed; whatever the connection has.
    pub(super) async fn chunk(&mut self) -> io::Result<Bytes> {
        loop {
            let length = match self.line_end() {
                Some(end) => end,
                None if self.buffer.len() < CHUNK => 0,
                None => self.buffer.len() - usize::from(self.buffer.ends_with(b"\r")),
            };
            if length > 0 {
                return Ok(self.buffer.split_to(length).freeze());
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the client has sent more than was looked at, as far as that can be seen without waiting.
    pub(super) async fn has_more(&mut self) -> bool {
        if self.buffer.is_empty() {
            tokio::select! {
                biased;
                // An end or an error shows again at the next read.
                _ = self.fill() => {}
                () = std::future::ready(()) => {}
            }
        }
        !self.buffer.is_empty()
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Clear(stream) => stream.write_all(bytes).await,
            Stream::Secure(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Closes as it should be done, under TLS with a closing message; or with a reset, if that was asked for.
    pub(super) async fn close(mut self) {
        if self.resets {
            return;
        }
        let _ = match &mut self.stream {
            Stream::Clear(stream) => stream.shutdown().await,
            Stream::Secure(stream) => stream.shutdown().await,
        };
    }

    /// Sees to it that the connection ends with a reset.
    pub(super) fn reset_at_end(&mut self) -> io::Result<()> {
        self.resets = true;
        match &self.stream {
            Stream::Clear(stream) => stream.set_zero_linger(),
            Stream::Secure(stream) => stream.get_ref().0.set_zero_linger(),
        }
    }

    /// Where the next line ends, its LF included.
    fn line_end(&self) -> Option<usize> {
        self.buffer.iter().position(|octet| *octet == b'\n').map(|position| position + 1)
    }

    /// Reads what there is, at least one octet; 0 when the client has closed. Loses nothing when cancelled.
    async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(CHUNK);
        match &mut self.stream {
            Stream::Clear(stream) => stream.read_buf(&mut self.buffer).await,
            Stream::Secure(stream) => stream.read_buf(&mut self.buffer).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_very_long_line_is_cut_anywhere_but_within_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut wire = Wire::new(listener.accept().await.unwrap().0).unwrap();
        client.write_all(&[&[b'x'; CHUNK - 1], b"\r".as_slice()].concat()).await.unwrap();
        assert_eq!(wire.chunk().await.unwrap(), [b'x'; CHUNK - 1].as_slice());
        client.write_all(b"\n").await.unwrap();
        assert_eq!(wire.chunk().await.unwrap(), b"\r\n".as_slice());
    }
}
