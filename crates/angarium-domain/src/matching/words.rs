//! Keywords in texts, both folded: one keyword in a text, and of very many keywords those that stand in a text.
//!
//! Keywords are found by walking over the text once: at each place the next bytes say of which lengths there are keywords that
//! begin so, and each of these is looked up ([`super::terms`]). That needs no automaton to be built anew whenever a keyword comes
//! or goes.

use std::collections::HashMap;

use crate::feed::FieldMatch;
use crate::fold::{ends_alone, is_of_a_word, stands_alone};

/// Whether the text holds the word in this way.
pub(super) fn holds(text: &str, word: &str, way: FieldMatch) -> bool {
    match way {
        FieldMatch::Exact => text == word,
        FieldMatch::Substring => text.contains(word),
        FieldMatch::Word => holds_whole(text, word),
    }
}

/// Looks at every place, for a word may overlap itself: `a-a` stands alone in `ba-a-a` at the second place only.
fn holds_whole(text: &str, word: &str) -> bool {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(word)) {
        let start = from + at;
        if stands_alone(text, start, start + word.len()) {
            return true;
        }
        from = start + word.chars().next().map_or(1, char::len_utf8);
    }
    false
}

/// Bytes of a keyword's beginning by which it is found.
const START: usize = 4;

/// How keywords begin and how long they are: enough to know where in a text one may stand.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// By beginning: how many keywords there are of each length.
    lengths: HashMap<[u8; START], Vec<(u16, u32)>>,
    /// How many keywords are shorter than a beginning, by length.
    short: [u32; START],
}

impl Starts {
    /// Adds a keyword that is not among them.
    pub(super) fn add(&mut self, word: &str) {
        let Some(start) = start(word) else {
            self.short.get_mut(word.len()).into_iter().for_each(|count| *count += 1);
            return;
        };
        let (length, lengths) = (length(word), self.lengths.entry(start).or_default());
        match lengths.iter_mut().find(|(known, _)| *known == length) {
            Some((_, count)) => *count += 1,
            None => lengths.push((length, 1)),
        }
    }

    /// Takes a keyword out that is among them.
    pub(super) fn remove(&mut self, word: &str) {
        let Some(start) = start(word) else {
            self.short.get_mut(word.len()).into_iter().for_each(|count| *count -= 1);
            return;
        };
        let Some(lengths) = self.lengths.get_mut(&start) else { return };
        if let Some((_, count)) = lengths.iter_mut().find(|(known, _)| *known == length(word)) {
            *count -= 1;
        }
        lengths.retain(|(_, count)| *count > 0);
        if lengths.is_empty() {
            self.lengths.remove(&start);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty() && self.short == [0; START]
    }

    /// Whatever in the text may be one of the keywords, found in this way; one may come more than once.
    pub(super) fn words_in(&self, text: &str, way: FieldMatch, mut found: impl FnMut(&str)) {
        if way == FieldMatch::Exact {
            return found(text);
        }
        let whole_words = way == FieldMatch::Word;
        let mut after_a_word = false;
        for (place, first) in text.char_indices() {
            if !(whole_words && after_a_word)
                && let Some(rest) = text.get(place..)
            {
                self.beginnings(rest, |word| {
                    if !whole_words || ends_alone(rest, word.len()) {
                        found(word);
                    }
                });
            }
            after_a_word = is_of_a_word(first);
        }
    }

    /// The beginnings of `rest` that are as long as keywords that begin so.
    fn beginnings<'t>(&self, rest: &'t str, mut found: impl FnMut(&'t str)) {
        let short = (0..).zip(&self.short).filter(|(_, count)| **count > 0).map(|(length, _)| length);
        short.filter_map(|length| rest.get(..length)).for_each(&mut found);
        let lengths = start(rest).and_then(|start| self.lengths.get(&start));
        let lengths = lengths.into_iter().flatten().map(|(length, _)| usize::from(*length));
        lengths.filter_map(|length| rest.get(..length)).for_each(&mut found);
    }
}

fn start(word: &str) -> Option<[u8; START]> {
    word.as_bytes().first_chunk().copied()
}

/// The length of a keyword in bytes; filters allow no longer ones.
fn length(word: &str) -> u16 {
    u16::try_from(word.len()).unwrap_or(u16::MAX)
}
