//! A filter against its feed: what names nothing there, and what can never hold.

use std::collections::BTreeMap;

use super::{ANY_FIELD, ATTRIBUTES, Condition, Filter};
use crate::complaints::Complaint;
use crate::feed::{Feed, FieldMatch};
use crate::text::{EventType, FieldName};

pub(super) fn against(filter: &Filter, feed: &Feed) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (i, kind) in filter.event_types.iter().enumerate() {
        if !feed.has_type(kind) {
            complaints.push(Complaint::new(format!("event_types[{i}]"), no_type(feed)));
        }
    }
    for name in filter.fields.keys().filter(|name| feed.field(name).is_none()) {
        complaints.push(Complaint::new(format!("fields.{name}"), no_field(feed)));
    }
    for (name, words) in &filter.keywords {
        complaints.extend(keywords(name, words, feed));
    }
    let mut demanded = BTreeMap::new();
    for (i, condition) in filter.conditions.iter().enumerate() {
        conditions(&format!("filters[{i}]"), condition, feed, &mut complaints);
        contradictions(&format!("filters[{i}]"), condition, &mut demanded, &mut complaints);
    }
    complaints
}

fn no_type(feed: &Feed) -> String {
    let types: Vec<&str> = feed.event_types.iter().map(EventType::as_str).collect();
    format!("is no type of the feed {}, which has {}", feed.id, types.join(", "))
}

fn no_field(feed: &Feed) -> String {
    let names: Vec<&str> = feed.fields.keys().map(FieldName::as_str).collect();
    match names.is_empty() {
        true => format!("is no field of the feed {}, which has none", feed.id),
        false => format!("is no field of the feed {}, which has {}", feed.id, names.join(", ")),
    }
}

fn keywords(name: &str, words: &[String], feed: &Feed) -> Vec<Complaint> {
    let path = format!("keywords.{name}");
    let ways: Vec<FieldMatch> = match name {
        ANY_FIELD => feed.fields.values().map(|field| field.matching).collect(),
        _ => {
            let field = FieldName::parse(name).ok().and_then(|name| Some(feed.field(&name)?.1.matching));
            field.into_iter().collect()
        }
    };
    if ways.is_empty() {
        return vec![Complaint::new(path, no_field(feed))];
    }
    let whole_words = ways.iter().all(|way| *way == FieldMatch::Word);
    let senseless =
        words.iter().enumerate().filter(|(_, word)| whole_words && !word.chars().any(char::is_alphanumeric));
    senseless
        .map(|(i, _)| {
            let message = "can never match: it has no letter or digit, and whole words are looked for";
            Complaint::new(format!("{path}[{i}]"), message)
        })
        .collect()
}

/// Attributes and types that there are not.
fn conditions(path: &str, condition: &Condition, feed: &Feed, complaints: &mut Vec<Complaint>) {
    match condition {
        Condition::Exact(attributes) => {
            named(&format!("{path}.exact"), attributes, feed, complaints);
            let kind = attributes.get("type").map(|kind| EventType::parse(kind));
            if kind.is_some_and(|kind| !kind.is_ok_and(|kind| feed.has_type(&kind))) {
                complaints.push(Complaint::new(format!("{path}.exact.type"), no_type(feed)));
            }
        }
        Condition::Prefix(attributes) => named(&format!("{path}.prefix"), attributes, feed, complaints),
        Condition::Suffix(attributes) => named(&format!("{path}.suffix"), attributes, feed, complaints),
        Condition::All(inner) => each(&format!("{path}.all"), inner, feed, complaints),
        Condition::Any(inner) => each(&format!("{path}.any"), inner, feed, complaints),
        Condition::Not(inner) => conditions(&format!("{path}.not"), inner, feed, complaints),
    }
}

fn each(path: &str, inner: &[Condition], feed: &Feed, complaints: &mut Vec<Complaint>) {
    for (i, condition) in inner.iter().enumerate() {
        conditions(&format!("{path}[{i}]"), condition, feed, complaints);
    }
}

fn named(path: &str, attributes: &BTreeMap<String, String>, feed: &Feed, complaints: &mut Vec<Complaint>) {
    for name in attributes.keys().filter(|name| !ATTRIBUTES.contains(&name.as_str())) {
        if FieldName::parse(name).ok().is_none_or(|name| feed.field(&name).is_none()) {
            let message =
                format!("is neither an attribute of an event nor a {}", &no_field(feed)["is no ".len()..]);
            complaints.push(Complaint::new(format!("{path}.{name}"), message));
        }
    }
}

/// An attribute that is to be two texts at once.
fn contradictions(
    path: &str,
    condition: &Condition,
    demanded: &mut BTreeMap<String, String>,
    complaints: &mut Vec<Complaint>,
) {
    match condition {
        Condition::Exact(attributes) => {
            for (name, value) in attributes {
                let before = demanded.entry(name.clone()).or_insert_with(|| value.clone());
                if before != value {
                    let message = format!("can never hold: the same attribute is to be {before:?}");
                    complaints.push(Complaint::new(format!("{path}.exact.{name}"), message));
                }
            }
        }
        Condition::All(inner) => {
            for (i, condition) in inner.iter().enumerate() {
                contradictions(&format!("{path}.all[{i}]"), condition, demanded, complaints);
            }
        }
        _ => {}
    }
}
