//! Filters as JSON.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{ANY_FIELD, Condition, Filter, MatchMode, plain_text, plain_value};
use crate::complaints::Members;
use crate::fold::{fold, is_blank};
use crate::limits::LINE_CHARS;
use crate::text::{EventType, FieldName};

/// Values of one condition, and fields that are named.
const MOST_VALUES: usize = 100;
/// Characters of a keyword, folded.
const KEYWORD_CHARS: usize = 100;
/// How deep conditions stand in each other.
const DEEPEST: usize = 8;
/// Conditions in all.
const MOST_CONDITIONS: usize = 200;

const MODES: [(&str, MatchMode); 2] = [("any", MatchMode::Any), ("all", MatchMode::All)];

pub(super) fn filter(members: &mut Members<'_>) -> Option<Filter> {
    let event_types = members.items("event_types", 1..=MOST_VALUES).unwrap_or_default();
    let event_types = each(members, "event_types", event_types, |raw| {
        EventType::parse(&plain_text(raw).ok_or("must be a string")?).map_err(|error| error.to_string())
    });
    let fields = members.entries("fields", 1..=MOST_VALUES).unwrap_or_default();
    let fields = fields.into_iter().filter_map(|(name, raw)| field(members, &name, raw)).collect();
    let keywords = members.entries("keywords", 1..=MOST_VALUES).unwrap_or_default();
    let keywords = keywords.into_iter().filter_map(|(name, raw)| keywords_of(members, &name, raw)).collect();
    let mode = members.choice("match", &MODES);
    let items = members.items("filters", 1..=MOST_VALUES).unwrap_or_default();
    let mut left = MOST_CONDITIONS;
    let conditions = items
        .into_iter()
        .enumerate()
        .filter_map(|(i, raw)| condition(members, &format!("filters[{i}]"), raw, DEEPEST, &mut left))
        .collect();
    Some(Filter { event_types, fields, keywords, mode: mode.unwrap_or_default(), conditions })
}

fn field<'a>(members: &mut Members<'a>, name: &str, raw: &'a RawValue) -> Option<(FieldName, Vec<String>)> {
    let path = format!("fields.{name}");
    let parsed = FieldName::parse(name).map_err(|error| members.refuse(&path, error)).ok();
    let items = members.items_of(&path, raw, 1..=MOST_VALUES)?;
    let values = each(members, &path, items, |raw| {
        let value = scalar(raw)?;
        if is_blank(&value) { Err("must not be empty".to_owned()) } else { Ok(value) }
    });
    Some((parsed?, values))
}

fn keywords_of<'a>(
    members: &mut Members<'a>,
    name: &str,
    raw: &'a RawValue,
) -> Option<(String, Vec<String>)> {
    let path = format!("keywords.{name}");
    if name != ANY_FIELD
        && let Err(error) = FieldName::parse(name)
    {
        members.refuse(&path, error);
    }
    let items = members.items_of(&path, raw, 1..=MOST_VALUES)?;
    let words = each(members, &path, items, |raw| {
        let word = plain_text(raw).ok_or("must be a string")?;
        match fold(&word).chars().count() {
            0 => Err("must not be empty".to_owned()),
            length if length > KEYWORD_CHARS => {
                Err(format!("has {length} characters, at most {KEYWORD_CHARS} are allowed"))
            }
            _ => Ok(word.into_owned()),
        }
    });
    Some((name.to_owned(), words))
}

/// The items of an array that `read` accepts. What they are called is made up only for those that it refuses: filters are read
/// by the million when a node starts.
fn each<T>(
    members: &mut Members<'_>,
    path: &str,
    items: Vec<&RawValue>,
    read: impl Fn(&RawValue) -> Result<T, String>,
) -> Vec<T> {
    let mut accepted = Vec::with_capacity(items.len());
    for (i, raw) in items.into_iter().enumerate() {
        match read(raw) {
            Ok(item) => accepted.push(item),
            Err(message) => members.refuse(&format!("{path}[{i}]"), message),
        }
    }
    accepted
}

