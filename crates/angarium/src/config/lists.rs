//! The tables `lists.<name>`: a channel, and the addresses on it that belong together.

use std::collections::{BTreeMap, BTreeSet};

use angarium_channels::email::mailbox::Mailbox;
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::text::{ChannelName, ListName};
use angarium_egress::{Guard, Trust};
use url::Url;

use super::channels::Channel;
use super::reader::{Field, Section};

/// Addresses that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The channel that leads to all of them.
    pub channel: ChannelName,
    /// At least one, no address twice, in the order of the file.
    pub members: Vec<Member>,
}

/// One address of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where its messages go, in normal form.
    pub address: Address,
    /// Who that is, for people who read.
    pub name: Option<String>,
}

/// Reads every list whose channel is known; the channel's kind says what an address is. Whatever `guard`
/// would refuse is a warning.
pub(super) fn read(
    section: &Section<'_, '_>,
    channels: &BTreeMap<ChannelName, Channel>,
    guard: &Guard,
) -> BTreeMap<ListName, List> {
    let mut lists = BTreeMap::new();
    for (name, field) in section.entries() {
        let parsed = ListName::parse(name).map_err(|error| field.problem_at_key(error)).ok();
        let list = field.table().and_then(|section| list(section, channels, guard));
        if let (Some(name), Some(list)) = (parsed, list) {
            lists.insert(name, list);
        }
    }
    lists
}

fn list(section: Section<'_, '_>, channels: &BTreeMap<ChannelName, Channel>, guard: &Guard) -> Option<List> {
    let channel = section.required("channel");
    let items = section.required("members").and_then(|field| {
        let items = field.items()?;
        if items.is_empty() {
            field.problem("must not be empty");
        }
        Some(items)
    });
    section.finish();
    let (name, kind) = known_channel(&channel?, channels)?;
    let mut members = Vec::new();
    let mut seen = BTreeSet::new();
    for item in items? {
        let Some(member) = member(&item, kind, guard) else { continue };
        if seen.insert(member.address.as_str().to_owned()) {
            members.push(member);
        } else {
            item.warning("stands in this list before: it is sent to once");
        }
    }
    Some(List { channel: name, members })
}

fn known_channel(
    field: &Field<'_, '_>,
    channels: &BTreeMap<ChannelName, Channel>,
) -> Option<(ChannelName, ChannelKind)> {
    let name = field.parse(ChannelName::parse)?;
    match channels.get(&name) {
        Some(channel) => Some((name, channel.settings.kind)),
        None => {
            field.problem("names a channel that does not stand in this file, or has a fault there");
            None
        }
    }
}

fn member(item: &Field<'_, '_>, kind: ChannelKind, guard: &Guard) -> Option<Member> {
    if !item.is_table() {
        return match kind {
            ChannelKind::Email => {
                let Mailbox { name, address } = item.parse(str::parse::<Mailbox>)?;
                Some(Member { address, name })
            }
            _ => Some(Member { address: address(item, kind, guard)?, name: None }),
        };
    }
    let section = item.table()?;
    let address = section.required("address").and_then(|field| address(&field, kind, guard));
    let name = section.field("name").and_then(|field| field.parse(display_name));
    section.finish();
    Some(Member { address: address?, name })
}

/// An address. Names are not resolved here, so of a URL only a literal address can be judged.
fn address(field: &Field<'_, '_>, kind: ChannelKind, guard: &Guard) -> Option<Address> {
    let address = field.parse(|text| Address::parse(kind, text))?;
    if kind == ChannelKind::Webhook
        && let Ok(url) = Url::parse(address.as_str())
        && let Err(blocked) = guard.check_url(&url, Trust::Data)
    {
        field.warning(format_args!("is never sent to: {blocked}"));
    }
    Some(address)
}

fn display_name(text: &str) -> Result<String, &'static str> {
    let clean = !text.is_empty() && !text.chars().any(char::is_control);
    if clean { Ok(text.to_owned()) } else { Err("must be one line of text") }
}
