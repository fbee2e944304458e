//! Reads the reports that mail servers send back: delivery status notifications (RFC 3464, RFC 6533).
//!
//! Such a mail comes from anywhere and is read with that in mind. It is taken apart here, piece by piece and with
//! a bound on the pieces: the library that reads header fields would keep nested messages inside one another, as
//! deep as the sender likes, and could not let go of them on a small stack. Only form is judged. Whether the
//! notification exists, whether it went to the address, and what a bounce means, is for the store to say.
//!
//! Deliberately absent: guessing from the words of a mail that holds no report, and any trust in the sender.

mod part;
mod status;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use angarium_domain::address::Address;
use angarium_domain::id::NotificationId;
use mail_parser::HeaderValue;

use part::{Kind, Part, header, split_pieces};

/// Parts of a mail that are looked at, nested ones included.
const PARTS: usize = 32;

/// What a mail server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The notification that it is about, as far as the report tells.
    pub notification: Option<NotificationId>,
    /// What became of each address: at least one, at most 1,000.
    pub recipients: Vec<Recipient>,
}

/// What became of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The address as we sent to it, where the report tells; else the one it was forwarded to.
    pub address: Address,
    /// What the mail server did.
    pub action: Action,
    /// The status code, such as `5.1.1` (RFC 3463); empty if the report tells none.
    pub status: String,
    /// One line that explains it, in at most 1,000 characters.
    pub diagnostic: Option<String>,
}

/// What a mail server did with a message for one address (RFC 3464, 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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

impl Action {
    /// Every action.
    pub const ALL: [Action; 5] =
        [Action::Failed, Action::Delayed, Action::Delivered, Action::Relayed, Action::Expanded];

    /// The word that stands in a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Failed => "failed",
            Action::Delayed => "delayed",
            Action::Delivered => "delivered",
            Action::Relayed => "relayed",
            Action::Expanded => "expanded",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of failed, delayed, delivered, relayed, expanded")]
pub struct UnknownAction;

impl FromStr for Action {
    type Err = UnknownAction;

    /// Reads the first word, in any case; comments may follow.
    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        let word = text.split_whitespace().next().unwrap_or_default();
        Action::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(word)).ok_or(UnknownAction)
    }
}

/// Why a mail could not be read as a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// No part of it is a delivery status.
    #[error("holds no delivery status report (a part of type message/delivery-status)")]
    NoReport,
    /// There is such a part, but it says of no address what became of it.
    #[error("holds a delivery status report that says of no e-mail address what became of it")]
    NoRecipient,
}

/// Reads a whole mail, header and body, with line ends of either kind. Takes time in proportion to its length.
pub fn read(mail: &[u8]) -> Result<Report, Unreadable> {
    let mut parts_left = PARTS;
    let whole = Part::of(mail, &mut parts_left).ok_or(Unreadable::NoReport)?;
    let found = find(whole, mail, &mut parts_left).ok_or(Unreadable::NoReport)?;
    let status = status::read(&String::from_utf8_lossy(&found.status));
    if status.recipients.is_empty() {
        return Err(Unreadable::NoRecipient);
    }
    let notification = status
        .envelope_id
        .or_else(|| found.returned.and_then(|message| id_in(header(&message)?.header("Message-ID"))))
        .or_else(|| {
            let carrier = header(found.carrier)?;
            id_in(carrier.header("In-Reply-To")).or_else(|| id_in(carrier.header("References")))
        });
    Ok(Report { notification, recipients: status.recipients })
}

/// A report inside a mail.
struct Found<'a> {
    /// The delivery status itself.
    status: Cow<'a, [u8]>,
    /// The message that came back, or its header.
    returned: Option<Cow<'a, [u8]>>,
    /// The mail that brought the report: the whole one, or one that was forwarded inside it.
    carrier: &'a [u8],
}

/// Looks for a report in `part`, which stands in the mail `carrier`.
fn find<'a>(part: Part<'a>, carrier: &'a [u8], parts_left: &mut usize) -> Option<Found<'a>> {
    match part.kind {
        Kind::Status => Some(Found { status: part.decoded(), returned: None, carrier }),
        Kind::Message => find(Part::of(part.body, parts_left)?, part.body, parts_left),
        Kind::Multipart(boundary) => {
            let pieces: Vec<Part<'_>> = split_pieces(part.body, boundary.as_bytes(), PARTS)
                .into_iter()
                .map_while(|piece| Part::of(piece, parts_left))
                .collect();
            if let Some(status) = pieces.iter().find(|piece| matches!(piece.kind, Kind::Status)) {
                let returned = pieces.iter().find(|piece| matches!(piece.kind, Kind::Message | Kind::Header));
                let (status, returned) = (status.decoded(), returned.map(Part::decoded));
                return Some(Found { status, returned, carrier });
            }
            pieces.into_iter().find_map(|piece| find(piece, carrier, parts_left))
        }
        Kind::Header | Kind::Other => None,
    }
}

/// The last of the ids in a field (`<id@domain>`) that a notification of ours could have.
fn id_in(field: Option<&HeaderValue<'_>>) -> Option<NotificationId> {
    let local = |id: &str| id.split('@').next().and_then(|local| local.parse().ok());
    field?.as_text_list()?.iter().rev().find_map(|id| local(id))
}
