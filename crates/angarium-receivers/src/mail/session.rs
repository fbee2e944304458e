//! One session: reads commands and answers each as the script says, or else as a good server does.

mod transaction;

use std::io;
use std::sync::{Arc, PoisonError};

use rustls::ServerConfig;
use tokio::net::TcpStream;

use super::Shared;
use super::auth::Exchange;
use super::envelope;
use super::options::{Auth, Mechanism, Tls};
use super::script::{self, End, Pace, Phase, Reply};
use super::wire::Wire;

use transaction::Transaction;

/// How the server calls itself.
const NAME: &str = "mail.test";

/// The most octets in a command, its CRLF included (RFC 5321, 4.5.3.1.4); AUTH may have more (RFC 4954).
const COMMAND_LIMIT: usize = 512;

/// The session is over, by whoever's doing.
#[derive(Debug)]
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

struct Session {
    shared: Arc<Shared>,
    number: u64,
    secure: bool,
    greeted: bool,
    authenticated: bool,
    /// What the last `EHLO` was told.
    offered: Vec<String>,
    transaction: Option<Transaction>,
}

/// What a command leads to.
enum Turn {
    Next,
    Handshake(Arc<ServerConfig>),
    Quit,
}

/// Serves until the client or the script ends the session.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let Ok(mut wire) = Wire::new(stream) else { return };
    let Some(number) = shared.journal.begin() else {
        let _ = wire.send(b"421 4.3.2 The journal is full\r\n").await;
        return wire.close().await;
    };
    let session = Session {
        shared: Arc::clone(&shared),
        number,
        secure: false,
        greeted: false,
        authenticated: false,
        offered: Vec::new(),
        transaction: None,
    };
    // Whoever ended it, there is nobody to tell.
    let _ = session.run(wire).await;
    shared.journal.over(number);
}

impl Session {
    async fn run(mut self, mut wire: Wire) -> Result<(), Over> {
        if let Tls::Implicit(config) = &self.shared.options.tls {
            wire = wire.secured(Arc::clone(config)).await?;
            self.become_secure();
        }
        let greeting = format!("220 {NAME} ESMTP");
        let mut ended = self.answer(&mut wire, Phase::Greeting, "the greeting", &greeting).await.is_err();
        while !ended {
            match self.turn(&mut wire).await {
                Ok(Turn::Next) => {}
                Ok(Turn::Handshake(config)) => {
                    wire = wire.secured(config).await?;
                    self.become_secure();
                }
                Ok(Turn::Quit) | Err(Over) => ended = true,
            }
        }
        wire.close().await;
        Ok(())
    }

    /// Under TLS nothing holds of what was said before (RFC 3207, 4.2).
    fn become_secure(&mut self) {
        self.secure = true;
        self.greeted = false;
        self.authenticated = false;
        self.offered.clear();
        self.transaction = None;
        self.shared.journal.secured(self.number);
    }

