//! A session with a relay: greeted, protected, logged in, ready for messages.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::outcome::Failure;
use angarium_domain::transcript::Transcript;
use angarium_egress::{Client, Connector, Trust};
use tokio::time::{Instant, timeout};

use super::Phase;
use super::auth;
use super::pool::Membership;
use super::reply::Reply;
use super::verdict::Judge;
use super::wire::{Broken, Wire};
use crate::email::{EmailChannel, Security};

/// A session may take so many times the limit of one command to open.
pub(crate) const OPENING: u32 = 5;

/// What sessions are opened with.
pub(crate) struct Outside {
    pub(crate) connector: Arc<Connector>,
    /// For tokens.
    pub(crate) client: Arc<Client>,
}

/// What the relay says that it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) pipelining: bool,
    /// The largest message in bytes; 0 where the relay names no limit.
    pub(crate) size: Option<u64>,
    pub(crate) smtputf8: bool,
    pub(crate) dsn: bool,
    pub(crate) starttls: bool,
    /// Ways to log in, in upper case.
    pub(crate) auth: Vec<String>,
}

/// A session, between two messages.
pub(crate) struct Session {
    pub(crate) wire: Wire,
    pub(crate) offers: Offers,
    /// It served a message before, so that the relay may have ended it meanwhile.
    pub(crate) reused: bool,
    /// The last message was broken off; the relay is to forget it before the next.
    pub(crate) dirty: bool,
    pub(crate) idle_since: Instant,
    /// Among the sessions of its channel, once it is one.
    pub(crate) _membership: Option<Membership>,
}

impl Session {
    /// Opens a session; the failure if that cannot be done is the channel's, not the message's.
    pub(crate) async fn open(
        outside: &Outside,
        channel: &EmailChannel,
        judge: &Judge<'_>,
        transcript: Option<Arc<Transcript>>,
    ) -> Result<Session, Failure> {
        let opening = open(outside, channel, judge, transcript);
        timeout(channel.timeout * OPENING, opening)
            .await
            .unwrap_or_else(|_| Err(judge.broken(Phase::Hello, &Broken::Timeout)))
    }

    /// Says goodbye, and waits until the relay has heard it: by then it counts the session no more.
    pub(crate) async fn quit(mut self, limit: Duration) {
        let _it_may_be_gone = self.wire.ask("QUIT", limit).await;
    }
}

async fn open(
    outside: &Outside,
    channel: &EmailChannel,
    judge: &Judge<'_>,
    transcript: Option<Arc<Transcript>>,
) -> Result<Session, Failure> {
    let limit = channel.timeout;
    let relay = &channel.relay;
    let unreachable = |broken| judge.broken(Phase::Connect, &broken);
    let deadline = Instant::now() + limit;
    let connection = outside.connector.connect(&relay.host, relay.port, Trust::Operator, deadline).await;
    let mut wire = Wire::over(connection.map_err(|fault| unreachable(Broken::Dial(fault)))?);
    wire.tell(transcript);
    wire.hide(&judge.mask);
    wire.remark(&format!("connected to {}", relay.named()));
    let addresses = wire.addresses();
    let mut protected = relay.security == Security::Implicit;
    if protected {
        wire.secure(&outside.connector, Instant::now() + limit).await.map_err(unreachable)?;
    }
    let greeting = wire.hear(limit).await.map_err(|broken| judge.broken(Phase::Hello, &broken))?;
    if !greeting.is_positive() {
        return Err(judge.refused(Phase::Hello, &greeting));
    }
    let name = channel.hello.clone().unwrap_or_else(|| literal(addresses));
    let mut offers = hello(&mut wire, &name, channel, judge).await?;
    if !protected && relay.security != Security::Never {
        if offers.starttls {
            start_tls(&mut wire, outside, channel, judge).await?;
            protected = true;
            offers = hello(&mut wire, &name, channel, judge).await?;
        } else if relay.security == Security::Required {
            return Err(judge.unfit("tls_required: the relay does not offer STARTTLS"));
        }
    }
    if let Some(login) = &channel.login {
        if !may_have_credentials(protected, addresses.map(|(_, peer)| peer.ip())) {
            return Err(judge.unfit("auth_insecure: credentials are not sent without TLS"));
        }
        auth::log_in(&mut wire, login, &offers, &outside.client, channel, judge).await?;
    }
    Ok(Session { wire, offers, reused: false, dirty: false, idle_since: Instant::now(), _membership: None })
}

