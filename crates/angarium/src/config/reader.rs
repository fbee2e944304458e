//! Reads a TOML document piece by piece and notes everything that is wrong with it, each with its place.
//!
//! Not serde: that stops at the first fault and forgets where later ones stood. Here a fault is noted, the
//! field counts as absent, and reading goes on. What was never asked for is an unknown key.

mod json;

use std::cell::RefCell;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use angarium_domain::complaints::spelling::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::secret::{Expanded, Secret, expand, expand_lines, expand_url};
use super::units::{self, UnitError};
use super::{Problem, Source};
pub(super) use json::References;

/// The document being read, and what was found wrong so far.
pub(super) struct Reader<'a> {
    source: &'a Source<'a>,
    text: &'a str,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, source: &'a Source<'a>) -> Self {
        Reader { source, text, problems: RefCell::default(), warnings: RefCell::default() }
    }

    pub(super) fn problem(&self, span: &Range<usize>, message: impl fmt::Display) {
        self.problems.borrow_mut().push(self.at(span, message));
    }

    pub(super) fn warning(&self, span: &Range<usize>, message: impl fmt::Display) {
        self.warnings.borrow_mut().push(self.at(span, message));
    }

    /// All problems and all warnings, in the order of the file.
    pub(super) fn into_findings(self) -> (Vec<Problem>, Vec<Problem>) {
        let sorted = |findings: RefCell<Vec<Problem>>| {
            let mut findings = findings.into_inner();
            findings.sort_by_key(|problem| problem.position);
            findings
        };
        (sorted(self.problems), sorted(self.warnings))
    }

    fn at(&self, span: &Range<usize>, message: impl fmt::Display) -> Problem {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        let position = (before.matches('\n').count() + 1, line.chars().count() + 1);
        Problem { file: self.source.name.to_owned(), position: Some(position), message: message.to_string() }
    }
}

/// A table and the keys that were asked for in it.
pub(super) struct Section<'r, 'd> {
    reader: &'r Reader<'r>,
    table: &'d DeTable<'d>,
    path: String,
    span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

impl<'r, 'd> Section<'r, 'd> {
    pub(super) fn root(reader: &'r Reader<'r>, table: &'d DeTable<'d>) -> Self {
        Section { reader, table, path: String::new(), span: 0..0, known: RefCell::default() }
    }

    /// The full name of a key in this table, as messages show it.
    pub(super) fn name_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn problem(&self, message: impl fmt::Display) {
        self.reader.problem(&self.span, format_args!("`{}` {message}", self.path));
    }

    pub(super) fn warning(&self, message: impl fmt::Display) {
        self.reader.warning(&self.span, format_args!("`{}` {message}", self.path));
    }

    /// The value of a key, which is known from now on.
    pub(super) fn field(&self, key: &'static str) -> Option<Field<'r, 'd>> {
        self.known.borrow_mut().push(key);
        self.table.get_key_value(key).map(|(key, value)| self.field_of(key, value))
    }

    /// The value of a key without which the table means nothing.
    pub(super) fn required(&self, key: &'static str) -> Option<Field<'r, 'd>> {
        let field = self.field(key);
        if field.is_none() {
            self.problem(format_args!("lacks the key `{key}`"));
        }
        field
    }

    /// The table under a key.
    pub(super) fn section(&self, key: &'static str) -> Option<Section<'r, 'd>> {
        self.field(key)?.table()
    }

    /// A key that exists elsewhere, or will later: told apart from a slip of the pen.
    pub(super) fn unsupported(&self, key: &'static str, why: &str) {
        if let Some(field) = self.field(key) {
            field.problem_at_key(why);
        }
    }