/// A string, a number or a boolean as a text of bounded length.
fn scalar(raw: &RawValue) -> Result<String, String> {
    match plain_value(raw) {
        None => Err("must be a string, a number or a boolean".to_owned()),
        Some(value) if value.chars().count() > LINE_CHARS => {
            Err(format!("has more than {LINE_CHARS} characters"))
        }
        Some(value) => Ok(value),
    }
}

/// One condition: an object with one member, the name of a dialect.
fn condition<'a>(
    members: &mut Members<'a>,
    path: &str,
    raw: &'a RawValue,
    depth: usize,
    left: &mut usize,
) -> Option<Condition> {
    if depth == 0 || *left == 0 {
        let message =
            "is too complex: at most 200 conditions are allowed, at most 8 deep (filter_too_complex)";
        members.refuse(path, message);
        return None;
    }
    *left -= 1;
    let entries = members.entries_of(path, raw, 1..=1)?;
    let (dialect, raw) = entries.into_iter().next()?;
    let path = format!("{path}.{dialect}");
    let mut all = |members: &mut Members<'a>| {
        let items = members.items_of(&path, raw, 1..=MOST_VALUES)?;
        let inner = items.into_iter().enumerate();
        Some(
            inner
                .filter_map(|(i, raw)| condition(members, &format!("{path}[{i}]"), raw, depth - 1, left))
                .collect(),
        )
    };
    match &*dialect {
        "exact" => attributes(members, &path, raw).map(Condition::Exact),
        "prefix" => attributes(members, &path, raw).map(Condition::Prefix),
        "suffix" => attributes(members, &path, raw).map(Condition::Suffix),
        "all" => all(members).map(Condition::All),
        "any" => all(members).map(Condition::Any),
        "not" => condition(members, &path, raw, depth - 1, left).map(|inner| Condition::Not(Box::new(inner))),
        _ => {
            members.refuse(&path, "is not known here; there are exact, prefix, suffix, all, any and not");
            None
        }
    }
}

fn attributes<'a>(
    members: &mut Members<'a>,
    path: &str,
    raw: &'a RawValue,
) -> Option<BTreeMap<String, String>> {
    let entries = members.entries_of(path, raw, 1..=MOST_VALUES)?;
    let mut attributes = BTreeMap::new();
    for (name, raw) in entries {
        let path = format!("{path}.{name}");
        match scalar(raw) {
            Ok(value) if value.is_empty() => members.refuse(&path, "must not be empty"),
            Ok(value) => _ = attributes.insert(name, value),
            Err(message) => members.refuse(&path, message),
        }
    }
    Some(attributes)
}

/// A filter as the JSON that is read above; what it does not say is left out.
pub(super) fn written(filter: &Filter) -> Value {
    let mut object = Map::new();
    if !filter.event_types.is_empty() {
        let types: Vec<&str> = filter.event_types.iter().map(EventType::as_str).collect();
        object.insert("event_types".into(), json!(types));
    }
    if !filter.fields.is_empty() {
        let fields: BTreeMap<&str, &Vec<String>> =
            filter.fields.iter().map(|(name, values)| (name.as_str(), values)).collect();
        object.insert("fields".into(), json!(fields));
    }
    if !filter.keywords.is_empty() {
        object.insert("keywords".into(), json!(filter.keywords));
    }
    if filter.mode == MatchMode::All {
        object.insert("match".into(), json!("all"));
    }
    if !filter.conditions.is_empty() {
        let conditions: Vec<Value> = filter.conditions.iter().map(condition_written).collect();
        object.insert("filters".into(), Value::Array(conditions));
    }
    Value::Object(object)
}

fn condition_written(condition: &Condition) -> Value {
    let all = |inner: &[Condition]| inner.iter().map(condition_written).collect::<Vec<_>>();
    match condition {
        Condition::Exact(attributes) => json!({ "exact": attributes }),
        Condition::Prefix(attributes) => json!({ "prefix": attributes }),
        Condition::Suffix(attributes) => json!({ "suffix": attributes }),
        Condition::All(inner) => json!({ "all": all(inner) }),
        Condition::Any(inner) => json!({ "any": all(inner) }),
        Condition::Not(inner) => json!({ "not": condition_written(inner) }),
    }
}
