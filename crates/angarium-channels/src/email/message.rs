//! A notification as a mail: the whole of it, header and body, ready to be sent but for the dots at the beginning
//! of lines, which the conversation with the relay doubles.
//!
//! Written here rather than by a library, because every attempt has to send the same bytes and hostile text has
//! to arrive as text. Nothing in a mail depends on the attempt: Date tells when the message is from, Message-ID and
//! the boundary between parts are made from its id, so that a receiver can tell a repeat. Every line is ASCII,
//! CRLF-terminated and short. A boundary begins with `=_`, which occurs in neither of the two encodings, so that no
//! content can end a part.
//!
//! Who gets the mail stands in the envelope only: To is always empty, and nobody sees another's address. A subject
//! that is empty is an empty field rather than none, because relays that miss the field add one, which breaks
//! signatures; readers show both alike.
//!
//! Deliberately absent: attachments, Cc and Bcc, and header fields of the producer's own.

use std::time::{Duration, SystemTime};

use angarium_domain::adapter::Message;
use angarium_domain::outcome::{Failure, FailureClass};
use angarium_domain::time::Timestamp;
use sha2::{Digest, Sha256};
use url::Url;

use super::body::{self, Encoded};
use super::dkim::{self, is_domain};
use super::header::Field;
use super::mailbox::Mailbox;
use super::options::{Options, check_unsubscribe_url};

/// What a channel says about every mail it sends.
#[derive(Clone, Debug)]
pub struct Letterhead {
    /// Who it is from.
    pub from: Mailbox,
    /// The domain in Message-ID and List-Id, at most 200 bytes of A-labels; it should be the sender's own.
    pub id_domain: String,
    /// Where answers go, unless the message says so itself; to the sender if nobody does.
    pub reply_to: Option<Mailbox>,
    /// Where to unsubscribe with one click, unless the message says so itself (see
    /// [`unsubscribe_url`](super::options::unsubscribe_url)). Large receivers heed it in signed mails only.
    pub unsubscribe: Option<Url>,
    /// Signs every mail. None where the relay does, or nobody.
    pub signer: Option<dkim::Signer>,
}

/// A mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// Header and body in lines that end with CRLF, ASCII unless `needs_smtputf8`; dots are not doubled.
    pub bytes: Vec<u8>,
    /// A mailbox in the header has a local part beyond ASCII, so that the relay must offer SMTPUTF8 (RFC 6531).
    pub needs_smtputf8: bool,
}

/// Bytes that a header takes, as a rule.
const HEADER_BYTES: usize = 1024;

/// Writes `message` on `letterhead`; the same bytes whenever it is asked for.
///
/// Fails for good if the message's options are wrong or the letterhead's settings cannot stand in a header.
pub fn compose(letterhead: &Letterhead, message: &Message) -> Result<Composed, Failure> {
    let options = Options::of(message.options())
        .map_err(|error| Failure::new(FailureClass::PermanentMessage, error.to_string()))?;
    check(letterhead)?;
    let reply_to = options.reply_to.as_ref().or(letterhead.reply_to.as_ref());
    let unsubscribe = options.unsubscribe.as_ref().or(letterhead.unsubscribe.as_ref());
    let content = Content::of(message, options.html.as_deref().or(message.html()));

    let mut fields = vec![
        Field::tokens("Date", [date(message.at).as_str()]),
        Field::mailbox("From", &letterhead.from),
        Field::tokens("To", ["undisclosed-recipients:;"]),
        Field::text("Subject", &message.subject),
        Field::tokens("Message-ID", [format!("<{}@{}>", message.id, letterhead.id_domain).as_str()]),
    ];
    fields.extend(reply_to.map(|mailbox| Field::mailbox("Reply-To", mailbox)));
    fields.push(Field::tokens("Auto-Submitted", ["auto-generated"]));
    fields.push(Field::tokens("X-Auto-Response-Suppress", ["All"]));
    if let Some(list) = &message.list {
        fields.push(Field::tokens("Precedence", ["bulk"]));
        fields.push(Field::tokens("List-Id", [list_id(list, &letterhead.id_domain).as_str()]));
    }
    if let Some(url) = unsubscribe {
        fields.push(Field::tokens("List-Unsubscribe", [format!("<{url}>").as_str()]));
        fields.push(Field::tokens("List-Unsubscribe-Post", ["List-Unsubscribe=One-Click"]));
    }
    fields.push(Field::tokens("MIME-Version", ["1.0"]));
    fields.extend(content.fields);
    if let Some(signer) = &letterhead.signer {
        fields.insert(0, signer.sign(&fields, &content.text)?);
    }

    let mut mail = String::with_capacity(HEADER_BYTES + content.text.len());
    fields.iter().for_each(|field| field.write(&mut mail));
    let needs_smtputf8 = !mail.is_ascii();
    mail.push_str("\r\n");
    mail.push_str(&content.text);
    Ok(Composed { bytes: mail.into_bytes(), needs_smtputf8 })
}

