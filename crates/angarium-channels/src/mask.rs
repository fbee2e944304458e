//! Makes what a receiver said fit to be stored, logged and shown: without secrets, without control characters,
//! and short. Receivers echo what they were sent, our credentials included.

use angarium_domain::limits::RESPONSE_KEPT_BYTES;

/// What stands in a secret's place.
const MASK: &str = "[masked]";

/// The secrets of one attempt, as the literal texts in which they could come back.
pub(crate) struct Mask(Vec<String>);

impl Mask {
    /// A mask over `secrets`, in the spellings in which JSON writers and URL encoders could give them back.
    pub(crate) fn over(secrets: impl IntoIterator<Item = String>) -> Self {
        const SPELLINGS: [[(char, &str); 3]; 3] = [
            [('/', "\\/"), ('+', "+"), ('=', "=")],
            [('/', "\\u002F"), ('+', "\\u002B"), ('=', "\\u003D")],
            [('/', "%2F"), ('+', "%2B"), ('=', "%3D")],
        ];
        let mut texts = Vec::new();
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
            for spelling in SPELLINGS {
                let spelt =
                    spelling.iter().fold(secret.clone(), |text, (c, as_text)| text.replace(*c, as_text));
                for spelt in [spelt.replace("%3D", "="), spelt.to_lowercase(), spelt] {
                    if spelt != secret && !texts.contains(&spelt) {
                        texts.push(spelt);
                    }
                }
            }
            texts.push(secret);
        }
        Mask(texts)
    }

    /// `text` without the secrets.
    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }

    /// The beginning of an answer's body as text; `None` if there is nothing to show. Bytes that are no text
    /// and characters that could harm a terminal or a database show as U+FFFD; lines and tabs stay.
    pub(crate) fn excerpt(&self, body: &[u8]) -> Option<String> {
        let masked = self.apply(&String::from_utf8_lossy(body)).replace("\r\n", "\n");
        let mut text: String =
            masked.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
        text.truncate(text.floor_char_boundary(RESPONSE_KEPT_BYTES));
        (!text.trim().is_empty()).then_some(text)
    }
}

/// Control characters, and those that change the direction of what follows.
fn is_harmful(c: char) -> bool {
    let turns =
        matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask() -> Mask {
        Mask::over(["s3cr/t".to_owned(), String::new()])
    }

    /// C062: whatever bytes came back can be kept on every database.
    #[test]
    fn c062_an_excerpt_is_clean_text() {
        assert_eq!(
            mask().excerpt(b"a\x00b\xff\xfec\r\nd\te\x1b[2J").unwrap(),
            "a\u{FFFD}b\u{FFFD}\u{FFFD}c\nd\te\u{FFFD}[2J"
        );
        assert_eq!(mask().excerpt("a\u{202E}b\r".as_bytes()).unwrap(), "a\u{FFFD}b\u{FFFD}");
        for nothing in ["", "\r\n", "  \n"] {
            assert_eq!(mask().excerpt(nothing.as_bytes()), None, "{nothing:?}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_ends_with_a_whole_character() {
        for body in
            ["x".repeat(70_000), "é".repeat(35_000), format!("x{}", "é".repeat(35_000)), "\0".repeat(9_000)]
        {
            let excerpt = mask().excerpt(body.as_bytes()).unwrap();
            assert!(
                (RESPONSE_KEPT_BYTES - 2..=RESPONSE_KEPT_BYTES).contains(&excerpt.len()),
                "{}",
                excerpt.len()
            );
        }
    }

    #[test]
    fn secrets_are_masked_before_the_text_is_cut() {
        assert_eq!(
            mask().excerpt(br#"{"got":"s3cr/t","as":"s3cr\/t"}"#).unwrap(),
            r#"{"got":"[masked]","as":"[masked]"}"#
        );
        for before in RESPONSE_KEPT_BYTES - 10..=RESPONSE_KEPT_BYTES {
            let body = "x".repeat(before) + "s3cr/t";
            assert!(!mask().excerpt(body.as_bytes()).unwrap().contains("s3"), "{before}");
        }
    }
}