    /// Keys that are known, but mean nothing beside what was read so far.
    pub(super) fn idle(&self, keys: &[&'static str], why: &str) {
        for key in keys {
            if !self.known.borrow().contains(key) {
                self.unsupported(key, why);
            }
        }
    }

    /// A problem between several fields, noted at the first of `paths` that the file has in full, or else at
    /// this table.
    pub(super) fn problem_at(&self, paths: &[&[&str]], message: impl fmt::Display) {
        let span = paths.iter().find_map(|path| self.span_of(path)).unwrap_or_else(|| self.span.clone());
        self.reader.problem(&span, message);
    }

    fn span_of(&self, path: &[&str]) -> Option<Range<usize>> {
        let (last, tables) = path.split_last()?;
        let table = tables.iter().try_fold(self.table, |table, key| table.get(*key)?.get_ref().as_table())?;
        table.get(*last).map(Spanned::span)
    }

    /// Every entry of a table whose keys are names.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'d str, Field<'r, 'd>)> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), self.field_of(key, value)))
    }

    /// Ends the reading: every key that nobody asked for is a problem.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name: &str = key.get_ref();
            let place = if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path) };
            let hint =
                nearest(name, &known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let shown = name.escape_debug();
            self.reader.problem(&key.span(), format_args!("unknown key `{shown}` in {place}{hint}"));
        }
    }

    fn field_of(&self, key: &'d Spanned<impl AsRef<str>>, value: &'d Spanned<DeValue<'d>>) -> Field<'r, 'd> {
        let name = self.name_of(&key.get_ref().as_ref().escape_debug().to_string());
        Field { reader: self.reader, name, key_span: key.span(), value }
    }
}

/// One value with its name and its place.
pub(super) struct Field<'r, 'd> {
    reader: &'r Reader<'r>,
    name: String,
    key_span: Range<usize>,
    value: &'d Spanned<DeValue<'d>>,
}

impl<'r, 'd> Field<'r, 'd> {
    pub(super) fn problem(&self, message: impl fmt::Display) {
        self.reader.problem(&self.value.span(), format_args!("`{}` {message}", self.name));
    }

    /// A problem of the key rather than of its value.
    pub(super) fn problem_at_key(&self, message: impl fmt::Display) {
        self.reader.problem(&self.key_span, format_args!("`{}` {message}", self.name));
    }

    pub(super) fn warning(&self, message: impl fmt::Display) {
        self.reader.warning(&self.value.span(), format_args!("`{}` {message}", self.name));
    }

