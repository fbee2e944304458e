//! A mail server for measuring: takes everything, keeps nothing, and counts.
//!
//! It answers all that one read brought with one write, so that pipelined and lock-step clients both go as fast
//! as they can. Deliberately absent: scripts, a journal, TLS, AUTH, and any check of what a client says.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How much is read at a time; a command line cannot be longer.
const CHUNK: usize = 256 * 1024;

const END: &[u8] = b"\r\n.\r\n";

/// One listener on loopback that counts mails. Dropping it closes the port and every session.
pub struct Sink {
    address: SocketAddr,
    mails: Arc<watch::Sender<u64>>,
    listening: JoinHandle<()>,
}

impl Sink {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> io::Result<Sink> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mails = Arc::new(watch::Sender::new(0));
        let listening = tokio::spawn(listen(listener, Arc::clone(&mails)));
        Ok(Sink { address, mails, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many mails have come, each counted before it is answered.
    pub fn mails(&self) -> u64 {
        *self.mails.borrow()
    }

    /// Returns once there were `count` mails; without a time limit.
    pub async fn mail_count_reaches(&self, count: u64) {
        // The sender lives in `self`, so this wait cannot fail.
        let _ = self.mails.subscribe().wait_for(|mails| *mails >= count).await;
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Accepts until aborted; the sessions end with it.
async fn listen(listener: TcpListener, mails: Arc<watch::Sender<u64>>) {
    let mut sessions = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        sessions.spawn(serve(stream, Arc::clone(&mails)));
        while sessions.try_join_next().is_some() {}
    }
}

/// Serves until the client has gone; that is no error here.
async fn serve(mut stream: TcpStream, mails: Arc<watch::Sender<u64>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BytesMut::with_capacity(CHUNK);
    let mut output = b"220 sink.test ESMTP\r\n".to_vec();
    let (mut in_mail, mut ends) = (false, false);
    loop {
        stream.write_all(&output).await?;
        output.clear();
        if ends || input.len() >= CHUNK {
            return stream.shutdown().await;
        }
        input.reserve(CHUNK);
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut taken = 0;
        while let Some(answer) = step(&mut input, &mut in_mail) {
            taken += u64::from(answer == QUEUED);
            output.extend_from_slice(answer);
            ends |= answer == BYE;
        }
        if taken > 0 {
            mails.send_modify(|mails| *mails += taken);
        }
    }
}

const HELLO: &[u8] =
    b"250-sink.test\r\n250-PIPELINING\r\n250-SIZE\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES\r\n";
const OK: &[u8] = b"250 2.0.0 Ok\r\n";
const GO_AHEAD: &[u8] = b"354 Go ahead\r\n";
const QUEUED: &[u8] = b"250 2.0.0 Ok: queued\r\n";
const BYE: &[u8] = b"221 2.0.0 Bye\r\n";
const UNKNOWN: &[u8] = b"500 5.5.1 Command unrecognized\r\n";

/// Takes the next command or the rest of the mail off `input`; `None` when it is not all there.
fn step(input: &mut BytesMut, in_mail: &mut bool) -> Option<&'static [u8]> {
    if *in_mail {
        let Some(start) = input.windows(END.len()).position(|window| window == END) else {
            // What may be the beginning of the end stays.
            input.advance(input.len().saturating_sub(END.len() - 1));
            return None;
        };
        input.advance(start + END.len());
        *in_mail = false;
        return Some(QUEUED);
    }
    let end = input.iter().position(|octet| *octet == b'\n')? + 1;
    let mut verb = [b' '; 4];
    let known = end.min(verb.len());
    verb[..known].copy_from_slice(&input[..known]);
    *in_mail = verb.eq_ignore_ascii_case(b"DATA");
    // The CRLF after DATA stays: together with a dot at once it is the end of an empty mail.
    input.advance(if *in_mail { end.saturating_sub(2) } else { end });
    Some(match &verb.to_ascii_uppercase()[..] {
        b"EHLO" | b"HELO" => HELLO,
        b"MAIL" | b"RCPT" | b"RSET" | b"NOOP" => OK,
        b"DATA" => GO_AHEAD,
        b"QUIT" => BYE,
        _ => UNKNOWN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_ends_at_its_dot_however_it_is_cut() {
        let session = b"DATA\r\n.x\r\n\r\n..\r\n.\r\nDATA\r\n.\r\nNOOP\r\n";
        for cut in 0..session.len() {
            let (mut input, mut in_mail, mut answers) = (BytesMut::new(), false, Vec::new());
            for part in [&session[..cut], &session[cut..]] {
                input.extend_from_slice(part);
                answers.extend(std::iter::from_fn(|| step(&mut input, &mut in_mail)));
            }
            assert_eq!(answers, [GO_AHEAD, QUEUED, GO_AHEAD, QUEUED, OK], "cut at {cut}");
            assert!(input.is_empty());
        }
    }
}