/// EHLO, or HELO where the relay does not know that.
async fn hello(
    wire: &mut Wire,
    name: &str,
    channel: &EmailChannel,
    judge: &Judge<'_>,
) -> Result<Offers, Failure> {
    let broken = |broken| judge.broken(Phase::Hello, &broken);
    let reply = wire.ask(&format!("EHLO {name}"), channel.timeout).await.map_err(broken)?;
    if reply.is_positive() {
        return Ok(Offers::told(&reply));
    }
    if !matches!(reply.code, 500 | 502) {
        return Err(judge.refused(Phase::Hello, &reply));
    }
    let reply = wire.ask(&format!("HELO {name}"), channel.timeout).await.map_err(broken)?;
    if reply.is_positive() { Ok(Offers::default()) } else { Err(judge.refused(Phase::Hello, &reply)) }
}

async fn start_tls(
    wire: &mut Wire,
    outside: &Outside,
    channel: &EmailChannel,
    judge: &Judge<'_>,
) -> Result<(), Failure> {
    let broken = |broken| judge.broken(Phase::StartTls, &broken);
    let reply = wire.ask("STARTTLS", channel.timeout).await.map_err(broken)?;
    if reply.code != 220 {
        return Err(judge.refused(Phase::StartTls, &reply));
    }
    let deadline = Instant::now() + channel.timeout;
    wire.secure(&outside.connector, deadline).await.map_err(broken)
}

/// Credentials leave under TLS alone, or for this machine's own relay.
fn may_have_credentials(protected: bool, peer: Option<IpAddr>) -> bool {
    protected || peer.is_some_and(|peer| peer.to_canonical().is_loopback())
}

/// Our address as a name, for a machine without one (RFC 5321, 4.1.3).
fn literal(addresses: Option<(SocketAddr, SocketAddr)>) -> String {
    match addresses.map(|(own, _)| own.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => format!("[{ip}]"),
        Some(IpAddr::V6(ip)) => format!("[IPv6:{ip}]"),
        None => "[127.0.0.1]".to_owned(),
    }
}

impl Offers {
    /// What stands in the answer to EHLO. The first line is a greeting.
    fn told(reply: &Reply) -> Self {
        let mut offers = Offers::default();
        for line in reply.text.lines().skip(1) {
            let line = line.to_ascii_uppercase();
            let (keyword, parameters) = line.split_once([' ', '=']).unwrap_or((&line, ""));
            match keyword {
                "PIPELINING" => offers.pipelining = true,
                "SIZE" => offers.size = Some(parameters.trim().parse().unwrap_or(0)),
                "SMTPUTF8" => offers.smtputf8 = true,
                "DSN" => offers.dsn = true,
                "STARTTLS" => offers.starttls = true,
                "AUTH" => offers.auth.extend(parameters.split_whitespace().map(str::to_owned)),
                _ => {}
            }
        }
        offers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_in_any_case() {
        let text = "250-mx.example.com PIPELINING\r\n250-size 10240000\r\n250-8bitmime\r\n250-Auth PLAIN login\r\n\
            250-AUTH=XOAUTH2\r\n250-SIZEX\r\n250 dsn\r\n";
        let (reply, _) = Reply::parse(text.as_bytes()).unwrap().unwrap();
        let auth = ["PLAIN", "LOGIN", "XOAUTH2"].map(str::to_owned).to_vec();
        let expected = Offers { size: Some(10_240_000), dsn: true, auth, ..Offers::default() };
        assert_eq!(Offers::told(&reply), expected, "the first line is a greeting");
    }

    /// Without TLS, no credentials but for this machine's own relay.
    #[test]
    fn c103_who_may_have_credentials() {
        let may = |protected, peer: &str| may_have_credentials(protected, Some(peer.parse().unwrap()));
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(may(false, peer), "{peer}");
        }
        for peer in ["192.0.2.1", "10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "0.0.0.0"] {
            assert!(!may(false, peer), "{peer}");
            assert!(may(true, peer), "{peer}");
        }
        assert!(!may_have_credentials(false, None));
    }

    #[test]
    fn a_machine_without_a_name_gives_its_address() {
        let own =
            |ip: &str| literal(Some((format!("{ip}:1").parse().unwrap(), "192.0.2.9:25".parse().unwrap())));
        assert_eq!(own("192.0.2.1"), "[192.0.2.1]");
        assert_eq!(own("[::ffff:192.0.2.1]"), "[192.0.2.1]");
        assert_eq!(own("[2001:db8::1]"), "[IPv6:2001:db8::1]");
    }
}
