//! Answers of a relay. They are judged by their codes; the text is for people.

use std::fmt;

/// Bytes of one answer that are read; a relay that says more is not listened to any longer.
pub(crate) const REPLY_BYTES: usize = 64 * 1024;

/// One answer, all its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The three digits.
    pub(crate) code: u16,
    /// The enhanced status code, where it begins the text and its class is that of the code.
    pub(crate) enhanced: Option<Enhanced>,
    /// The text of all lines without the codes that begin them, joined by line feeds. Bytes that are no text show
    /// as U+FFFD.
    pub(crate) text: String,
}

/// An enhanced status code (RFC 3463): class, subject, detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enhanced {
    pub(crate) class: u8,
    pub(crate) subject: u16,
    pub(crate) detail: u16,
}

/// What was read is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoReply;

impl Reply {
    /// The first answer in `bytes` and how many bytes it takes; none if it is not all there yet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, NoReply> {
        let mut lines: Vec<&[u8]> = Vec::new();
        let mut used = 0;
        while let Some(length) = bytes.get(used..).and_then(|rest| rest.iter().position(|&b| b == b'\n')) {
            let line = bytes.get(used..used + length).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            used += length + 1;
            let (digits, rest) = line.split_at_checked(3).ok_or(NoReply)?;
            if !digits.iter().all(u8::is_ascii_digit) {
                return Err(NoReply);
            }
            let (more, text) = match rest.split_first() {
                None => (false, rest),
                Some((b' ', text)) => (false, text),
                Some((b'-', text)) => (true, text),
                Some(_) => return Err(NoReply),
            };
            lines.push(text);
            if !more {
                let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
                return Ok(Some((Reply::of(code, &lines), used)));
            }
        }
        if bytes.len() > REPLY_BYTES { Err(NoReply) } else { Ok(None) }
    }

    fn of(code: u16, lines: &[&[u8]]) -> Reply {
        let text = String::from_utf8_lossy(&lines.join(&b'\n')).into_owned();
        let enhanced = text
            .lines()
            .filter_map(Enhanced::beginning)
            .find(|enhanced| u16::from(enhanced.class) == code / 100);
        Reply { code, enhanced, text }
    }

    /// 2xx, but for 221, which ends the session.
    pub(crate) fn is_positive(&self) -> bool {
        self.code / 100 == 2 && !self.is_closing()
    }

    /// The relay ends the session.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.code, 221 | 421)
    }

    /// Whether the enhanced code has this subject and detail.
    pub(crate) fn says(&self, subject: u16, detail: u16) -> bool {
        self.enhanced.is_some_and(|code| (code.subject, code.detail) == (subject, detail))
    }
}

/// Characters of a relay's id for a message that are kept.
const QUEUE_ID_CHARS: usize = 200;

/// The relay's own id for a message it took: what stands beside the words that common relays use, else the text
/// itself. `text` is the answer's, fit to be kept.
pub(crate) fn queue_id(text: &str) -> Option<String> {
    let text = text.lines().last().unwrap_or_default();
    let text = match Enhanced::beginning(text) {
        Some(_) => text.split_once(' ').map_or("", |(_, text)| text),
        None => text,
    };
    let word = |text: &str| text.split([' ', ';', ',', ')']).next().unwrap_or_default().to_owned();
    let after = |marker: &str| text.split_once(marker).map(|(_, rest)| word(rest));
    let before = |marker: &str| text.split_once(marker).map(|(start, _)| word(start));
    let id = after("queued as ")
        .or_else(|| after("OK id="))
        .or_else(|| before(" Message accepted for delivery"))
        .unwrap_or_else(|| text.trim().to_owned());
    let id: String = id.chars().take(QUEUE_ID_CHARS).collect();
    (!id.is_empty()).then_some(id)
}

