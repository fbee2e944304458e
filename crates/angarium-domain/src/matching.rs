//! Finding the subscriptions that an event matches (FP-04, FP-20).
//!
//! A [`Matcher`] is one filter, compiled; it can say why. An [`Index`] is many, found by what an event says: what an event
//! costs follows what it matches, not how many subscriptions there are. The matcher is the definition, and the index must
//! agree with it; a test holds them against each other.

mod index;
mod reading;
mod terms;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use crate::event::Event;
use crate::feed::{Feed, FieldMatch};
use crate::filter::{ANY_FIELD, ATTRIBUTES, Condition, Filter, MatchMode};
use crate::fold::fold;
use crate::text::{EventType, FieldName};

pub use index::Index;
use reading::Reading;

/// A filter, ready to be held against events of one feed.
#[derive(Clone, Debug)]
pub struct Matcher {
    types: Vec<EventType>,
    mode: MatchMode,
    clauses: Vec<Clause>,
    conditions: Vec<Condition>,
}

/// One of the conditions that a filter's mode joins.
#[derive(Clone, Debug)]
enum Clause {
    /// The field is one of these values, folded.
    Exact(FieldName, Vec<String>),
    /// The word, folded, stands there.
    Keyword(Place, String),
    /// It is about a field that the feed lacks, and never holds; in words.
    Never(String),
}

/// Where a keyword is looked for.
#[derive(Clone, Debug)]
enum Place {
    Field(Way),
    /// In each of the feed's fields.
    AnyField(Arc<[Way]>),
}

/// A field, and how keywords are looked for in it.
type Way = (FieldName, FieldMatch);

/// What a filter says about an event, in words for whoever asks why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The event passes.
    pub matches: bool,
    /// Each clause, and whether it holds.
    pub clauses: Vec<(String, bool)>,
}

impl Matcher {
    /// Compiles a filter for a feed. A clause about a field that the feed lacks never holds.
    pub fn compile(filter: &Filter, feed: &Feed) -> Matcher {
        let types = filter.event_types.clone();
        Matcher { types, ..Matcher::without_types(filter, feed, &ways_of(feed)) }
    }

    /// Compiles what a filter says beside its types, for a feed whose fields are searched in these ways.
    fn without_types(filter: &Filter, feed: &Feed, ways: &Arc<[Way]>) -> Matcher {
        let mut clauses = Vec::with_capacity(filter.fields.len() + filter.keywords.len());
        for (name, values) in &filter.fields {
            clauses.push(match feed.field(name) {
                Some((own, _)) => {
                    Clause::Exact(own.clone(), values.iter().map(|value| fold(value)).collect())
                }
                None => {
                    Clause::Never(format!("{name}, a field that the feed lacks, is {}", values.join(" or ")))
                }
            });
        }
        for (name, words) in &filter.keywords {
            let place = place(name, feed, ways);
            clauses.extend(words.iter().map(|word| match &place {
                Some(place) => Clause::Keyword(place.clone(), fold(word)),
                None => Clause::Never(format!("{name}, a field that the feed lacks, holds {word:?}")),
            }));
        }
        let conditions = filter.conditions.iter().map(|condition| by_own_names(condition, feed)).collect();
        Matcher { types: Vec::new(), mode: filter.mode, clauses, conditions }
    }

    /// What the filter says about an event, clause by clause.
    pub fn judge(&self, event: &Event) -> Judgement {
        let reading = Reading::of(event);
        let mut clauses = Vec::new();
        if !self.types.is_empty() {
            let types: Vec<&str> = self.types.iter().map(EventType::as_str).collect();
            clauses.push((format!("the event's type is {}", types.join(" or ")), self.has_type(event)));
        }
        clauses.extend(self.clauses.iter().map(|clause| (clause.words(), clause.holds(&reading))));
        clauses.extend(self.conditions.iter().map(|one| (in_words(one), holds(one, &reading))));
        Judgement { matches: self.passes(&reading), clauses }
    }

    fn has_type(&self, event: &Event) -> bool {
        self.types.is_empty() || self.types.contains(&event.kind)
    }

    fn passes(&self, reading: &Reading<'_>) -> bool {
        let joined = match self.mode {
            _ if self.clauses.is_empty() => true,
            MatchMode::Any => self.clauses.iter().any(|clause| clause.holds(reading)),
            MatchMode::All => self.clauses.iter().all(|clause| clause.holds(reading)),
        };
        joined && self.has_type(reading.event) && self.conditions.iter().all(|one| holds(one, reading))
    }
}

fn ways_of(feed: &Feed) -> Arc<[Way]> {
    feed.fields.iter().map(|(name, field)| (name.clone(), field.matching)).collect()
}

