//! The feed catalogue: where events come from, of which types they are, and by which fields they can be filtered (FP-01).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::complaints::{Complaint, Members, duration, shown};
use crate::text::{EventSource, EventType, FeedId, FieldName};

/// A stream of events of one sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// Stable, chosen by whoever declares it.
    pub id: FeedId,
    /// For people.
    pub name: String,
    /// The types that its events have, at least one.
    pub event_types: Vec<EventType>,
    /// The fields by which its events can be filtered.
    pub fields: BTreeMap<FieldName, Field>,
    /// Whether users may subscribe, and not only operators.
    pub user_subscriptions: bool,
    /// Beginnings of `source` by which a CloudEvent without a feed is told to belong here.
    pub sources: Vec<String>,
    /// Types (the keys) whose events make queued ones of other types about the same subject untrue (FP-22).
    pub supersedes: BTreeMap<EventType, Vec<EventType>>,
    /// How long after it happened an event is worth telling, unless it says so itself.
    pub ttl: Option<Duration>,
    /// While it is off, events are stored and nobody is told (FP-21).
    pub enabled: bool,
}

/// A field by which events can be filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// How a keyword is looked for in it.
    pub matching: FieldMatch,
    /// Another name under which filters and payloads may call it.
    pub alias: Option<FieldName>,
}

/// How a keyword is looked for in a field. Case and diacritics never matter (FP-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldMatch {
    /// The field equals it.
    Exact,
    /// It stands in the field as whole words.
    Word,
    /// It stands anywhere in the field.
    Substring,
}

/// The type of announcements that an operator makes by hand; every feed has it (FP-17).
pub const MANUAL_ANNOUNCEMENT: &str = "ManualAnnouncement";

/// Types of one feed, at most; also types that one type supersedes.
const MOST_TYPES: usize = 200;
/// Fields of one feed, at most.
const MOST_FIELDS: usize = 64;
/// Beginnings of `source` of one feed, at most.
const MOST_SOURCES: usize = 100;

const MATCHINGS: [(&str, FieldMatch); 3] =
    [("exact", FieldMatch::Exact), ("word", FieldMatch::Word), ("substring", FieldMatch::Substring)];

