//! The tables `[[templates]]`: what people read of events.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use angarium_domain::complaints::Complaint;
use angarium_domain::feed::Feed;
use angarium_domain::template::Template;
use angarium_domain::text::FeedId;

use super::reader::{Field, References, Section};
use super::trial::{Trial, try_out};
use super::{Config, Declared};

/// Reads every template, by its name, and tries each out.
pub(super) fn read(
    field: &Field<'_, '_>,
    config: &Config,
    feeds: &Declared<FeedId, Feed>,
) -> BTreeMap<String, Template> {
    let mut templates = BTreeMap::new();
    for section in field.items().unwrap_or_default().iter().filter_map(Field::table) {
        let Some(template) = template(&section, config) else { continue };
        try_on_file(&template, &section, feeds);
        match templates.entry(template.name()) {
            Entry::Vacant(place) => _ = place.insert(template),
            Entry::Occupied(_) => {
                section.problem("is for the same event type, channel and locale as one before it");
            }
        }
    }
    templates
}

fn template(section: &Section<'_, '_>, config: &Config) -> Option<Template> {
    let json = section.as_json(&[], References::Plain)?;
    let template = Template::parse(&json).map_err(|complaints| section.complaints(complaints)).ok()?;
    if !config.channels.contains_key(&template.channel) {
        let message = "names a channel that does not stand in this file, or has a fault there";
        section.complaint(Complaint::new("channel", message));
    }
    Some(template)
}

fn try_on_file(template: &Template, section: &Section<'_, '_>, feeds: &Declared<FeedId, Feed>) {
    let suits = |feed: &&Feed| feed.has_type(&template.event_type);
    let feeds_of_type: Vec<&Feed> = feeds.values().flatten().filter(suits).collect();
    // A feed with a fault in it may well be the one.
    if feeds_of_type.is_empty() && feeds.values().all(Option::is_some) {
        let message = "is an event type that no feed in this file has";
        section.oddity(Complaint::new("event_type", message));
    }
    let Trial { wrong, odd } = try_out(template, &feeds_of_type);
    section.complaints(wrong);
    odd.into_iter().for_each(|complaint| section.oddity(complaint));
}
