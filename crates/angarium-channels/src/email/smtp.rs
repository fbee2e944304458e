//! The conversation with a mail relay (RFC 5321), step by step: [`session`] opens it (greeting, EHLO, TLS, login),
//! [`transaction`] hands over one message, [`pool`] keeps sessions for the next one. What is said goes over
//! [`wire`]; [`reply`] reads answers; [`verdict`] says what each of them means in each [`Phase`].
//!
//! We speak the protocol ourselves because every step counts: each recipient's answer is kept, the message goes
//! out if any was accepted, and only silence after the final dot leaves a doubt.
//!
//! Deliberately absent: looking up mail exchangers. Mail is handed to the relay that the operator names.

pub(crate) mod auth;
pub(crate) mod pool;
pub(crate) mod reply;
pub(crate) mod session;
pub(crate) mod transaction;
pub(crate) mod verdict;
pub(crate) mod wire;

/// Where in a conversation something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reaching the relay, TLS included.
    Connect,
    /// The relay's greeting and its answer to EHLO.
    Hello,
    /// The answer to STARTTLS.
    StartTls,
    /// Logging in.
    Auth,
    /// The answer to MAIL FROM.
    Mail,
    /// The answer to RCPT TO.
    Rcpt,
    /// The answer to DATA, and handing over the message.
    Data,
    /// The answer after the final dot.
    Final,
}

impl Phase {
    /// As an operator reads it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Connect => "connecting",
            Phase::Hello => "the greeting",
            Phase::StartTls => "STARTTLS",
            Phase::Auth => "AUTH",
            Phase::Mail => "MAIL FROM",
            Phase::Rcpt => "RCPT TO",
            Phase::Data => "DATA",
            Phase::Final => "the message",
        }
    }
}
