//! Templates as their authors and their enemies write them.

mod hostile;
mod identity;
mod sharing;
mod strict;
mod text;

use std::collections::BTreeMap;

use angarium_domain::event::{Entity, Event};
use angarium_domain::id::EventId;
use angarium_domain::template::Template;
use angarium_domain::text::{
    ChannelName, EventSource, EventType, ExternalId, FeedId, FieldName, Locale, SourceKey, SourceName,
};

use super::{Compiled, Facts, Fault, Rendered};

/// A template that says `body` and names the event's key in its subject.
fn template(body: &str) -> Template {
    Template {
        event_type: EventType::parse("NewOutage").unwrap(),
        channel: ChannelName::parse("hooks").unwrap(),
        locale: Locale::parse("en-US").unwrap(),
        subject: "Outage {{ event.key }}".to_owned(),
        body: body.to_owned(),
        html: None,
        sequence_id: None,
        tags: Vec::new(),
        priority: None,
        sample: None,
    }
}

fn event(fields: &[(&str, &str)]) -> Event {
    let fields = fields.iter().map(|(name, value)| (FieldName::parse(name).unwrap(), (*value).to_owned()));
    Event {
        source: EventSource::parse("poller").unwrap(),
        external_id: ExternalId::parse("x-1").unwrap(),
        feed: FeedId::parse("beneco.power-outages").unwrap(),
        kind: EventType::parse("NewOutage").unwrap(),
        key: SourceKey::parse("42").unwrap(),
        at: "2026-07-07T01:02:03Z".parse().unwrap(),
        locale: None,
        fields: fields.collect::<BTreeMap<_, _>>(),
        data: None,
        entity: Some(Entity {
            kind: SourceName::parse("Feeder").unwrap(),
            id: SourceName::parse("f-14").unwrap(),
        }),
        recipients: Vec::new(),
        expires_at: None,
        supersede_key: None,
        test: false,
    }
}

fn event_id() -> EventId {
    "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59".parse().unwrap()
}

fn facts(event: &Event) -> Facts<'_> {
    Facts { signal: event, event_id: event_id(), row: event, subscription: None, locale: None }
}

fn render(template: &Template, event: &Event) -> Result<Rendered, Fault> {
    Compiled::compile(template).map_err(|faults| faults[0].clone())?.render(&facts(event))
}

/// What a body comes to, with an event that has an area.
fn body(source: &str) -> Result<String, Fault> {
    render(&template(source), &event(&[("area", "Bakakeng")])).map(|rendered| rendered.body)
}