/// Where the keywords under a name are looked for; nowhere if the feed lacks the field.
fn place(name: &str, feed: &Feed, ways: &Arc<[Way]>) -> Option<Place> {
    if name == ANY_FIELD {
        return Some(Place::AnyField(Arc::clone(ways)));
    }
    let name = FieldName::parse(name).ok()?;
    let (own, field) = feed.field(&name)?;
    Some(Place::Field((own.clone(), field.matching)))
}

impl Clause {
    fn holds(&self, reading: &Reading<'_>) -> bool {
        let holds = |(field, way): &Way, word: &str| {
            reading.folded(field).is_some_and(|text| words::holds(text, word, *way))
        };
        match self {
            Clause::Exact(field, values) => {
                reading.folded(field).is_some_and(|text| values.iter().any(|value| value == text))
            }
            Clause::Keyword(Place::Field(way), word) => holds(way, word),
            Clause::Keyword(Place::AnyField(ways), word) => ways.iter().any(|way| holds(way, word)),
            Clause::Never(_) => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Clause::Exact(field, values) => {
                let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                format!("{field} is {}", values.join(" or "))
            }
            Clause::Keyword(Place::Field((field, FieldMatch::Exact)), word) => format!("{field} is {word:?}"),
            Clause::Keyword(Place::Field((field, FieldMatch::Word)), word) => {
                format!("{field} holds the word {word:?}")
            }
            Clause::Keyword(Place::Field((field, FieldMatch::Substring)), word) => {
                format!("{field} holds {word:?}")
            }
            Clause::Keyword(Place::AnyField(_), word) => format!("a field holds {word:?}"),
            Clause::Never(words) => words.clone(),
        }
    }
}

/// A condition that calls each field by its own name. What every event has goes by that name before any alias does.
fn by_own_names(condition: &Condition, feed: &Feed) -> Condition {
    let own = |name: &String| {
        let field = FieldName::parse(name).ok().filter(|_| !ATTRIBUTES.contains(&name.as_str()));
        let found = field.as_ref().and_then(|name| feed.field(name));
        found.map_or_else(|| name.clone(), |(own, _)| own.as_str().to_owned())
    };
    let renamed = |attributes: &std::collections::BTreeMap<String, String>| {
        attributes.iter().map(|(name, value)| (own(name), value.clone())).collect()
    };
    let all = |inner: &[Condition]| inner.iter().map(|one| by_own_names(one, feed)).collect();
    match condition {
        Condition::Exact(attributes) => Condition::Exact(renamed(attributes)),
        Condition::Prefix(attributes) => Condition::Prefix(renamed(attributes)),
        Condition::Suffix(attributes) => Condition::Suffix(renamed(attributes)),
        Condition::All(inner) => Condition::All(all(inner)),
        Condition::Any(inner) => Condition::Any(all(inner)),
        Condition::Not(inner) => Condition::Not(Box::new(by_own_names(inner, feed))),
    }
}

/// Whether a condition of the CloudEvents dialects holds: byte by byte, and never for an attribute that is not there.
fn holds(condition: &Condition, reading: &Reading<'_>) -> bool {
    let each = |attributes: &std::collections::BTreeMap<String, String>, test: fn(&str, &str) -> bool| {
        attributes.iter().all(|(name, value)| reading.attribute(name).is_some_and(|text| test(&text, value)))
    };
    match condition {
        Condition::Exact(attributes) => each(attributes, |text, value| text == value),
        Condition::Prefix(attributes) => each(attributes, |text, value| text.starts_with(value)),
        Condition::Suffix(attributes) => each(attributes, |text, value| text.ends_with(value)),
        Condition::All(inner) => inner.iter().all(|one| holds(one, reading)),
        Condition::Any(inner) => inner.iter().any(|one| holds(one, reading)),
        Condition::Not(inner) => !holds(inner, reading),
    }
}

fn in_words(condition: &Condition) -> String {
    let each = |attributes: &std::collections::BTreeMap<String, String>, verb: &str| {
        let parts: Vec<String> =
            attributes.iter().map(|(name, value)| format!("{name} {verb} {value:?}")).collect();
        parts.join(" and ")
    };
    let joined = |inner: &[Condition], word: &str| {
        let parts: Vec<String> = inner.iter().map(in_words).collect();
        format!("({})", parts.join(word))
    };
    match condition {
        Condition::Exact(attributes) => each(attributes, "is exactly"),
        Condition::Prefix(attributes) => each(attributes, "begins with"),
        Condition::Suffix(attributes) => each(attributes, "ends with"),
        Condition::All(inner) => joined(inner, " and "),
        Condition::Any(inner) => joined(inner, " or "),
        Condition::Not(inner) => format!("not ({})", in_words(inner)),
    }
}
