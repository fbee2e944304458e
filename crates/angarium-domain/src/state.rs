//! The life of a notification (OB-05). A state holds only what is true in it; a transition consumes a state
//! and may refuse. "In flight" is a lease on the row, never a state.
//!
//! ```text
//! pending ──► retrying ──► delivered
//!    │  ▲        │  │
//!    │  └────────┼──┼── operator retry ── parked ── operator discard ──► discarded
//!    └───────────┴──┴──► parked, skipped
//! ```

use std::fmt;
use std::str::FromStr;

use crate::outcome::LastError;
use crate::time::Timestamp;

/// The word for a state, without what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Accepted, not tried.
    Pending,
    /// Tried without success; another try is scheduled.
    Retrying,
    /// The receiver took it.
    Delivered,
    /// Given up: a permanent failure, or retries exhausted. Waits for an operator.
    Parked,
    /// Given up by an operator.
    Discarded,
    /// Not to be sent any more: cancelled, expired, superseded, unsubscribed, source gone.
    Skipped,
}

impl Status {
    /// Every status, in the order of life.
    pub const ALL: [Status; 6] = [
        Status::Pending,
        Status::Retrying,
        Status::Delivered,
        Status::Parked,
        Status::Discarded,
        Status::Skipped,
    ];

    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Retrying => "retrying",
            Status::Delivered => "delivered",
            Status::Parked => "parked",
            Status::Discarded => "discarded",
            Status::Skipped => "skipped",
        }
    }

    /// Whether the dispatcher is done with the row. A parked one can be revived by an operator alone.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Pending | Status::Retrying)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of pending, retrying, delivered, parked, discarded, skipped")]
pub struct UnknownStatus;

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownStatus)
    }
}

/// Why a notification is not sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// An operator cancelled it.
    Cancelled,
    /// Its time to live ended.
    Expired,
    /// A later signal replaced it.
    Superseded,
    /// Nobody wants it any more.
    Unsubscribed,
    /// What it told of is gone.
    SourceGone,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [SkipReason; 5] = [
        SkipReason::Cancelled,
        SkipReason::Expired,
        SkipReason::Superseded,
        SkipReason::Unsubscribed,
        SkipReason::SourceGone,
    ];

    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            SkipReason::Cancelled => "cancelled",
            SkipReason::Expired => "expired",
            SkipReason::Superseded => "superseded",
            SkipReason::Unsubscribed => "unsubscribed",
            SkipReason::SourceGone => "source_gone",
        }
    }
}

/// The text names no reason for a skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names no reason for a skip")]
pub struct UnknownReason;

impl FromStr for SkipReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        SkipReason::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownReason)
    }
}

/// Where a notification is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its first try, or for one after an operator's retry or a suspension.
    Pending {
        /// When it may be tried.
        due: Timestamp,
        /// What went wrong before, if anything did.
        error: Option<LastError>,
    },
    /// Failed and will be tried again.
    Retrying {
        /// When it may be tried again.
        due: Timestamp,
        /// What went wrong last.
        error: LastError,
    },
    /// Done.
    Delivered {
        /// When the receiver took it.
        at: Timestamp,
        /// The addresses of a list that did not take it, if some did not.
        error: Option<LastError>,
    },
    /// Given up.
    Parked {
        /// Since when.
        at: Timestamp,
        /// Why.
        error: LastError,
    },
    /// Given up for good.
    Discarded {
        /// When.
        at: Timestamp,
        /// Why it had been parked.
        error: LastError,
    },
    /// Not to be sent.
    Skipped {
        /// When that was decided.
        at: Timestamp,
        /// Why.
        reason: SkipReason,
        /// What had gone wrong before, if anything had.
        error: Option<LastError>,
    },
}

/// A transition that the present state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a notification that is {from} cannot be {action}")]
pub struct Refused {
    /// The state it is in.
    pub from: Status,
    /// What was asked for, as a participle: `retried`, `discarded`, `cancelled`.
    pub action: &'static str,
}

impl State {
    /// The word for this state.
    pub fn status(&self) -> Status {
        match self {
            State::Pending { .. } => Status::Pending,
            State::Retrying { .. } => Status::Retrying,
            State::Delivered { .. } => Status::Delivered,
            State::Parked { .. } => Status::Parked,
            State::Discarded { .. } => Status::Discarded,
            State::Skipped { .. } => Status::Skipped,
        }
    }

