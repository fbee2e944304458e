//! The tables `[[subscriptions]]`: who is told of which events.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use angarium_domain::complaints::Complaint;
use angarium_domain::feed::Feed;
use angarium_domain::list::List;
use angarium_domain::subscription::{Subscription, Target};
use angarium_domain::text::{ChannelName, EventType, FeedId, ListName, Locale, SubscriptionId};
use angarium_engine::render::choose;

use super::lists::blocked;
use super::reader::{Field, References, Section};
use super::{Config, Declared};

/// Reads every subscription, by its key.
pub(super) fn read(
    field: &Field<'_, '_>,
    config: &Config,
    feeds: &Declared<FeedId, Feed>,
    lists: &Declared<ListName, List>,
) -> BTreeMap<SubscriptionId, Subscription> {
    let mut subscriptions = BTreeMap::new();
    let mut told_plainly = BTreeSet::new();
    for section in field.items().unwrap_or_default().iter().filter_map(Field::table) {
        let given = section.field("key").map(|field| field.parse(SubscriptionId::parse));
        let Some(subscription) = subscription(&section, config) else { continue };
        let feed = check_feed(&subscription, &section, feeds);
        let channel = check_target(&subscription, &section, config, lists);
        if let (Some(feed), Some(channel)) = (feed, channel) {
            check_templates(&subscription, feed, channel, &section, config, &mut told_plainly);
        }
        let member = if given.is_some() { "key" } else { "name" };
        let key = given.unwrap_or_else(|| key_of(&subscription.name, &section));
        match key.map(|key| subscriptions.entry(key)) {
            Some(Entry::Vacant(place)) => _ = place.insert(subscription),
            Some(Entry::Occupied(taken)) => {
                let key = taken.key();
                let message = format!("makes the key {key}, which one before it has: write another `key`");
                section.complaint(Complaint::new(member, message));
            }
            None => {}
        }
    }
    subscriptions
}

fn subscription(section: &Section<'_, '_>, config: &Config) -> Option<Subscription> {
    let json = section.as_json(&["key"], References::Resolved)?;
    let kind_of = |name: &ChannelName| config.channels.get(name).map(|channel| channel.settings.kind);
    Subscription::parse(&json, &kind_of).map_err(|complaints| section.complaints(complaints)).ok()
}

/// A name in lower case, with one hyphen for whatever is neither a letter from a to z nor a digit.
fn key_of(name: &str, section: &Section<'_, '_>) -> Option<SubscriptionId> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let key = SubscriptionId::parse(&words.collect::<Vec<_>>().join("-"));
    if key.is_err() {
        let message = "has no letter from a to z and no digit to make a key of: write `key` as well";
        section.complaint(Complaint::new("name", message));
    }
    key.ok()
}

fn check_feed<'f>(
    subscription: &Subscription,
    section: &Section<'_, '_>,
    feeds: &'f Declared<FeedId, Feed>,
) -> Option<&'f Feed> {
    let Some(feed) = feeds.get(&subscription.feed) else {
        section.complaint(Complaint::new("feed", "names a feed that does not stand in this file"));
        return None;
    };
    let feed = feed.as_ref()?;
    for complaint in subscription.filter.check(feed) {
        section.complaint(complaint.within("filter"));
    }
    Some(feed)
}

/// The channel that it leads to.
fn check_target<'s>(
    subscription: &'s Subscription,
    section: &Section<'_, '_>,
    config: &Config,
    lists: &'s Declared<ListName, List>,
) -> Option<&'s ChannelName> {
    match &subscription.target {
        Target::Address { channel, address } => {
            let kind = config.channels.get(channel)?.settings.kind;
            if let Some(why) = blocked(address, kind, &config.security.guard()) {
                section.oddity(Complaint::new("target.address", why));
            }
            Some(channel)
        }
        Target::List(name) => match lists.get(name) {
            Some(list) => list.as_ref().map(|list| &list.channel),
            None => {
                let message = "names a list that does not stand in this file";
                section.complaint(Complaint::new("target.list", message));
                None
            }
        },
    }
}

/// Warns, once for each, of event types for which the channel has no template.
fn check_templates(
    subscription: &Subscription,
    feed: &Feed,
    channel: &ChannelName,
    section: &Section<'_, '_>,
    config: &Config,
    told_plainly: &mut BTreeSet<(ChannelName, EventType)>,
) {
    let wanted = match subscription.filter.event_types.as_slice() {
        [] => &feed.event_types,
        wanted => wanted,
    };
    let plain: Vec<&str> = wanted
        .iter()
        .filter(|kind| !has_template(kind, channel, config))
        .filter(|kind| told_plainly.insert((channel.clone(), (*kind).clone())))
        .map(EventType::as_str)
        .collect();
    if !plain.is_empty() {
        let (types, locale) = (plain.join(", "), &config.server.default_locale);
        let message = format!(
            "leads to the channel {channel}, which has no template in {locale} for {types}: where no other \
             language is asked for, they are told in a plain text of their fields"
        );
        section.oddity(Complaint::new("target", message));
    }
}

fn has_template(kind: &EventType, channel: &ChannelName, config: &Config) -> bool {
    let templates = config.templates.values();
    let suitable = templates.filter(|template| template.event_type == *kind && template.channel == *channel);
    let locales: Vec<(Locale, ())> = suitable.map(|template| (template.locale.clone(), ())).collect();
    choose(&locales, None, &config.server.default_locale).is_some()
}
