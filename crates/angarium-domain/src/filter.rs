//! Filters: which events of a feed a subscription is for (FP-04). Here they are read and judged by themselves and against
//! their feed; [`crate::matching`] holds them against events.

mod check;
mod number;
mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::complaints::{Complaint, Members};
use crate::feed::Feed;
use crate::text::{EventType, FieldName};

/// A filter as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only events of these types; of all if there is none.
    pub event_types: Vec<EventType>,
    /// The field is one of these values.
    pub fields: BTreeMap<FieldName, Vec<String>>,
    /// The field, or with `*` any field, holds the keyword.
    pub keywords: BTreeMap<String, Vec<String>>,
    /// How these are joined.
    pub mode: MatchMode,
    /// Conditions in the dialects of the CloudEvents Subscriptions API; all of them hold besides.
    pub conditions: Vec<Condition>,
}

/// A condition in one of the dialects of the CloudEvents Subscriptions API. Attributes are those of the event as a
/// CloudEvent (`id`, `source`, `type`, `subject`, `time`, `feed`) and the feed's fields; unlike above, case matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Each attribute is this text.
    Exact(BTreeMap<String, String>),
    /// Each attribute begins with this text.
    Prefix(BTreeMap<String, String>),
    /// Each attribute ends with this text.
    Suffix(BTreeMap<String, String>),
    /// All of them hold.
    All(Vec<Condition>),
    /// One of them holds.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
}

/// How the conditions of a filter are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchMode {
    /// One of them holds.
    #[default]
    Any,
    /// All of them hold.
    All,
}

/// The key of keywords that may stand in any field.
pub const ANY_FIELD: &str = "*";

/// The attributes that every event has, beside its fields.
pub(crate) const ATTRIBUTES: [&str; 6] = ["id", "source", "type", "subject", "time", "feed"];

impl Filter {
    /// Reads a filter from a JSON object: `event_types`, `fields`, `keywords`, `match` (`any`, `all`), and `filters` in the
    /// dialects of CloudEvents. An empty object lets everything through; an empty list never stands for anything.
    pub fn parse(json: &str) -> Result<Filter, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let filter = read::filter(&mut members);
        members.finish_with(filter)
    }

    /// Its JSON object, as [`Self::parse`] reads it.
    pub fn to_json(&self) -> String {
        read::written(self).to_string()
    }

    /// What makes it senseless on this feed: types and fields that the feed lacks, conditions that can never hold.
    pub fn check(&self, feed: &Feed) -> Vec<Complaint> {
        check::against(self, feed)
    }

    /// Whether it lets every event of its feed through.
    pub fn is_everything(&self) -> bool {
        self == &Filter { mode: self.mode, ..Filter::default() }
    }
}

/// A JSON scalar as the text that filters compare: numbers exactly, whatever way they were written. None for null, an array
/// or an object.
pub fn plain_value(value: &RawValue) -> Option<String> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'"' => plain_text(value).map(Cow::into_owned),
        b't' | b'f' => Some(text.to_owned()),
        b'-' | b'0'..=b'9' => Some(number::normal(text)),
        _ => None,
    }
}

/// A JSON string as the text that it stands for. None for anything else.
fn plain_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(inner.into()),
        true => serde_json::from_str(value.get()).ok().map(Cow::Owned),
    }
}
