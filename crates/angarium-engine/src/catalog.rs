//! What is configured: channels. Immutable.
//!
//! Lists are kept in the store, whoever made them, so that they can change while messages to them are queued (OB-07).
//! Lists that nobody changes may be given here besides; the store's come first.

use std::collections::BTreeMap;

use angarium_domain::address::Address;
use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::disposition::Rules;
use angarium_domain::text::{ChannelName, ListName};
use angarium_store::{ChannelFacts, Channels};

/// A list: whom a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The channel that delivers to its members.
    pub channel: ChannelName,
    /// Its members, each once, at least one.
    pub members: Vec<Address>,
}

/// Channels and lists by name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Every configured channel.
    pub channels: BTreeMap<ChannelName, ChannelSettings>,
    /// Lists besides those in the store; the channel of each is one of `channels`.
    pub lists: BTreeMap<ListName, List>,
}

impl Catalog {
    /// The list with this name, with its channel's settings.
    pub fn list(&self, name: &str) -> Option<(&List, &ChannelSettings)> {
        let list = self.lists.get(&ListName::parse(name).ok()?)?;
        Some((list, self.channels.get(&list.channel)?))
    }

    /// The kind and the channel that a notification to this list is stamped with, if it is none of the store's; `email`
    /// and none for a list that is not known (OB-04).
    pub fn stamp(&self, list: &ListName) -> (ChannelKind, Option<ChannelName>) {
        match self.list(list.as_str()) {
            Some((list, settings)) => (settings.kind, Some(list.channel.clone())),
            None => (ChannelKind::Email, None),
        }
    }

    /// The channels as planning sees them.
    pub fn facts(&self) -> Channels {
        let facts =
            |settings: &ChannelSettings| ChannelFacts { kind: settings.kind, enabled: settings.enabled };
        self.channels.iter().map(|(name, settings)| (name.clone(), facts(settings))).collect()
    }

    /// What the channel says about failures; the defaults of its kind if it is not configured any more.
    pub fn rules(&self, channel: Option<&ChannelName>, kind: ChannelKind) -> Rules {
        let configured = channel.and_then(|name| self.channels.get(name)).cloned();
        let settings = configured.unwrap_or_else(|| ChannelSettings::of(kind));
        Rules {
            retry: settings.retry,
            on_ambiguous: settings.on_ambiguous,
            on_suspended: settings.on_suspended,
        }
    }
}
