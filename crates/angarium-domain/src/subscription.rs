//! Subscriptions: stored rules that say who is told of which events (FP-03).

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::address::Address;
use crate::channel::ChannelKind;
use crate::complaints::{Complaint, Members, duration, word_for_word};
use crate::filter::Filter;
use crate::text::{ChannelName, FeedId, ListName, SourceName};
use crate::time::Timestamp;

/// A rule: a feed, a filter and one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// For people.
    pub name: String,
    /// Which events.
    pub feed: FeedId,
    /// Which of them.
    pub filter: Filter,
    /// Who is told.
    pub target: Target,
    /// Options of the channel's provider, as JSON.
    pub options: Option<String>,
    /// While it is off, nobody is told.
    pub active: bool,
    /// How long after a delivery further events are kept back; zero for not at all (FP-06).
    pub cooldown: Duration,
    /// How many may be told in 24 hours, counted by recipients; none for any number.
    pub daily_cap: Option<u32>,
    /// Never sent twice, whatever happens (WH-03).
    pub at_most_once: bool,
    /// Who made it.
    pub scope: Scope,
    /// Whose it is.
    pub owner: Option<SourceName>,
    /// From when on it no longer counts.
    pub expires_at: Option<Timestamp>,
    /// It is told test events, and no others.
    pub test: bool,
}

/// Where a subscription leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One address.
    Address {
        /// The channel that delivers.
        channel: ChannelName,
        /// What that channel delivers to.
        address: Address,
    },
    /// The members that a list has when it is first sent.
    List(ListName),
}

/// Who made a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An operator, or the configuration file.
    System,
    /// A user.
    User,
}

/// Recipients that a daily cap can allow, at most.
const MOST_DAILY: u32 = 1_000_000;
/// Bytes of the options of a channel's provider, as JSON.
const OPTIONS_BYTES: usize = 64 * 1024;

const DELIVERIES: [(&str, bool); 2] = [("at_least_once", false), ("at_most_once", true)];
const SCOPES: [(&str, Scope); 2] = [("system", Scope::System), ("user", Scope::User)];

impl Subscription {
    /// Reads a subscription from a JSON object: `name`, `feed` and `target` are needed; it is active, of system scope, for
    /// every event of its feed, without cooldown or cap, and delivered at least once, unless said otherwise. `kind_of`
    /// says which kind a channel is, if it is configured. Whether the filter suits the feed is not judged here.
    pub fn parse(
        json: &str,
        kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>,
    ) -> Result<Subscription, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let subscription = read(&mut members, kind_of);
        members.finish_with(subscription)
    }

    /// Its JSON object, as [`Self::parse`] reads it.
    pub fn to_json(&self) -> String {
        let filter = (self.filter != Filter::default()).then(|| self.filter.to_json());
        let written = Written {
            name: &self.name,
            feed: self.feed.as_str(),
            filter: filter.as_deref().and_then(word_for_word),
            target: WrittenTarget::of(&self.target),
            options: self.options.as_deref().and_then(word_for_word),
            active: (!self.active).then_some(false),
            cooldown: (!self.cooldown.is_zero()).then(|| duration::write(self.cooldown)),
            daily_cap: self.daily_cap,
            delivery: self.at_most_once.then_some("at_most_once"),
            scope: (self.scope == Scope::User).then_some("user"),
            owner: self.owner.as_ref().map(SourceName::as_str),
            expires_at: self.expires_at,
            test: self.test.then_some(true),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }
}

fn read(
    members: &mut Members<'_>,
    kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>,
) -> Option<Subscription> {
    let name = members.required_label("name");
    let feed = members.required("feed", FeedId::parse);
    let filter = filter(members);
    let target = members.required_raw("target");
    let target = target
        .and_then(|raw| members.object_of("target", raw, |members| read_target(members, kind_of)))
        .flatten();
    let options = members.json_object("options", OPTIONS_BYTES);
    let active = members.flag("active");
    let cooldown = members.duration("cooldown");
    let daily_cap = members.number("daily_cap", 1..=MOST_DAILY);
    let at_most_once = members.choice("delivery", &DELIVERIES);
    let scope = members.choice("scope", &SCOPES);
    let owner = members.text("owner", SourceName::parse);
    let expires_at = members.time("expires_at");
    let test = members.flag("test");
    Some(Subscription {
        name: name?,
        feed: feed?,
        filter: filter?,
        target: target?,
        options,
        active: active.unwrap_or(true),
        cooldown: cooldown.unwrap_or_default(),
        daily_cap,
        at_most_once: at_most_once.unwrap_or(false),
        scope: scope.unwrap_or(Scope::System),
        owner,
        expires_at,
        test: test.unwrap_or(false),
    })
}

/// No filter is one for everything; one that is refused is never read as that.
fn filter(members: &mut Members<'_>) -> Option<Filter> {
    let Some(raw) = members.raw("filter") else { return Some(Filter::default()) };
    Filter::parse(raw.get()).map_err(|complaints| members.refuse_all("filter", complaints)).ok()
}

fn read_target(
    members: &mut Members<'_>,
    kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>,
) -> Option<Target> {
    if members.has("list") {
        let list = members.text("list", ListName::parse).map(Target::List);
        for name in ["channel", "address"] {
            if members.raw(name).is_some() {
                members.refuse(name, "must not stand beside list");
            }
        }
        return list;
    }
    if !members.has("channel") && !members.has("address") {
        members.refuse("list", "is required, or channel and address");
        return None;
    }
    let (channel, kind) = members.channel("channel", kind_of).unzip();
    let address = members.required_raw("address");
    // Without its channel nobody knows what an address is.
    let (raw, kind) = (address?, kind?);
    let address = members.text_of("address", raw, |text| Address::parse(kind, text));
    Some(Target::Address { channel: channel?, address: address? })
}

/// A subscription as it is written: what is at its default is left out.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    feed: &'a str,
    target: WrittenTarget<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cooldown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    daily_cap: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenTarget<'a> {
    Address { channel: &'a str, address: &'a str },
    List { list: &'a str },
}

impl<'a> WrittenTarget<'a> {
    fn of(target: &'a Target) -> Self {
        match target {
            Target::Address { channel, address } => {
                WrittenTarget::Address { channel: channel.as_str(), address: address.as_str() }
            }
            Target::List(list) => WrittenTarget::List { list: list.as_str() },
        }
    }
}

#[cfg(test)]
mod tests;
