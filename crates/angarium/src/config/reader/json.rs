//! Tables that are handed on as JSON, to be judged by the domain as the API's are, and what the domain says about them
//! brought back to its place in the file.

use std::ops::Range;

use angarium_domain::complaints::{Complaint, shown};
use angarium_domain::json;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::{Reader, Section};
use crate::config::secret::expand;

/// How deep a table may nest.
const DEPTH: usize = 64;

/// What `${…}` means inside the strings of a table.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::config) enum References {
    /// They stand for something else, as everywhere.
    Resolved,
    /// Nothing: the text is kept word for word.
    Plain,
}

impl Section<'_, '_> {
    /// The whole table as a JSON object, but for these keys. None if something in it has no counterpart in JSON, of which
    /// every piece is noted.
    pub(in crate::config) fn as_json(&self, left_out: &[&str], references: References) -> Option<String> {
        let mut writer = Writer { reader: self.reader, references, sound: true, json: String::new() };
        writer.table(self.table, &self.path, left_out);
        let Writer { sound, json, .. } = writer;
        if let Err(fault) = json::check(json.as_bytes(), DEPTH)
            && sound
        {
            self.problem(format_args!("cannot be kept: {}", fault.detail));
            return None;
        }
        sound.then_some(json)
    }

    /// Notes what the domain complains about, each at the member that it names.
    pub(in crate::config) fn complaints(&self, complaints: Vec<Complaint>) {
        for complaint in complaints {
            self.complaint(complaint);
        }
    }

    /// Notes one complaint, at the member that it names or what of its path there is.
    pub(in crate::config) fn complaint(&self, complaint: Complaint) {
        let place = self.place_of(&complaint);
        self.reader.problem(&place, self.told(complaint));
    }

    /// Notes what is odd about a member.
    pub(in crate::config) fn oddity(&self, complaint: Complaint) {
        let place = self.place_of(&complaint);
        self.reader.warning(&place, self.told(complaint));
    }

    fn place_of(&self, complaint: &Complaint) -> Range<usize> {
        place(self.table, &complaint.field).unwrap_or_else(|| self.span.clone())
    }

    fn told(&self, complaint: Complaint) -> String {
        let Complaint { field, message } = complaint.within(&self.path);
        format!("`{field}` {message}")
    }
}

struct Writer<'r> {
    reader: &'r Reader<'r>,
    references: References,
    sound: bool,
    json: String,
}

impl Writer<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str, left_out: &[&str]) {
        self.json.push('{');
        let kept = table.iter().filter(|(key, _)| !left_out.contains(&key.get_ref().as_ref()));
        for (i, (key, value)) in kept.enumerate() {
            if i > 0 {
                self.json.push(',');
            }
            self.string(key.get_ref());
            self.json.push(':');
            self.value(value, &format!("{path}.{}", shown(key.get_ref())));
        }
        self.json.push('}');
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str) {
        match value.get_ref() {
            DeValue::String(text) if self.references == References::Resolved => {
                match expand(text, self.reader.source) {
                    Ok(expanded) => self.string(&expanded.value),
                    Err(faults) => faults.iter().for_each(|fault| self.refuse(value, path, fault)),
                }
            }
            DeValue::String(text) => self.string(text),
            DeValue::Integer(integer) => match decimal(integer) {
                Some(digits) => self.json.push_str(&digits),
                None => self.refuse(value, path, "is too large a number"),
            },
            DeValue::Float(float) => {
                let digits = float.as_str().trim_start_matches('+');
                if digits.ends_with(|c: char| c.is_ascii_digit()) {
                    self.json.push_str(digits);
                } else {
                    self.refuse(value, path, "must be a finite number");
                }
            }
            DeValue::Boolean(flag) => self.json.push_str(if *flag { "true" } else { "false" }),
            DeValue::Datetime(_) => self.refuse(value, path, "is a date: write it as a string, in quotes"),
            DeValue::Array(items) => {
                self.json.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.json.push(',');
                    }
                    self.value(item, &format!("{path}[{i}]"));
                }
                self.json.push(']');
            }
            DeValue::Table(table) => self.table(table, path, &[]),
        }
    }

    fn string(&mut self, text: &str) {
        self.json.push_str(&serde_json::Value::from(text).to_string());
    }

    fn refuse(&mut self, value: &Spanned<DeValue<'_>>, path: &str, message: &str) {
        self.sound = false;
        self.reader.problem(&value.span(), format_args!("`{path}` {message}"));
    }
}

/// The digits of an integer as JSON has them.
fn decimal(integer: &DeInteger<'_>) -> Option<String> {
    let digits = integer.as_str().trim_start_matches('+');
    match integer.radix() {
        10 => Some(digits.to_owned()),
        radix => u128::from_str_radix(digits, radix).ok().map(|number| number.to_string()),
    }
}

/// Where the member stands that a path names, or as much of it as there is.
fn place(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let (key, value, rest) = table
        .iter()
        .filter_map(|(key, value)| {
            let rest = path.strip_prefix(shown(key.get_ref()).as_str())?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some((key, value, rest))
        })
        .min_by_key(|(_, _, rest)| rest.len())?;
    let here = match value.get_ref() {
        DeValue::Table(_) | DeValue::Array(_) => key.span(),
        _ => value.span(),
    };
    Some(within(value, rest).unwrap_or(here))
}

fn within(value: &Spanned<DeValue<'_>>, path: &str) -> Option<Range<usize>> {
    if let (Some(path), DeValue::Table(table)) = (path.strip_prefix('.'), value.get_ref()) {
        return place(table, path);
    }
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    let item = value.get_ref().as_array()?.get(index.parse::<usize>().ok()?)?;
    Some(within(item, rest).unwrap_or_else(|| item.span()))
}
