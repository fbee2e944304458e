//! Managing what decides who is told: feeds, lists and templates ([`objects`], [`templates`]), subscriptions
//! ([`subscriptions`]), and many of these at once ([`mod@import`]).
//!
//! All are made by POST, replaced by PUT, changed in part by PATCH (RFC 7396) and deleted, and carry the number of their
//! last change as entity tag: `If-Match` lets nobody overwrite what he has not seen, and `If-None-Match: *` only makes.
//! What is put is what is shown: members that the server adds are taken and passed over. What stands in the configuration
//! file is only read here.

mod draft;
pub(crate) mod dto;
mod import;
mod json;
mod objects;
mod subscriptions;
mod templates;

use std::convert::Infallible;

use angarium_store::{Changed, Expect};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::events::invalid;
use super::problem::{Code, Problem};

pub(super) use import::import;
pub(super) use objects::{FEEDS, LISTS, delete, list, make, patch, put, show};
pub(super) use subscriptions::{
    delete as delete_subscription, list as list_subscriptions, make as make_subscription,
    patch as patch_subscription, put as put_subscription, show as show_subscription,
};
pub(super) use templates::{TEMPLATES, preview};

/// What a path names. What cannot be read names nothing.
pub(super) struct PathName(Option<String>);

impl PathName {
    fn or(self, not_found: Code) -> Result<String, Problem> {
        self.0.ok_or_else(|| Problem::plain(not_found))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let word = Path::<String>::from_request_parts(parts, state).await;
        Ok(PathName(word.ok().map(|Path(word)| word)))
    }
}

/// What a request says must be so.
fn expectation(headers: &HeaderMap, otherwise: Expect) -> Result<Expect, Problem> {
    let refuse = |detail: &str| Err(Problem::new(Code::InvalidRequest, detail));
    match (only(headers, header::IF_MATCH)?, only(headers, header::IF_NONE_MATCH)?) {
        (None, None) => Ok(otherwise),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(tag), None) => match version_of(tag) {
            Some(version) => Ok(Expect::Version(version)),
            None => refuse("If-Match must be one entity tag, such as \"7\", or *"),
        },
        (None, Some("*")) => Ok(Expect::Absent),
        (None, Some(_)) => refuse("If-None-Match can only be * here"),
        (Some(_), Some(_)) => refuse("If-Match must not stand beside If-None-Match"),
    }
}

/// The one value of a header; empty if it is no text.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(|value| value.to_str().unwrap_or_default().trim())),
        _ => Err(Problem::new(Code::InvalidRequest, format!("{name} stands twice"))),
    }
}

/// What must be so for a patch of what was read at `version`: somebody else's change in between is not to be lost.
fn unless_changed(expect: Expect, version: i64) -> Expect {
    if expect == Expect::Present { Expect::Version(version) } else { expect }
}

fn version_of(tag: &str) -> Option<i64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// Whether whoever asks has this version already.
fn is_known(headers: &HeaderMap, version: i64) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || version_of(tag.strip_prefix("W/").unwrap_or(tag)) == Some(version))
}

/// An object as it stands, or 304 if whoever asks has it.
fn shown(headers: &HeaderMap, version: i64, body: String) -> Response {
    if is_known(headers, version) {
        return tagged(StatusCode::NOT_MODIFIED.into_response(), version);
    }
    tagged(written(StatusCode::OK, body), version)
}

/// What became of a change: the object as it stands, and if it is new, where.
fn made(created: bool, location: &str, version: i64, body: String) -> Response {
    if !created {
        return tagged(written(StatusCode::OK, body), version);
    }
    let mut response = tagged(written(StatusCode::CREATED, body), version);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn written(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn tagged(mut response: Response, version: i64) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// What a change came to, and whether it made something new. `conflict` is the answer where something else is there than
/// was expected: whoever makes something expects no more than that the name is free.
fn done<T>(changed: Changed<T>, not_found: Code, conflict: Code) -> Result<(T, bool), Problem> {
    Err(match changed {
        Changed::Done { now, created } => return Ok((now, created)),
        Changed::NotFound => Problem::plain(not_found),
        Changed::Conflict(Some(version)) if conflict == Code::PreconditionFailed => {
            Problem::new(conflict, format!("it is there, and its entity tag is \"{version}\" now"))
        }
        Changed::Conflict(None) if conflict == Code::PreconditionFailed => {
            Problem::new(conflict, "it is not there")
        }
        Changed::Conflict(_) => Problem::plain(conflict),
        Changed::ReadOnly => Problem::plain(Code::ManagedByFile),
        Changed::InUse(by) => Problem::new(Code::InUse, format!("it is needed by {by}")),
        Changed::FeedFixed => Problem::invalid_field("feed", "cannot be changed: make another subscription"),
        Changed::UnknownFeed => Problem::invalid_field("feed", "names no feed"),
        Changed::Senseless(complaints) => {
            invalid(complaints.into_iter().map(|complaint| complaint.within("filter")).collect())
        }
    })
}

/// A word of a path, with what must be escaped there. What never has to be stays as it is (RFC 3986, 2.3).
fn in_path(word: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(word, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(HeaderName, &'static str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_a_request_expects() {
        let (this, none) = (header::IF_MATCH, header::IF_NONE_MATCH);
        for (given, expected) in [
            (&[][..], Some(Expect::Anything)),
            (&[(this.clone(), "\"7\"")], Some(Expect::Version(7))),
            (&[(this.clone(), " \"7\" ")], Some(Expect::Version(7))),
            (&[(this.clone(), "*")], Some(Expect::Present)),
            (&[(none.clone(), "*")], Some(Expect::Absent)),
            (&[(this.clone(), "7")], None),
            (&[(this.clone(), "W/\"7\"")], None),
            (&[(this.clone(), "\"7\", \"8\"")], None),
            (&[(this.clone(), "")], None),
            (&[(none.clone(), "\"7\"")], None),
            (&[(this.clone(), "\"7\""), (none.clone(), "*")], None),
            (&[(this.clone(), "\"7\""), (this.clone(), "\"8\"")], None),
        ] {
            let found = given.iter().fold(HeaderMap::new(), |mut found, (name, value)| {
                found.append(name.clone(), HeaderValue::from_static(value));
                found
            });
            assert_eq!(expectation(&found, Expect::Anything).ok(), expected, "{given:?}");
        }
    }

    #[test]
    fn what_is_known_is_not_shown_again() {
        for (given, known) in [
            ("\"7\"", true),
            ("W/\"7\"", true),
            ("\"6\", \"7\"", true),
            ("*", true),
            ("\"6\"", false),
            ("7", false),
        ] {
            assert_eq!(is_known(&headers(&[(header::IF_NONE_MATCH, given)]), 7), known, "{given}");
        }
        assert!(!is_known(&HeaderMap::new(), 7));
    }

    #[test]
    fn a_name_in_a_path() {
        assert_eq!(in_path("NewOutage~hooks~en-US"), "NewOutage~hooks~en-US");
        assert_eq!(in_path("on duty/é?"), "on%20duty%2F%C3%A9%3F");
    }
}
