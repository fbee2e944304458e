//! CloudEvents 1.0 over HTTP (WH-08): what stands in an object, or in the headers of a request, becomes an event.
//!
//! The subject is what the event is about; an event without one is about itself. The feed is the extension attribute of
//! that name, or the one that the catalogue gives its source to. Fields are what the feed declares and the event has: as an
//! extension attribute, else at the top of its data.
//!
//! Deliberately absent: attributes that nothing here is made of. `datacontenttype`, `dataschema` and extensions that the
//! feed does not declare are not kept; but for the first, they count when a resend is compared with what came first.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use angarium_domain::content::ContentHash;
use angarium_domain::event::{Event, FIELD_BYTES, ParsedEvent};
use angarium_domain::feed::Feed;
use angarium_domain::filter::plain_value;
use angarium_domain::json;
use angarium_domain::text::{
    EventSource, EventType, ExternalId, FeedId, FieldName, Locale, SourceKey, one_line,
};
use angarium_domain::time::Timestamp;
use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode;
use serde_json::value::RawValue;

use super::super::body;
use super::super::dto::FieldError;
use super::super::problem::{DETAIL_CHARS, Problem};

/// The headers that hold attributes begin so.
const PREFIX: &str = "ce-";
/// The header that says that the others hold attributes.
pub(super) const MARK: &str = "ce-specversion";

/// Errors that are told at most.
const MOST_ERRORS: usize = 100;

/// A CloudEvent whose attributes were checked. Which feed it belongs to, and so which fields it has, is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CloudEvent {
    source: EventSource,
    external_id: ExternalId,
    kind: EventType,
    key: SourceKey,
    time: Option<Timestamp>,
    locale: Option<Locale>,
    supersede_key: Option<SourceKey>,
    expires_at: Option<Timestamp>,
    /// The feed that it names.
    pub(super) feed: Option<FeedId>,
    extensions: BTreeMap<String, String>,
    data: Option<String>,
    hash: ContentHash,
}

impl CloudEvent {
    /// Reads an event in structured mode: an object that has passed [`body::check`]. Data in Base64 may be nested as deep as
    /// `depth` says.
    pub(super) fn structured(text: &str, depth: usize) -> Result<Self, Problem> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(text)
            .map_err(|_| Problem::invalid(vec![error("", "a JSON object is needed")]))?;
        members.retain(|_, raw| raw.get() != "null");
        let mut errors = Errors::default();
        let (data, base64) = (members.remove("data"), members.remove("data_base64"));
        let mut attributes = BTreeMap::new();
        for (name, raw) in members {
            match scalar(raw) {
                Some(text) => attributes.extend([(name, text)]),
                None => errors.add(&name, "must be a string, a whole number, true or false"),
            }
        }
        if data.is_some() && base64.is_some() {
            errors.add("data_base64", "must not stand beside data");
        }
        let data = match base64 {
            Some(base64) => {
                let is_json = attributes.get("datacontenttype").is_none_or(|media| is_json(media));
                errors.keep("data_base64", from_base64(base64, is_json, depth))
            }
            None => data.map(|data| data.get().to_owned()),
        };
        read(attributes, data, errors)
    }

    /// Reads an event in binary mode: its attributes are headers, and the body is its data.
    pub(super) fn binary(headers: &HeaderMap, bytes: &[u8], depth: usize) -> Result<Self, Problem> {
        let mut errors = Errors::default();
        let mut attributes = BTreeMap::new();
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix(PREFIX) else { continue };
            if name == "data" || name == "datacontenttype" {
                errors.add(name, "must not be a header: the body and its content type say it");
            } else if let Some(text) = errors.keep(name, decode(value))
                && attributes.insert(name.to_owned(), text).is_some()
            {
                errors.add(name, "stands twice");
            }
        }
        let media =
            headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let data = if bytes.is_empty() { None } else { Some(from_body(bytes, media, depth)?) };
        read(attributes, data, errors)
    }

    /// Who says so; the catalogue knows feeds by it.
    pub(super) fn source(&self) -> &str {
        self.source.as_str()
    }

    /// The event, on its feed. If it does not say when it happened, that is `now`.
    pub(super) fn on(self, feed: &Feed, now: Timestamp) -> Result<ParsedEvent, Problem> {
        let fields = self.fields(feed)?;
        let event = Event {
            source: self.source,
            external_id: self.external_id,
            feed: feed.id.clone(),
            kind: self.kind,
            key: self.key,
            at: self.time.unwrap_or(now),
            locale: self.locale,
            fields,
            data: self.data,
            entity: None,
            recipients: Vec::new(),
            expires_at: self.expires_at,
            supersede_key: self.supersede_key,
            test: false,
        };
        Ok(ParsedEvent { event, hash: self.hash })
    }

    fn fields(&self, feed: &Feed) -> Result<BTreeMap<FieldName, String>, Problem> {
        let object = self.data.as_deref().filter(|data| data.starts_with('{'));
        let data: BTreeMap<String, &RawValue> =
            object.and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
        let scalar = |name: &str| data.get(name).and_then(|raw| plain_value(raw));
        let mut errors = Errors::default();
        let mut fields = BTreeMap::new();
        for (name, field) in &feed.fields {
            let called = || [Some(name), field.alias.as_ref()].into_iter().flatten().map(FieldName::as_str);
            let given = called().find_map(|name| self.extensions.get(name).cloned());
            let Some(value) = given.or_else(|| called().find_map(scalar)) else { continue };
            if value.len() > FIELD_BYTES {
                let length = value.len();
                errors.add(
                    name.as_str(),
                    format_args!("has {length} bytes, at most {FIELD_BYTES} are allowed"),
                );
            }
            fields.insert(name.clone(), value);
        }
        errors.finish()?;
        Ok(fields)
    }
}