impl Feed {
    /// Reads a feed from a JSON object: `event_types` is needed; `name` is the id, `enabled` true, and the rest nothing,
    /// unless said otherwise. Keywords look for the whole field unless its `match` is another.
    pub fn parse(id: FeedId, json: &str) -> Result<Feed, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let feed = read(id, &mut members);
        members.finish_with(feed)
    }

    /// Its JSON object, as [`Self::parse`] reads it. The id is not among them.
    pub fn to_json(&self) -> String {
        let written = Written {
            name: (self.name != self.id.as_str()).then_some(&self.name),
            event_types: words(&self.event_types),
            fields: self
                .fields
                .iter()
                .map(|(name, field)| (name.as_str(), WrittenField::of(field)))
                .collect(),
            user_subscriptions: self.user_subscriptions.then_some(true),
            sources: &self.sources,
            supersedes: self.supersedes.iter().map(|(by, types)| (by.as_str(), words(types))).collect(),
            ttl: self.ttl.map(duration::write),
            enabled: (!self.enabled).then_some(false),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Whether its events can be of this type.
    pub fn has_type(&self, kind: &EventType) -> bool {
        kind.as_str() == MANUAL_ANNOUNCEMENT || self.event_types.contains(kind)
    }

    /// The types whose later events make one of type `kind` untrue.
    pub fn superseding(&self, kind: &EventType) -> Vec<&EventType> {
        let replaces = |(_, replaced): &(&EventType, &Vec<EventType>)| replaced.contains(kind);
        self.supersedes.iter().filter(replaces).map(|(by, _)| by).collect()
    }

    /// The name of the field that is called `name`, by itself or by its alias.
    pub fn field(&self, name: &FieldName) -> Option<(&FieldName, &Field)> {
        let called = |(own, field): &(&FieldName, &Field)| *own == name || field.alias.as_ref() == Some(name);
        self.fields.get_key_value(name).or_else(|| self.fields.iter().find(called))
    }
}

fn read(id: FeedId, members: &mut Members<'_>) -> Option<Feed> {
    let name = members.label("name");
    let event_types = event_types(members);
    let fields = fields(members);
    let user_subscriptions = members.flag("user_subscriptions");
    let sources = members.texts("sources", 0..=MOST_SOURCES, |text| {
        EventSource::parse(text).map(|source| source.as_str().to_owned())
    });
    let supersedes = supersedes(members);
    let ttl = members.lasting("ttl");
    let enabled = members.flag("enabled");
    let feed = Feed {
        name: name.unwrap_or_else(|| id.to_string()),
        id,
        event_types: event_types?,
        fields,
        user_subscriptions: user_subscriptions.unwrap_or(false),
        sources: sources.unwrap_or_default(),
        supersedes,
        ttl,
        enabled: enabled.unwrap_or(true),
    };
    check_aliases(&feed, members);
    check_supersedes(&feed, members);
    Some(feed)
}

fn event_types(members: &mut Members<'_>) -> Option<Vec<EventType>> {
    let raw = members.required_raw("event_types")?;
    let types = members.texts_of("event_types", raw, 1..=MOST_TYPES, EventType::parse)?;
    refuse_repeated("event_types", &types, members);
    Some(types)
}

fn fields(members: &mut Members<'_>) -> BTreeMap<FieldName, Field> {
    let mut fields = BTreeMap::new();
    for (name, raw) in members.entries("fields", 0..=MOST_FIELDS).unwrap_or_default() {
        let path = format!("fields.{}", shown(&name));
        let field = members.object_of(&path, raw, |members| Field {
            matching: members.choice("match", &MATCHINGS).unwrap_or(FieldMatch::Exact),
            alias: members.text("alias", FieldName::parse),
        });
        match (FieldName::parse(&name), field) {
            (Ok(name), Some(field)) => _ = fields.insert(name, field),
            (Ok(_), None) => {}
            (Err(error), _) => members.refuse(&path, error),
        }
    }
    fields
}

fn supersedes(members: &mut Members<'_>) -> BTreeMap<EventType, Vec<EventType>> {
    let mut supersedes = BTreeMap::new();
    for (by, raw) in members.entries("supersedes", 0..=MOST_TYPES).unwrap_or_default() {
        let path = format!("supersedes.{}", shown(&by));
        let types = members.texts_of(&path, raw, 1..=MOST_TYPES, EventType::parse).unwrap_or_default();
        refuse_repeated(&path, &types, members);
        match EventType::parse(&by) {
            Ok(by) => _ = supersedes.insert(by, types),
            Err(error) => members.refuse(&path, error),
        }
    }
    supersedes
}

fn refuse_repeated(path: &str, types: &[EventType], members: &mut Members<'_>) {
    let mut seen = BTreeSet::new();
    for repeated in types.iter().filter(|kind| !seen.insert(*kind)) {
        members.refuse(path, format_args!("names {repeated} twice"));
    }
}

/// Whatever a filter calls a field must be one field.
fn check_aliases(feed: &Feed, members: &mut Members<'_>) {
    let mut taken = BTreeMap::new();
    for (name, field) in &feed.fields {
        let Some(alias) = &field.alias else { continue };
        let path = format!("fields.{name}.alias");
        if feed.fields.contains_key(alias) {
            members.refuse(&path, format_args!("is the name of a field: {alias}"));
        } else if let Some(other) = taken.insert(alias, name) {
            members.refuse(&path, format_args!("is the alias of {other} already: {alias}"));
        }
    }
}

fn check_supersedes(feed: &Feed, members: &mut Members<'_>) {
    for (by, types) in &feed.supersedes {
        let path = format!("supersedes.{by}");
        for kind in std::iter::once(by).chain(types).filter(|kind| !feed.has_type(kind)) {
            members.refuse(&path, format_args!("names {kind}, which is none of the event types"));
        }
        if types.contains(by) {
            members.refuse(&path, "supersedes itself");
        }
    }
}

/// A feed as it is written: what is at its default is left out.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a String>,
    event_types: Vec<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<&'a str, WrittenField<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_subscriptions: Option<bool>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sources: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    supersedes: BTreeMap<&'a str, Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

#[derive(Serialize)]
struct WrittenField<'a> {
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matching: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<&'a str>,
}

impl<'a> WrittenField<'a> {
    fn of(field: &'a Field) -> Self {
        let matching = MATCHINGS.iter().find(|(_, matching)| *matching == field.matching);
        WrittenField {
            matching: matching.map(|(word, _)| *word).filter(|_| field.matching != FieldMatch::Exact),
            alias: field.alias.as_ref().map(FieldName::as_str),
        }
    }
}

fn words(types: &[EventType]) -> Vec<&str> {
    types.iter().map(EventType::as_str).collect()
}

#[cfg(test)]
mod tests;
