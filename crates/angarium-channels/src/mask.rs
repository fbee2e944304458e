//! Makes what a receiver said fit to be stored, logged and shown: without secrets, without the message's own text,
//! without control characters, and short. Receivers echo what they were sent, our credentials included.

use std::sync::{Arc, OnceLock};

use angarium_domain::adapter::Message;
use angarium_domain::limits::RESPONSE_KEPT_BYTES;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use url::form_urlencoded;

/// What stands in a secret's place.
pub(crate) const MASK: &str = "[masked]";

/// What stands in the place of the message's own text.
const QUOTED: &str = "[message]";

/// Texts of a message that are shorter than this, in characters, are words that any answer may have.
const TELLING_CHARS: usize = 8;

/// Lines of a message that are looked for each on its own.
const LINES: usize = 100;

/// The secrets of one attempt, or of all of a channel's. Cheap to clone, and free as long as there is nothing to look
/// through.
#[derive(Clone, Default)]
pub(crate) struct Mask(Arc<Secrets>);

#[derive(Default)]
struct Secrets {
    plain: Vec<String>,
    /// The texts in which they could come back, in lower case; whatever contains another goes first.
    spelt: OnceLock<Vec<String>>,
}

impl Mask {
    /// A mask over `secrets`, in the spellings in which JSON writers, URL encoders and base64 could give them back.
    pub(crate) fn over(secrets: impl IntoIterator<Item = String>) -> Self {
        Mask(Arc::new(Secrets { plain: secrets.into_iter().collect(), spelt: OnceLock::new() }))
    }

    /// A mask over these secrets as well.
    pub(crate) fn and(&self, secrets: impl IntoIterator<Item = String>) -> Mask {
        Mask::over(self.0.plain.iter().cloned().chain(secrets))
    }

    /// `text` without the secrets, whatever became of the case of their letters.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Lower-casing ASCII moves no byte.
        let mut lower = text.to_ascii_lowercase();
        for secret in self.0.spelt.get_or_init(|| all_spellings(&self.0.plain)) {
            if !lower.contains(secret.as_str()) {
                continue;
            }
            let mut masked = String::new();
            let mut rest = 0;
            for (at, found) in lower.match_indices(secret.as_str()) {
                masked.push_str(text.get(rest..at).unwrap_or_default());
                masked.push_str(MASK);
                rest = at + found.len();
            }
            masked.push_str(text.get(rest..).unwrap_or_default());
            text = masked;
            lower = text.to_ascii_lowercase();
        }
        text
    }

    /// The beginning of an answer's body as text, without what it quotes of `message` (DD-07); `None` if there is
    /// nothing to show. Bytes that are no text and characters that could harm a terminal or a database show as
    /// U+FFFD; lines and tabs stay.
    pub(crate) fn excerpt(&self, body: &[u8], message: &Message) -> Option<String> {
        if body.is_empty() {
            return None;
        }
        let masked = self.apply(&String::from_utf8_lossy(body));
        let quotes = quotable(message, masked.len());
        let masked = quotes.iter().fold(masked, |text, quote| text.replace(quote, QUOTED));
        clean(&masked)
    }
}

fn all_spellings(secrets: &[String]) -> Vec<String> {
    let mut texts: Vec<String> = secrets.iter().flat_map(|secret| spellings(secret)).collect();
    let trimmed: Vec<String> = texts.iter().map(|text| text.trim_end_matches('=').to_owned()).collect();
    texts.extend(trimmed);
    texts.iter_mut().for_each(|text| text.make_ascii_lowercase());
    texts.retain(|text| !text.is_empty());
    texts.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    texts.dedup();
    texts
}

/// How a secret could come back.
fn spellings(secret: &str) -> Vec<String> {
    let in_json = serde_json::Value::from(secret).to_string();
    let in_json = in_json.get(1..in_json.len() - 1).unwrap_or_default().to_owned();
    let in_form: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let in_path = in_form.replace('+', "%20");
    let escaped = |keep: fn(char) -> bool| escape(secret, keep);
    let in_html =
        secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    vec![
        in_json.replace('/', "\\/"),
        escape(&in_json, |c| c.is_ascii()),
        escaped(|c| c.is_ascii_alphanumeric()),
        escaped(|c| c.is_ascii() && !matches!(c, '/' | '+' | '=')),
        escaped(|c| c.is_ascii() && !matches!(c, '&' | '<' | '>' | '\'' | '"' | '+')),
        in_path.replace("%7E", "~"),
        in_path.clone(),
        secret.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"),
        secret.replace('+', "%2B").replace('/', "%2F"),
        in_html.replace('\'', "&#39;"),
        in_html.replace('\'', "&#x27;"),
        in_html,
        URL_SAFE.encode(secret),
        STANDARD.encode(secret),
        in_form,
        in_json,
        secret.to_owned(),
    ]
}

/// `text` with every character that is not kept as JSON may write it.
fn escape(text: &str, keep: fn(char) -> bool) -> String {
    text.chars().map(|c| if keep(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }).collect()
}

/// The beginning of a text from outside, fit to be shown; `None` if there is nothing to show.
pub(crate) fn clean(text: &str) -> Option<String> {
    let harmless = |c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut text: String = text.replace("\r\n", "\n").chars().map(harmless).collect();
    text.truncate(text.floor_char_boundary(RESPONSE_KEPT_BYTES));
    (!text.trim().is_empty()).then_some(text)
}