/// Everything but the fields, from attributes whose values are texts.
fn read(
    mut attributes: BTreeMap<String, String>,
    data: Option<String>,
    mut errors: Errors,
) -> Result<CloudEvent, Problem> {
    for (name, value) in &attributes {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            errors.add(name, "is no name of an attribute: these are made of a to z and 0 to 9");
        }
        if value.chars().any(char::is_control) {
            errors.add(name, "contains a control character");
        }
    }
    let hash = hash(&attributes, data.as_deref());
    match attributes.remove("specversion").as_deref() {
        Some("1.0") => {}
        Some(_) => errors.add("specversion", "must be 1.0"),
        None => errors.add("specversion", "is required"),
    }
    let external_id = errors.required(&mut attributes, "id", ExternalId::parse);
    let source = errors.required(&mut attributes, "source", EventSource::parse);
    let kind = errors.required(&mut attributes, "type", EventType::parse);
    let subject = errors.take(&mut attributes, "subject", SourceKey::parse);
    let key = subject.or_else(|| external_id.as_ref().and_then(|id| SourceKey::parse(id.as_str()).ok()));
    let time = errors.take(&mut attributes, "time", str::parse::<Timestamp>);
    let feed = errors.take(&mut attributes, "feed", FeedId::parse);
    let locale = errors.take(&mut attributes, "locale", Locale::parse);
    let supersede_key = errors.take(&mut attributes, "supersedekey", SourceKey::parse);
    let expires_at = errors.take(&mut attributes, "expirytime", str::parse::<Timestamp>);
    errors.finish()?;
    let (Some(external_id), Some(source), Some(kind), Some(key)) = (external_id, source, kind, key) else {
        return Err(Problem::internal("a CloudEvent without id, source, type or subject passed its checks"));
    };
    Ok(CloudEvent {
        source,
        external_id,
        kind,
        key,
        time,
        locale,
        supersede_key,
        expires_at,
        feed,
        extensions: attributes,
        data,
        hash,
    })
}

/// Over everything that was said but the source, the id, and how the data was written: the same event in another mode is the
/// same event. What the feed declares today is not in it. No attribute is called like `data`, which comes last.
fn hash(attributes: &BTreeMap<String, String>, data: Option<&str>) -> ContentHash {
    let said = attributes
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "id" | "source" | "specversion" | "datacontenttype"));
    let data = data.and_then(|data| serde_json::from_str::<&RawValue>(data).ok()).map(json::canonical);
    let parts = said.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    ContentHash::of_parts(parts.chain(data.iter().flat_map(|data| ["data", data.as_str()])))
}

