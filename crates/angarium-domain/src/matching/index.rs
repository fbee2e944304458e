//! Many subscriptions, found by what an event says.
//!
//! Each subscription is posted under terms of which an event that it matches has at least one: an exact value of a field, a
//! keyword, an attribute, or, if its conditions give nothing better, the event's type. Where having the term is proof of the
//! match, only the event's type is looked at besides; otherwise the whole filter is. The few whose filters give no term at all
//! (beginnings, endings, negations, and those that let everything through) are looked at for each event.
//!
//! Terms come and go with their subscriptions; nothing is ever built anew.
//!
//! Deliberately absent: a plain loop for feeds with few subscriptions. Below some fifty it would be faster, by less than two
//! microseconds an event, which nobody notices beside a commit (`benches/matching.rs` has both).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::terms::{About, Posted, Term, Terms, count};
use super::{Clause, Matcher, Place, Reading, Way, ways_of};
use crate::event::Event;
use crate::feed::Feed;
use crate::filter::{Condition, Filter, MatchMode};
use crate::text::EventType;

/// All active subscriptions of one feed. When the feed changes, its index is made anew.
#[derive(Debug, Default)]
pub struct Index {
    live: Part,
    /// Those that see test events, and no others.
    test: Part,
}

impl Index {
    /// Puts a subscription in, in the place of what it was before. `test` subscriptions see test events alone.
    pub fn insert(&mut self, key: i64, filter: &Filter, feed: &Feed, test: bool) {
        self.remove(key);
        let part = if test { &mut self.test } else { &mut self.live };
        part.insert(key, filter, feed);
    }

    /// Takes a subscription out, if it is in.
    pub fn remove(&mut self, key: i64) {
        self.live.remove(key);
        self.test.remove(key);
    }

    /// The keys of the subscriptions that the event matches, rising.
    pub fn matches(&self, event: &Event) -> Vec<i64> {
        if event.test { self.test.matches(event) } else { self.live.matches(event) }
    }

    /// How many are in.
    pub fn len(&self) -> usize {
        self.live.places.len() + self.test.places.len()
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Debug, Default)]
struct Part {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Numbers of slots, by key.
    places: HashTable<u32>,
    hashes: RandomState,
    /// How each field that the feed declares is searched.
    ways: Option<Arc<[Way]>>,
    /// The sets of types that subscriptions are for, each once.
    types: HashSet<Arc<Vec<EventType>>>,
    terms: Terms,
}

#[derive(Debug, Default)]
struct Slot {
    key: i64,
    /// The types that it is for, in order; nothing for every type.
    types: Option<Arc<Vec<EventType>>>,
    /// What is looked at besides, with no types of its own; nothing where its terms are proof.
    rule: Option<Box<Matcher>>,
    /// Where it stands among the terms.
    posted: Box<[Posted]>,
}

impl Part {
    fn insert(&mut self, key: i64, filter: &Filter, feed: &Feed) {
        let ways = self.ways.get_or_insert_with(|| ways_of(feed));
        let matcher = Matcher::without_types(filter, feed, ways);
        let number = self.free.pop().unwrap_or(count(self.slots.len()));
        let (terms, is_proof) = cover(&matcher, &filter.event_types);
        let mut posted = Vec::with_capacity(terms.len());
        posted.extend(terms.into_iter().filter_map(|term| self.terms.post(term, number)));
        let types = self.types_of(filter);
        let slot = Slot { key, types, rule: (!is_proof).then(|| Box::new(matcher)), posted: posted.into() };
        match self.slots.get_mut(number as usize) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        let hash_of = |number: &u32| self.hashes.hash_one(key_of(&self.slots, *number));
        self.places.insert_unique(self.hashes.hash_one(key), number, hash_of);
    }

    fn remove(&mut self, key: i64) {
        if self.places.is_empty() {
            return;
        }
        let is_it = |number: &u32| key_of(&self.slots, *number) == key;
        let Ok(entry) = self.places.find_entry(self.hashes.hash_one(key), is_it) else { return };
        let (number, _) = entry.remove();
        let Some(emptied) = self.slots.get_mut(number as usize).map(std::mem::take) else { return };
        for posted in emptied.posted {
            let Some(moved) = self.terms.withdraw(posted) else { continue };
            if let Some(slot) = self.slots.get_mut(moved.slot as usize) {
                moved.correct(&mut slot.posted);
            }
        }
        // The set that knows it, and the slot: nobody else is for these types.
        if let Some(types) = emptied.types.filter(|types| Arc::strong_count(types) == 2) {
            self.types.remove(&types);
        }
        self.free.push(number);
    }

