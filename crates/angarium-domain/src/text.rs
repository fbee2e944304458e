//! Text from outside, parsed once at the edge. A value of one of these types is valid; nothing inside checks again.

use std::fmt;

use crate::limits::{LINE_CHARS, Limits, NAME_CHARS};

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Nothing was given where something is needed.
    #[error("must not be empty")]
    Empty,
    /// More than the limit.
    #[error("has {length} {unit}, at most {limit} are allowed")]
    TooLong {
        /// What was given.
        length: usize,
        /// What is allowed.
        limit: usize,
        /// What is counted: characters or bytes.
        unit: &'static str,
    },
    /// A control character where it could break a header, a log line or a terminal.
    #[error("contains the control character U+{0:04X}")]
    Control(u32),
    /// An invisible or direction-changing character in a name.
    #[error("contains the invisible character U+{0:04X}")]
    Invisible(u32),
    /// A character outside the set that names of this sort are made of.
    #[error("may contain letters, digits, dot, hyphen and underscore only")]
    NotASlug,
    /// White space inside a word.
    #[error("must not contain white space")]
    NotAWord,
    /// White space at the ends of a name, where it would be overlooked.
    #[error("begins or ends with white space")]
    Untrimmed,
}

/// Marks that change what a name looks like without being seen: zero-width, bidirectional controls, tags.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{FFFE}' | '\u{FFFF}' | '\u{E0000}'..='\u{E007F}')
}

fn check_name(text: &str) -> Result<(), TextError> {
    if text.is_empty() {
        return Err(TextError::Empty);
    }
    let length = text.chars().count();
    if length > NAME_CHARS {
        return Err(TextError::TooLong { length, limit: NAME_CHARS, unit: "characters" });
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(TextError::Control(c.into()));
    }
    if let Some(c) = text.chars().find(|&c| is_invisible(c)) {
        return Err(TextError::Invisible(c.into()));
    }
    if text.trim() != text { Err(TextError::Untrimmed) } else { Ok(()) }
}

fn check_slug(text: &str) -> Result<(), TextError> {
    check_name(text)?;
    let slug = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if slug { Ok(()) } else { Err(TextError::NotASlug) }
}

/// A word without white space: a type of event, a locale.
fn check_word(text: &str) -> Result<(), TextError> {
    check_name(text)?;
    if text.chars().any(char::is_whitespace) { Err(TextError::NotAWord) } else { Ok(()) }
}