    /// What surrounds the document.
    pub(super) fn source(&self) -> &Source<'_> {
        self.reader.source
    }

    fn wrong(&self, wanted: &str) {
        self.problem(format_args!("must be {wanted}, not {}", with_article(self.value.get_ref().type_str())));
    }

    fn expanded(&self, wanted: &str, expand: Expand) -> Option<Expanded> {
        let Some(text) = self.value.get_ref().as_str() else {
            self.wrong(wanted);
            return None;
        };
        expand(text, self.reader.source)
            .map_err(|faults| faults.iter().for_each(|fault| self.problem(fault)))
            .ok()
    }

    /// A string, its references resolved.
    pub(super) fn text(&self) -> Option<String> {
        self.expanded("a string", expand).map(|expanded| expanded.value)
    }

    /// A string that is read as something else.
    pub(super) fn parse<T, E: fmt::Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        parse(&self.text()?).map_err(|error| self.problem(error)).ok()
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint =
                nearest(&text, &names).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            self.problem(format_args!("is none of {}{hint}", names.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// A string that nobody else should read: standing in a file that others can read is a warning.
    pub(super) fn secret(&self) -> Option<Secret> {
        self.hidden(expand)
    }

    /// The same of several lines, such as a private key.
    pub(super) fn key(&self) -> Option<Secret> {
        self.hidden(expand_lines)
    }

    fn hidden(&self, expand: Expand) -> Option<Secret> {
        let expanded = self.expanded("a string", expand)?;
        if expanded.value.is_empty() {
            self.problem("must not be empty");
            return None;
        }
        self.warn_of_exposure(expanded.literal);
        Some(Secret::new(expanded.value))
    }

    /// A URL that may hold a user name and password; whether it stands in the file word for word.
    pub(super) fn url(&self) -> Option<(String, bool)> {
        self.expanded("a URL", expand_url).map(|expanded| (expanded.value, expanded.literal))
    }

    /// Warns where a secret stands in a file that others can read.
    pub(super) fn warn_of_exposure(&self, literal: bool) {
        if literal && self.reader.source.readable_by_others {
            self.warning(
                "is a secret in a file that others can read: use ${env:NAME} or ${file:PATH}, or chmod 600",
            );
        }
    }

    pub(super) fn flag(&self) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong("true or false");
        }
        flag
    }

    /// Whether the value is `true` or `false`, where something else is possible as well.
    pub(super) fn is_flag(&self) -> Option<bool> {
        self.value.get_ref().as_bool()
    }

    /// The value as it is written if it is a string, where something else is possible as well.
    pub(super) fn is_text(&self) -> Option<&'d str> {
        self.value.get_ref().as_str()
    }

    /// A duration with its unit, longer than nothing.
    pub(super) fn duration(&self) -> Option<Duration> {
        let parsed = match self.value.get_ref() {
            DeValue::String(_) => units::duration(&self.text()?),
            DeValue::Integer(_) | DeValue::Float(_) => Err(UnitError::NoUnit),
            _ => Err(UnitError::Syntax),
        };
        match parsed {
            Ok(Duration::ZERO) => self.problem("must be more than nothing"),
            Ok(duration) => return Some(duration),
            Err(error) => self.problem(error.of_duration()),
        }
        None
    }

    /// A whole number within a range.
    pub(super) fn count(&self, range: RangeInclusive<usize>) -> Option<usize> {
        let Some(integer) = self.value.get_ref().as_integer() else {
            self.wrong("a whole number");
            return None;
        };
        self.within(usize::from_str_radix(integer.as_str(), integer.radix()).ok(), range)
    }

    /// A size in bytes within a range, written as a whole number or with a unit.
    pub(super) fn size(&self, range: RangeInclusive<usize>) -> Option<usize> {
        if self.value.get_ref().is_integer() {
            return self.count(range);
        }
        match units::size(&self.text()?) {
            Ok(bytes) => self.within(usize::try_from(bytes).ok(), range),
            Err(error) => {
                self.problem(error.of_size());
                None
            }
        }
    }

    fn within(&self, number: Option<usize>, range: RangeInclusive<usize>) -> Option<usize> {
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.problem(format_args!("must lie between {} and {}", range.start(), range.end()));
        }
        number
    }

    /// A whole number that may be negative.
    pub(super) fn integer(&self) -> Option<i64> {
        let Some(integer) = self.value.get_ref().as_integer() else {
            self.wrong("a whole number");
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        if number.is_none() {
            self.problem("is too large a number");
        }
        number
    }

    /// A number, whole or not, within a range.
    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let number: Option<f64> = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => {
                self.wrong("a number");
                return None;
            }
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.problem(format_args!("must lie between {} and {}", range.start(), range.end()));
        }
        number
    }

    /// The items of an array.
    pub(super) fn items(&self) -> Option<Vec<Field<'r, 'd>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            self.wrong("an array");
            return None;
        };
        let item = |(i, value): (usize, &'d Spanned<DeValue<'d>>)| Field {
            reader: self.reader,
            name: format!("{}[{i}]", self.name),
            key_span: value.span(),
            value,
        };
        Some(array.iter().enumerate().map(item).collect())
    }

    pub(super) fn is_array(&self) -> bool {
        self.value.get_ref().is_array()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// The value as a table.
    pub(super) fn table(&self) -> Option<Section<'r, 'd>> {
        let Some(table) = self.value.get_ref().as_table() else {
            self.wrong("a table");
            return None;
        };
        Some(Section {
            reader: self.reader,
            table,
            path: self.name.clone(),
            span: self.key_span.clone(),
            known: RefCell::default(),
        })
    }
}

type Expand = fn(&str, &Source<'_>) -> Result<Expanded, Vec<String>>;

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {kind}")
}
