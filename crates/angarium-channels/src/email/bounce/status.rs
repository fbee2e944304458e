//! The delivery status inside a report: groups of fields, one about the message and one about each address.

use angarium_domain::address::Address;
use angarium_domain::bounce::{Bounce, BounceAction};
use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::limits::ERROR_CHARS;
use angarium_domain::text::one_line;

use crate::mask::clean;

/// Recipients of one report that are read.
const RECIPIENTS: usize = 1000;

/// Bytes of one field of a report that are read.
const FIELD_BYTES: usize = 4 * 1024;

/// A delivery status: fields about the message, and fields about each address.
#[derive(Default)]
pub(super) struct DeliveryStatus {
    pub(super) envelope_id: Option<NotificationId>,
    pub(super) bounces: Vec<Bounce>,
}

/// Fields that belong together; groups are parted by empty lines. The first field of a name counts.
#[derive(Default)]
struct Group([Option<String>; 6]);

/// The fields that are read, and their places in a [`Group`].
const FIELDS: [&str; 6] =
    ["Original-Envelope-Id", "Original-Recipient", "Final-Recipient", "Action", "Status", "Diagnostic-Code"];

/// Reads the text of a delivery status.
pub(super) fn read(text: &str) -> DeliveryStatus {
    let mut status = DeliveryStatus::default();
    let mut group = Group::default();
    let mut open = None;
    for line in text.lines() {
        if line.trim().is_empty() {
            status.add(std::mem::take(&mut group));
            open = None;
        } else if line.starts_with([' ', '\t']) {
            if let Some(field) = open {
                group.extend(field, line);
            }
        } else {
            open = group.begin(line);
        }
        if status.bounces.len() == RECIPIENTS {
            return status;
        }
    }
    status.add(group);
    status
}

impl Group {
    /// Begins the field that stands in `line`; none if it is not one that counts.
    fn begin(&mut self, line: &str) -> Option<usize> {
        let (name, value) = line.split_once(':')?;
        let field = FIELDS.iter().position(|known| known.eq_ignore_ascii_case(name.trim_end()))?;
        let place = self.0.get_mut(field).filter(|place| place.is_none())?;
        *place = Some(String::new());
        self.extend(field, value);
        Some(field)
    }

    /// Adds a line to a field, as far as there is room.
    fn extend(&mut self, field: usize, line: &str) {
        let Some(Some(value)) = self.0.get_mut(field) else { return };
        let room = FIELD_BYTES.saturating_sub(value.len());
        let line = line.trim();
        if room > 0 {
            value.push(' ');
            value.push_str(line.get(..line.floor_char_boundary(room)).unwrap_or_default());
        }
    }
}

impl DeliveryStatus {
    fn add(&mut self, group: Group) {
        let [envelope_id, original, last, action, status, diagnostic] = group.0;
        let envelope_id = envelope_id.and_then(|id| decode(id.trim()).parse().ok());
        self.envelope_id = self.envelope_id.or(envelope_id);
        let action = action.and_then(|text| action_in(&text));
        let address = recipient(original.as_deref(), last.as_deref());
        if let (Some(action), Some(address)) = (action, address) {
            let status = status.and_then(|text| code(&text)).unwrap_or_default();
            let diagnostic = diagnostic.and_then(|text| explanation(&text));
            self.bounces.push(Bounce { address, action, status, diagnostic });
        }
    }
}

/// The first word, in any case; comments may follow.
fn action_in(text: &str) -> Option<BounceAction> {
    text.split_whitespace().next()?.to_ascii_lowercase().parse().ok()
}

/// The address that was sent to. The original one comes back as we encoded it, or decoded; that it is the same as
/// the final one, which is never encoded, tells which.
fn recipient(original: Option<&str>, last: Option<&str>) -> Option<Address> {
    let (original, last) = (original.and_then(generic_address), last.and_then(generic_address));
    let same = original.zip(last).is_some_and(|(original, last)| original.eq_ignore_ascii_case(last));
    let encoded = original.filter(|_| !same).map(decode);
    let spellings = [encoded.as_deref(), original, last];
    let parse = |text: &str| Address::parse(ChannelKind::Email, text).ok();
    spellings.into_iter().flatten().find_map(parse).or_else(|| parse(&decode(last?)))
}

/// `ops@example.com` in `rfc822; <ops@example.com> (a comment)`.
fn generic_address(field: &str) -> Option<&str> {
    let (of_type, address) = field.split_once(';').unwrap_or(("rfc822", field));
    let known = ["rfc822", "utf-8"].iter().any(|known| known.eq_ignore_ascii_case(of_type.trim()));
    let address = address.split_whitespace().next().filter(|_| known)?;
    Some(address.strip_prefix('<').and_then(|address| address.strip_suffix('>')).unwrap_or(address))
}

/// Undoes the encodings of addresses and ids: `+2B` (xtext, RFC 3461, 4) and `\x{2B}` (RFC 6533, 3). Text that is
/// not well encoded stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['+', '\\']) {
        let (before, sign) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
        let xtext = || {
            let digits = sign.strip_prefix('+')?.get(..2).filter(|d| !d.contains(char::is_lowercase))?;
            Some((vec![u8::try_from(hex(digits)?).ok()?], 3))
        };
        let unicode = || {
            let digits = sign.strip_prefix("\\x{")?.split_once('}')?.0;
            let c = char::from_u32(hex(digits)?)?;
            Some((c.to_string().into_bytes(), digits.len() + 4))
        };
        let (decoded, length) = xtext()
            .or_else(unicode)
            .unwrap_or_else(|| (sign.as_bytes().iter().take(1).copied().collect(), 1));
        bytes.extend(decoded);
        rest = sign.get(length..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// `5.1.1` in `5.1.1 (no such mailbox)`.
fn code(field: &str) -> Option<String> {
    let code = field.split_whitespace().next()?;
    let parts: Vec<&str> = code.split('.').collect();
    let number = |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (matches!(parts.as_slice(), ["2" | "4" | "5", _, _]) && parts.iter().all(number)).then(|| code.to_owned())
}

/// `550 5.1.1 no such mailbox` in `smtp; 550 5.1.1 no such mailbox`, fit to be stored and shown.
fn explanation(field: &str) -> Option<String> {
    let text = match field.split_once(';') {
        Some((of_type, text)) if !of_type.trim().contains(char::is_whitespace) => text,
        _ => field,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean = clean(&words.join(" "))?;
    Some(one_line(&clean, ERROR_CHARS))
}
