//! Managing what decides who is told: feeds, lists and templates ([`objects`], [`templates`]), subscriptions
//! ([`subscriptions`]), and many of these at once ([`import`]).
//!
//! All are made by POST, replaced by PUT, changed in part by PATCH (RFC 7396) and deleted, and carry the number of their
//! last change as entity tag: `If-Match` lets nobody overwrite what he has not seen, and `If-None-Match: *` only makes.
//! What is put is what is shown: members that the server adds are taken and passed over. What stands in the configuration
//! file is only read here.

pub mod dto;
mod import;
mod json;
mod objects;
mod subscriptions;
mod templates;

use angarium_store::{Changed, Expect};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::events::invalid;
use super::problem::{Code, Problem};

pub(super) use import::import;
pub(super) use objects::{FEEDS, LISTS, delete, list, make, patch, put, show};
pub(super) use subscriptions::{
    delete as delete_subscription, list as list_subscriptions, make as make_subscription,
    patch as patch_subscription, put as put_subscription, show as show_subscription,
};
pub(super) use templates::{TEMPLATES, preview};

/// What a request says must be so.
fn expectation(headers: &HeaderMap, otherwise: Expect) -> Result<Expect, Problem> {
    let given = |name: header::HeaderName| {
        let mut values = headers.get_all(&name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Ok(Some(value.to_str().unwrap_or_default().trim())),
            _ => Err(Problem::new(Code::InvalidRequest, format!("{name} stands twice"))),
        }
    };
    match (given(header::IF_MATCH)?, given(header::IF_NONE_MATCH)?) {
        (None, None) => Ok(otherwise),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(tag), None) => match version_of(tag) {
            Some(version) => Ok(Expect::Version(version)),
            None => Err(Problem::new(
                Code::InvalidRequest,
                "If-Match must be one entity tag, such as \"7\", or *",
            )),
        },
        (None, Some("*")) => Ok(Expect::Absent),
        (None, Some(_)) => Err(Problem::new(Code::InvalidRequest, "If-None-Match can only be * here")),
        (Some(_), Some(_)) => {
            Err(Problem::new(Code::InvalidRequest, "If-Match must not stand beside If-None-Match"))
        }
    }
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

/// What became of a change: the object as it stands, where it stands if it is new.
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

/// What a change came to, if it was made.
fn done<T>(changed: Changed<T>, not_found: Code, expect: Expect) -> Result<(T, bool), Problem> {
    match changed {
        Changed::Done { now, created } => Ok((now, created)),
        Changed::NotFound => Err(Problem::plain(not_found)),
        Changed::Conflict(_) if expect == Expect::Absent => Err(Problem::plain(Code::AlreadyExists)),
        Changed::Conflict(Some(version)) => {
            let detail = format!("it was changed meanwhile: its entity tag is \"{version}\" now");
            Err(Problem::new(Code::PreconditionFailed, detail))
        }
        Changed::Conflict(None) => Err(Problem::new(Code::PreconditionFailed, "it is not there")),
        Changed::ReadOnly => Err(Problem::plain(Code::ManagedByFile)),
        Changed::InUse(by) => Err(Problem::new(Code::InUse, format!("it is needed by {by}"))),
        Changed::FeedFixed => {
            Err(Problem::invalid_field("feed", "cannot be changed: make another subscription"))
        }
        Changed::UnknownFeed => Err(Problem::invalid_field("feed", "names no feed")),
        Changed::Senseless(complaints) => {
            Err(invalid(complaints.into_iter().map(|complaint| complaint.within("filter")).collect()))
        }
    }
}

/// A word of a path in the place of what must be escaped there.
fn in_path(word: &str) -> String {
    percent_encoding::utf8_percent_encode(word, percent_encoding::NON_ALPHANUMERIC).to_string()
}
