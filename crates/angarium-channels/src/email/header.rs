//! Header fields: short lines of printable ASCII, whatever text goes in.
//!
//! Text that could be misread (characters beyond ASCII, what looks like an encoded word, runs of spaces, words
//! that fit no line) is written as encoded words (RFC 2047) as a whole: the spaces between words then stand inside
//! them, where no reader loses or adds one. Each encoded word is whole characters and can be read alone.
//!
//! Lines have up to 76 characters, but for tokens that cannot be broken: addresses, ids and URLs, which are
//! bounded where they are parsed. Mail addresses may be UTF-8 (RFC 6532).

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::mailbox::Mailbox;

/// Characters of a line, without its end.
const LINE: usize = 76;
/// Characters of an encoded word (RFC 2047, 2).
const WORD: usize = 75;
/// Characters of an encoded word around its text: `=?UTF-8?Q?` and `?=`.
const AROUND: usize = 12;

/// One header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: &'static str,
    /// What stands behind the colon and one space, in lines.
    pub(crate) value: String,
}

impl Field {
    /// A field that holds `text`, which readers get back word for word but for control characters.
    pub(crate) fn text(name: &'static str, text: &str) -> Self {
        let mut lines = Lines::of(name);
        let text = clean(text);
        let words = || text.split(' ');
        let plain = words().all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic()));
        if text.is_empty() || (plain && !looks_encoded(&text) && lines.hold(words())) {
            lines.add_all(words());
        } else {
            lines.add_encoded(&text);
        }
        lines.end()
    }

    /// A field that names `mailbox`: its name in whatever form it needs, its address in the clear.
    pub(crate) fn mailbox(name: &'static str, mailbox: &Mailbox) -> Self {
        let mut lines = Lines::of(name);
        match &mailbox.name {
            Some(shown) => {
                lines.add_phrase(&clean(shown));
                lines.add(" ", &format!("<{}>", mailbox.address));
            }
            None => lines.add(" ", mailbox.address.as_str()),
        }
        lines.end()
    }

    /// Adds the field, with the ends of its lines, to a header.
    pub(crate) fn write(&self, header: &mut String) {
        for part in [self.name, ": ", &self.value, "\r\n"] {
            header.push_str(part);
        }
    }

    /// A field of tokens that are ASCII and are separated by white space.
    pub(crate) fn tokens<'a>(name: &'static str, tokens: impl IntoIterator<Item = &'a str>) -> Self {
        let mut lines = Lines::of(name);
        lines.add_all(tokens);
        lines.end()
    }
}

/// A field's value as it grows, broken into lines between its tokens.
pub(crate) struct Lines {
    name: &'static str,
    value: String,
    /// Characters on the last line.
    column: usize,
}

impl Lines {
    /// The beginning of the field `name`.
    pub(crate) fn of(name: &'static str) -> Self {
        Lines { name, value: String::new(), column: name.len() + 2 }
    }

    /// Adds `token` behind `space`, or on a line of its own if it does not fit. `space` is left out before the
    /// first token.
    pub(crate) fn add(&mut self, space: &str, token: &str) {
        let space = if self.value.is_empty() { "" } else { space };
        if !self.value.is_empty() && self.column + space.len() + token.len() > LINE {
            self.value.push_str("\r\n ");
            self.column = 1;
        } else {
            self.value.push_str(space);
            self.column += space.len();
        }
        self.value.push_str(token);
        self.column += token.len();
    }

    fn add_all<'a>(&mut self, tokens: impl IntoIterator<Item = &'a str>) {
        for token in tokens {
            self.add(" ", token);
        }
    }

    /// What there is so far.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// The finished field.
    pub(crate) fn end(self) -> Field {
        Field { name: self.name, value: self.value }
    }

    /// Whether every one of `tokens` fits on a line, the first one on this.
    fn hold<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) -> bool {
        let mut room = LINE - self.column;
        tokens.into_iter().all(|token| token.len() <= std::mem::replace(&mut room, LINE - 1))
    }

    /// Adds a name: as atoms, in quotes, or as encoded words.
    fn add_phrase(&mut self, text: &str) {
        let words = || text.split(' ');
        if words().all(|word| !word.is_empty() && word.bytes().all(is_atext))
            && !looks_encoded(text)
            && self.hold(words())
        {
            return self.add_all(words());
        }
        let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if plain && !looks_encoded(text) && self.hold([quoted.as_str()]) {
            self.add(" ", &quoted);
        } else {
            self.add_encoded(text);
        }
    }

    /// Adds `text` as encoded words.
    fn add_encoded(&mut self, text: &str) {
        let encoding = Encoding::shorter_for(text);
        let mut room = WORD.min(LINE - self.column);
        let mut rest = text;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(encoding.fitting(rest, room - AROUND));
            self.add(" ", &encoding.word(now));
            (rest, room) = (later, WORD);
        }
    }
}

