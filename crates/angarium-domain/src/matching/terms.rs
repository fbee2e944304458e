//! The terms that subscriptions are posted under, and the slots that stand under each.
//!
//! A term is a text in one of a few tables: a value of the table of `feeder`, a keyword of the table of `area`. Its text stands in
//! memory once, in its posting; one hash table over all of them holds no more than the numbers of postings. Most terms are
//! one subscription's own. A slot knows its place in each posting, so that taking it out costs the same however many
//! others stand there.
//!
//! Tables are never taken away: there are at most a few for each field of the feed.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::words::Starts;
use super::{Reading, Way};
use crate::feed::FieldMatch;
use crate::text::FieldName;

/// Something that an event has or has not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'a> {
    pub(super) about: About<'a>,
    pub(super) text: &'a str,
}

/// What a term is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum About<'a> {
    /// The field, folded, is the text.
    Exact(&'a FieldName),
    /// The field, searched in this way, holds the text.
    Keyword(&'a FieldName, FieldMatch),
    /// One of the feed's fields, each searched in its own way, holds the text.
    KeywordAnywhere,
    /// The attribute, as it is, is the text.
    Attribute(&'a str),
    /// The type is the text.
    Type,
    /// Every event has it.
    Nothing,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    posting: u32,
    /// Its place among the posting's slots.
    at: u32,
}

/// A slot that stands elsewhere now, because another was taken out.
pub(super) struct Moved {
    pub(super) slot: u32,
    from: Posted,
    to: Posted,
}

impl Moved {
    /// Corrects what the slot knows of its places.
    pub(super) fn correct(&self, places: &mut [Posted]) {
        let old = |place: &&mut Posted| place.posting == self.from.posting && place.at == self.from.at;
        if let Some(place) = places.iter_mut().find(old) {
            *place = self.to;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Terms {
    tables: Vec<Table>,
    postings: Vec<Posting>,
    /// Numbers of postings, by table and text.
    numbers: HashTable<u32>,
    /// Postings under which nothing stands.
    free: Vec<u32>,
    hashes: RandomState,
}

#[derive(Debug)]
enum Table {
    Exact(FieldName),
    Keyword(FieldName, FieldMatch, Starts),
    KeywordAnywhere(Starts),
    Attribute(String),
    Type,
    Nothing,
}

#[derive(Debug)]
struct Posting {
    text: Box<str>,
    slots: Slots,
    table: u32,
    /// Of table and text, so that the hash table can grow without reading them.
    hash: u32,
}

#[derive(Debug)]
enum Slots {
    One(u32),
    #[expect(clippy::box_collection, reason = "most postings hold one slot, and are to be small")]
    Many(Box<Vec<u32>>),
}

impl Terms {
    /// Posts a slot under a term; None if it stands there already.
    pub(super) fn post(&mut self, term: Term<'_>, slot: u32) -> Option<Posted> {
        let table = self.table(term.about);
        let hash = self.hash(table, term.text);
        let Some(number) = self.find(hash, table, term.text) else {
            let posting = Posting { text: term.text.into(), slots: Slots::One(slot), table, hash };
            return Some(Posted { posting: self.add(posting), at: 0 });
        };
        let at = self.postings.get_mut(number as usize)?.slots.push(slot)?;
        Some(Posted { posting: number, at })
    }

    /// Takes a slot out of a posting. A term under which nothing stands any more is forgotten; otherwise another slot may
    /// have moved into the place.
    pub(super) fn withdraw(&mut self, posted: Posted) -> Option<Moved> {
        let posting = self.postings.get_mut(posted.posting as usize)?;
        if let Slots::Many(slots) = &mut posting.slots {
            let last = slots.pop()?;
            if !slots.is_empty() {
                let place = slots.get_mut(posted.at as usize)?;
                *place = last;
                let from = Posted { at: count(slots.len()), ..posted };
                return Some(Moved { slot: last, from, to: posted });
            }
        }
        posting.slots = Slots::One(0);
        let (text, hash) = (std::mem::take(&mut posting.text), posting.hash);
        let table = self.tables.get_mut(posting.table as usize);
        table.and_then(Table::starts).into_iter().for_each(|starts| starts.remove(&text));
        if let Ok(entry) = self.numbers.find_entry(wide(hash), |number| *number == posted.posting) {
            entry.remove();
        }
        self.free.push(posted.posting);
        None
    }

    /// The slots under every term that the event has, each term once, however often a text holds it.
    pub(super) fn found_by(&self, reading: &Reading<'_>, ways: &[Way]) -> impl Iterator<Item = &[u32]> {
        let mut found = Vec::new();
        for (number, table) in (0..).zip(&self.tables) {
            let mut look_up = |text: &str| found.extend(self.find(self.hash(number, text), number, text));
            match table {
                Table::Exact(field) => reading.folded(field).into_iter().for_each(look_up),
                Table::Keyword(field, way, starts) => {
                    if let Some(text) = reading.folded(field) {
                        starts.words_in(text, *way, look_up);
                    }
                }
                Table::KeywordAnywhere(starts) => {
                    let texts = ways.iter().filter_map(|(field, way)| Some((reading.folded(field)?, *way)));
                    texts.for_each(|(text, way)| starts.words_in(text, way, &mut look_up));
                }
                Table::Attribute(name) => reading.attribute(name).into_iter().for_each(|text| look_up(&text)),
                Table::Type => look_up(reading.event.kind.as_str()),
                Table::Nothing => look_up(""),
            }
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|number| Some(self.postings.get(number as usize)?.slots.as_slice()))
    }

    /// The number of a table, which is made if need be.
    fn table(&mut self, about: About<'_>) -> u32 {
        let number = self.tables.iter().position(|table| table.is_about(about)).unwrap_or_else(|| {
            self.tables.push(Table::new(about));
            self.tables.len() - 1
        });
        count(number)
    }

    fn add(&mut self, posting: Posting) -> u32 {
        let table = self.tables.get_mut(posting.table as usize);
        table.and_then(Table::starts).into_iter().for_each(|starts| starts.add(&posting.text));
        let hash = posting.hash;
        let number = self.free.pop().unwrap_or(count(self.postings.len()));
        match self.postings.get_mut(number as usize) {
            Some(place) => *place = posting,
            None => self.postings.push(posting),
        }
        let hash_of =
            |number: &u32| self.postings.get(*number as usize).map_or(0, |posting| wide(posting.hash));
        self.numbers.insert_unique(wide(hash), number, hash_of);
        number
    }

    fn find(&self, hash: u32, table: u32, text: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            let posting = self.postings.get(*number as usize);
            posting.is_some_and(|one| one.hash == hash && one.table == table && &*one.text == text)
        };
        self.numbers.find(wide(hash), is_it).copied()
    }

    fn hash(&self, table: u32, text: &str) -> u32 {
        (self.hashes.hash_one((table, text)) >> 32) as u32
    }
}

impl Table {
    fn new(about: About<'_>) -> Table {
        match about {
            About::Exact(field) => Table::Exact(field.clone()),
            About::Keyword(field, way) => Table::Keyword(field.clone(), way, Starts::default()),
            About::KeywordAnywhere => Table::KeywordAnywhere(Starts::default()),
            About::Attribute(name) => Table::Attribute(name.to_owned()),
            About::Type => Table::Type,
            About::Nothing => Table::Nothing,
        }
    }

    fn starts(&mut self) -> Option<&mut Starts> {
        match self {
            Table::Keyword(_, _, starts) | Table::KeywordAnywhere(starts) => Some(starts),
            _ => None,
        }
    }

    fn is_about(&self, about: About<'_>) -> bool {
        match (self, about) {
            (Table::Exact(own), About::Exact(field)) => own == field,
            (Table::Keyword(own, own_way, _), About::Keyword(field, way)) => own == field && *own_way == way,
            (Table::Attribute(own), About::Attribute(name)) => own == name,
            (Table::KeywordAnywhere(_), About::KeywordAnywhere)
            | (Table::Type, About::Type)
            | (Table::Nothing, About::Nothing) => true,
            _ => false,
        }
    }
}

impl Slots {
    fn as_slice(&self) -> &[u32] {
        match self {
            Slots::One(slot) => std::slice::from_ref(slot),
            Slots::Many(slots) => slots,
        }
    }

    /// Puts a slot at the end; its place, or None if it is the one that was put there last.
    fn push(&mut self, slot: u32) -> Option<u32> {
        let all = self.as_slice();
        let at = count(all.len());
        if all.last() == Some(&slot) {
            return None;
        }
        match self {
            Slots::One(first) => *self = Slots::Many(Box::new(vec![*first, slot])),
            Slots::Many(slots) => slots.push(slot),
        }
        Some(at)
    }
}

/// A hash with as many bits as the hash table wants: it looks at both ends.
fn wide(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(terms: &Terms, text: &str) -> Vec<u32> {
        let number = terms.find(terms.hash(0, text), 0, text);
        let mut slots =
            number.map_or(Vec::new(), |number| terms.postings[number as usize].slots.as_slice().to_vec());
        slots.sort_unstable();
        slots
    }

    /// Whatever the order in which slots are taken out, those that are left stand under their terms, and in the end nothing does.
    #[test]
    fn what_goes_leaves_nothing_behind() {
        const SLOTS: u32 = 50;
        let mut terms = Terms::default();
        let term = |text| Term { about: About::KeywordAnywhere, text };
        let own: Vec<String> = (0..SLOTS).map(|slot| format!("word {slot}")).collect();
        let mut places: Vec<Vec<Posted>> = (0..SLOTS)
            .map(|slot| {
                ["shared", "shared", &own[slot as usize]]
                    .into_iter()
                    .filter_map(|text| terms.post(term(text), slot))
                    .collect()
            })
            .collect();
        assert!(places.iter().all(|places| places.len() == 2), "the same term twice is once");
        let mut left: Vec<u32> = (0..SLOTS).collect();
        for step in 0..SLOTS {
            let slot = left.remove((step as usize * 7) % left.len());
            for place in std::mem::take(&mut places[slot as usize]) {
                if let Some(moved) = terms.withdraw(place) {
                    moved.correct(&mut places[moved.slot as usize]);
                }
            }
            assert_eq!(under(&terms, "shared"), left);
            for slot in 0..SLOTS {
                assert_eq!(under(&terms, &own[slot as usize]) == [slot], left.contains(&slot));
            }
        }
        assert!(terms.numbers.is_empty());
        assert!(matches!(&terms.tables[..], [Table::KeywordAnywhere(starts)] if starts.is_empty()));
        assert_eq!(terms.free.len(), terms.postings.len());
    }
}