    fn matches(&self, event: &Event) -> Vec<i64> {
        let Some(ways) = &self.ways else { return Vec::new() };
        let reading = Reading::of(event);
        let mut found = Vec::new();
        self.terms.found_by(&reading, ways).for_each(|slots| found.extend_from_slice(slots));
        found.sort_unstable();
        found.dedup();
        let slots = found.iter().filter_map(|number| self.slots.get(*number as usize));
        let mut keys: Vec<i64> = slots.filter(|slot| slot.passes(&reading)).map(|slot| slot.key).collect();
        keys.sort_unstable();
        keys
    }

    /// The types of a filter, in order, in the one set that all share who are for these.
    fn types_of(&mut self, filter: &Filter) -> Option<Arc<Vec<EventType>>> {
        if filter.event_types.is_empty() {
            return None;
        }
        if let Some(known) = self.types.get(&filter.event_types) {
            return Some(Arc::clone(known));
        }
        let mut types = filter.event_types.clone();
        types.sort();
        types.dedup();
        let types = Arc::new(types);
        let known = self.types.get(&types).map(Arc::clone);
        Some(known.unwrap_or_else(|| {
            self.types.insert(Arc::clone(&types));
            types
        }))
    }
}

/// The key in a slot that is not empty.
fn key_of(slots: &[Slot], number: u32) -> i64 {
    slots.get(number as usize).map_or(0, |slot| slot.key)
}

impl Slot {
    /// Whether it is for an event that has one of its terms.
    fn passes(&self, reading: &Reading<'_>) -> bool {
        let kind = &reading.event.kind;
        self.types.as_ref().is_none_or(|types| types.binary_search(kind).is_ok())
            && self.rule.as_ref().is_none_or(|rule| rule.passes(reading))
    }
}

/// The terms of which an event that matches has at least one, and whether having one is proof but for the event's type. There
/// are none if no event can match.
fn cover<'m>(matcher: &'m Matcher, types: &'m [EventType]) -> (Vec<Term<'m>>, bool) {
    let plain = matcher.conditions.is_empty();
    if !matcher.clauses.is_empty() {
        let is_proof = plain && (matcher.mode == MatchMode::Any || matcher.clauses.len() == 1);
        let terms = match matcher.mode {
            MatchMode::Any => matcher.clauses.iter().flat_map(terms_of).collect(),
            MatchMode::All => matcher.clauses.iter().map(terms_of).min_by_key(Vec::len).unwrap_or_default(),
        };
        return (terms, is_proof);
    }
    if let Some(terms) = matcher.conditions.iter().find_map(terms_of_condition) {
        return (terms, false);
    }
    if types.is_empty() {
        return (vec![Term { about: About::Nothing, text: "" }], plain);
    }
    let types = types.iter().map(|kind| Term { about: About::Type, text: kind.as_str() });
    (types.collect(), plain)
}

/// The terms of which an event for which the clause holds has at least one, and no other event has.
fn terms_of(clause: &Clause) -> Vec<Term<'_>> {
    match clause {
        Clause::Exact(field, values) => {
            values.iter().map(|text| Term { about: About::Exact(field), text }).collect()
        }
        Clause::Keyword(Place::Field((field, way)), text) => {
            vec![Term { about: About::Keyword(field, *way), text }]
        }
        Clause::Keyword(Place::AnyField(_), text) => vec![Term { about: About::KeywordAnywhere, text }],
        Clause::Never(_) => Vec::new(),
    }
}

/// The terms of which an event for which the condition holds has at least one, if there are such.
fn terms_of_condition(condition: &Condition) -> Option<Vec<Term<'_>>> {
    match condition {
        Condition::Exact(attributes) => {
            let (name, text) = attributes.iter().next()?;
            Some(vec![Term { about: About::Attribute(name), text }])
        }
        Condition::All(inner) => inner.iter().find_map(terms_of_condition),
        Condition::Any(inner) => {
            let each: Option<Vec<Vec<Term<'_>>>> = inner.iter().map(terms_of_condition).collect();
            Some(each?.into_iter().flatten().collect())
        }
        Condition::Prefix(_) | Condition::Suffix(_) | Condition::Not(_) => None,
    }
}
