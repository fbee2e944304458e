//! What an answer, or its absence, means in each phase. Codes decide; words only where relays have no code for it,
//! and never words that the relay quotes of the message.
//!
//! | phase | answer | outcome |
//! | --- | --- | --- |
//! | connecting | refused, no answer, name not resolved for now, TLS fails | transient, the whole channel |
//! | | no such name, certificate not trusted, address not allowed | the channel is unfit |
//! | any but RCPT | 432 4.3.2, a word for too many sessions at once | another session of ours serves, else rate limited, five seconds |
//! | up to the greeting | anything transient while another session of ours lives | the same, else as below |
//! | greeting, EHLO, STARTTLS | 4xx, connection lost | transient, the whole channel |
//! | | 5xx, no STARTTLS where it is required | the channel is unfit |
//! | AUTH | 4xx | transient, the whole channel |
//! | | 5xx, no common way to log in | the channel is unfit (a token is fetched afresh once before) |
//! | MAIL | 4xx, 503 | transient, the whole channel |
//! | | 552, x.2.3, x.3.4 | permanent for the message: too large |
//! | | 501, 504, 530, 553, 555, x.1.7, x.1.8, x.7.60 | the channel is unfit: the sender |
//! | | any other 5xx | permanent for the message |
//! | RCPT | x.2.2, 552, a word for a full mailbox | transient, not before an hour |
//! | | x.5.3, too many recipients, even when 5xx | the rest in another transaction |
//! | | 555, or 501 or 504 with x.5.4, where parameters were sent | in another transaction without them |
//! | | no relaying, for everybody in several domains | the channel is unfit |
//! | | 503 | transient |
//! | | any other 5xx | permanent for the recipient |
//! | DATA, the message | 4xx, 503 | transient |
//! | | 5xx | permanent for the message |
//! | MAIL to the message | 450 or 451 with x.7.1, or a word for greylisting | transient, not before the greylisting wait |
//! | MAIL, the message | x.4.5, x.7.232, x.7.233, x.7.236, a word for a sending quota | rate limited, the whole channel, an hour |
//! | after the final dot | connection lost, no answer in time, what is no answer | transient, in doubt |

use std::time::Duration;

use angarium_domain::adapter::Message;
use angarium_domain::outcome::{Failure, FailureClass, Receipt};
use angarium_egress::FaultKind;

use super::Phase;
use super::reply::{Reply, queue_id};
use super::wire::Broken;
use crate::mask::Mask;

/// How long a full mailbox, and a sending quota that is used up, are left alone.
const LONG_WAIT: Duration = Duration::from_secs(60 * 60);

/// How long a relay that has enough sessions for now is left alone.
const CROWDED_WAIT: Duration = Duration::from_secs(5);

/// Who puts what happened into words that can be kept.
pub(crate) struct Judge<'a> {
    /// The relay by name and port.
    pub(crate) relay: &'a str,
    /// What must never show.
    pub(crate) mask: Mask,
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
    /// It does not know what stood behind the address; without that, the recipient may be fine.
    UnknownParameters,
    /// It does not take mail for that domain from us; if that goes for everybody, we are not known to it.
    NoRelaying(Failure),
    Refused(Failure),
}

