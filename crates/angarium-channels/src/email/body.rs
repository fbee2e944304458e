//! Texts as parts of a mail: seven bits, short lines, CRLF, whatever goes in.
//!
//! Mostly ASCII is written as quoted-printable, which can still be read on the wire; the rest as base64. Both pass
//! relays without 8BITMIME, and no relay has a reason to touch a line. A dot at the beginning of a line is left
//! to the conversation with the relay, which doubles it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::header::escape;

/// Characters of a line, without its end.
const LINE: usize = 76;

/// A text as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The value of Content-Transfer-Encoding.
    pub(crate) transfer: &'static str,
    /// Lines of up to 76 characters with CRLF between them; the last one has no end.
    pub(crate) text: String,
}

/// Encodes `text`. CRLF, a lone CR and a lone LF are all ends of lines.
pub(crate) fn encode(text: &str) -> Encoded {
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    let escapes = text.bytes().filter(|&byte| byte != b'\n' && !is_literal(byte)).count();
    if escapes * 2 > text.len() {
        Encoded { transfer: "base64", text: base64(&text.replace('\n', "\r\n")) }
    } else {
        Encoded { transfer: "quoted-printable", text: quoted_printable(&text) }
    }
}

fn base64(text: &str) -> String {
    let lines: Vec<String> = text.as_bytes().chunks(LINE / 4 * 3).map(|line| STANDARD.encode(line)).collect();
    lines.join("\r\n")
}

/// Lines of text, broken where they are too long (RFC 2045, 6.7), but never inside a character.
fn quoted_printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut token = String::new();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push_str("\r\n");
        }
        write_line(line, &mut token, &mut out);
    }
    out
}

fn write_line(line: &str, token: &mut String, out: &mut String) {
    let mut column = 0;
    for (at, c) in line.char_indices() {
        let is_last = at + c.len_utf8() == line.len();
        write_token(c, is_last, token);
        // Every line but the last one ends with `=`.
        if column + token.len() > if is_last { LINE } else { LINE - 1 } {
            out.push_str("=\r\n");
            column = 0;
        }
        // Mail stores take a line that begins like this for the beginning of another mail, and change it.
        if column == 0 && line.get(at..).is_some_and(|rest| rest.starts_with("From ")) {
            "=46".clone_into(token);
        }
        column += token.len();
        out.push_str(token);
    }
}

/// One character, in the place of what `token` held. A blank at the end of a line would be lost on the way.
fn write_token(c: char, is_last: bool, token: &mut String) {
    token.clear();
    for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
        if is_literal(byte) && !(is_last && matches!(byte, b' ' | b'\t')) {
            token.push(byte.into());
        } else {
            escape(byte, token);
        }
    }
}

fn is_literal(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~') && byte != b'='
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qp(text: &str) -> String {
        let Encoded { transfer, text } = encode(text);
        assert_eq!(transfer, "quoted-printable");
        text
    }

    #[test]
    fn ends_of_lines_are_crlf_alone() {
        assert_eq!(qp("a\nb\rc\r\nd\r\r\n\n"), "a\r\nb\r\nc\r\nd\r\n\r\n\r\n");
        assert_eq!(qp(""), "");
    }

    #[test]
    fn what_would_not_survive_is_escaped() {
        assert_eq!(qp("Größe 12 °C = warm"), "Gr=C3=B6=C3=9Fe 12 =C2=B0C =3D warm");
        assert_eq!(
            qp("blank \ntab\t\n \nnone\nthe bell \x07, NUL \0"),
            "blank=20\r\ntab=09\r\n=20\r\nnone\r\nthe bell =07, NUL =00"
        );
        assert_eq!(qp("From here\nFrom: x\n>From x"), "=46rom here\r\nFrom: x\r\n>From x");
        assert_eq!(qp(".\n..x"), ".\r\n..x");
    }

    #[test]
    fn long_lines_are_broken_between_characters() {
        for length in [75, 76] {
            assert_eq!(qp(&"x".repeat(length)), "x".repeat(length));
        }
        assert_eq!(qp(&"x".repeat(77)), format!("{}=\r\nxx", "x".repeat(75)));
        assert_eq!(qp(&format!("{}é!", "x".repeat(70))), format!("{}=\r\n=C3=A9!", "x".repeat(70)));
        assert_eq!(qp(&format!("{}é", "x".repeat(70))), format!("{}=C3=A9", "x".repeat(70)));
        assert_eq!(qp(&format!("{}From x", "x".repeat(75))), format!("{}=\r\n=46rom x", "x".repeat(75)));
        assert_eq!(qp(&format!("{} ", "x".repeat(75))), format!("{}=\r\n=20", "x".repeat(75)));
    }

    #[test]
    fn mostly_other_characters_are_base64() {
        let text = "Помпа №3 не отвечает\n".repeat(4);
        let encoded = encode(&text);
        assert_eq!(encoded.transfer, "base64");
        assert!(encoded.text.split("\r\n").all(|line| (1..=76).contains(&line.len())));
        let bytes = STANDARD.decode(encoded.text.replace("\r\n", "")).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text.replace('\n', "\r\n"));
    }
}
