//! The parts of a mail (RFC 2045, RFC 2046), one at a time: a part is taken apart only when it is asked for.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Message, MessageParser, MimeHeaders};

/// Bytes of one part's header that are read.
const HEADER_BYTES: usize = 32 * 1024;

/// One part of a mail.
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    encoding: Option<String>,
    pub(super) body: &'a [u8],
}

/// What a part is, as far as it matters here.
pub(super) enum Kind {
    /// Several parts with this boundary between them.
    Multipart(String),
    /// A delivery status.
    Status,
    /// A message as it was sent.
    Message,
    /// The header of a message, or a message that is encoded against the rules and not looked into.
    Header,
    Other,
}

impl<'a> Part<'a> {
    /// Reads the header of a part; none once enough parts were read.
    pub(super) fn of(part: &'a [u8], parts_left: &mut usize) -> Option<Self> {
        *parts_left = parts_left.checked_sub(1)?;
        let body = split_header(part).1;
        let Some(header) = header(part) else {
            return Some(Part { kind: Kind::Other, encoding: None, body });
        };
        let encoding = header.content_transfer_encoding().map(str::to_ascii_lowercase);
        let encoded = matches!(encoding.as_deref(), Some("base64" | "quoted-printable"));
        let kind = header.content_type().map_or(Kind::Other, |of_type| {
            match (of_type.ctype(), of_type.subtype().unwrap_or_default()) {
                ("multipart", _) => {
                    let boundary = of_type.attribute("boundary").filter(|boundary| !boundary.is_empty());
                    boundary.map_or(Kind::Other, |boundary| Kind::Multipart(boundary.to_owned()))
                }
                ("message", "delivery-status" | "global-delivery-status") => Kind::Status,
                ("message", "rfc822" | "global") if !encoded => Kind::Message,
                ("message", "rfc822" | "global" | "global-headers") | ("text", "rfc822-headers") => {
                    Kind::Header
                }
                _ => Kind::Other,
            }
        });
        Some(Part { kind, encoding, body })
    }

    /// The body without its transfer encoding; as it is if that is not what it says.
    pub(super) fn decoded(&self) -> Cow<'a, [u8]> {
        let decoded = match self.encoding.as_deref() {
            Some("base64") => base64_decode(self.body),
            Some("quoted-printable") => quoted_printable_decode(self.body),
            _ => None,
        };
        decoded.map_or(Cow::Borrowed(self.body), Cow::Owned)
    }
}

/// The fields at the beginning of `message` that matter here.
pub(super) fn header(message: &[u8]) -> Option<Message<'_>> {
    let header = split_header(message).0;
    let header = header.get(..HEADER_BYTES).unwrap_or(header);
    MessageParser::new().with_mime_headers().with_message_ids().parse_headers(header)
}

/// Header and body: what stands before the first empty line, and what stands after it.
fn split_header(part: &[u8]) -> (&[u8], &[u8]) {
    let mut bytes = 0;
    for line in part.split_inclusive(|&byte| byte == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            let (header, rest) = part.split_at(bytes);
            return (header, rest.get(line.len()..).unwrap_or_default());
        }
        bytes += line.len();
    }
    (part, &[])
}

/// The pieces between lines that hold the boundary; what stands before the first and after the last is not
/// one. At most so many.
pub(super) fn split_pieces<'a>(body: &'a [u8], boundary: &[u8], most: usize) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let (mut start, mut here) = (None, 0);
    for line in body.split_inclusive(|&byte| byte == b'\n') {
        let after = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary));
        let is_last = match after.map(<[u8]>::trim_ascii) {
            Some(b"") => Some(false),
            Some(b"--") => Some(true),
            _ => None,
        };
        if let Some(is_last) = is_last {
            pieces.extend(start.and_then(|start| body.get(start..here)));
            start = (!is_last).then_some(here + line.len());
            if is_last || pieces.len() == most {
                return pieces;
            }
        }
        here += line.len();
    }
    pieces.extend(start.and_then(|start| body.get(start..)));
    pieces
}
