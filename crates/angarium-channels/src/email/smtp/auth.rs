//! Logging in (RFC 4954): PLAIN and LOGIN with a password, XOAUTH2 and OAUTHBEARER (RFC 7628) with a token.
//!
//! What is sent here never shows in a transcript.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use angarium_domain::outcome::Failure;
use angarium_egress::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Phase;
use super::reply::Reply;
use super::session::Offers;
use super::verdict::Judge;
use super::wire::Wire;
use crate::email::token::TokenSource;
use crate::email::{EmailChannel, Relay};

/// A way to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// User name and password in one line.
    Plain,
    /// User name and password, each when asked for.
    Login,
    /// A token, as Google and Microsoft take it.
    Xoauth2,
    /// A token, as RFC 7628 has it.
    OauthBearer,
}

impl Mechanism {
    /// As it stands in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::Xoauth2 => "XOAUTH2",
            Mechanism::OauthBearer => "OAUTHBEARER",
        }
    }

    /// Whether it takes a token.
    pub fn takes_token(self) -> bool {
        matches!(self, Mechanism::Xoauth2 | Mechanism::OauthBearer)
    }
}

/// The text names no way to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of plain, login, xoauth2, oauthbearer")]
pub struct UnknownMechanism;

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(text: &str) -> Result<Self, UnknownMechanism> {
        [Mechanism::Plain, Mechanism::Login, Mechanism::Xoauth2, Mechanism::OauthBearer]
            .into_iter()
            .find(|mechanism| mechanism.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownMechanism)
    }
}

/// Who logs in, and with what.
#[derive(Clone)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// What proves it.
    pub credential: Credential,
    /// The way to log in; the best that both sides know if it is not said.
    pub mechanism: Option<Mechanism>,
}

/// What proves who somebody is. Its value cannot be shown.
#[derive(Clone)]
pub enum Credential {
    /// A password.
    Password(String),
    /// Tokens that are fetched when they are needed.
    Token(Arc<TokenSource>),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Password(_) => "Password",
            Credential::Token(_) => "Token",
        })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("credential", &self.credential).finish()
    }
}

/// A secret, and what it is part of on the wire.
pub(crate) fn to_hide(user: &str, secret: &str, relay: &Relay) -> Vec<String> {
    let every = [Mechanism::Plain, Mechanism::Xoauth2, Mechanism::OauthBearer];
    let responses = every.map(|mechanism| STANDARD.encode(initial_response(mechanism, user, secret, relay)));
    std::iter::once(secret.to_owned()).chain(responses).collect()
}

/// Logs in. A token that is refused is fetched afresh once.
pub(crate) async fn log_in(
    wire: &mut Wire,
    login: &Login,
    offers: &Offers,
    client: &Client,
    channel: &EmailChannel,
    judge: &Judge<'_>,
) -> Result<(), Failure> {
    let mechanism = choose(login, offers).ok_or_else(|| {
        let wanted: Vec<&str> = fitting(login).map(Mechanism::as_str).collect();
        let offered = if offers.auth.is_empty() { "none".to_owned() } else { offers.auth.join(", ") };
        judge.unfit(&format!(
            "no common way to log in: {} would do, the relay offers {offered}",
            wanted.join(" or ")
        ))
    })?;
    let source = match &login.credential {
        Credential::Password(password) => {
            let reply = attempt(wire, mechanism, &login.user, password, channel, judge).await?;
            return accepted(&reply, judge);
        }
        Credential::Token(source) => source,
    };
    let token = source.token(client).await?;
    let judge = &judge.hiding(to_hide(&login.user, &token, &channel.relay));
    let reply = attempt(wire, mechanism, &login.user, &token, channel, judge).await?;
    if reply.code / 100 != 5 {
        return accepted(&reply, judge);
    }
    source.forget(&token).await;
    let renewed = source.token(client).await?;
    if renewed == token {
        return accepted(&reply, judge);
    }
    let judge = &judge.hiding(to_hide(&login.user, &renewed, &channel.relay));
    let reply = attempt(wire, mechanism, &login.user, &renewed, channel, judge).await?;
    accepted(&reply, judge)
}

fn choose(login: &Login, offers: &Offers) -> Option<Mechanism> {
    fitting(login).find(|mechanism| offers.auth.iter().any(|offered| offered == mechanism.as_str()))
}

/// The ways to log in that go with a credential, the best first.
fn fitting(login: &Login) -> impl Iterator<Item = Mechanism> {
    let all = match login.credential {
        Credential::Password(_) => [Mechanism::Plain, Mechanism::Login],
        Credential::Token(_) => [Mechanism::OauthBearer, Mechanism::Xoauth2],
    };
    let wanted = login.mechanism;
    all.into_iter().filter(move |mechanism| wanted.is_none_or(|wanted| wanted == *mechanism))
}

fn accepted(reply: &Reply, judge: &Judge<'_>) -> Result<(), Failure> {
    if reply.is_positive() { Ok(()) } else { Err(judge.refused(Phase::Auth, reply)) }
}

/// One exchange, and the answer that ends it.
async fn attempt(
    wire: &mut Wire,
    mechanism: Mechanism,
    user: &str,
    secret: &str,
    channel: &EmailChannel,
    judge: &Judge<'_>,
) -> Result<Reply, Failure> {
    wire.hide(&judge.mask);
    let limit = channel.timeout;
    let name = mechanism.as_str();
    let broken = |broken| judge.broken(Phase::Auth, &broken);
    if mechanism == Mechanism::Login {
        let mut reply = wire.ask("AUTH LOGIN", limit).await.map_err(broken)?;
        // What the relay asks for is spelt in many ways; it asks for the name first.
        for answer in [user, secret] {
            if reply.code != 334 {
                break;
            }
            reply = wire.ask_secretly(&STANDARD.encode(answer), "[masked]", limit).await.map_err(broken)?;
        }
        return Ok(reply);
    }
    let response = STANDARD.encode(initial_response(mechanism, user, secret, &channel.relay));
    let shown = format!("AUTH {name} [masked]");
    let command = format!("AUTH {name} {response}");
    let mut reply = wire.ask_secretly(&command, &shown, limit).await.map_err(broken)?;
    if reply.code == 334 {
        // The relay says why it refuses and waits to be told that we have heard it.
        let heard = if mechanism == Mechanism::OauthBearer { "AQ==" } else { "" };
        reply = wire.ask(heard, limit).await.map_err(broken)?;
    }
    Ok(reply)
}

fn initial_response(mechanism: Mechanism, user: &str, secret: &str, relay: &Relay) -> String {
    match mechanism {
        Mechanism::Plain | Mechanism::Login => format!("\0{user}\0{secret}"),
        Mechanism::Xoauth2 => format!("user={user}\x01auth=Bearer {secret}\x01\x01"),
        Mechanism::OauthBearer => {
            let user = user.replace('=', "=3D").replace(',', "=2C");
            let (host, port) = (&relay.host, relay.port);
            format!("n,a={user},\x01host={host}\x01port={port}\x01auth=Bearer {secret}\x01\x01")
        }
    }
}
