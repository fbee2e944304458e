//! What is wrong with an object that was handed in, all of it at once, each with the member that it is about.
//!
//! Feeds, templates, lists, subscriptions and events come in as JSON through the API, and as tables that become JSON
//! through the configuration file; both are read here, so that both are judged alike. Members are read over the text as it
//! was written: numbers keep their digits, and data stays word for word. What nobody asked for is a complaint too: a
//! misspelt filter must not match all.
//!
//! Deliberately absent: where in the text a member stands. A path says it as well, and holds for tables too.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::channel::ChannelKind;
use crate::text::{ChannelName, SourceName, TextError, one_line};
use crate::time::Timestamp;

pub mod duration;
pub mod spelling;

/// Complaints that are kept at most; more would only be noise.
pub const MOST_COMPLAINTS: usize = 100;

/// Characters of a name from outside that a path shows.
const SHOWN_CHARS: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The member, as a path: `filter.keywords.area`; empty if it is about the whole.
    pub field: String,
    /// What is wrong with it, to be read after its name.
    pub message: String,
}

impl Complaint {
    /// A complaint about `field`.
    pub fn new(field: impl Into<String>, message: impl Display) -> Self {
        Complaint { field: field.into(), message: message.to_string() }
    }

    /// The same complaint, seen from an object whose member `name` it is about.
    #[must_use]
    pub fn within(self, name: &str) -> Self {
        let field = match self.field.as_str() {
            "" => name.to_owned(),
            item if item.starts_with('[') => format!("{name}{item}"),
            member => format!("{name}.{member}"),
        };
        Complaint { field, ..self }
    }
}

impl Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field} {}", self.message),
        }
    }
}

/// The members of a JSON object, taken out one by one. A member that is null is one that is not there.
///
/// Methods that end in `_of` read a value that was found elsewhere (in an array, in a map); `path` is what complaints call
/// it, below this object: `members[3]`, `fields.area`.
pub struct Members<'a> {
    left: BTreeMap<String, &'a RawValue>,
    asked: Vec<&'static str>,
    within: String,
    complaints: Vec<Complaint>,
}

impl<'a> Members<'a> {
    /// Takes an object apart that has passed [`crate::json::check`]; anything else is refused.
    pub fn read(json: &'a str) -> Result<Self, Vec<Complaint>> {
        match serde_json::from_str(json) {
            Ok(left) => {
                Ok(Members { left, asked: Vec::new(), within: String::new(), complaints: Vec::new() })
            }
            Err(_) => Err(vec![Complaint::new("", "must be an object")]),
        }
    }

