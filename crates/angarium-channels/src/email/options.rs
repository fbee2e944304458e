//! What a producer may say about a mail beyond subject and body: the member `email` of its data.
//!
//! Read strictly: what is misspelt is refused when the notification is accepted, not overlooked when it is sent.
//!
//! Deliberately absent: recipients, a sender of one's own, and headers of any name.

use angarium_domain::text::one_line;
use serde_json::{Map, Value};
use url::Url;

use super::mailbox::Mailbox;

/// The wishes of one notification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The message as HTML, shown where a reader can; the plain text stands beside it.
    pub html: Option<String>,
    /// Where answers go.
    pub reply_to: Option<Mailbox>,
    /// What an unsubscribing reader's mail program posts to (RFC 8058).
    pub unsubscribe: Option<Url>,
}

/// Which member is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct OptionError {
    /// Where it stands, `data.email.html`.
    pub field: String,
    /// What is wrong, to be read after the field.
    pub message: String,
}

impl Options {
    /// The options in `data`, a notification's own JSON. Without data or without a member `email`, none.
    pub fn of(data: Option<&str>) -> Result<Self, OptionError> {
        let refuse =
            |field: &str, message: &str| OptionError { field: field.into(), message: message.into() };
        let Some(data) = data else { return Ok(Options::default()) };
        let mut data: Value = serde_json::from_str(data).map_err(|_| refuse("data", "is not JSON"))?;
        match data.get_mut("email").map(Value::take) {
            None => Ok(Options::default()),
            Some(Value::Object(members)) => Options::from_members(members),
            Some(_) => Err(refuse("data.email", "must be an object")),
        }
    }

    fn from_members(members: Map<String, Value>) -> Result<Self, OptionError> {
        let mut options = Options::default();
        for (name, value) in members {
            let taken = match (name.as_str(), value) {
                ("html", Value::String(text)) => html(text).map(|html| options.html = Some(html)),
                ("reply_to", Value::String(text)) => text
                    .parse()
                    .map(|mailbox| options.reply_to = Some(mailbox))
                    .map_err(|error| error.to_string()),
                ("unsubscribe", Value::String(text)) => unsubscribe_url(&text)
                    .map(|url| options.unsubscribe = Some(url))
                    .map_err(|error| error.to_string()),
                ("html" | "reply_to" | "unsubscribe", _) => Err("must be a string".into()),
                _ => Err("is unknown; there are html, reply_to and unsubscribe".into()),
            };
            taken.map_err(|message| OptionError {
                field: format!("data.email.{}", one_line(&name, SHOWN_CHARS)),
                message,
            })?;
        }
        Ok(options)
    }
}

/// Characters of an unknown member's name that are shown.
const SHOWN_CHARS: usize = 60;

fn html(text: String) -> Result<String, String> {
    if text.trim().is_empty() {
        // Readers would show nothing instead of the plain text.
        return Err("must not be empty".into());
    }
    match text.chars().find(|&c| c.is_control() && !matches!(c, '\t' | '\n' | '\r')) {
        Some(c) => Err(format!("contains the control character U+{:04X}", u32::from(c))),
        None => Ok(text),
    }
}

/// Why a text is no URL to unsubscribe at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsubscribeError {
    /// Not a URL with a host, or one with white space or control characters in it.
    #[error("is not a URL such as https://example.com/unsubscribe?id=1")]
    NotAUrl,
    /// A scheme other than https, which one-click unsubscribing demands (RFC 8058, 3.1).
    #[error("must begin with https://")]
    NotHttps,
    /// A user name or password inside the URL, for all to see.
    #[error("must not contain a user name or password")]
    UserInfo,
    /// Too long for the line that it must stand in.
    #[error("has more than {URL_BYTES} bytes")]
    Length,
}

/// Bytes of a URL that stands in a header, where it cannot be broken into lines.
const URL_BYTES: usize = 900;

