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

use angarium_domain::bounce::Bounce;
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
    pub bounces: Vec<Bounce>,
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
    if status.bounces.is_empty() {
        return Err(Unreadable::NoRecipient);
    }
    let notification = status
        .envelope_id
        .or_else(|| found.returned.and_then(|message| id_in(header(&message)?.header("Message-ID"))))
        .or_else(|| {
            let carrier = header(found.carrier)?;
            id_in(carrier.header("In-Reply-To")).or_else(|| id_in(carrier.header("References")))
        });
    Ok(Report { notification, bounces: status.bounces })
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
