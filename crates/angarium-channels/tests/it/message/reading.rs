//! Reads mails as the strictest receivers do: what a lenient one would mend is a failure here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A mail that has passed every check of form.
pub(crate) struct Mail {
    /// Names and unfolded values, in order.
    fields: Vec<(String, String)>,
    pub(crate) bytes: Vec<u8>,
}

impl Mail {
    /// Takes a mail apart; panics unless every line is ASCII, ends with CRLF and is short.
    pub(crate) fn read(bytes: Vec<u8>) -> Self {
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(text.is_ascii() && text.ends_with("\r\n"), "{text}");
        let lines: Vec<&str> = text.strip_suffix("\r\n").unwrap().split("\r\n").collect();
        for line in &lines {
            assert!(line.len() <= 998, "{} octets: {line}", line.len());
            assert!(line.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)), "{line:?}");
        }
        let fields = fields(&lines[..lines.iter().position(|line| line.is_empty()).unwrap()]);
        for line in lines.iter().filter(|line| line.len() > 76) {
            assert!(!line.trim_start().contains(' ') || line.starts_with("List-Unsubscribe: <"), "{line}");
        }
        Mail { fields, bytes }
    }

    /// The values of every field `name`.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of the only field `name`.
    pub(crate) fn one(&self, name: &str) -> &str {
        let &[value] = self.all(name).as_slice() else { panic!("{name}: {:?}", self.all(name)) };
        value
    }

    /// The names of all fields, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The subject, decoded strictly.
    pub(crate) fn subject(&self) -> String {
        decode(self.one("Subject"))
    }

    /// Everything behind the header.
    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap().split_once("\r\n\r\n").unwrap().1
    }
}

fn fields(lines: &[&str]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            assert!(!line.trim().is_empty(), "a line of blanks");
            fields.last_mut().unwrap().1.push_str(line);
        } else {
            let (name, value) = line.split_once(':').unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{line}");
            fields.push((name.to_owned(), value.strip_prefix(' ').unwrap().to_owned()));
        }
    }
    fields
}

/// Decodes a value as RFC 2047 has it. Panics at a word that is too long, glued to its neighbour, or that is no
/// whole text by itself.
pub(crate) fn decode(value: &str) -> String {
    let mut text = String::new();
    let mut after_encoded = false;
    for (i, word) in value.split(' ').enumerate() {
        let is_encoded = word.contains("=?") || word.contains("?=");
        if i > 0 && !(is_encoded && after_encoded) {
            text.push(' ');
        }
        text.push_str(&if is_encoded { decode_word(word) } else { word.to_owned() });
        after_encoded = is_encoded;
    }
    text
}

fn decode_word(word: &str) -> String {
    assert!(word.len() <= 75, "{} characters: {word}", word.len());
    let inner = word.strip_prefix("=?UTF-8?").and_then(|word| word.strip_suffix("?=")).expect(word);
    let (encoding, text) = inner.split_once('?').expect(word);
    assert!(!text.is_empty() && !text.contains(['?', ' ']), "{word}");
    let bytes = match encoding {
        "B" => STANDARD.decode(text).expect(word),
        "Q" => {
            let mut bytes = Vec::new();
            let mut rest = text.as_bytes();
            while let [first, tail @ ..] = rest {
                rest = tail;
                match first {
                    b'_' => bytes.push(b' '),
                    b'=' => {
                        let (digits, tail) = rest.split_at(2);
                        let digits = std::str::from_utf8(digits).unwrap();
                        assert_eq!(digits, digits.to_uppercase(), "{word}");
                        bytes.push(u8::from_str_radix(digits, 16).expect(word));
                        rest = tail;
                    }
                    byte => bytes.push(*byte),
                }
            }
            bytes
        }
        _ => panic!("{word}"),
    };
    String::from_utf8(bytes).expect(word)
}
