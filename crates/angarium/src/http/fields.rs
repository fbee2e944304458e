//! Reading the members of a JSON object, and the parameters of a query, so that everything that is wrong
//! with them is found at once. What nobody asked for is an error: a misspelt filter must not match all.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::value::RawValue;
use url::form_urlencoded;

use super::dto::FieldError;
use super::problem::{Code, Problem};

/// Errors that are told at most; the rest would only be noise.
const MOST_ERRORS: usize = 100;

/// The members of a JSON object that has passed [`super::body::check`].
pub(super) struct Fields<'a> {
    members: BTreeMap<String, &'a RawValue>,
    within: String,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// Takes an object apart; anything else is refused.
    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        let members = serde_json::from_str(text)
            .map_err(|_| Problem::new(Code::InvalidRequest, "a JSON object is needed"))?;
        Ok(Fields { members, within: String::new(), errors: Vec::new() })
    }

    /// Whether the member is there. Null is the same as not being there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|raw| raw.get() != "null")
    }

    /// The member as it was written.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        self.members.remove(name).filter(|raw| raw.get() != "null")
    }

    /// The member as a text that `parse` accepts.
    pub(super) fn text<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        let raw = self.raw(name)?;
        let Ok(text) = serde_json::from_str::<String>(raw.get()) else {
            self.refuse(name, "must be a string");
            return None;
        };
        parse(text).map_err(|error| self.refuse(name, error)).ok()
    }

    /// The member as a text that `parse` accepts; it is an error if it is missing.
    pub(super) fn required<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        if !self.has(name) {
            self.members.remove(name);
            self.refuse(name, "is required");
            return None;
        }
        self.text(name, parse)
    }

    /// The member as an object whose members `read` takes.
    pub(super) fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'a>) -> T) -> Option<T> {
        let raw = self.raw(name)?;
        let Ok(members) = serde_json::from_str(raw.get()) else {
            self.refuse(name, "must be an object");
            return None;
        };
        let mut inner = Fields { members, within: format!("{}{name}.", self.within), errors: Vec::new() };
        let value = read(&mut inner);
        self.errors.extend(inner.into_errors());
        Some(value)
    }

    /// Notes that a member is not as it must be.
    pub(super) fn refuse(&mut self, name: &str, message: impl Display) {
        let field = format!("{}{name}", self.within);
        self.errors.push(FieldError { field, message: message.to_string() });
    }

    /// Nothing if all was well and nothing is left over.
    pub(super) fn finish(self) -> Result<(), Problem> {
        let errors = self.into_errors();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }

    fn into_errors(self) -> Vec<FieldError> {
        let Fields { members, within, mut errors } = self;
        let unknown = |name: String| FieldError {
            field: format!("{within}{}", angarium_domain::text::one_line(&name, 100)),
            message: "is not a known field".to_owned(),
        };
        errors.extend(members.into_keys().take(MOST_ERRORS).map(unknown));
        errors.truncate(MOST_ERRORS);
        errors
    }
}

/// The parameters of a query.
pub(super) struct Params {
    given: BTreeMap<String, String>,
    errors: Vec<FieldError>,
}

impl Params {
    /// Takes the query of an address apart.
    pub(super) fn read(query: Option<&str>) -> Self {
        let mut params = Params { given: BTreeMap::new(), errors: Vec::new() };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if value.is_empty() {
                params.refuse(&name, "must not be empty");
            } else if params.given.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                params.refuse(&name, "stands twice");
            }
        }
        params
    }

    /// The parameter as a value that `parse` accepts.
    pub(super) fn take<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.given.remove(name)?;
        if text.chars().any(char::is_control) {
            self.refuse(name, "contains a control character");
            return None;
        }
        parse(&text).map_err(|error| self.refuse(name, error)).ok()
    }

    /// The parameter as a text; it is an error if it is missing.
    pub(super) fn required(&mut self, name: &str) -> String {
        let known = self.given.contains_key(name) || self.errors.iter().any(|error| error.field == name);
        if !known {
            self.refuse(name, "is required");
        }
        self.take(name, |text| Ok::<_, &str>(text.to_owned())).unwrap_or_default()
    }

    /// Notes that a parameter is not as it must be.
    pub(super) fn refuse(&mut self, name: &str, message: impl Display) {
        let field = angarium_domain::text::one_line(name, 100);
        self.errors.push(FieldError { field, message: message.to_string() });
    }

    /// Nothing if all was well and nothing is left over.
    pub(super) fn finish(mut self) -> Result<(), Problem> {
        for name in std::mem::take(&mut self.given).into_keys() {
            self.refuse(&name, "is not a known parameter");
        }
        self.errors.truncate(MOST_ERRORS);
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }
}