impl Judge<'_> {
    /// The same with more secrets.
    pub(crate) fn hiding(&self, secrets: Vec<String>) -> Judge<'_> {
        Judge { mask: self.mask.and(secrets), ..*self }
    }

    /// The channel cannot work as it is configured.
    pub(crate) fn unfit(&self, what: &str) -> Failure {
        Failure::new(FailureClass::PermanentConfig, format!("{}: {what}", self.relay))
    }

    /// Every session that was tried had been used up.
    pub(crate) fn used_up(&self) -> Failure {
        let detail = format!("{} ended every session before the message left", self.relay);
        Failure::new(FailureClass::Transient, detail)
    }

    /// There was no time for this recipient.
    pub(crate) fn out_of_time(&self) -> Failure {
        let detail =
            format!("{} takes so few recipients at once that there was no time for the rest", self.relay);
        Failure::new(FailureClass::Transient, detail)
    }

    /// What it means that the conversation broke off.
    pub(crate) fn broken(&self, phase: Phase, broken: &Broken) -> Failure {
        let class = match broken {
            Broken::Dial(fault) => class_of(fault.kind),
            _ => FailureClass::Transient,
        };
        let detail = match broken {
            Broken::Dial(fault) => format!("{}: {fault}{}", self.relay, advice(fault.kind)),
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
        let words = self.words(reply);
        let judged = Judged::of(phase, reply, &words, self.greylist_wait);
        Failure {
            whole_channel: judged.whole_channel,
            retry_after: judged.wait,
            ..self.answered(judged.class, phase, reply)
        }
    }

    /// What the relay says to one recipient; `with_parameters` says whether any stood behind the address.
    pub(crate) fn of_recipient(&self, reply: &Reply, with_parameters: bool) -> Answer {
        if reply.is_positive() {
            return Answer::Accepted;
        }
        let words = self.words(reply);
        let failure = |class| self.answered(class, Phase::Rcpt, reply);
        let busy = |wait| Answer::Refused(Failure { retry_after: wait, ..failure(FailureClass::Transient) });
        let too_many = reply.says(5, 3) || mentions(&words, &["too many recipients"]);
        let parameters = reply.code == 555 || (matches!(reply.code, 501 | 504) && reply.says(5, 4));
        let is_full = reply.says(2, 2)
            || (reply.code == 552 && reply.enhanced.is_none())
            || mentions(&words, &["mailbox full", "mailbox is full", "over quota", "quota exceeded"]);
        match reply.code {
            421 => Answer::Refused(Failure { whole_channel: true, ..failure(FailureClass::Transient) }),
            _ if too_many => Answer::TooMany(failure(FailureClass::Transient)),
            _ if parameters && with_parameters => Answer::UnknownParameters,
            _ if is_full => busy(Some(LONG_WAIT)),
            _ if is_greylisted(reply, &words) => busy(Some(self.greylist_wait)),
            // Out of step: not the recipient's fault.
            503 => busy(None),
            500..=599 if relays_not(reply, &words) => {
                Answer::NoRelaying(failure(FailureClass::PermanentRecipient))
            }
            500..=599 => Answer::Refused(failure(FailureClass::PermanentRecipient)),
            _ => busy(None),
        }
    }

    /// The relay took the message.
    pub(crate) fn receipt(&self, reply: &Reply) -> Receipt {
        let kept = self.mask.excerpt(reply.text.as_bytes(), self.message);
        Receipt {
            provider_message_id: kept.as_deref().and_then(queue_id),
            status_code: Some(reply.code),
            response_excerpt: self.excerpt(reply),
        }
    }

    fn answered(&self, class: FailureClass, phase: Phase, reply: &Reply) -> Failure {
        let answer = self.excerpt(reply);
        let shown = answer.clone().unwrap_or_else(|| reply.code.to_string());
        let detail = format!("{} answered {} with {shown}", self.relay, phase.as_str());
        Failure { status_code: Some(reply.code), response_excerpt: answer, ..Failure::new(class, detail) }
    }

    fn excerpt(&self, reply: &Reply) -> Option<String> {
        self.mask.excerpt(reply.to_string().as_bytes(), self.message)
    }

    /// The relay's own words, in lower case: what it quotes of the message says nothing.
    fn words(&self, reply: &Reply) -> String {
        self.mask.excerpt(reply.text.as_bytes(), self.message).unwrap_or_default().to_lowercase()
    }
}

/// Whether a failure is only that the relay has enough sessions for now.
pub(crate) fn is_crowd(failure: &Failure) -> bool {
    failure.class == FailureClass::RateLimited && failure.retry_after == Some(CROWDED_WAIT)
}

/// What an operator may look at.
fn advice(fault: FaultKind) -> &'static str {
    match fault {
        FaultKind::Certificate => " (the authority of a private certificate goes into security.ca_file)",
        FaultKind::Tls => {
            " (is it a port that speaks TLS? smtps:// for TLS from the first byte, smtp:// for STARTTLS)"
        }
        _ => "",
    }
}

/// What it means that a host could not be reached which the operator named.
pub(crate) fn class_of(fault: FaultKind) -> FailureClass {
    match fault {
        FaultKind::Blocked(_) | FaultKind::NoSuchName | FaultKind::Certificate | FaultKind::Request => {
            FailureClass::PermanentConfig
        }
        FaultKind::Local => FailureClass::Internal,
        FaultKind::Dns
        | FaultKind::Connect
        | FaultKind::Tls
        | FaultKind::Timeout
        | FaultKind::Protocol
        | FaultKind::Reset => FailureClass::Transient,
    }
}

