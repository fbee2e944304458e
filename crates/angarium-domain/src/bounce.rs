//! Bounces: what mail servers report about an address after one of them had taken a message for it.

use std::fmt;
use std::str::FromStr;

use crate::address::Address;

/// What is reported about one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// The address as it was sent to, in normal form, where the report tells; else the one it was forwarded to.
    pub address: Address,
    /// What the mail server did.
    pub action: BounceAction,
    /// The status code, such as `5.1.1` (RFC 3463); empty if the report tells none.
    pub status: String,
    /// One line that explains it.
    pub diagnostic: Option<String>,
}

/// What a mail server did with a message for one address (RFC 3464, 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BounceAction {
    /// It gave up.
    Failed,
    /// It goes on trying.
    Delayed,
    /// It delivered.
    Delivered,
    /// It passed the message to a server that reports nothing.
    Relayed,
    /// It sent the message on to the members of a list.
    Expanded,
}

impl BounceAction {
    /// Every action.
    pub const ALL: [BounceAction; 5] = [
        BounceAction::Failed,
        BounceAction::Delayed,
        BounceAction::Delivered,
        BounceAction::Relayed,
        BounceAction::Expanded,
    ];

    /// The word that stands in reports and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            BounceAction::Failed => "failed",
            BounceAction::Delayed => "delayed",
            BounceAction::Delivered => "delivered",
            BounceAction::Relayed => "relayed",
            BounceAction::Expanded => "expanded",
        }
    }
}

impl fmt::Display for BounceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no action of a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of failed, delayed, delivered, relayed, expanded")]
pub struct UnknownBounceAction;

impl FromStr for BounceAction {
    type Err = UnknownBounceAction;

    fn from_str(text: &str) -> Result<Self, UnknownBounceAction> {
        BounceAction::ALL.into_iter().find(|action| action.as_str() == text).ok_or(UnknownBounceAction)
    }
}
