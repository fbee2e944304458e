//! Events: something happened (FP-02). An event is a signal, not a text: what is told is rendered when it is sent.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Display;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::complaints::{Complaint, Members, shown};
use crate::content::ContentHash;
use crate::filter::plain_value;
use crate::json::canonical;
use crate::text::{
    EventSource, EventType, ExternalId, FeedId, FieldName, Locale, SourceKey, SourceName, TextError,
};
use crate::time::Timestamp;

/// An event as it was handed in, all of it checked. Immutable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who says so.
    pub source: EventSource,
    /// The source's own id of it.
    pub external_id: ExternalId,
    /// The feed that it belongs to.
    pub feed: FeedId,
    /// What sort of thing happened.
    pub kind: EventType,
    /// What it happened to.
    pub key: SourceKey,
    /// When it happened.
    pub at: Timestamp,
    /// The language of whoever is told, where nothing else says.
    pub locale: Option<Locale>,
    /// Flat fields; numbers and booleans are texts here ([`crate::filter::plain_value`]).
    pub fields: BTreeMap<FieldName, String>,
    /// The producer's JSON, word for word.
    pub data: Option<String>,
    /// What it happened to, for whoever shares it.
    pub entity: Option<Entity>,
    /// Ids of people whom it concerns.
    pub recipients: Vec<SourceName>,
    /// From when on it is no longer worth telling.
    pub expires_at: Option<Timestamp>,
    /// A later event of the feed with the same key replaces what of this one is not sent yet.
    pub supersede_key: Option<SourceKey>,
    /// It reaches test subscriptions, and no others (FP-17).
    pub test: bool,
}

/// What an event has that does not say it itself.
#[derive(Clone, Debug)]
pub struct Defaults<'a> {
    /// Who says so: the name of whoever hands it in.
    pub source: &'a str,
    /// Its external id.
    pub external_id: String,
    /// When it happened.
    pub at: Timestamp,
}

/// An event and what makes it the same one sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedEvent {
    /// The event.
    pub event: Event,
    /// Over everything that the producer said but the source and the id. What was at its default is not in it: a resend an
    /// hour later is the same event.
    pub hash: ContentHash,
}

/// A thing that people work on together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// `PurchaseOrder`
    pub kind: SourceName,
    /// `po-1`
    pub id: SourceName,
}

/// Fields of one event, at most.
pub const MOST_FIELDS: usize = 64;
/// Bytes of one field.
pub const FIELD_BYTES: usize = 4 * 1024;
/// People of one event, at most.
pub const MOST_RECIPIENTS: usize = 1000;

impl Event {
    /// Reads an event from a JSON object that has passed [`crate::json::check`]. The time to live of its feed is not
    /// known here: `expires_at` is what the event itself says, or its own `ttl` after it happened. A person who stands
    /// twice among the recipients is taken once.
    pub fn parse(json: &str, defaults: Defaults<'_>) -> Result<ParsedEvent, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let event = read(&mut members, defaults);
        members.finish_with(event)
    }
}

fn read(members: &mut Members<'_>, defaults: Defaults<'_>) -> Option<ParsedEvent> {
    let source = members.text("source", EventSource::parse);
    let external_id = members.text("id", ExternalId::parse);
    let feed = members.required("feed", FeedId::parse);
    let kind = members.required("type", EventType::parse);
    let key = members.required("key", SourceKey::parse);
    let time = members.time("time");
    let locale = members.text("locale", Locale::parse);
    let fields = fields(members);
    let data = members.raw("data");
    let entity = members.object("entity", entity).flatten();
    let recipients = recipients(members);
    let expiry = expiry(members);
    let supersede_key = members.text("supersede_key", SourceKey::parse);
    let test = members.flag("test");
    let at = time.unwrap_or(defaults.at);
    let event = Event {
        source: source.or_else(|| or_refuse(members, "source", EventSource::parse(defaults.source)))?,
        external_id: external_id
            .or_else(|| or_refuse(members, "id", ExternalId::parse(&defaults.external_id)))?,
        feed: feed?,
        kind: kind?,
        key: key?,
        at,
        locale,
        fields,
        data: data.map(|raw| raw.get().to_owned()),
        entity,
        recipients,
        expires_at: expiry.map(|expiry| expiry.after(at)),
        supersede_key,
        test: test.unwrap_or(false),
    };
    let hash = hash(&event, time, data, expiry);
    Some(ParsedEvent { event, hash })
}

