//! What a template sees, and how JSON becomes values that keep what they say.

use std::collections::BTreeMap;

use minijinja::Value;
use serde_json::value::RawValue;

use super::Facts;

/// The names that a template may use without having set them.
pub(super) const ROOTS: [&str; 6] = ["event", "fields", "data", "entity", "recipient", "subscription"];

/// The facts by name. What there is nothing of is not there; fields and data are always there, if only to be empty.
pub(super) fn values(facts: &Facts<'_>) -> Value {
    let signal = facts.signal;
    let fields = facts.row.fields.iter().map(|(name, value)| (name.to_string(), Value::from(value.as_str())));
    let mut seen = BTreeMap::from([("event", event(facts)), ("fields", map(fields)), ("data", data(facts))]);
    if let Some(entity) = &signal.entity {
        seen.insert("entity", texts([("type", entity.kind.to_string()), ("id", entity.id.to_string())]));
    }
    if let Some(locale) = facts.locale {
        seen.insert("recipient", texts([("locale", locale.to_string())]));
    }
    if let Some(name) = facts.subscription {
        seen.insert("subscription", texts([("name", name.to_owned())]));
    }
    map(seen.into_iter().map(|(name, value)| (name.to_owned(), value)))
}

fn event(facts: &Facts<'_>) -> Value {
    let signal = facts.signal;
    texts([
        ("id", facts.event_id.to_string()),
        ("feed", signal.feed.to_string()),
        ("type", signal.kind.to_string()),
        ("key", signal.key.to_string()),
        ("source", signal.source.to_string()),
        ("time", facts.row.at.to_string()),
    ])
}

fn data(facts: &Facts<'_>) -> Value {
    let read = facts.row.data.as_deref().and_then(|json| serde_json::from_str::<&RawValue>(json).ok());
    read.map_or_else(|| map([]), json)
}

fn texts<const N: usize>(members: [(&str, String); N]) -> Value {
    map(members.map(|(name, text)| (name.to_owned(), Value::from(text))))
}

fn map(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::from(members.into_iter().collect::<BTreeMap<String, Value>>())
}

/// The value of a document that was checked when it was accepted ([`angarium_domain::json::check`]), which bounds its depth.
fn json(raw: &RawValue) -> Value {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            map(members.into_iter().map(|(name, value)| (name, json(value))))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            Value::from(items.into_iter().map(json).collect::<Vec<Value>>())
        }
        Some(b'"') => Value::from(serde_json::from_str::<String>(text).unwrap_or_default()),
        Some(b't') => Value::from(true),
        Some(b'f') => Value::from(false),
        Some(b'n') | None => Value::from(()),
        Some(_) => number(text),
    }
}

/// A whole number that is written as the engine would write it is a number; every other one is the text that it was
/// written as, so that no digit is lost.
fn number(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(whole) if whole.to_string() == text => Value::from(whole),
        _ => Value::from(text),
    }
}