    /// When it may be tried next, while it may.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            State::Pending { due, .. } | State::Retrying { due, .. } => Some(*due),
            _ => None,
        }
    }

    /// When it came to its end, if it did.
    pub fn completed_at(&self) -> Option<Timestamp> {
        match self {
            State::Pending { .. } | State::Retrying { .. } => None,
            State::Delivered { at, .. }
            | State::Parked { at, .. }
            | State::Discarded { at, .. }
            | State::Skipped { at, .. } => Some(*at),
        }
    }

    /// The last thing that went wrong, if anything did.
    pub fn error(&self) -> Option<&LastError> {
        match self {
            State::Pending { error, .. } | State::Delivered { error, .. } | State::Skipped { error, .. } => {
                error.as_ref()
            }
            State::Retrying { error, .. } | State::Parked { error, .. } | State::Discarded { error, .. } => {
                Some(error)
            }
        }
    }

    /// Why it was skipped, if it was.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        match self {
            State::Skipped { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    fn live(self, action: &'static str) -> Result<Option<LastError>, Refused> {
        match self {
            State::Pending { error, .. } => Ok(error),
            State::Retrying { error, .. } => Ok(Some(error)),
            other => Err(Refused { from: other.status(), action }),
        }
    }

    fn parked(self, action: &'static str) -> Result<LastError, Refused> {
        match self {
            State::Parked { error, .. } => Ok(error),
            other => Err(Refused { from: other.status(), action }),
        }
    }

    /// The receiver took it at `at`; `refused` names the members of a list that did not.
    pub fn deliver(self, at: Timestamp, refused: Option<LastError>) -> Result<State, Refused> {
        self.live("delivered")?;
        Ok(State::Delivered { at, error: refused })
    }

    /// It failed and is due again at `due`.
    pub fn retry_at(self, due: Timestamp, error: LastError) -> Result<State, Refused> {
        self.live("scheduled again")?;
        Ok(State::Retrying { due, error })
    }

    /// It was not tried for its own sake and waits as it did before: pending stays pending, retrying stays so.
    pub fn wait_until(self, due: Timestamp, error: Option<LastError>) -> Result<State, Refused> {
        match self {
            State::Pending { error: before, .. } => Ok(State::Pending { due, error: error.or(before) }),
            State::Retrying { error: before, .. } => {
                Ok(State::Retrying { due, error: error.unwrap_or(before) })
            }
            other => Err(Refused { from: other.status(), action: "held" }),
        }
    }

    /// Its channel is suspended: back to pending until `due`.
    pub fn hold_until(self, due: Timestamp, error: LastError) -> Result<State, Refused> {
        self.live("held")?;
        Ok(State::Pending { due, error: Some(error) })
    }

    /// It is given up.
    pub fn park(self, at: Timestamp, error: LastError) -> Result<State, Refused> {
        self.live("parked")?;
        Ok(State::Parked { at, error })
    }

    /// It is not to be sent any more.
    pub fn skip(self, at: Timestamp, reason: SkipReason) -> Result<State, Refused> {
        let error = self.live("cancelled")?;
        Ok(State::Skipped { at, reason, error })
    }

    /// An operator wants a parked one tried again, now.
    pub fn revive(self, now: Timestamp) -> Result<State, Refused> {
        let error = self.parked("retried")?;
        Ok(State::Pending { due: now, error: Some(error) })
    }

    /// An operator gives a parked one up for good.
    pub fn discard(self, at: Timestamp) -> Result<State, Refused> {
        let error = self.parked("discarded")?;
        Ok(State::Discarded { at, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FailureClass;

    fn error() -> LastError {
        LastError { class: FailureClass::Transient, detail: "503".into() }
    }

    fn every_state() -> [State; 6] {
        let at = Timestamp::EPOCH;
        [
            State::Pending { due: at, error: None },
            State::Retrying { due: at, error: error() },
            State::Delivered { at, error: None },
            State::Parked { at, error: error() },
            State::Discarded { at, error: error() },
            State::Skipped { at, reason: SkipReason::Cancelled, error: None },
        ]
    }

    /// OB-05: every transition from every state, allowed or refused.
    #[test]
    fn every_transition() {
        type Transition = fn(State) -> Result<State, Refused>;
        let at = Timestamp::from_micros(5);
        assert_eq!(at.micros(), 5);
        let table: [(&str, Transition, &str); 8] = [
            ("deliver", |s| s.deliver(Timestamp::from_micros(5), None), "DD----"),
            ("retry_at", |s| s.retry_at(Timestamp::from_micros(5), error()), "RR----"),
            ("wait_until", |s| s.wait_until(Timestamp::from_micros(5), None), "PR----"),
            ("hold_until", |s| s.hold_until(Timestamp::from_micros(5), error()), "PP----"),
            ("park", |s| s.park(Timestamp::from_micros(5), error()), "XX----"),
            ("skip", |s| s.skip(Timestamp::from_micros(5), SkipReason::Expired), "SS----"),
            ("revive", |s| s.revive(Timestamp::from_micros(5)), "---P--"),
            ("discard", |s| s.discard(Timestamp::from_micros(5)), "---C--"),
        ];
        for (name, transition, expected) in table {
            let seen: String = every_state().into_iter().map(|state| letter(transition(state))).collect();
            assert_eq!(
                seen, expected,
                "{name} from pending, retrying, delivered, parked, discarded, skipped"
            );
        }
    }

    fn letter(result: Result<State, Refused>) -> char {
        match result.map(|state| state.status()) {
            Ok(Status::Pending) => 'P',
            Ok(Status::Retrying) => 'R',
            Ok(Status::Delivered) => 'D',
            Ok(Status::Parked) => 'X',
            Ok(Status::Discarded) => 'C',
            Ok(Status::Skipped) => 'S',
            Err(_) => '-',
        }
    }

    #[test]
    fn what_went_wrong_is_kept() {
        let parked = State::Retrying { due: Timestamp::EPOCH, error: error() }
            .park(Timestamp::EPOCH, error())
            .unwrap();
        let pending = parked.revive(Timestamp::EPOCH).unwrap();
        assert_eq!(pending.error(), Some(&error()));
        let skipped = pending.skip(Timestamp::EPOCH, SkipReason::Cancelled).unwrap();
        assert_eq!(skipped.error(), Some(&error()));
        let refused = skipped.discard(Timestamp::EPOCH).unwrap_err();
        assert_eq!(refused.to_string(), "a notification that is skipped cannot be discarded");
    }

    #[test]
    fn terminal_is_what_the_dispatcher_never_touches() {
        let live: Vec<_> = Status::ALL.into_iter().filter(|s| !s.is_terminal()).collect();
        assert_eq!(live, [Status::Pending, Status::Retrying]);
        for state in every_state() {
            assert_eq!(state.due().is_some(), !state.status().is_terminal());
            assert_eq!(state.completed_at().is_some(), state.status().is_terminal());
        }
    }
}
