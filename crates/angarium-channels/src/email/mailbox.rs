//! Who a mail comes from: an address, and a name to show with it.
//!
//! A text is taken apart first and its encoded words are decoded afterwards, so that nothing hidden in a word can
//! become a second address. In quotes a word stands for itself.
//!
//! Deliberately absent: comments, groups, routes and lists of mailboxes.

use std::str::FromStr;

use angarium_domain::address::{Address, AddressError};
use angarium_domain::channel::ChannelKind;
use angarium_domain::limits::NAME_CHARS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT;

/// An e-mail address, and the name of whoever is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// What is shown in the address's place; one line.
    pub name: Option<String>,
    /// Where mail goes.
    pub address: Address,
}

/// Why a text is no mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailboxError {
    /// The address itself is wrong.
    #[error("the address {0}")]
    Address(#[from] AddressError),
    /// Angle brackets where none can be, or only one of them.
    #[error("is not an address, or a name and an <address> at the end")]
    Form,
    /// A quote that does not end, or not where the name ends.
    #[error("has a quote that does not enclose the whole name")]
    Quote,
    /// A character that means something of its own.
    #[error("has {0:?} in a name without quotes")]
    Special(char),
    /// A character that ends a line or is invisible, written plainly or inside an encoded word.
    #[error("contains the control character U+{0:04X}")]
    Control(u32),
    /// An encoded word that is damaged or in a character set other than UTF-8 and ISO 8859-1.
    #[error("has an encoded word that cannot be read")]
    Word,
    /// A longer name than any name is.
    #[error("has a name of more than {NAME_CHARS} characters")]
    NameLength,
}

impl FromStr for Mailbox {
    type Err = MailboxError;

    /// Reads `a@example.com`, `Name <a@example.com>` or `"Quoted, name" <a@example.com>`. A name without quotes
    /// may hold encoded words (RFC 2047).
    fn from_str(text: &str) -> Result<Self, MailboxError> {
        refuse_control(text)?;
        let text = text.trim();
        let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
            Some((name, address)) => (phrase(name.trim())?, address),
            None if text.contains(['<', '>']) => return Err(MailboxError::Form),
            None => (String::new(), text),
        };
        refuse_control(&name)?;
        if name.chars().count() > NAME_CHARS {
            return Err(MailboxError::NameLength);
        }
        let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        Ok(Mailbox { name, address: Address::parse(ChannelKind::Email, address)? })
    }
}

fn refuse_control(text: &str) -> Result<(), MailboxError> {
    text.chars().find(|c| c.is_control()).map_or(Ok(()), |c| Err(MailboxError::Control(c.into())))
}

/// The name that stands before an address.
fn phrase(text: &str) -> Result<String, MailboxError> {
    if let Some(quoted) = text.strip_prefix('"') {
        return unquoted(quoted);
    }
    match text.chars().find(|&c| ",;:<>()[]\\@\"".contains(c)) {
        Some(c) => Err(MailboxError::Special(c)),
        None => decoded(text),
    }
}

/// What stands in quotes, from behind the first one.
fn unquoted(text: &str) -> Result<String, MailboxError> {
    let mut name = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' if chars.as_str().is_empty() => return Ok(name),
            '"' => return Err(MailboxError::Quote),
            '\\' => name.extend(chars.next()),
            c => name.push(c),
        }
    }
    Err(MailboxError::Quote)
}

/// The words of a name with one space between them, but none between two that were encoded (RFC 2047, 6.2).
fn decoded(text: &str) -> Result<String, MailboxError> {
    let mut name = String::new();
    let mut after_encoded = true;
    for word in text.split_whitespace() {
        let encoded = encoded_word(word)?;
        if !(after_encoded && (encoded.is_some() || name.is_empty())) {
            name.push(' ');
        }
        after_encoded = encoded.is_some();
        name.push_str(encoded.as_deref().unwrap_or(word));
    }
    Ok(name)
}

/// What `=?charset?encoding?text?=` stands for; none if `word` is no such thing.
fn encoded_word(word: &str) -> Result<Option<String>, MailboxError> {
    let Some(inner) = word.strip_prefix("=?").and_then(|word| word.strip_suffix("?=")) else {
        return Ok(None);
    };
    let &[charset, encoding, text] = inner.split('?').collect::<Vec<_>>().as_slice() else {
        return Ok(None);
    };
    let bytes = match encoding {
        "B" | "b" => STANDARD_PAD_INDIFFERENT.decode(text).ok(),
        "Q" | "q" => unescaped(text),
        _ => None,
    };
    let bytes = bytes.ok_or(MailboxError::Word)?;
    // A language may follow the character set (RFC 2231, 5).
    let charset = charset.split('*').next().unwrap_or_default().to_ascii_lowercase();
    match charset.as_str() {
        "utf-8" | "us-ascii" => String::from_utf8(bytes).map(Some).map_err(|_| MailboxError::Word),
        "iso-8859-1" => Ok(Some(bytes.into_iter().map(char::from).collect())),
        _ => Err(MailboxError::Word),
    }
}

