//! The tables `lists.<name>`: a channel, and the addresses on it that belong together.

use std::collections::BTreeSet;

use angarium_channels::email::mailbox::Mailbox;
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::list::{List, Member};
use angarium_domain::text::{ChannelName, ListName};
use angarium_egress::{Guard, Trust};
use url::Url;

use super::reader::{Field, Section};
use super::{Config, Declared};

/// Reads every list; the kind of its channel says what an address is. Whatever the guard would refuse is a warning.
pub(super) fn read(section: &Section<'_, '_>, config: &Config) -> Declared<ListName, List> {
    let guard = config.security.guard();
    let mut lists = Declared::new();
    for (name, field) in section.entries() {
        let parsed = ListName::parse(name).map_err(|error| field.problem_at_key(error)).ok();
        let list = field.table().and_then(|section| list(&section, config, &guard));
        if let Some(name) = parsed {
            lists.insert(name, list);
        }
    }
    lists
}

fn list(section: &Section<'_, '_>, config: &Config, guard: &Guard) -> Option<List> {
    let channel = section.required("channel");
    let items = section.required("members").and_then(|field| {
        let items = field.items()?;
        if items.is_empty() {
            field.problem("must not be empty");
            return None;
        }
        Some(items)
    });
    section.finish();
    let (channel, kind) = known_channel(&channel?, config)?;
    let items = items?;
    let members: Vec<Option<Member>> = items.iter().map(|item| member(item, kind, guard)).collect();
    let mut seen = BTreeSet::new();
    for (item, member) in items.iter().zip(&members) {
        if member.as_ref().is_some_and(|member| !seen.insert(member.address.as_str())) {
            item.warning("stands in this list before: it is sent to once");
        }
    }
    let list = List { channel, members: members.into_iter().collect::<Option<_>>()? };
    // What else is wrong with it is said where the API's lists are judged.
    List::parse(&list.to_json(), &|_| Some(kind)).map_err(|complaints| section.complaints(complaints)).ok()
}

fn known_channel(field: &Field<'_, '_>, config: &Config) -> Option<(ChannelName, ChannelKind)> {
    let name = field.parse(ChannelName::parse)?;
    match config.channels.get(&name) {
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
    let name = section.field("name").map(|field| field.text());
    section.finish();
    Some(Member { address: address?, name: name.flatten() })
}

fn address(field: &Field<'_, '_>, kind: ChannelKind, guard: &Guard) -> Option<Address> {
    let address = field.parse(|text| Address::parse(kind, text))?;
    if let Some(why) = blocked(&address, kind, guard) {
        field.warning(why);
    }
    Some(address)
}

/// Why nothing is ever sent to an address of a channel of this kind, as far as it can be told without resolving names.
pub(crate) fn blocked(address: &Address, kind: ChannelKind, guard: &Guard) -> Option<String> {
    if kind != ChannelKind::Webhook {
        return None;
    }
    let url = Url::parse(address.as_str()).ok()?;
    guard.check_url(&url, Trust::Data).err().map(|blocked| format!("is never sent to: {blocked}"))
}