/// The texts of a message as a receiver could quote them in `most` bytes: plain, and as they stand in JSON; the
/// longest first.
fn quotable(message: &Message, most: usize) -> Vec<String> {
    let lines = message.body.lines().take(LINES).map(str::trim);
    let texts = [message.subject.as_str(), message.body.as_str()].into_iter().chain(message.data.as_deref());
    let mut quotes: Vec<String> = Vec::new();
    let fits = |text: &&str| text.len() <= most && text.chars().nth(TELLING_CHARS - 1).is_some();
    for text in texts.chain(lines).filter(fits) {
        let in_json = serde_json::Value::from(text).to_string();
        quotes.extend(in_json.get(1..in_json.len() - 1).map(str::to_owned));
        quotes.push(text.to_owned());
        quotes.push(text.replace('\n', "\r\n"));
    }
    quotes.sort_by_key(|quote| std::cmp::Reverse(quote.len()));
    quotes.dedup();
    quotes
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

    fn message() -> Message {
        Message {
            id: "0190163d-8694-739b-aea5-966c26f8ad90".parse().unwrap(),
            subject: "Pump 3 \"north\"".to_owned(),
            body: "level high\nok\nvalve stuck".to_owned(),
            data: Some(r#"{"code": 17}"#.to_owned()),
            list: None,
            presentation: None,
            at: angarium_domain::time::Timestamp::EPOCH,
        }
    }

    /// DD-07: what is kept of an answer never holds the message's text, however it is quoted.
    #[test]
    fn the_message_is_not_kept_a_second_time() {
        for (answer, kept) in [
            ("no: Pump 3 \"north\"!", "no: [message]!"),
            (r#"{"subject":"Pump 3 \"north\"","n":1}"#, r#"{"subject":"[message]","n":1}"#),
            (r#"{"body":"level high\nok\nvalve stuck"}"#, r#"{"body":"[message]"}"#),
            ("level high\r\nok\r\nvalve stuck", "[message]"),
            ("> valve stuck", "> [message]"),
            (r#"got {"code": 17}, ok"#, "got [message], ok"),
        ] {
            assert_eq!(mask().excerpt(answer.as_bytes(), &message()).unwrap(), kept);
        }
    }

    fn mask() -> Mask {
        Mask::over(["s3cr/t".to_owned(), String::new()])
    }

    /// C062: whatever bytes came back can be kept on every database.
    #[test]
    fn c062_an_excerpt_is_clean_text() {
        assert_eq!(
            mask().excerpt(b"a\x00b\xff\xfec\r\nd\te\x1b[2J", &message()).unwrap(),
            "a\u{FFFD}b\u{FFFD}\u{FFFD}c\nd\te\u{FFFD}[2J"
        );
        assert_eq!(mask().excerpt("a\u{202E}b\r".as_bytes(), &message()).unwrap(), "a\u{FFFD}b\u{FFFD}");
        for nothing in ["", "\r\n", "  \n"] {
            assert_eq!(mask().excerpt(nothing.as_bytes(), &message()), None, "{nothing:?}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_ends_with_a_whole_character() {
        for body in
            ["x".repeat(70_000), "é".repeat(35_000), format!("x{}", "é".repeat(35_000)), "\0".repeat(9_000)]
        {
            let excerpt = mask().excerpt(body.as_bytes(), &message()).unwrap();
            assert!(
                (RESPONSE_KEPT_BYTES - 2..=RESPONSE_KEPT_BYTES).contains(&excerpt.len()),
                "{}",
                excerpt.len()
            );
        }
    }

    /// Whatever a receiver does to what it echoes, nothing of a secret shows.
    #[test]
    fn secrets_in_every_spelling() {
        let secret = "Se\"cr\\et@1!x+y/é=";
        let mask = Mask::over([secret.to_owned(), "=".to_owned()]);
        let form: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for echoed in [
            secret.to_owned(),
            serde_json::Value::from(secret).to_string(),
            form.clone(),
            form.to_lowercase(),
            form.replace('+', "%20"),
            STANDARD.encode(secret),
            STANDARD.encode(secret).trim_end_matches('=').to_owned(),
            URL_SAFE.encode(secret),
            secret.replace('"', "&quot;"),
            serde_json::Value::from(secret).to_string().replace('é', "\\u00E9"),
            secret.to_uppercase(),
        ] {
            let shown = mask.apply(&format!("got {echoed}, no"));
            assert!(shown.contains("[masked]") && !shown.contains("cr"), "{echoed}: {shown}");
        }
    }

    #[test]
    fn secrets_are_masked_before_the_text_is_cut() {
        assert_eq!(
            mask().excerpt(br#"{"got":"s3cr/t","as":"s3cr\/t"}"#, &message()).unwrap(),
            r#"{"got":"[masked]","as":"[masked]"}"#
        );
        for before in RESPONSE_KEPT_BYTES - 10..=RESPONSE_KEPT_BYTES {
            let body = "x".repeat(before) + "s3cr/t";
            assert!(!mask().excerpt(body.as_bytes(), &message()).unwrap().contains("s3"), "{before}");
        }
    }
}