/// Holds a letterhead against what a header can hold. The rest of it was parsed.
fn check(letterhead: &Letterhead) -> Result<(), Failure> {
    let refuse = |detail: String| Err(Failure::new(FailureClass::PermanentConfig, detail));
    if !is_domain(&letterhead.id_domain) {
        return refuse("the domain for message ids is not a name such as example.com".into());
    }
    match letterhead.unsubscribe.as_ref().map(check_unsubscribe_url) {
        Some(Err(error)) => refuse(format!("the channel's URL to unsubscribe at {error}")),
        _ => Ok(()),
    }
}

/// The date as mails write it (RFC 5322, 3.3), in UTC.
fn date(at: Timestamp) -> String {
    let since_epoch = Duration::from_secs(u64::try_from(at.seconds()).unwrap_or(0));
    // The one that HTTP writes differs in the zone only.
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch).replace("GMT", "+0000")
}

/// Characters of a list's name that its id shows.
const LIST_LABEL: usize = 40;

/// The id by which readers sort a list's mails (RFC 2919). A name that cannot stand in it as it is gets part of
/// its hash as well, so that different lists have different ids.
fn list_id(list: &str, domain: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = list.chars().map(safe).take(LIST_LABEL).collect();
    if label == list {
        return format!("<{label}.{domain}>");
    }
    let hash: String =
        Sha256::digest(list.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("<{label}-{hash}.{domain}>")
}

/// What a mail holds, and the fields that say how.
struct Content {
    fields: Vec<Field>,
    text: String,
}

impl Content {
    fn of(message: &Message, html: Option<&str>) -> Self {
        let mut plain = Content::part("text/plain;", &message.body);
        let Some(html) = html else {
            // The last line of a mail ends like all others.
            if !plain.text.is_empty() && !plain.text.ends_with("\r\n") {
                plain.text.push_str("\r\n");
            }
            return plain;
        };
        let boundary = format!("=_{}", message.id);
        let mut text = String::new();
        for part in [plain, Content::part("text/html;", html)] {
            text += &format!("--{boundary}\r\n");
            part.fields.iter().for_each(|field| field.write(&mut text));
            text += &format!("\r\n{}\r\n", part.text);
        }
        text += &format!("--{boundary}--\r\n");
        let boundary = format!("boundary=\"{boundary}\"");
        Content { fields: vec![Field::tokens("Content-Type", ["multipart/alternative;", &boundary])], text }
    }

    fn part(kind: &str, text: &str) -> Self {
        let Encoded { transfer, text } = body::encode(text);
        Content {
            fields: vec![
                Field::tokens("Content-Type", [kind, "charset=utf-8"]),
                Field::tokens("Content-Transfer-Encoding", [transfer]),
            ],
            text,
        }
    }
}