/// One line that a producer chose to tell its things apart.
fn check_line(text: &str) -> Result<(), TextError> {
    if text.is_empty() {
        return Err(TextError::Empty);
    }
    let length = text.chars().count();
    if length > LINE_CHARS {
        return Err(TextError::TooLong { length, limit: LINE_CHARS, unit: "characters" });
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(TextError::Control(c.into())),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Takes the text if it is a valid name.
            pub fn parse(text: &str) -> Result<Self, TextError> {
                $check(text)?;
                Ok($name(text.to_owned()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a list: up to 200 visible characters.
    ListName, check_name
);
name!(
    /// The name of a configured channel: letters, digits, dot, hyphen and underscore.
    ChannelName, check_slug
);
name!(
    /// The name of an API key: letters, digits, dot, hyphen and underscore.
    KeyName, check_slug
);
name!(
    /// One part of a notification's provenance: site, instance, script or node, kept word for word.
    SourceName, check_name
);

name!(
    /// The id of a feed: letters, digits, dot, hyphen and underscore.
    FeedId, check_slug
);
name!(
    /// What sort of thing happened: one word, such as `NewOutage` or `com.example.order.approved`.
    EventType, check_word
);
name!(
    /// The name of a field of an event: letters, digits, dot, hyphen and underscore.
    FieldName, check_slug
);
name!(
    /// What an event is about: the producer's key of the thing that it happened to.
    SourceKey, check_line
);
name!(
    /// Who says that something happened; together with the producer's id it names an event.
    EventSource, check_line
);
name!(
    /// The producer's own id of an event.
    ExternalId, check_line
);
name!(
    /// A language tag, such as `nl-NL` (RFC 5646); its form alone is judged.
    Locale, check_slug
);
name!(
    /// The public id of a subscription.
    SubscriptionId, check_slug
);

/// A subject: one line, possibly empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(String);

impl Subject {
    /// Takes the text if it is one line without control characters and within the limit.
    pub fn parse(text: String, limits: &Limits) -> Result<Self, TextError> {
        let length = text.chars().count();
        if length > limits.subject_chars {
            return Err(TextError::TooLong { length, limit: limits.subject_chars, unit: "characters" });
        }
        match text.chars().find(|c| c.is_control()) {
            Some(c) => Err(TextError::Control(c.into())),
            None => Ok(Subject(text)),
        }
    }

    /// The subject as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A body: plain text of any number of lines, possibly empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(String);

impl Body {
    /// Takes the text if it is within the limit and holds no NUL.
    pub fn parse(text: String, limits: &Limits) -> Result<Self, TextError> {
        if text.len() > limits.body_bytes {
            return Err(TextError::TooLong { length: text.len(), limit: limits.body_bytes, unit: "bytes" });
        }
        if text.contains('\0') { Err(TextError::Control(0)) } else { Ok(Body(text)) }
    }

    /// The body as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a notification came from. Every part may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The remote place.
    pub site: Option<SourceName>,
    /// The instance of the producer at that place.
    pub instance: Option<SourceName>,
    /// The script or program.
    pub script: Option<SourceName>,
    /// The node of the site's own cluster.
    pub node: Option<SourceName>,
}

/// Who did something: `key:<name>`, `person:<name>`, `site:<name>` or `system`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// Angarium itself.
    pub fn system() -> Self {
        Actor("system".to_owned())
    }

    /// The holder of an API key.
    pub fn key(name: &KeyName) -> Self {
        Actor(format!("key:{name}"))
    }

    /// The actor as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `text` in at most `chars` characters, with an ellipsis for what was cut, and control characters (those of
/// terminals included) replaced, so that it can be stored, logged and shown as one line.
pub fn one_line(text: &str, chars: usize) -> String {
    let mut line: String = text.chars().take(chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(chars).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_nothing_that_hides() {
        assert!(ListName::parse("Ops team (night)").is_ok());
        assert!(SourceName::parse("plánt-7").is_ok());
        assert_eq!(ListName::parse(""), Err(TextError::Empty));
        assert_eq!(ListName::parse(" ops"), Err(TextError::Untrimmed));
        assert_eq!(ListName::parse("o\u{202E}ps"), Err(TextError::Invisible(0x202E)));
        assert_eq!(ListName::parse("o\x1b[2Jps"), Err(TextError::Control(0x1b)));
        assert_eq!(ChannelName::parse("mail relay"), Err(TextError::NotASlug));
        assert!(ListName::parse(&"é".repeat(200)).is_ok());
        assert!(ListName::parse(&"é".repeat(201)).is_err());
    }

    #[test]
    fn a_subject_is_one_line() {
        let limits = Limits::default();
        assert!(Subject::parse(String::new(), &limits).is_ok());
        assert!(Subject::parse("é".repeat(998), &limits).is_ok());
        assert!(Subject::parse("é".repeat(999), &limits).is_err());
        assert_eq!(Subject::parse("a\r\nBcc: x".into(), &limits), Err(TextError::Control(13)));
    }

    #[test]
    fn a_body_is_bounded_and_without_nul() {
        let limits = Limits::default();
        assert!(Body::parse("line\r\nline\t".into(), &limits).is_ok());
        assert_eq!(Body::parse("a\0".into(), &limits), Err(TextError::Control(0)));
        assert!(Body::parse("x".repeat(262_144), &limits).is_ok());
        assert!(Body::parse("x".repeat(262_145), &limits).is_err());
    }

    #[test]
    fn one_line_cuts_and_cleans() {
        assert_eq!(one_line("a\x1b[31m\nb", 100), "a [31m b");
        assert_eq!(one_line("äöü", 2), "äö…");
    }
}