    /// Whether the member is there.
    pub fn has(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|raw| !is_null(raw))
    }

    /// The member as it was written.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        self.left.remove(name).filter(|raw| !is_null(raw))
    }

    /// The member as it was written; it is a complaint if it is missing.
    pub fn required_raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        let raw = self.raw(name);
        if raw.is_none() {
            self.refuse(name, "is required");
        }
        raw
    }

    /// The member as a text that `parse` accepts.
    pub fn text<T, E: Display>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let raw = self.raw(name)?;
        self.text_of(name, raw, parse)
    }

    /// A value as a text that `parse` accepts.
    pub fn text_of<T, E: Display>(
        &mut self,
        path: &str,
        raw: &RawValue,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text: String = self.value_of(path, raw, "must be a string")?;
        parse(&text).map_err(|error| self.refuse(path, error)).ok()
    }

    /// The member as a text that `parse` accepts; it is a complaint if it is missing.
    pub fn required<T, E: Display>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let raw = self.required_raw(name)?;
        self.text_of(name, raw, parse)
    }

    /// The member as a name for people: one visible line of at most [`crate::limits::NAME_CHARS`] characters.
    pub fn label(&mut self, name: &'static str) -> Option<String> {
        self.text(name, label)
    }

    /// The member as such a name for people; it is a complaint if it is missing.
    pub fn required_label(&mut self, name: &'static str) -> Option<String> {
        self.required(name, label)
    }

    /// The member as the name of a channel that is configured, and the kind that `kind_of` says it is of; it is a complaint
    /// if it is missing.
    pub fn channel(
        &mut self,
        name: &'static str,
        kind_of: &dyn Fn(&ChannelName) -> Option<ChannelKind>,
    ) -> Option<(ChannelName, ChannelKind)> {
        let channel = self.required(name, ChannelName::parse)?;
        let kind = kind_of(&channel);
        if kind.is_none() {
            self.refuse(name, "is not the name of a configured channel");
        }
        Some((channel, kind?))
    }

    /// The member as a JSON object of at most so many bytes, word for word.
    pub fn json_object(&mut self, name: &'static str, limit: usize) -> Option<String> {
        let raw = self.raw(name)?;
        let length = raw.get().len();
        if !raw.get().starts_with('{') {
            self.refuse(name, "must be an object");
        } else if length > limit {
            self.refuse(name, TextError::TooLong { length, limit, unit: "bytes" });
        }
        Some(raw.get().to_owned())
    }

    /// The member as one of these words.
    pub fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.text(name, |text| match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(*meaning),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(format!("is none of {}", words.join(", ")))
            }
        })
    }

    /// The member as true or false.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        let raw = self.raw(name)?;
        self.value_of(name, raw, "must be true or false")
    }

    /// The member as a whole number of this range, written without a fraction or an exponent.
    pub fn number<N>(&mut self, name: &'static str, range: RangeInclusive<N>) -> Option<N>
    where
        N: DeserializeOwned + PartialOrd + Display,
    {
        let raw = self.raw(name)?;
        let number = serde_json::from_str(raw.get()).ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(
                name,
                format_args!("must be a whole number from {} to {}", range.start(), range.end()),
            );
        }
        number
    }

    /// The member as a span of time with its unit: `"500ms"`, `"90s"`, `"30m"`, `"2h"`, `"7d"`.
    pub fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.text(name, duration::parse)
    }

    /// The member as a span of time that is not zero.
    pub fn lasting(&mut self, name: &'static str) -> Option<Duration> {
        self.text(name, |text| match duration::parse(text) {
            Ok(Duration::ZERO) => Err("must be longer than zero".to_owned()),
            other => other.map_err(|error| error.to_string()),
        })
    }

    /// The member as an instant (RFC 3339) of the years 1970 to 9999.
    pub fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        self.text(name, str::parse)
    }

    /// The member as an array of texts that `parse` accepts, as many as `count` allows. Those that it refuses are left out.
    pub fn texts<T, E: Display>(
        &mut self,
        name: &'static str,
        count: RangeInclusive<usize>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let raw = self.raw(name)?;
        self.texts_of(name, raw, count, parse)
    }

    /// A value as an array of texts that `parse` accepts, as many as `count` allows. Those that it refuses are left out.
    pub fn texts_of<T, E: Display>(
        &mut self,
        path: &str,
        raw: &'a RawValue,
        count: RangeInclusive<usize>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let items = self.items_of(path, raw, count)?;
        let read = |(i, raw)| self.text_of(&format!("{path}[{i}]"), raw, &parse);
        Some(items.into_iter().enumerate().filter_map(read).collect())
    }

    /// The member as an array of any values, as many as `count` allows.
    pub fn items(&mut self, name: &'static str, count: RangeInclusive<usize>) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw(name)?;
        self.items_of(name, raw, count)
    }

    /// A value as an array of any values, as many as `count` allows.
    pub fn items_of(
        &mut self,
        path: &str,
        raw: &'a RawValue,
        count: RangeInclusive<usize>,
    ) -> Option<Vec<&'a RawValue>> {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            self.refuse(path, "must be an array");
            return None;
        };
        self.counted(path, items.len(), count).then_some(items)
    }

    /// The member as a map of any values, as many as `count` allows; those that are null are not there.
    pub fn entries(
        &mut self,
        name: &'static str,
        count: RangeInclusive<usize>,
    ) -> Option<BTreeMap<String, &'a RawValue>> {
        let raw = self.raw(name)?;
        self.entries_of(name, raw, count)
    }

    /// A value as a map of any values, as many as `count` allows; those that are null are not there.
    pub fn entries_of(
        &mut self,
        path: &str,
        raw: &'a RawValue,
        count: RangeInclusive<usize>,
    ) -> Option<BTreeMap<String, &'a RawValue>> {
        let Ok(mut entries) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else {
            self.refuse(path, "must be an object");
            return None;
        };
        entries.retain(|_, value| !is_null(value));
        self.counted(path, entries.len(), count).then_some(entries)
    }

    /// The member as an object whose members `read` takes.
    pub fn object<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Members<'a>) -> T) -> Option<T> {
        let raw = self.raw(name)?;
        self.object_of(name, raw, read)
    }

    /// A value as an object whose members `read` takes.
    pub fn object_of<T>(
        &mut self,
        path: &str,
        raw: &'a RawValue,
        read: impl FnOnce(&mut Members<'a>) -> T,
    ) -> Option<T> {
        let Ok(left) = serde_json::from_str(raw.get()) else {
            self.refuse(path, "must be an object");
            return None;
        };
        let within = format!("{}{path}.", self.within);
        let complaints = std::mem::take(&mut self.complaints);
        let mut inner = Members { left, asked: Vec::new(), within, complaints };
        let value = read(&mut inner);
        self.complaints = inner.ended();
        Some(value)
    }

    /// Notes that a member is not as it must be.
    pub fn refuse(&mut self, path: &str, message: impl Display) {
        if self.complaints.len() < MOST_COMPLAINTS {
            self.complaints.push(Complaint::new(format!("{}{path}", self.within), message));
        }
    }

    /// Notes what another reader found wrong with a member.
    pub fn refuse_all(&mut self, path: &str, complaints: Vec<Complaint>) {
        for complaint in complaints {
            let Complaint { field, message } = complaint.within(path);
            self.refuse(&field, message);
        }
    }

    /// Nothing if all was well and nothing is left over.
    pub fn finish(self) -> Result<(), Vec<Complaint>> {
        let complaints = self.ended();
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What was made of the members, if all was well and nothing is left over. `made` is there unless something was
    /// refused.
    pub fn finish_with<T>(self, made: Option<T>) -> Result<T, Vec<Complaint>> {
        self.finish()?;
        made.ok_or_else(|| vec![Complaint::new("", "is not complete")])
    }

    fn value_of<T: DeserializeOwned>(&mut self, path: &str, raw: &RawValue, needed: &str) -> Option<T> {
        let value = serde_json::from_str(raw.get()).ok();
        if value.is_none() {
            self.refuse(path, needed);
        }
        value
    }

    fn counted(&mut self, path: &str, given: usize, count: RangeInclusive<usize>) -> bool {
        match given {
            0 if *count.start() > 0 => self.refuse(path, "must not be empty"),
            _ if given < *count.start() => {
                self.refuse(path, format_args!("has {given} entries, at least {} are needed", count.start()));
            }
            _ if given > *count.end() => {
                self.refuse(path, format_args!("has {given} entries, at most {} are allowed", count.end()));
            }
            _ => return true,
        }
        false
    }

    fn ended(mut self) -> Vec<Complaint> {
        for name in std::mem::take(&mut self.left).into_keys() {
            if self.complaints.len() == MOST_COMPLAINTS {
                break;
            }
            let message = match spelling::nearest(&name, &self.asked) {
                Some(known) => format!("is not known here; did you mean {known}?"),
                None => "is not known here".to_owned(),
            };
            self.refuse(&shown(&name), message);
        }
        self.complaints
    }
}

/// A name from outside, as a path shows it.
pub fn shown(name: &str) -> String {
    one_line(name, SHOWN_CHARS)
}

/// JSON that is kept as text, to be written into an object as it is.
pub(crate) fn word_for_word(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

fn label(text: &str) -> Result<String, TextError> {
    SourceName::parse(text).map(|label| label.as_str().to_owned())
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

#[cfg(test)]
mod tests;