/// Whether a reader could take part of `text` for an encoded word, or for the end of one.
fn looks_encoded(text: &str) -> bool {
    text.contains("=?") || text.contains("?=")
}

/// `text` on one line. Subjects and names hold no control characters by the time they arrive here; should one,
/// it does no harm.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What an atom is made of (RFC 5322, 3.2.3).
fn is_atext(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

/// The two ways in which an encoded word holds its text.
#[derive(Clone, Copy)]
enum Encoding {
    Base64,
    Escapes,
}

impl Encoding {
    fn shorter_for(text: &str) -> Self {
        let base64 = Encoding::Base64.length(text) < Encoding::Escapes.length(text);
        if base64 { Encoding::Base64 } else { Encoding::Escapes }
    }

    /// Characters that `text` takes when encoded.
    fn length(self, text: &str) -> usize {
        match self {
            Encoding::Base64 => text.len().div_ceil(3) * 4,
            Encoding::Escapes => text.bytes().map(|b| if is_literal(b) { 1 } else { 3 }).sum(),
        }
    }

    /// How many bytes of `text`, whole characters, take at most `room` characters when encoded.
    fn fitting(self, text: &str, room: usize) -> usize {
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let fits = |end: &usize| self.length(text.get(..*end).unwrap_or_default()) <= room;
        // Names of fields are short: there is always room for one character.
        ends.take_while(fits).last().unwrap_or(text.len())
    }

    fn word(self, text: &str) -> String {
        match self {
            Encoding::Base64 => format!("=?UTF-8?B?{}?=", STANDARD.encode(text)),
            Encoding::Escapes => format!("=?UTF-8?Q?{}?=", escaped(text)),
        }
    }
}

/// What may stand for itself in an encoded word wherever one can be (RFC 2047, 5); a space becomes `_`.
fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" !*+-/".contains(&byte)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('_'),
            byte if is_literal(byte) => out.push(byte.into()),
            byte => escape(byte, &mut out),
        }
    }
    out
}

/// Appends `byte` as `=XX`, which quoted-printable text and encoded words have in common.
pub(crate) fn escape(byte: u8, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "={byte:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> String {
        let mut header = String::new();
        Field::text("Subject", text).write(&mut header);
        header
    }

    #[test]
    fn plain_text_stays_readable() {
        assert_eq!(subject("Pump 3 (south): 7 < 8?"), "Subject: Pump 3 (south): 7 < 8?\r\n");
        assert_eq!(subject(""), "Subject: \r\n");
        let word = "x".repeat(33);
        assert_eq!(
            subject(&format!("{word} {word} {word}")),
            format!("Subject: {word} {word}\r\n {word}\r\n"),
            "76 characters"
        );
        let line = format!("{word}x {word} {word}");
        assert_eq!(subject(&line), format!("Subject: {word}x\r\n {word} {word}\r\n"));
    }

    #[test]
    fn other_text_is_encoded_in_the_shorter_way() {
        assert_eq!(subject("Störung in Zürich"), "Subject: =?UTF-8?Q?St=C3=B6rung_in_Z=C3=BCrich?=\r\n");
        assert_eq!(subject("Авария"), "Subject: =?UTF-8?B?0JDQstCw0YDQuNGP?=\r\n");
        for text in ["two  blanks", " a", "a ", " ", "the look-alike =? b"] {
            assert!(subject(text).starts_with("Subject: =?UTF-8?Q?"), "{text:?}");
        }
    }

    #[test]
    fn a_name_takes_the_plainest_form_it_can() {
        for (name, value) in [
            ("Control Room", "Control Room <a@b.c>"),
            ("J. \"D\" \\", r#""J. \"D\" \\" <a@b.c>"#),
            ("Süd, \"x\"", "=?UTF-8?B?U8O8ZCwgIngi?= <a@b.c>"),
        ] {
            let address = "a@b.c".parse::<Mailbox>().unwrap().address;
            let mailbox = Mailbox { name: Some(name.to_owned()), address };
            assert_eq!(Field::mailbox("From", &mailbox).value, value);
        }
    }
}
