//! What came of one attempt. Adapters report in these words; [`crate::disposition`] decides what follows.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::limits::ERROR_CHARS;
use crate::text::one_line;
use crate::time::Timestamp;

/// The one class that a failure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// Likely to pass: the receiver was busy, unreachable or restarting.
    Transient,
    /// The receiver asked for fewer requests.
    RateLimited,
    /// This address will not take messages.
    PermanentRecipient,
    /// This message will never be taken.
    PermanentMessage,
    /// The channel itself is broken: credentials, settings, permissions.
    PermanentConfig,
    /// The attempt was cut off and its outcome is not known.
    Interrupted,
    /// Our own fault; never held against the receiver.
    Internal,
}

impl FailureClass {
    /// Every class.
    pub const ALL: [FailureClass; 7] = [
        FailureClass::Transient,
        FailureClass::RateLimited,
        FailureClass::PermanentRecipient,
        FailureClass::PermanentMessage,
        FailureClass::PermanentConfig,
        FailureClass::Interrupted,
        FailureClass::Internal,
    ];

    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureClass::Transient => "transient",
            FailureClass::RateLimited => "rate_limited",
            FailureClass::PermanentRecipient => "permanent_recipient",
            FailureClass::PermanentMessage => "permanent_message",
            FailureClass::PermanentConfig => "permanent_config",
            FailureClass::Interrupted => "interrupted",
            FailureClass::Internal => "internal",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no class of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names no class of failure")]
pub struct UnknownClass;

impl FromStr for FailureClass {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        FailureClass::ALL.into_iter().find(|class| class.as_str() == text).ok_or(UnknownClass)
    }
}

/// A failed try, as the adapter saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure it is.
    pub class: FailureClass,
    /// One line for an operator, without secrets.
    pub detail: String,
    /// The receiver's status code, where its protocol has one.
    pub status_code: Option<u16>,
    /// The request left in full and no answer came: the receiver may have the message.
    pub duplicate_risk: bool,
    /// How long the receiver asked us to wait, already clamped. Where it is merely busy, the least wait that makes
    /// sense.
    pub retry_after: Option<Duration>,
    /// The trouble, or the rate limit, is the whole channel's and not this receiver's alone.
    pub whole_channel: bool,
    /// The receiver does not want messages at this address any more (an opt-out, 410 Gone).
    pub suppress: bool,
    /// What the receiver answered: cut, cleaned and without secrets.
    pub response_excerpt: Option<String>,
}

impl Failure {
    /// A failure of which no more is known than its class and a sentence.
    pub fn new(class: FailureClass, detail: impl AsRef<str>) -> Self {
        Failure {
            class,
            detail: one_line(detail.as_ref(), ERROR_CHARS),
            status_code: None,
            duplicate_risk: false,
            retry_after: None,
            whole_channel: false,
            suppress: false,
            response_excerpt: None,
        }
    }

    /// What is kept with the row.
    pub fn as_last_error(&self) -> LastError {
        LastError { class: self.class, detail: self.detail.clone() }
    }
}

/// The last thing that went wrong with a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Its class.
    pub class: FailureClass,
    /// One line for an operator.
    pub detail: String,
}

/// The receiver took the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The receiver's own id for it.
    pub provider_message_id: Option<String>,
    /// The receiver's status code, where its protocol has one.
    pub status_code: Option<u16>,
    /// What the receiver answered: cut, cleaned and without secrets.
    pub response_excerpt: Option<String>,
}

/// What came of sending one message to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver took it.
    Delivered(Receipt),
    /// It did not, or we cannot know.
    Failed(Failure),
}

/// The least and the most that a receiver's wish to wait is honoured.
pub const RETRY_AFTER_BOUNDS: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));

/// Reads a `Retry-After` value that is a number of seconds, whole or with decimals (rounded up), however
/// large. `None` for anything else, negative numbers included. The result is clamped to [`RETRY_AFTER_BOUNDS`].
pub fn retry_after_seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !plain {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    let capped = seconds.ceil().min(RETRY_AFTER_BOUNDS.1.as_secs_f64());
    Some(Duration::from_secs_f64(capped).max(RETRY_AFTER_BOUNDS.0))
}

/// The wait that an HTTP date in `Retry-After` stands for. `now` is the receiver's own time where it told
/// it. A date that has passed asks for no extra wait and gives `None`.
pub fn retry_after_date(until: Timestamp, now: Timestamp) -> Option<Duration> {
    let wait = until.since(now);
    (!wait.is_zero()).then(|| wait.clamp(RETRY_AFTER_BOUNDS.0, RETRY_AFTER_BOUNDS.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C038: a wait too large for any type is the longest one allowed.
    #[test]
    fn c038_retry_after_too_big() {
        for text in ["9223372037", "99999999999999999999", "31536000", &"9".repeat(400)] {
            assert_eq!(retry_after_seconds(text), Some(Duration::from_secs(86_400)), "{text}");
        }
    }

    /// C039, C041: what is no number of seconds is no wish. A decimal is rounded up, as providers send them.
    #[test]
    fn c039_c041_malformed_and_negative_retry_after() {
        for text in ["soon", "", "12 s", "-5", "-0", "+5", "1e3", "0x10", "..", "NaN", "inf"] {
            assert_eq!(retry_after_seconds(text), None, "{text:?}");
        }
        assert_eq!(retry_after_seconds(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after_seconds("1.5"), Some(Duration::from_secs(2)));
        assert_eq!(retry_after_seconds("0"), Some(Duration::from_secs(1)));
    }

    /// C041: a date that has passed asks for no wait.
    #[test]
    fn c041_past_date() {
        let now = Timestamp::from_micros(1_000_000_000_000);
        assert_eq!(retry_after_date(now.minus(Duration::from_secs(3600)), now), None);
        assert_eq!(retry_after_date(now.plus(Duration::from_secs(120)), now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after_date(Timestamp::LAST, now), Some(Duration::from_secs(86_400)));
    }
}
