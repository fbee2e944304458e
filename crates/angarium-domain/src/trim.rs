//! Cutting texts to what a provider takes, where a reader would cut them.
//!
//! A text is cut between extended grapheme clusters (UAX #29): a flag, a family of emoji, a letter with its marks stays whole
//! or goes, and so UTF-8 is never broken either, whatever is counted. What was cut ends in an ellipsis that counts.
//!
//! Deliberately absent: what an adapter adds. Escaping, JSON around a text and the parts of a long SMS are known there only;
//! the bounds here leave room for what is usual, and the adapter measures what it sends.

use unicode_segmentation::UnicodeSegmentation;

use crate::channel::ChannelKind;

const ELLIPSIS: &str = "…";

/// How much a provider takes of the two texts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of the title, or subject.
    pub title: Limit,
    /// Of the text below it.
    pub body: Limit,
}

/// How long a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many Unicode scalar values.
    Characters(usize),
    /// So many bytes of UTF-8.
    Bytes(usize),
}

/// A text that is not longer than it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// What is left.
    pub text: String,
    /// Something is missing.
    pub cut: bool,
}

/// The beginning of `text` that a limit leaves room for. What is cut ends in an ellipsis within the limit, without white space
/// before it; where not even that has room, nothing is left.
pub fn trim(text: &str, limit: Limit) -> Trimmed {
    if limit.fits(text) {
        return Trimmed { text: text.to_owned(), cut: false };
    }
    let Some(room) = limit.room().checked_sub(limit.measure(ELLIPSIS)) else {
        return Trimmed { text: String::new(), cut: true };
    };
    let mut used = 0;
    let mut end = 0;
    for (start, cluster) in text.grapheme_indices(true) {
        used += limit.measure(cluster);
        if used > room {
            break;
        }
        if !cluster.trim().is_empty() {
            end = start + cluster.len();
        }
    }
    let kept = text.get(..end).unwrap_or_default();
    Trimmed { text: format!("{kept}{ELLIPSIS}"), cut: true }
}

impl Limit {
    /// Whether `text` is within it.
    pub fn fits(self, text: &str) -> bool {
        self.measure(text) <= self.room()
    }

    fn room(self) -> usize {
        match self {
            Limit::Characters(room) | Limit::Bytes(room) => room,
        }
    }

    fn measure(self, text: &str) -> usize {
        match self {
            Limit::Characters(_) => text.chars().count(),
            Limit::Bytes(_) => text.len(),
        }
    }
}

/// What a kind of channel takes.
///
/// | kind | title | body | from |
/// | --- | --- | --- | --- |
/// | e-mail, webhook, in the application | 998 characters | 256 KiB | no provider: what a notification may have here ([`crate::limits::Limits`]); 998 is also a line of RFC 5322, 2.1.1 |
/// | SMS | 160 characters | 1,438 characters | Twilio, Messages resource, `Body`: 1,600 characters, which `title: body` never exceeds |
/// | ntfy | 250 bytes | 4,096 bytes | ntfy, `message-size-limit`: longer messages become attachments; a request takes twice as much, title included |
/// | Slack | 150 characters | 39,848 characters | Slack, `chat.postMessage`: longer texts than 40,000 are cut without a word, which title, blank line and body never exceed; a header block takes 150 |
/// | Teams | 1,024 bytes | 24,000 bytes | Microsoft, message size of webhooks and connectors: about 28 KB with everything around the text |
pub fn bounds(kind: ChannelKind) -> Bounds {
    use Limit::{Bytes, Characters};
    let (title, body) = match kind {
        ChannelKind::Email | ChannelKind::Webhook | ChannelKind::InApp => {
            (Characters(998), Bytes(256 * 1024))
        }
        ChannelKind::Sms => (Characters(160), Characters(1600 - 160 - ": ".len())),
        ChannelKind::Ntfy => (Bytes(250), Bytes(4096)),
        ChannelKind::Slack => (Characters(150), Characters(40_000 - 150 - "\n\n".len())),
        ChannelKind::Teams => (Bytes(1024), Bytes(24_000)),
    };
    Bounds { title, body }
}

#[cfg(test)]
mod tests;