/// Reads a URL to unsubscribe at: https, and at most 900 bytes as it is sent.
pub fn unsubscribe_url(text: &str) -> Result<Url, UnsubscribeError> {
    // Parsers of URLs take these out in silence.
    if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(UnsubscribeError::NotAUrl);
    }
    let url = Url::parse(text).map_err(|_| UnsubscribeError::NotAUrl)?;
    check_unsubscribe_url(&url).map(|()| url)
}

/// Whether `url` may stand in a header.
pub(crate) fn check_unsubscribe_url(url: &Url) -> Result<(), UnsubscribeError> {
    if url.scheme() != "https" {
        return Err(UnsubscribeError::NotHttps);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UnsubscribeError::UserInfo);
    }
    if url.as_str().len() > URL_BYTES { Err(UnsubscribeError::Length) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data: &str) -> (String, String) {
        let OptionError { field, message } = Options::of(Some(data)).unwrap_err();
        (field, message)
    }

    #[test]
    fn without_the_member_there_are_no_options() {
        for data in [None, Some("{}"), Some("[]"), Some("1"), Some("null"), Some(r#"{"Email":1,"html":2}"#)] {
            assert_eq!(Options::of(data), Ok(Options::default()), "{data:?}");
        }
    }

    #[test]
    fn options_are_read() {
        let options = Options::of(Some(
            r#"{"x": 1, "email": {"html": "<p>a</p>\r\n\t", "reply_to": "Ops <o@example.com>",
                "unsubscribe": "https://example.com/u?a=1&b=ü"}}"#,
        ));
        let Options { html, reply_to, unsubscribe } = options.unwrap();
        assert_eq!(html.as_deref(), Some("<p>a</p>\r\n\t"));
        assert_eq!(reply_to, Some("Ops <o@example.com>".parse().unwrap()));
        assert_eq!(unsubscribe.unwrap().as_str(), "https://example.com/u?a=1&b=%C3%BC");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (email, field, part) in [
            ("1", "", "object"),
            ("null", "", "object"),
            (r#"{"htm": "x"}"#, ".htm", "unknown"),
            (r#"{"bcc": "a@b.c"}"#, ".bcc", "unknown"),
            (r#"{"a\nb": 1}"#, ".a b", "unknown"),
            (r#"{"html": 1}"#, ".html", "string"),
            (r#"{"html": null}"#, ".html", "string"),
            (r#"{"html": " "}"#, ".html", "empty"),
            (r#"{"html": "a\u0007"}"#, ".html", "U+0007"),
            (r#"{"reply_to": ["a@b.c"]}"#, ".reply_to", "string"),
            (r#"{"reply_to": "a\r\nBcc: x <a@b.c>"}"#, ".reply_to", "U+000D"),
            (r#"{"reply_to": "a@b.c, d@e.f"}"#, ".reply_to", "address"),
            (r#"{"unsubscribe": "http://example.com/"}"#, ".unsubscribe", "https"),
            (r#"{"unsubscribe": "https://exam\nple.com/"}"#, ".unsubscribe", "URL"),
            (r#"{"unsubscribe": "/u"}"#, ".unsubscribe", "URL"),
        ] {
            let (at, message) = refused(&format!(r#"{{"email": {email}}}"#));
            assert_eq!(at, format!("data.email{field}"), "{email}");
            assert!(message.contains(part), "{email}: {message}");
        }
        assert_eq!(refused("{"), ("data".to_owned(), "is not JSON".to_owned()));
    }

    /// A URL cannot be broken into lines; its length as it is sent counts.
    #[test]
    fn a_url_fits_its_line() {
        let of_length = |bytes: usize| format!("https://h/{}", "x".repeat(bytes - 10));
        assert!(unsubscribe_url(&of_length(900)).is_ok());
        assert_eq!(unsubscribe_url(&of_length(901)), Err(UnsubscribeError::Length));
        assert_eq!(unsubscribe_url(&format!("https://h/{}", "ü".repeat(200))), Err(UnsubscribeError::Length));
    }
}