/// The value of an attribute as text; floating-point numbers are none.
fn scalar(raw: &RawValue) -> Option<String> {
    let text = raw.get();
    match text.bytes().next()? {
        b'"' => serde_json::from_str(text).ok(),
        b'-' | b'0'..=b'9' if !text.contains(['.', 'e', 'E']) => Some(text.to_owned()),
        b't' | b'f' => Some(text.to_owned()),
        _ => None,
    }
}

/// Bytes that a structured event holds as Base64: JSON if they are that, else their Base64 as a JSON string.
fn from_base64(raw: &RawValue, is_json: bool, depth: usize) -> Result<String, String> {
    let text: String = serde_json::from_str(raw.get()).map_err(|_| "must be a string".to_owned())?;
    let bytes = STANDARD.decode(&text).map_err(|_| "is not Base64".to_owned())?;
    if !is_json {
        return Ok(raw.get().to_owned());
    }
    match json::check(&bytes, depth) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(fault) => Err(format!("is not JSON: {}", one_line(&fault.detail, DETAIL_CHARS))),
    }
}

/// The body of an event in binary mode: as it is if it is JSON, as a JSON string if it is text, else as its Base64.
fn from_body(bytes: &[u8], media: &str, depth: usize) -> Result<String, Problem> {
    if is_json(media) {
        body::check_charset(body::media_type(media).1)?;
        return body::check(bytes, depth).map(|text| text.trim().to_owned());
    }
    let is_text = media.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if is_text && !text.contains('\0') => Cow::from(text),
        _ => Cow::from(STANDARD.encode(bytes)),
    };
    serde_json::to_string(&text).map_err(|error| Problem::internal(error.to_string()))
}

/// Whether data of this type is JSON. Data that says nothing of its type is.
fn is_json(media: &str) -> bool {
    let media = body::media_type(media).0.to_ascii_lowercase();
    media.is_empty() || media.ends_with("/json") || media.ends_with("+json")
}

/// The value of a header: quotes are taken off, as older senders put them, and one round of percent-encoding.
fn decode(value: &HeaderValue) -> Result<String, &'static str> {
    let text = value.to_str().map_err(|_| "has bytes beyond ASCII, which must be percent-encoded")?;
    let text = unquoted(text.trim());
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        match rest.get(at + 1..at + 3) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
                rest = rest.get(at + 3..).unwrap_or_default()
            }
            _ => return Err("has a % that begins no byte in hexadecimal"),
        }
    }
    let decoded = percent_decode(text.as_bytes()).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| "is not UTF-8 once it is decoded")
}

fn unquoted(text: &str) -> Cow<'_, str> {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.into();
    };
    let mut plain = String::with_capacity(inner.len());
    let mut escaped = false;
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            plain.push(c);
        }
    }
    plain.into()
}

fn error(field: &str, message: impl Display) -> FieldError {
    FieldError { field: one_line(field, 100), message: message.to_string() }
}

/// What is wrong with the attributes.
#[derive(Default)]
struct Errors {
    found: Vec<FieldError>,
    about: BTreeSet<String>,
}

impl Errors {
    /// Notes that an attribute is not as it must be; the first thing that is wrong with it is told.
    fn add(&mut self, name: &str, message: impl Display) {
        if self.about.insert(name.to_owned()) && self.found.len() < MOST_ERRORS {
            self.found.push(error(name, message));
        }
    }

    fn keep<T, E: Display>(&mut self, name: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.add(name, error)).ok()
    }

    fn take<T, E: Display>(
        &mut self,
        attributes: &mut BTreeMap<String, String>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = attributes.remove(name)?;
        self.keep(name, parse(&text))
    }

    fn required<T, E: Display>(
        &mut self,
        attributes: &mut BTreeMap<String, String>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        if !attributes.contains_key(name) {
            self.add(name, "is required");
        }
        self.take(attributes, name, parse)
    }

    fn finish(self) -> Result<(), Problem> {
        if self.found.is_empty() { Ok(()) } else { Err(Problem::invalid(self.found)) }
    }
}

#[cfg(test)]
mod tests;
