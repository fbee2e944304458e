//! The members of a list, each with a fate of its own, and what they make of the notification.

use crate::disposition::Next;
use crate::outcome::{FailureClass, LastError};
use crate::text::one_line;
use crate::time::Timestamp;

/// Where one address of a list stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// To be sent to.
    Waiting {
        /// When.
        due: Timestamp,
        /// What went wrong last, if anything did.
        error: Option<LastError>,
    },
    /// The receiver took it.
    Accepted,
    /// Given up.
    Refused(LastError),
}

/// What the targets together make of their notification (OB-12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollUp {
    /// Some are still to be sent to.
    Waiting {
        /// When the first of them is due.
        due: Timestamp,
        /// What went wrong with one of them, if anything did.
        error: Option<LastError>,
    },
    /// All are done and at least one accepted; the refused ones are named.
    Delivered(Option<LastError>),
    /// None accepted.
    Parked(LastError),
}

impl TargetState {
    /// The state after [`crate::disposition::decide`] for this address.
    pub fn after(next: &Next, error: Option<LastError>) -> Self {
        let unknown = || LastError { class: FailureClass::Internal, detail: "no reason was given".into() };
        match next {
            Next::Deliver => TargetState::Accepted,
            Next::Retry { due, .. } | Next::Hold { due } | Next::Again { due } => {
                TargetState::Waiting { due: *due, error }
            }
            Next::Park => TargetState::Refused(error.unwrap_or_else(unknown)),
        }
    }
}

/// Rolls the states of a list's addresses up into one.
pub fn roll_up<'a>(targets: impl IntoIterator<Item = (&'a str, &'a TargetState)>) -> RollUp {
    let mut accepted = 0;
    let mut waiting: Option<(Timestamp, Option<LastError>)> = None;
    let mut refused: Vec<(&str, &LastError)> = Vec::new();
    for (address, state) in targets {
        match state {
            TargetState::Accepted => accepted += 1,
            TargetState::Refused(error) => refused.push((address, error)),
            TargetState::Waiting { due, error } => {
                let (earliest, known) = waiting.take().unwrap_or((*due, None));
                waiting = Some((earliest.min(*due), known.or_else(|| error.clone())));
            }
        }
    }
    if let Some((due, error)) = waiting {
        return RollUp::Waiting { due, error };
    }
    match (accepted, name_all(&refused)) {
        (0, Some(error)) => RollUp::Parked(error),
        (0, None) => RollUp::Parked(LastError {
            class: FailureClass::PermanentMessage,
            detail: "the list has no members".into(),
        }),
        (_, refused) => RollUp::Delivered(refused),
    }
}

/// One error that names every refused address; its class is that of the first.
fn name_all(refused: &[(&str, &LastError)]) -> Option<LastError> {
    let (_, first) = refused.first()?;
    let named: Vec<String> =
        refused.iter().map(|(address, error)| format!("{address}: {}", error.detail)).collect();
    Some(LastError { class: first.class, detail: one_line(&named.join("; "), crate::limits::ERROR_CHARS) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(detail: &str) -> TargetState {
        TargetState::Refused(LastError { class: FailureClass::PermanentRecipient, detail: detail.into() })
    }

    fn waiting(due: i64) -> TargetState {
        TargetState::Waiting { due: Timestamp::from_micros(due), error: None }
    }

    fn rolled(states: &[TargetState]) -> RollUp {
        let names = ["a", "b", "c"];
        roll_up(names.into_iter().zip(states))
    }

    /// OB-12: retrying while any target is; delivered with the refused named; parked when none accepted.
    #[test]
    fn roll_up_of_a_list() {
        let due = |micros| RollUp::Waiting { due: Timestamp::from_micros(micros), error: None };
        assert_eq!(rolled(&[TargetState::Accepted, waiting(9), waiting(7)]), due(7));
        assert_eq!(rolled(&[refused("no"), waiting(9)]), due(9));
        assert_eq!(rolled(&[TargetState::Accepted, TargetState::Accepted]), RollUp::Delivered(None));
        let RollUp::Delivered(Some(error)) =
            rolled(&[TargetState::Accepted, refused("no"), refused("never")])
        else {
            panic!("one accepted")
        };
        assert_eq!(error.detail, "b: no; c: never");
        let RollUp::Parked(error) = rolled(&[refused("no"), refused("never")]) else {
            panic!("none accepted")
        };
        assert_eq!(error.detail, "a: no; b: never");
        assert!(matches!(rolled(&[]), RollUp::Parked(_)));
    }
}
