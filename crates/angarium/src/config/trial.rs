//! Trying a template out before any event comes in: it is compiled, and rendered on its sample, or else on an event made up
//! from what its feeds declare.
//!
//! Without a sample nobody knows what an event holds besides, so that what is missing then is odd and not wrong.

use std::collections::BTreeMap;

use angarium_domain::complaints::Complaint;
use angarium_domain::event::{Defaults, Event};
use angarium_domain::feed::{Feed, MANUAL_ANNOUNCEMENT};
use angarium_domain::id::EventId;
use angarium_domain::template::Template;
use angarium_domain::text::FieldName;
use angarium_domain::time::Timestamp;
use angarium_engine::render::{Compiled, Facts, Fault, FaultKind, Rendered};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What was found out about a template, each with the part that it is about.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// It does not work.
    pub(crate) wrong: Vec<Complaint>,
    /// It may not work.
    pub(crate) odd: Vec<Complaint>,
}

/// Tries a template on its sample, or else on `feeds`, which are those that have its event type.
pub(crate) fn try_out(template: &Template, feeds: &[&Feed]) -> Trial {
    let compiled = match Compiled::compile(template) {
        Ok(compiled) => compiled,
        Err(faults) => return Trial { wrong: faults.iter().map(told).collect(), odd: Vec::new() },
    };
    match &template.sample {
        Some(sample) => try_on_sample(template, &compiled, sample, feeds.first().copied()),
        None => try_on_feeds(template, &compiled, feeds),
    }
}

fn try_on_sample(template: &Template, compiled: &Compiled, sample: &str, feed: Option<&Feed>) -> Trial {
    let wrong = match sampled(template, sample, feed) {
        Ok(event) => rendered(compiled, &event).err().iter().map(told).collect(),
        Err(complaints) => complaints.into_iter().map(|complaint| complaint.within("sample")).collect(),
    };
    Trial { wrong, odd: Vec::new() }
}

/// That it works for one of the feeds is enough: events of another may have what that one does not declare.
fn try_on_feeds(template: &Template, compiled: &Compiled, feeds: &[&Feed]) -> Trial {
    let mut trial = Trial::default();
    let Some((first, others)) = feeds.split_first() else { return trial };
    let mut unknown = compiled.unknown_fields(first);
    unknown.retain(|fault| others.iter().all(|feed| compiled.unknown_fields(feed).contains(fault)));
    trial.odd.extend(unknown.iter().map(|fault| said(fault, "may not work")));
    let try_on = |feed: &&Feed| {
        let event = sampled(template, &made_up(template, feed), Some(feed)).ok()?;
        rendered(compiled, &event).err()
    };
    let faults: Option<Vec<Fault>> = feeds.iter().map(try_on).collect();
    match faults.as_deref() {
        Some([fault, ..]) if fault.kind != FaultKind::Undefined => trial.wrong.push(told(fault)),
        Some([fault, ..]) if unknown.is_empty() => {
            let Complaint { field, message } = told(fault);
            let message = format!("cannot be tried out without a `sample` of an event: it {message}");
            trial.odd.push(Complaint { field, message });
        }
        _ => {}
    }
    trial
}

/// Why a template shows nothing of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotRendered {
    /// The event is none.
    Event(Vec<Complaint>),
    /// The template does not work, or not on this event.
    Template(Vec<Complaint>),
}

/// What a template makes of an event, else of its sample, else of one that has what `feed` declares.
pub(crate) fn render(
    template: &Template,
    event: Option<&str>,
    feed: Option<&Feed>,
) -> Result<Rendered, NotRendered> {
    let compiled = Compiled::compile(template)
        .map_err(|faults| NotRendered::Template(faults.iter().map(told).collect()))?;
    let made_up = feed.map_or_else(|| "{}".to_owned(), |feed| made_up(template, feed));
    let event = event.or(template.sample.as_deref()).unwrap_or(&made_up);
    let event = sampled(template, event, feed).map_err(NotRendered::Event)?;
    rendered(&compiled, &event).map_err(|fault| NotRendered::Template(vec![told(&fault)]))
}

fn rendered(compiled: &Compiled, event: &Event) -> Result<Rendered, Fault> {
    let facts = Facts {
        signal: event,
        event_id: EventId::derived(&["sample"], event.external_id.as_str()),
        row: event,
        subscription: Some("A subscription"),
        locale: event.locale.as_ref(),
    };
    compiled.render(&facts)
}

/// The event of a sample, with what every event has where the sample does not say it, and with fields by their own names.
fn sampled(template: &Template, sample: &str, feed: Option<&Feed>) -> Result<Event, Vec<Complaint>> {
    let not_an_object = |_| vec![Complaint::new("", "must be an object")];
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(sample).map_err(not_an_object)?;
    let feed_id = feed.map_or("sample", |feed| feed.id.as_str());
    let standard = [("feed", feed_id), ("type", template.event_type.as_str()), ("key", "sample")];
    let standard = standard.map(|(name, value)| (name, Value::from(value).to_string()));
    for (name, value) in &standard {
        if let Ok(value) = serde_json::from_str(value) {
            members.entry((*name).to_owned()).or_insert(value);
        }
    }
    let json = serde_json::to_string(&members).unwrap_or_default();
    let at = Timestamp::from_micros(0);
    let defaults = Defaults { source: "sample", external_id: "sample".to_owned(), at };
    let mut event = Event::parse(&json, defaults)?.event;
    if let Some(feed) = feed {
        let own = |name: FieldName| feed.field(&name).map_or(name.clone(), |(own, _)| own.clone());
        event.fields = event.fields.into_iter().map(|(name, value)| (own(name), value)).collect();
    }
    Ok(event)
}

/// The members of an event that has every field that the feed declares.
fn made_up(template: &Template, feed: &Feed) -> String {
    let fields: Map<String, Value> =
        feed.fields.keys().map(|name| (name.to_string(), Value::from(name.as_str()))).collect();
    let data = match template.event_type.as_str() {
        MANUAL_ANNOUNCEMENT => json!({"subject": "subject", "body": "body"}),
        _ => Value::Null,
    };
    json!({"fields": fields, "data": data}).to_string()
}

fn told(fault: &Fault) -> Complaint {
    said(fault, "does not work")
}

fn said(fault: &Fault, what: &str) -> Complaint {
    let place = fault.line.zip(fault.column);
    let place = place.map(|(line, column)| format!(" (its line {line}, column {column})"));
    let message = format!("{what}{}: {}", place.unwrap_or_default(), fault.message);
    Complaint::new(fault.part.as_str(), message)
}