/// The bytes that the Q encoding stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'_' => b' ',
            b'=' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Option<String>, String), MailboxError> {
        text.parse::<Mailbox>().map(|mailbox| (mailbox.name, mailbox.address.to_string()))
    }

    fn named(name: &str, address: &str) -> Result<(Option<String>, String), MailboxError> {
        Ok((Some(name.to_owned()), address.to_owned()))
    }

    #[test]
    fn a_mailbox_is_an_address_with_or_without_a_name() {
        for text in ["a@example.com", " a@example.com ", "<a@example.com>", "\"\" <a@Example.COM>"] {
            assert_eq!(read(text), Ok((None, "a@example.com".to_owned())), "{text}");
        }
        for (text, name) in [
            ("Alerts <a@example.com>", "Alerts"),
            ("Leitstelle  Süd <a@example.com>", "Leitstelle Süd"),
            ("J. Doe<a@example.com>", "J. Doe"),
            (r#""Jansen, Piet" <a@example.com>"#, "Jansen, Piet"),
            (r#""say \"hi\" \\ <x>" <a@example.com>"#, r#"say "hi" \ <x>"#),
        ] {
            assert_eq!(read(text), named(name, "a@example.com"), "{text}");
        }
        assert_eq!(read("jörg@bücher.example"), Ok((None, "jörg@xn--bcher-kva.example".to_owned())));
    }

    /// C083: structure first, words after.
    #[test]
    fn c083_an_encoded_comma_is_no_separator() {
        assert_eq!(
            read("=?utf-8?q?Jansen=2C_Piet?= <piet@example.com>"),
            named("Jansen, Piet", "piet@example.com")
        );
        assert_eq!(
            read("=?utf-8?q?=22=3Cspy=40example.net=3E?= <piet@example.com>"),
            named("\"<spy@example.net>", "piet@example.com")
        );
    }

    #[test]
    fn encoded_words_are_read() {
        for (text, name) in [
            ("=?UTF-8?B?U8O8ZA==?= <a@b.c>", "Süd"),
            ("=?utf-8*de?b?U8O8ZA?= <a@b.c>", "Süd"),
            ("=?iso-8859-1?Q?S=FCd?= <a@b.c>", "Süd"),
            ("=?utf-8?q?Leitstelle_S?= =?utf-8?q?=C3=BCd?= <a@b.c>", "Leitstelle Süd"),
            ("The =?utf-8?q?S=C3=BCd?= team <a@b.c>", "The Süd team"),
            ("a =?x <a@b.c>", "a =?x"),
            ("\"=?utf-8?q?x?=\" <a@b.c>", "=?utf-8?q?x?="),
        ] {
            assert_eq!(read(text), named(name, "a@b.c"), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, error) in [
            ("", MailboxError::Address(AddressError::Length)),
            ("nobody", MailboxError::Address(AddressError::NotAMailbox)),
            ("Name <a@[127.0.0.1]>", MailboxError::Address(AddressError::NotAMailbox)),
            ("Name <a@b.c> x", MailboxError::Form),
            ("Name <a@b.c", MailboxError::Form),
            ("a@b.c>", MailboxError::Form),
            ("\"Name <a@b.c>", MailboxError::Quote),
            ("\"Na\"me <a@b.c>", MailboxError::Quote),
            ("Jansen, Piet <a@b.c>", MailboxError::Special(',')),
            ("x <y@b.c> <a@b.c>", MailboxError::Special('<')),
            ("=?utf-8?q?=C3?= <a@b.c>", MailboxError::Word),
            ("=?utf-8?q?=4?= <a@b.c>", MailboxError::Word),
            ("=?koi8-r?b?AAAA?= <a@b.c>", MailboxError::Word),
            ("a\r\nBcc: x@y.z <a@b.c>", MailboxError::Control(13)),
            ("=?utf-8?q?x=0D=0ABcc?= <a@b.c>", MailboxError::Control(13)),
            ("\"x\0\" <a@b.c>", MailboxError::Control(0)),
            (&format!("{} <a@b.c>", "x".repeat(201)), MailboxError::NameLength),
        ] {
            assert_eq!(read(text), Err(error), "{text:?}");
        }
        assert!(read(&format!("{} <a@b.c>", "é".repeat(200))).is_ok());
    }
}
