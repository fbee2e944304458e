//! What an answer, or its absence, means in each phase. Codes decide; words only where relays have no code for it.
//!
//! | phase | answer | outcome |
//! | --- | --- | --- |
//! | connecting | refused, no answer, name not resolved for now, TLS fails | transient, the whole channel |
//! | | no such name, certificate not trusted, address not allowed | the channel is unfit |
//! | greeting, EHLO, STARTTLS | 4xx, connection lost | transient, the whole channel |
//! | | 5xx, no STARTTLS where it is required | the channel is unfit |
//! | AUTH | 4xx | transient, the whole channel |
//! | | 5xx, no common way to log in | the channel is unfit (a token is fetched afresh once before) |
//! | MAIL | 4xx | transient, the whole channel |
//! | | 552, x.3.4 | permanent for the message: too large |
//! | | 501, 504, 530, 553, 555, x.1.7, x.1.8, x.7.60 | the channel is unfit: the sender |
//! | RCPT | 450 or 451 with x.7.1, or a word for greylisting | transient, not before the greylisting wait |
//! | | x.2.2, 552, a word for a full mailbox | transient, not before an hour |
//! | | x.5.3, too many recipients, even when 5xx | the rest in another transaction |
//! | | no relaying, for everybody | the channel is unfit |
//! | | any other 5xx | permanent for the recipient |
//! | DATA, the message | 4xx | transient |
//! | | 5xx | permanent for the message |
//! | MAIL, the message | a word for a sending quota | rate limited, the whole channel, an hour |
//! | after the final dot | connection lost, no answer in time | transient, in doubt |

use std::time::Duration;

use angarium_domain::adapter::Message;
use angarium_domain::outcome::{Failure, FailureClass, Receipt};
use angarium_egress::FaultKind;

use super::Phase;
use super::reply::Reply;
use super::wire::Broken;
use crate::mask::Mask;

/// How long a full mailbox, and a sending quota that is used up, are left alone.
const LONG_WAIT: Duration = Duration::from_secs(60 * 60);

/// Who puts what happened into words that can be kept.
pub(crate) struct Judge<'a> {
    /// The relay by name and port.
    pub(crate) relay: &'a str,
    /// What must never show.
    pub(crate) secrets: Vec<String>,
    /// The least wait after greylisting.
    pub(crate) greylist_wait: Duration,
    /// The message whose text the relay may quote.
    pub(crate) message: &'a Message,
}

/// What a relay says to one recipient.
#[derive(Debug)]
pub(crate) enum Answer {
    Accepted,
    /// It has enough of them; this one goes into another transaction.
    TooMany(Failure),
    /// It does not take mail for that domain from us; if that goes for everybody, we are not known to it.
    NoRelaying(Failure),
    Refused(Failure),
}

