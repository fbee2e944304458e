//! An event as filters read it: its fields folded once, however many filters look at them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::event::Event;
use crate::fold::fold;
use crate::text::FieldName;

pub(super) struct Reading<'e> {
    pub(super) event: &'e Event,
    folded: BTreeMap<&'e FieldName, String>,
}

impl<'e> Reading<'e> {
    pub(super) fn of(event: &'e Event) -> Self {
        Reading { event, folded: event.fields.iter().map(|(name, text)| (name, fold(text))).collect() }
    }

    /// A field, folded.
    pub(super) fn folded(&self, field: &FieldName) -> Option<&str> {
        self.folded.get(field).map(String::as_str)
    }

    /// An attribute of the event, or a field, as it is.
    pub(super) fn attribute(&self, name: &str) -> Option<Cow<'e, str>> {
        let event = self.event;
        Some(match name {
            "id" => event.external_id.as_str().into(),
            "source" => event.source.as_str().into(),
            "type" => event.kind.as_str().into(),
            "subject" => event.key.as_str().into(),
            "feed" => event.feed.as_str().into(),
            "time" => event.at.to_string().into(),
            _ => event.fields.get(&FieldName::parse(name).ok()?)?.as_str().into(),
        })
    }
}
