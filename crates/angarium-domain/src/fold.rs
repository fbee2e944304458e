//! Folding: texts that differ in case or diacritics alone become equal, whatever the machine's language (FP-04).
//!
//! A text is taken apart into letters and marks (NFD), marks that stand on, under or through a letter are dropped, letters
//! become small ones, and what is left is put together again. The table in `docs/filters.md` shows what follows from
//! that; these answers are fixed by tests.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// The folded form of a text: its white space is single spaces, with none at the ends.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return fold_ascii(text);
    }
    let mut letters = String::with_capacity(text.len());
    for c in text.nfd().filter(|c| !is_diacritic(*c)) {
        match c {
            'ß' | 'ẞ' => letters.push_str("ss"),
            'ς' => letters.push('σ'),
            c if c.is_whitespace() => letters.push(' '),
            c => letters.extend(c.to_lowercase()),
        }
    }
    let letters: String = letters.nfc().collect();
    single_spaced(&letters)
}

/// Whether nothing is left of a text when it is folded.
pub(crate) fn is_blank(text: &str) -> bool {
    if text.is_ascii() { text.trim().is_empty() } else { fold(text).is_empty() }
}

fn fold_ascii(text: &str) -> String {
    let plain = !text.bytes().any(|b| b.is_ascii_uppercase() || (b != b' ' && char::from(b).is_whitespace()));
    if plain && !text.contains("  ") && text.trim_matches(' ').len() == text.len() {
        return text.to_owned();
    }
    single_spaced(&text.to_ascii_lowercase())
}

fn single_spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.push_str(word);
    }
    spaced
}

/// A mark without which the letter is still the same one. By their combining class (Unicode 15, table of canonical
/// combining classes): not the signs that make another letter, as nukta (7), the voicing marks of kana (8), virama (9), and
/// the vowels of Telugu, Thai, Lao and Tibetan (84 to 132, but for the tone marks 107 and 122).
fn is_diacritic(c: char) -> bool {
    matches!(canonical_combining_class(c), 1 | 10..=36 | 107 | 122 | 200..=240)
}

/// Whether what stands there in `text`, folded, has no letter, digit, mark or underscore on either side.
pub(crate) fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).and_then(|before| before.chars().next_back());
    !before.is_some_and(is_of_a_word) && ends_alone(text, end)
}

/// Whether no letter, digit, mark or underscore stands there in `text`, folded.
pub(crate) fn ends_alone(text: &str, end: usize) -> bool {
    let after = text.get(end..).and_then(|after| after.chars().next());
    !after.is_some_and(is_of_a_word)
}

/// Whether it is a letter, a digit, a mark or an underscore.
pub(crate) fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        fold(a) == fold(b)
    }

    /// C014: the same under every language of the machine; İ is i with a dot that is dropped, ı is a letter of its own.
    #[test]
    fn c014_the_turkish_i() {
        assert!(same("istanbul", "ISTANBUL"));
        assert!(same("istanbul", "İSTANBUL"));
        assert!(!same("istanbul", "ıstanbul"));
        assert_eq!(fold("İ"), "i");
    }

    /// C018: the written table.
    #[test]
    fn c018_letters_that_join_or_grow() {
        assert!(same("strasse", "Straße"));
        assert!(same("STRASSE", "straẞe"));
        assert!(!same("fish", "ﬁsh"));
        assert!(!same("schoen", "schön"));
        assert!(same("schon", "schön"));
        assert!(same("ΟΔΟΣ", "οδός"));
        assert!(same("Ångström", "angstrom"));
        assert!(same("cafe\u{301}", "café"));
        assert!(same("мой", "мои") && same("ёлка", "елка"), "й is и with a breve");
        assert!(same("שָׁלוֹם", "שלום") && same("كَتَبَ", "كتب"), "points");
        assert!(same("น้ำ", "นำ"), "Thai tone marks");
        assert!(!same("ดุ", "ดู") && !same("ดุ", "ด"), "Thai vowels");
        assert!(!same("øre", "ore") && !same("łuk", "luk") && !same("æ", "ae"), "letters of their own");
        assert!(!same("ハ", "バ"), "another letter, not another accent");
        assert!(same("한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"));
    }

    #[test]
    fn white_space_is_single() {
        assert_eq!(fold("  Feeder\t 14 \n"), "feeder 14");
        assert_eq!(fold(" Süd\u{a0}\u{2003}West "), "sud west");
        assert_eq!(fold("feeder 14"), "feeder 14");
        assert_eq!(fold("a\u{b}b"), fold("\u{e1}\u{b}b"), "the short way for ASCII says the same");
        assert_eq!(fold("  \t"), "");
    }
}
