//! What an operator or a producer does with a feed besides events of its own types: announce something by hand (FP-17), and
//! say that what events told of is gone.

use std::sync::Arc;

use angarium_domain::event::{Defaults, Event, ParsedEvent};
use angarium_domain::feed::MANUAL_ANNOUNCEMENT;
use angarium_domain::limits::Limits;
use angarium_domain::text::{Body, FeedId, SourceKey, Subject};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::auth::Caller;
use super::super::exchange::Asked;
use super::super::fields::Fields;
use super::super::ingest::Ids;
use super::super::problem::{Code, Problem};
use super::super::{Shared, body};
use super::{Feeds, ingest, invalid, ready};

/// `DELETE /v1/feeds/{feed}/rows/{key}`
pub(in crate::http) async fn row_gone(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let named =
        path.ok().and_then(|Path((feed, key))| FeedId::parse(&feed).ok().zip(SourceKey::parse(&key).ok()));
    let (feed, key) = named.ok_or_else(|| Problem::plain(Code::RowNotFound))?;
    if !app.store.source_gone(&feed, &key, asked.now).await? {
        return Err(Problem::plain(Code::RowNotFound));
    }
    app.wake.now();
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/feeds/{feed}/announcements`
pub(in crate::http) async fn announce(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let no_feed = || Problem::plain(Code::FeedNotFound);
    let id = path.ok().and_then(|Path(id)| FeedId::parse(&id).ok()).ok_or_else(no_feed)?;
    let feed = Feeds::default().named(&app, &id).await?.ok_or_else(no_feed)?;
    let ids = Ids::of(request.headers(), &caller, "/v1/feeds/{feed}/announcements")?;
    let derived = ids.derived(None).map(|id| id.to_string());
    let external_id = derived.clone().unwrap_or_else(|| ingest::fresh_id(&app, &asked));
    let bytes = body::read_json(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let (reader, source, on, now) = (Arc::clone(&app), caller.name.to_string(), id, asked.now);
    let read = move |bytes: &[u8]| {
        let text = body::check(bytes, reader.limits.json_depth)?;
        let defaults = Defaults { source: &source, external_id, at: now };
        read(text, &on, defaults, &reader.limits)
    };
    let (_held, parsed) = bytes.work(read).await?;
    let event = ready(&app, &asked, &caller.actor(), parsed, &feed)?;
    ingest::store(&app, &asked, event, &feed, derived.is_some()).await
}

/// An announcement as the event that it becomes. Its key is its id, so that each is something of its own, and a resend is
/// not.
#[derive(Serialize)]
struct Announced<'a> {
    feed: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    key: &'a str,
    fields: Option<&'a RawValue>,
    data: Said<'a>,
    test: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Said<'a> {
    subject: &'a str,
    body: &'a str,
}

fn read(text: &str, feed: &FeedId, defaults: Defaults<'_>, limits: &Limits) -> Result<ParsedEvent, Problem> {
    let mut members = Fields::read(text)?;
    let subject = members.required("subject", |subject| Subject::parse(subject, limits));
    let body = members.required("body", |body| Body::parse(body, limits));
    let (fields, test) = (members.raw("fields"), members.raw("test"));
    if let (Some(subject), Some(body)) = (&subject, &body)
        && subject.as_str().is_empty()
        && body.as_str().is_empty()
    {
        members.refuse("body", "must not be empty when the subject is empty too");
    }
    members.finish()?;
    let (Some(subject), Some(body)) = (subject, body) else {
        return Err(Problem::internal("an announcement without subject or body passed its checks"));
    };
    let key = defaults.external_id.clone();
    let announced = Announced {
        feed: feed.as_str(),
        kind: MANUAL_ANNOUNCEMENT,
        key: &key,
        fields,
        data: Said { subject: subject.as_str(), body: body.as_str() },
        test,
    };
    let event = serde_json::to_string(&announced).map_err(|error| Problem::internal(error.to_string()))?;
    Event::parse(&event, defaults).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use angarium_domain::text::EventType;

    use super::*;

    fn announced(text: &str) -> Result<ParsedEvent, Problem> {
        let at = "2026-07-07T12:00:00Z".parse().unwrap();
        let defaults = Defaults { source: "root", external_id: "a-1".to_owned(), at };
        read(text, &FeedId::parse("outages").unwrap(), defaults, &Limits::default())
    }

    /// FP-17: an announcement is an event like others.
    #[test]
    fn an_announcement_is_an_event() {
        let text =
            r#"{"subject": "Storm", "body": "Stay \"in\".", "fields": {"area": "North"}, "test": true}"#;
        let event = announced(text).unwrap().event;
        assert_eq!(event.kind, EventType::parse("ManualAnnouncement").unwrap());
        assert_eq!((event.key.as_str(), event.external_id.as_str()), ("a-1", "a-1"));
        assert_eq!((event.source.as_str(), event.test), ("root", true));
        assert_eq!(event.fields.values().collect::<Vec<_>>(), ["North"]);
        assert_eq!(event.data.as_deref(), Some(r#"{"subject":"Storm","body":"Stay \"in\"."}"#));
    }

    #[test]
    fn what_is_wrong_with_an_announcement_is_told_by_its_members() {
        let told = |text: &str| {
            let errors = announced(text).unwrap_err().body(None).errors;
            errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        assert_eq!(told("{}"), ["subject", "body"]);
        assert_eq!(told(r#"{"subject": "", "body": ""}"#), ["body"]);
        assert_eq!(told(r#"{"subject": "a", "body": "b", "fields": {"x": []}}"#), ["fields.x"]);
        assert_eq!(told(r#"{"subject": "a", "body": "b", "test": 1}"#), ["test"]);
        assert_eq!(told(r#"{"subject": "a", "body": "b", "kind": "x"}"#), ["kind"]);
    }
}