impl Enhanced {
    fn beginning(text: &str) -> Option<Enhanced> {
        let word = text.split([' ', '\t']).next()?;
        let mut parts = word.split('.');
        let mut part = || parts.next().filter(|part| part.len() <= 3).and_then(|part| part.parse().ok());
        let code = Enhanced { class: u8::try_from(part()?).ok()?, subject: part()?, detail: part()? };
        parts.next().is_none().then_some(code)
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// As in `550 5.1.1 no such user`, on one line.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        self.text.lines().filter(|line| !line.is_empty()).try_for_each(|line| write!(f, " {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply(text: &str) -> Reply {
        let (reply, used) = Reply::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(used, text.len());
        reply
    }

    /// C102: several lines, none with text, odd bytes; an answer without an end is no answer.
    #[test]
    fn c102_replies_of_every_shape() {
        let many = reply("220-mx.example.com\r\n220-no spam\r\n220\r\n");
        assert_eq!((many.code, many.text.as_str()), (220, "mx.example.com\nno spam\n"));
        assert_eq!(reply("334\r\n").code, 334);
        assert_eq!(reply("250 \n").text, "");
        let (odd, _) = Reply::parse(b"250 a\xe9\xff\r\n").unwrap().unwrap();
        assert_eq!(odd.text, "a\u{FFFD}\u{FFFD}");
        assert_eq!(reply(&format!("250 {}\r\n", "x".repeat(3000))).text.len(), 3000);
        for unfinished in ["", "2", "250 ok", "250-ok\r\n", "250-a\r\n250"] {
            assert_eq!(Reply::parse(unfinished.as_bytes()), Ok(None), "{unfinished:?}");
        }
        for nonsense in ["HTTP/1.1 400\r\n", "25\r\n", "2500 x\r\n", "\r\n", "+OK\r\n", "٢٥٠ x\r\n"] {
            assert_eq!(Reply::parse(nonsense.as_bytes()), Err(NoReply), "{nonsense:?}");
        }
        let endless = "250-x\r\n".repeat(REPLY_BYTES / 7 + 1);
        assert_eq!(Reply::parse(endless.as_bytes()), Err(NoReply));
    }

    #[test]
    fn the_enhanced_code_counts_where_its_class_is_that_of_the_code() {
        let code = |text| reply(text).enhanced.map(|code| code.to_string());
        assert_eq!(code("550 5.1.1 no such user\r\n").as_deref(), Some("5.1.1"));
        assert_eq!(code("550-5.7.26 a\r\n550 5.7.26 b\r\n").as_deref(), Some("5.7.26"));
        for text in [
            "550 4.1.1 x\r\n",
            "550 no 5.1.1\r\n",
            "550 5.1 x\r\n",
            "550 5.1.1.1 x\r\n",
            "550 5.1.1000 x\r\n",
        ] {
            assert_eq!(code(text), None, "{text}");
        }
    }

    #[test]
    fn queue_ids_of_common_relays() {
        for (text, id) in [
            ("250 2.0.0 Ok: queued as 4F1B2C3D\r\n", "4F1B2C3D"),
            ("250 2.0.0 5a7d1b2c Message accepted for delivery\r\n", "5a7d1b2c"),
            ("250 OK id=1rABCD-000001-XY\r\n", "1rABCD-000001-XY"),
            ("250 Ok 0100018c-aaaa-bbbb\r\n", "Ok 0100018c-aaaa-bbbb"),
        ] {
            assert_eq!(queue_id(&reply(text).text).as_deref(), Some(id), "{text}");
        }
        assert_eq!(queue_id("2.0.0"), None);
        assert_eq!(queue_id(&format!("queued as {}", "x".repeat(60_000))).unwrap().len(), QUEUE_ID_CHARS);
    }

    proptest! {
        /// Whatever comes in, and in whatever pieces, nothing panics, and more bytes change no answer.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![Just(b'2'), Just(b'5'), Just(b'-'), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..200)) {
            if let Ok(Some((reply, used))) = Reply::parse(&bytes) {
                let mut longer = bytes.clone();
                longer.extend(b"250 next\r\n");
                prop_assert_eq!(Reply::parse(&longer), Ok(Some((reply, used))));
            }
        }
    }
}
