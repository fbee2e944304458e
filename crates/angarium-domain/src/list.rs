//! Lists: addresses on one channel that belong together.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::address::Address;
use crate::channel::ChannelKind;
use crate::complaints::{Complaint, Members};
use crate::text::ChannelName;

/// Addresses that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The channel that leads to all of them.
    pub channel: ChannelName,
    /// At least one, no address twice, in the order in which they were given.
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

/// Members of a list, at most.
pub const MOST_MEMBERS: usize = 10_000;

impl List {
    /// Reads a list from its members `channel` and `members`; an address that stands twice is taken once, as it stands
    /// first. `kind_of` says which kind a channel is, if it is configured; without it no address can be judged.
    pub fn parse(
        json: &str,
        kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>,
    ) -> Result<List, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let list = read(&mut members, kind_of);
        members.finish_with(list)
    }

    /// Its JSON object, as [`Self::parse`] reads it.
    pub fn to_json(&self) -> String {
        let members = self.members.iter().map(WrittenMember::of).collect();
        let written = Written { channel: self.channel.as_str(), members };
        serde_json::to_string(&written).unwrap_or_default()
    }
}

fn read(members: &mut Members<'_>, kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>) -> Option<List> {
    let channel = members.channel("channel", kind_of);
    let raw = members.required_raw("members");
    let items = raw.and_then(|raw| members.items_of("members", raw, 1..=MOST_MEMBERS));
    let (channel, kind) = channel?;
    let mut seen = HashSet::new();
    let read = |(i, raw)| member(members, &format!("members[{i}]"), raw, kind);
    let mut addresses: Vec<Member> = items?.into_iter().enumerate().filter_map(read).collect();
    addresses.retain(|member| seen.insert(member.address.clone()));
    Some(List { channel, members: addresses })
}

/// An address, or an object that says whose it is.
fn member<'a>(members: &mut Members<'a>, path: &str, raw: &'a RawValue, kind: ChannelKind) -> Option<Member> {
    let address = |text: &str| Address::parse(kind, text);
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let address = members.text_of(path, raw, address)?;
            Some(Member { address, name: None })
        }
        Some(b'{') => members.object_of(path, raw, |members| {
            let name = members.label("name");
            let address = members.required("address", address)?;
            Some(Member { address, name })
        })?,
        _ => {
            members.refuse(path, "must be an address, or an object with address and name");
            None
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    channel: &'a str,
    members: Vec<WrittenMember<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenMember<'a> {
    Address(&'a str),
    Named { address: &'a str, name: &'a str },
}

impl<'a> WrittenMember<'a> {
    fn of(member: &'a Member) -> Self {
        let address = member.address.as_str();
        match &member.name {
            Some(name) => WrittenMember::Named { address, name },
            None => WrittenMember::Address(address),
        }
    }
}

#[cfg(test)]
mod tests;