    /// One command and its answer.
    async fn turn(&mut self, wire: &mut Wire) -> Result<Turn, Over> {
        let line = self.line(wire, COMMAND_LIMIT).await?;
        let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.hello(wire, argument, true).await?,
            "HELO" => self.hello(wire, argument, false).await?,
            "STARTTLS" => return self.start_tls(wire).await,
            "AUTH" => self.auth(wire, argument).await?,
            "MAIL" => self.mail(wire, argument).await?,
            "RCPT" => self.rcpt(wire, argument).await?,
            "DATA" => self.data(wire).await?,
            "RSET" => {
                if is_positive(self.answer(wire, Phase::Rset, "RSET", "250 2.0.0 Ok").await?) {
                    self.transaction = None;
                }
            }
            "NOOP" => {
                self.answer(wire, Phase::Noop, "NOOP", "250 2.0.0 Ok").await?;
            }
            "VRFY" => self.give(wire, Reply::normal(), "VRFY", "252 2.0.0 Send some mail").await?,
            "QUIT" => {
                self.answer(wire, Phase::Quit, "QUIT", "221 2.0.0 Bye").await?;
                return Ok(Turn::Quit);
            }
            _ => {
                self.sin(format!("an unknown command: {verb}"));
                self.give(wire, Reply::normal(), verb, "500 5.5.1 Command unrecognized").await?;
            }
        }
        Ok(Turn::Next)
    }

    async fn hello(&mut self, wire: &mut Wire, name: &str, extended: bool) -> Result<(), Over> {
        let offer = if extended { self.shared.options.offer(self.secure) } else { Vec::new() };
        let mut normal =
            script::under_code(250, std::iter::once(NAME).chain(offer.iter().map(String::as_str)));
        if name.is_empty() {
            self.sin("a greeting without a name".to_owned());
            normal = "501 5.5.4 Say who you are".to_owned();
        }
        let what = if extended { "EHLO" } else { "HELO" };
        if is_positive(self.answer(wire, Phase::Ehlo, what, &normal).await?) {
            self.greeted = true;
            self.offered = offer;
            self.transaction = None;
        }
        Ok(())
    }

    async fn start_tls(&mut self, wire: &mut Wire) -> Result<Turn, Over> {
        let config = match &self.shared.options.tls {
            Tls::StartTls(config) if !self.secure => Some(Arc::clone(config)),
            _ => None,
        };
        let normal = if config.is_some() {
            "220 2.0.0 Ready to start TLS"
        } else {
            self.sin("STARTTLS although it was not offered".to_owned());
            "502 5.5.1 STARTTLS is not offered"
        };
        let code = self.answer(wire, Phase::StartTls, "STARTTLS", normal).await?;
        Ok(config.filter(|_| code == 220).map_or(Turn::Next, Turn::Handshake))
    }

    async fn auth(&mut self, wire: &mut Wire, argument: &str) -> Result<(), Over> {
        let shared = Arc::clone(&self.shared);
        let (name, initial) =
            argument.split_once(' ').map_or((argument, None), |(name, rest)| (name, Some(rest)));
        let (auth, mechanism) = match self.judge_auth(&shared, name) {
            Ok(found) => found,
            Err(refusal) => {
                self.sin(format!("AUTH out of place: {refusal}"));
                self.answer(wire, Phase::Auth, "AUTH", refusal).await?;
                return Ok(());
            }
        };
        let mut exchange = Exchange::new(mechanism);
        let mut normal = exchange.challenge();
        if let Some(response) = initial {
            (exchange, normal) = exchange.next(auth, response);
        }
        loop {
            let code = self.answer(wire, Phase::Auth, "AUTH", &normal).await?;
            if code != 334 {
                self.authenticated |= is_positive(code);
                return Ok(());
            }
            let line = self.line(wire, usize::MAX).await?;
            if let Some(sin) = exchange.sin(&line) {
                self.sin(sin);
            }
            (exchange, normal) = exchange.next(auth, &line);
        }
    }

    /// The login and the mechanism of this name, or why they cannot be used now.
    fn judge_auth<'a>(&self, shared: &'a Shared, name: &str) -> Result<(&'a Auth, Mechanism), &'static str> {
        if !self.greeted || self.authenticated || self.transaction.is_some() {
            return Err("503 5.5.1 AUTH is not in order here");
        }
        let Some(auth) = shared.options.auth(self.secure) else {
            return Err(match shared.options.auth {
                Some(_) => "538 5.7.11 Encryption required for authentication",
                None => "502 5.5.1 AUTH is not offered",
            });
        };
        let known = auth.mechanisms.iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name));
        known.map(|mechanism| (auth, *mechanism)).ok_or("504 5.5.4 Unrecognized authentication type")
    }

    /// The next line from the client, journalled, without its line end; over `limit` octets it is a sin.
    async fn line(&mut self, wire: &mut Wire, limit: usize) -> Result<String, Over> {
        let line = match wire.line().await {
            Ok(line) => line.ok_or(Over)?,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.sin("a command line without end".to_owned());
                wire.send(b"500 5.5.6 Line too long\r\n").await?;
                return Err(Over);
            }
            Err(_) => return Err(Over),
        };
        let content = line.strip_suffix(b"\r\n").unwrap_or(&line);
        if content.iter().any(|octet| matches!(octet, b'\r' | b'\n')) {
            self.sin("a bare CR or LF in a command".to_owned());
        }
        let text = String::from_utf8_lossy(content);
        let text = text.trim_end_matches('\n');
        if line.len() > limit && !text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("AUTH ")) {
            self.sin(format!("a command line of {} octets", line.len()));
        }
        if !self.shared.journal.command(self.number, text) {
            wire.send(b"421 4.3.2 The journal is full\r\n").await?;
            return Err(Over);
        }
        Ok(text.to_owned())
    }

    /// Answers as the script says for this phase, or else with `normal`; gives the code that the client reads.
    async fn answer(&mut self, wire: &mut Wire, phase: Phase, what: &str, normal: &str) -> Result<u16, Over> {
        let reply = self.step(phase);
        let code = reply.code(normal);
        self.give(wire, reply, what, normal).await?;
        Ok(code)
    }

    fn step(&self, phase: Phase) -> Reply {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).next(phase)
    }

    /// Gives one answer in the manner of `reply`.
    async fn give(&mut self, wire: &mut Wire, reply: Reply, what: &str, normal: &str) -> Result<(), Over> {
        if let Some(gate) = &reply.gate {
            gate.pass().await;
        }
        self.judge_haste(wire, what).await;
        let bytes = reply.bytes.unwrap_or_else(|| format!("{normal}\r\n").into_bytes());
        match reply.pace {
            Pace::AtOnce => wire.send(&bytes).await?,
            Pace::Drip => {
                for octet in bytes {
                    wire.send(&[octet]).await?;
                    // Lets the client have it before the next one leaves.
                    tokio::task::yield_now().await;
                }
            }
            Pace::Forever => loop {
                wire.send(&bytes).await?;
            },
        }
        match reply.end {
            None => Ok(()),
            Some(End::HangUp) => Err(Over),
            Some(End::Reset) => {
                wire.reset_at_end()?;
                Err(Over)
            }
        }
    }

    /// Notes whether the client has sent more before this answer although it had to wait for it.
    async fn judge_haste(&self, wire: &mut Wire, what: &str) {
        // RFC 2920, 3.1: only these may have commands behind them in a group.
        let amid = matches!(what, "MAIL" | "RCPT" | "RSET") && envelope::offers(&self.offered, "PIPELINING");
        if !amid && wire.has_more().await {
            self.sin(format!("more sent before the answer to {what}"));
        }
    }

    fn sin(&self, sin: String) {
        self.shared.journal.sin(self.number, sin);
    }
}

/// Whether the client will take this as a yes.
fn is_positive(code: u16) -> bool {
    (200..300).contains(&code)
}