/// What a refusal comes to.
struct Judged {
    class: FailureClass,
    whole_channel: bool,
    wait: Option<Duration>,
}

impl Judged {
    fn of(phase: Phase, reply: &Reply, words: &str, greylist_wait: Duration) -> Self {
        let of = |class, whole_channel, wait| Judged { class, whole_channel, wait };
        let early = !concerns_the_message(phase);
        let content = matches!(phase, Phase::Mail | Phase::Final);
        match phase {
            _ if is_crowded(reply, words) => of(FailureClass::RateLimited, false, Some(CROWDED_WAIT)),
            _ if content && is_too_large(phase, reply) => of(FailureClass::PermanentMessage, false, None),
            _ if content && is_quota(reply, words) => of(FailureClass::RateLimited, true, Some(LONG_WAIT)),
            Phase::Mail | Phase::Data | Phase::Final if is_greylisted(reply, words) => {
                of(FailureClass::Transient, false, Some(greylist_wait))
            }
            _ if reply.code / 100 != 5 || reply.code == 503 => of(FailureClass::Transient, early, None),
            Phase::Connect | Phase::Hello | Phase::StartTls | Phase::Auth => {
                of(FailureClass::PermanentConfig, false, None)
            }
            Phase::Mail if is_about_the_sender(reply) => of(FailureClass::PermanentConfig, false, None),
            Phase::Rcpt => of(FailureClass::PermanentRecipient, false, None),
            Phase::Mail | Phase::Data | Phase::Final => of(FailureClass::PermanentMessage, false, None),
        }
    }
}

/// Until the recipients, all messages suffer from what goes wrong; from then on, a message itself may be to blame.
fn concerns_the_message(phase: Phase) -> bool {
    matches!(phase, Phase::Rcpt | Phase::Data | Phase::Final)
}

fn mentions(words: &str, any: &[&str]) -> bool {
    any.iter().any(|word| words.contains(word))
}

/// The relay has as many sessions as it wants. That passes as soon as one of them ends, and is nobody's fault.
fn is_crowded(reply: &Reply, words: &str) -> bool {
    const WORDS: [&str; 5] = [
        "too many connections",
        "too many concurrent",
        "too many sessions",
        "concurrent connections",
        "concurrent sessions",
    ];
    (reply.code == 432 && reply.says(3, 2)) || mentions(words, &WORDS)
}

fn is_too_large(phase: Phase, reply: &Reply) -> bool {
    reply.says(2, 3) || reply.says(3, 4) || (reply.code == 552 && phase == Phase::Mail)
}

fn is_about_the_sender(reply: &Reply) -> bool {
    matches!(reply.code, 501 | 504 | 530 | 553 | 555)
        || [(1, 7), (1, 8), (7, 60)].iter().any(|&(subject, detail)| reply.says(subject, detail))
}

/// Relays have hardly a code for a sender that sent too much. For good, only what says so plainly is believed.
fn is_quota(reply: &Reply, words: &str) -> bool {
    const PLAIN: [&str; 5] =
        ["sending quota", "sending limit", "daily quota", "daily limit", "messages per day"];
    const FOR_NOW: [&str; 3] = ["rate limit", "ratelimit", "sending too"];
    let mailbox = reply.enhanced.is_some_and(|code| code.subject == 2);
    let for_now = reply.code / 100 == 4 && mentions(words, &FOR_NOW);
    let of_codes = [(4, 5), (7, 232), (7, 233), (7, 236)];
    let coded = of_codes.iter().any(|&(subject, detail)| reply.says(subject, detail));
    !mailbox && (coded || mentions(words, &PLAIN) || for_now)
}

fn is_greylisted(reply: &Reply, words: &str) -> bool {
    const WORDS: [&str; 4] = ["greylist", "graylist", "grey-list", "gray-list"];
    matches!(reply.code, 450 | 451) && (reply.says(7, 1) || mentions(words, &WORDS))
}

/// Codes for it are many, and the word alone stands in names.
fn relays_not(reply: &Reply, words: &str) -> bool {
    const WORDS: [&str; 6] = [
        "relay access denied",
        "relay denied",
        "relaying denied",
        "relay not permitted",
        "not permitted to relay",
        "unable to relay",
    ];
    let of_the_address = reply.enhanced.is_some_and(|code| matches!(code.subject, 1 | 2));
    !of_the_address && mentions(words, &WORDS)
}