fn or_refuse<T, E: Display>(members: &mut Members<'_>, name: &str, default: Result<T, E>) -> Option<T> {
    default.map_err(|error| members.refuse(name, error)).ok()
}

fn fields(members: &mut Members<'_>) -> BTreeMap<FieldName, String> {
    let mut fields = BTreeMap::new();
    for (name, raw) in members.entries("fields", 0..=MOST_FIELDS).unwrap_or_default() {
        let path = format!("fields.{}", shown(&name));
        let name = or_refuse(members, &path, FieldName::parse(&name));
        let value = or_refuse(members, &path, field(raw));
        if let (Some(name), Some(value)) = (name, value) {
            fields.insert(name, value);
        }
    }
    fields
}

fn field(raw: &RawValue) -> Result<String, String> {
    let text = plain_value(raw).ok_or("must be a string, a number, true or false")?;
    let length = text.len();
    let too_long = TextError::TooLong { length, limit: FIELD_BYTES, unit: "bytes" };
    if length > FIELD_BYTES { Err(too_long.to_string()) } else { Ok(text) }
}

fn entity(members: &mut Members<'_>) -> Option<Entity> {
    let kind = members.required("type", SourceName::parse);
    let id = members.required("id", SourceName::parse);
    Some(Entity { kind: kind?, id: id? })
}

fn recipients(members: &mut Members<'_>) -> Vec<SourceName> {
    let mut people = members.texts("recipients", 0..=MOST_RECIPIENTS, SourceName::parse).unwrap_or_default();
    let mut seen = HashSet::new();
    people.retain(|person| seen.insert(person.clone()));
    people
}

/// How an event says when it is no longer worth telling.
#[derive(Clone, Copy)]
enum Expiry {
    After(Duration),
    At(Timestamp),
}

impl Expiry {
    fn after(self, at: Timestamp) -> Timestamp {
        match self {
            Expiry::After(ttl) => at.plus(ttl),
            Expiry::At(time) => time,
        }
    }
}

fn expiry(members: &mut Members<'_>) -> Option<Expiry> {
    let ttl = members.lasting("ttl");
    let expires_at = members.time("expires_at");
    if ttl.is_some() && expires_at.is_some() {
        members.refuse("ttl", "must not stand beside expires_at");
    }
    ttl.map(Expiry::After).or(expires_at.map(Expiry::At))
}

/// Each part follows a word that says what it is, and a part that was not said has no word: so no two events that differ
/// give the same parts. The order of recipients, and of members, says nothing.
fn hash(
    event: &Event,
    time: Option<Timestamp>,
    data: Option<&RawValue>,
    expiry: Option<Expiry>,
) -> ContentHash {
    let mut parts: Vec<(&str, Cow<'_, str>)> = vec![
        ("feed", event.feed.as_str().into()),
        ("type", event.kind.as_str().into()),
        ("key", event.key.as_str().into()),
    ];
    parts.extend(time.map(|time| ("time", time.micros().to_string().into())));
    parts.extend(event.locale.as_ref().map(|locale| ("locale", locale.as_str().into())));
    for (name, value) in &event.fields {
        parts.extend([("field", name.as_str().into()), ("value", value.into())]);
    }
    parts.extend(data.map(|data| ("data", canonical(data).into())));
    if let Some(Entity { kind, id }) = &event.entity {
        parts.extend([("entity type", kind.as_str().into()), ("entity id", id.as_str().into())]);
    }
    let people: BTreeSet<&SourceName> = event.recipients.iter().collect();
    parts.extend(people.into_iter().map(|person| ("recipient", person.as_str().into())));
    parts.extend(expiry.map(|expiry| match expiry {
        Expiry::After(ttl) => ("ttl", ttl.as_millis().to_string().into()),
        Expiry::At(time) => ("expires_at", time.micros().to_string().into()),
    }));
    parts.extend(event.supersede_key.as_ref().map(|key| ("supersede_key", key.as_str().into())));
    parts.extend(event.test.then_some(("test", "true".into())));
    ContentHash::of_parts(parts.iter().flat_map(|(word, part)| [*word, part.as_ref()]))
}

#[cfg(test)]
mod tests;