impl Judge<'_> {
    /// The same with one more secret.
    pub(crate) fn hiding(&self, secret: &str) -> Judge<'_> {
        let mut secrets = self.secrets.clone();
        secrets.push(secret.to_owned());
        Judge { secrets, ..*self }
    }

    /// What it means that the conversation broke off.
    pub(crate) fn broken(&self, phase: Phase, broken: &Broken) -> Failure {
        let class = match broken {
            Broken::Dial(fault) => match fault.kind {
                FaultKind::Blocked(_)
                | FaultKind::NoSuchName
                | FaultKind::Certificate
                | FaultKind::Request => FailureClass::PermanentConfig,
                FaultKind::Local => FailureClass::Internal,
                _ => FailureClass::Transient,
            },
            _ => FailureClass::Transient,
        };
        let detail = match broken {
            Broken::Dial(fault) => format!("{}: {fault}", self.relay),
            _ => format!("{}: {broken} ({})", self.relay, phase.as_str()),
        };
        Failure {
            duplicate_risk: phase == Phase::Final,
            whole_channel: class == FailureClass::Transient && !concerns_the_message(phase),
            ..Failure::new(class, detail)
        }
    }

    /// What an answer means that refuses, in any phase but that of the recipients.
    pub(crate) fn refused(&self, phase: Phase, reply: &Reply) -> Failure {
        let in_quota = matches!(phase, Phase::Mail | Phase::Final) && is_quota(reply);
        let class = match phase {
            _ if in_quota => FailureClass::RateLimited,
            _ if reply.code / 100 != 5 => FailureClass::Transient,
            Phase::Connect | Phase::Hello | Phase::StartTls | Phase::Auth => FailureClass::PermanentConfig,
            Phase::Mail => of_sender(reply),
            Phase::Rcpt => FailureClass::PermanentRecipient,
            Phase::Data | Phase::Final => FailureClass::PermanentMessage,
        };
        let whole_channel = in_quota || (class == FailureClass::Transient && !concerns_the_message(phase));
        let retry_after = in_quota.then_some(LONG_WAIT);
        Failure { whole_channel, retry_after, ..self.answered(class, phase, reply) }
    }

    /// What the relay says to one recipient.
    pub(crate) fn of_recipient(&self, reply: &Reply) -> Answer {
        if reply.is_positive() {
            return Answer::Accepted;
        }
        if reply.code != 421 && (reply.says(5, 3) || reply.mentions(&["too many recipients"])) {
            return Answer::TooMany(self.answered(FailureClass::Transient, Phase::Rcpt, reply));
        }
        let failed = |class, retry_after| {
            Answer::Refused(Failure { retry_after, ..self.answered(class, Phase::Rcpt, reply) })
        };
        let is_full = reply.says(2, 2)
            || (reply.code == 552 && reply.enhanced.is_none())
            || reply.mentions(&["mailbox full", "mailbox is full", "over quota", "quota exceeded"]);
        let is_greylisted = matches!(reply.code, 450 | 451)
            && (reply.says(7, 1) || reply.mentions(&["greylist", "graylist", "grey-list", "gray-list"]));
        match reply.code {
            421 => Answer::Refused(Failure {
                whole_channel: true,
                ..self.answered(FailureClass::Transient, Phase::Rcpt, reply)
            }),
            _ if is_full => failed(FailureClass::Transient, Some(LONG_WAIT)),
            _ if is_greylisted => failed(FailureClass::Transient, Some(self.greylist_wait)),
            550 | 551 | 553 | 554 if reply.mentions(&["relay"]) => {
                Answer::NoRelaying(self.answered(FailureClass::PermanentRecipient, Phase::Rcpt, reply))
            }
            // Out of step: not the recipient's fault.
            503 => failed(FailureClass::Transient, None),
            500..=599 => failed(FailureClass::PermanentRecipient, None),
            _ => failed(FailureClass::Transient, None),
        }
    }

    /// The relay took the message.
    pub(crate) fn receipt(&self, reply: &Reply) -> Receipt {
        Receipt {
            provider_message_id: reply.queue_id(),
            status_code: Some(reply.code),
            response_excerpt: self.mask().excerpt(reply.to_string().as_bytes(), self.message),
        }
    }

    fn answered(&self, class: FailureClass, phase: Phase, reply: &Reply) -> Failure {
        let mask = self.mask();
        let answer = mask.excerpt(reply.to_string().as_bytes(), self.message);
        let shown = answer.clone().unwrap_or_else(|| reply.code.to_string());
        let detail = format!("{} answered {} with {shown}", self.relay, phase.as_str());
        Failure { status_code: Some(reply.code), response_excerpt: answer, ..Failure::new(class, detail) }
    }

    fn mask(&self) -> Mask {
        Mask::over(self.secrets.iter().cloned())
    }
}

/// From the recipients on, a message may be to blame for what goes wrong; before that, all messages suffer.
fn concerns_the_message(phase: Phase) -> bool {
    matches!(phase, Phase::Rcpt | Phase::Data | Phase::Final)
}

fn of_sender(reply: &Reply) -> FailureClass {
    let too_large = reply.code == 552 || reply.says(3, 4);
    let sender = matches!(reply.code, 501 | 504 | 530 | 553 | 555)
        || [(1, 7), (1, 8), (7, 60)].iter().any(|&(subject, detail)| reply.says(subject, detail));
    match (too_large, sender) {
        (true, _) => FailureClass::PermanentMessage,
        (false, true) => FailureClass::PermanentConfig,
        (false, false) => FailureClass::PermanentMessage,
    }
}

/// Relays have no code of their own for a sender that sent too much.
fn is_quota(reply: &Reply) -> bool {
    const WORDS: [&str; 8] = [
        "sending quota",
        "quota exceeded",
        "sending limit",
        "limit exceeded",
        "rate limit",
        "ratelimit",
        "too many messages",
        "sending too",
    ];
    !reply.says(2, 2) && !reply.says(3, 4) && (reply.says(4, 5) || reply.mentions(&WORDS))
}
