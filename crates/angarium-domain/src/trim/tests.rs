//! Trimming: where texts are cut, and where never.

use proptest::prelude::*;

use super::Limit::{Bytes, Characters};
use super::*;
use crate::limits::Limits;

fn trimmed(text: &str, limit: Limit) -> (String, bool) {
    let Trimmed { text, cut } = trim(text, limit);
    (text, cut)
}

/// FP-12: a text is cut to what the provider takes, and says so.
#[test]
fn texts_are_cut_where_a_reader_would() {
    const FAMILY: &str = "👨\u{200D}👩\u{200D}👧";
    for (text, limit, expected) in [
        ("", Characters(0), ""),
        ("abc", Characters(3), "abc"),
        ("abcd", Characters(3), "ab…"),
        ("abcd", Bytes(4), "abcd"),
        ("abcde", Bytes(4), "a…"),
        ("ab cd", Characters(4), "ab…"),
        ("ab \r\ncd", Characters(6), "ab…"),
        ("abcd", Characters(1), "…"),
        ("abcd", Characters(0), ""),
        ("abcd", Bytes(3), "…"),
        ("abcd", Bytes(2), ""),
        ("éé", Bytes(4), "éé"),
        ("ééé", Bytes(5), "é…"),
        ("ééé", Bytes(4), "…"),
        ("e\u{301}e\u{301}", Characters(3), "e\u{301}…"),
        ("ae\u{301}\u{302}b", Characters(3), "a…"),
        ("🇵🇭🇳🇱x", Characters(4), "🇵🇭…"),
        ("🇵🇭🇳🇱x", Characters(3), "🇵🇭…"),
        ("🇵🇭🇳🇱", Characters(3), "🇵🇭…"),
        ("👍🏽👍🏽", Characters(2), "…"),
        ("👍🏽👍🏽", Bytes(12), "👍🏽…"),
        ("\u{1100}\u{1161}\u{11A8}가", Characters(3), "…"),
        ("नि नि", Characters(4), "नि…"),
    ] {
        let cut = expected != text;
        assert_eq!(trimmed(text, limit), (expected.to_owned(), cut), "{text:?} {limit:?}");
    }
    assert_eq!(trimmed(&FAMILY.repeat(2), Characters(9)), (format!("{FAMILY}…"), true));
    assert_eq!(trimmed(&FAMILY.repeat(2), Bytes(20)), ("…".to_owned(), true));
    let stacked = format!("a{}", "\u{300}".repeat(10_000));
    assert_eq!(trimmed(&stacked, Bytes(4096)), ("…".to_owned(), true), "one cluster, longer than the limit");
}

/// Every kind has bounds that leave room for an ellipsis, and the parts that are joined fit together.
#[test]
fn bounds_are_those_of_the_providers() {
    for kind in ChannelKind::ALL {
        let Bounds { title, body } = bounds(kind);
        assert!(title.fits(ELLIPSIS) && body.fits(ELLIPSIS), "{kind}");
    }
    let limits = Limits::default();
    let ours = Bounds { title: Characters(limits.subject_chars), body: Bytes(limits.body_bytes) };
    assert_eq!([ChannelKind::Email, ChannelKind::Webhook, ChannelKind::InApp].map(bounds), [ours; 3]);
    let fullest = |kind| {
        let Bounds { title, body } = bounds(kind);
        let text = "x".repeat(50_000);
        (trim(&text, title).text, trim(&text, body).text)
    };
    let (title, body) = fullest(ChannelKind::Sms);
    assert_eq!(format!("{title}: {body}").chars().count(), 1600);
    let (title, body) = fullest(ChannelKind::Slack);
    assert_eq!(format!("{title}\n\n{body}").chars().count(), 40_000);
    assert_eq!(fullest(ChannelKind::Ntfy).1.len(), 4096);
    let (title, body) = fullest(ChannelKind::Teams);
    assert!(title.len() + body.len() < 27_000);
}

/// Texts of what is hard to cut: flags, skin tones, joined emoji, marks, Hangul, line ends.
fn hard() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a"),
        Just(" "),
        Just("\r\n"),
        Just("é"),
        Just("e\u{301}"),
        Just("🇵"),
        Just("🇭"),
        Just("👍"),
        Just("🏽"),
        Just("\u{200D}"),
        Just("👩"),
        Just("\u{FE0F}"),
        Just("\u{1100}"),
        Just("\u{1161}"),
        Just("नि"),
        Just("\u{600}"),
        Just("𝔘"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_split_and_nothing_more_would_fit(text in hard(), room in 0..60_usize, bytes: bool) {
        let limit = if bytes { Bytes(room) } else { Characters(room) };
        let Trimmed { text: left, cut } = trim(&text, limit);
        prop_assert!(limit.fits(&left));
        prop_assert_eq!(cut, !limit.fits(&text));
        if !cut {
            prop_assert_eq!(left, text);
        } else if let Some(kept) = left.strip_suffix(ELLIPSIS) {
            let is_blank = |cluster: &&str| cluster.trim().is_empty();
            let (whole, rest) = text.split_at(kept.len());
            prop_assert_eq!(whole, kept);
            prop_assert!(kept.is_empty() || text.grapheme_indices(true).any(|(start, _)| start == kept.len()));
            prop_assert!(!kept.graphemes(true).next_back().is_some_and(|last| is_blank(&last)));
            let blank: usize = rest.graphemes(true).take_while(is_blank).map(str::len).sum();
            if let Some(next) = rest.graphemes(true).find(|cluster| !is_blank(cluster)) {
                let more = text.get(..kept.len() + blank + next.len()).unwrap();
                prop_assert!(!limit.fits(&[more, ELLIPSIS].concat()));
            }
        } else {
            prop_assert!(left.is_empty() && !limit.fits(ELLIPSIS));
        }
    }
}
