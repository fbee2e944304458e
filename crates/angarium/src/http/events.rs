//! Events over HTTP: they are handed in ([`ingest`]) as this server's own JSON or as CloudEvents ([`cloudevents`]), tried
//! without being stored ([`trial`]), announced by hand and taken back ([`feeds`]), looked at and explained ([`look`]).
//!
//! Deliberately absent: whom an event concerns. That is decided where it is stored, in the same transaction.

mod cloudevents;
pub mod dto;
mod feeds;
mod ingest;
mod look;
mod trial;
mod views;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::complaints::Complaint;
use angarium_domain::event::ParsedEvent;
use angarium_domain::feed::{Feed, MANUAL_ANNOUNCEMENT};
use angarium_domain::id::EventId;
use angarium_domain::text::{Actor, FeedId, FieldName};
use angarium_domain::time::ManualClock;
use angarium_store::{EventAcceptance, NewEvent};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::App;
use super::dto::FieldError;
use super::exchange::Asked;
use super::problem::{Code, Problem};

pub(super) use feeds::{announce, row_gone};
pub(super) use ingest::{batch, one};
pub(super) use look::{explain, list, show};

/// What was found out about feeds for one request. The database is asked once whether they are what this node knows them
/// as: their types, fields and names decide how the event is read.
#[derive(Default)]
struct Feeds {
    known: HashMap<FeedId, Option<Arc<Feed>>>,
    by_source: HashMap<String, Option<Arc<Feed>>>,
    is_fresh: bool,
}

impl Feeds {
    /// The feed with this id.
    async fn named(&mut self, app: &App, id: &FeedId) -> Result<Option<Arc<Feed>>, Problem> {
        if let Some(known) = self.known.get(id) {
            return Ok(known.clone());
        }
        let found = app.store.feed(id, self.is_first()).await?;
        self.known.insert(id.clone(), found.clone());
        Ok(found)
    }

    /// Whether the database is to be asked.
    fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.is_fresh, true)
    }

    /// The feed that the catalogue gives a CloudEvent's source to.
    async fn of_source(&mut self, app: &App, source: &str) -> Result<Option<Arc<Feed>>, Problem> {
        if let Some(known) = self.by_source.get(source) {
            return Ok(known.clone());
        }
        let found = app.store.feed_of_source(source, self.is_first()).await?;
        self.by_source.insert(source.to_owned(), found.clone());
        Ok(found)
    }
}

/// The event that a path names. What is no UUID names none.
pub(super) struct PathEvent(EventId);

impl<S: Send + Sync> FromRequestParts<S> for PathEvent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let word = Path::<String>::from_request_parts(parts, state).await.ok();
        let id = word.and_then(|Path(word)| word.parse().ok());
        id.map(PathEvent).ok_or_else(|| Problem::plain(Code::EventNotFound))
    }
}

/// What is wrong with the members of an object.
pub(super) fn invalid(complaints: Vec<Complaint>) -> Problem {
    let told = |Complaint { field, message }| FieldError { field, message };
    Problem::invalid(complaints.into_iter().map(told).collect())
}

fn unknown_feed(id: &FeedId) -> Problem {
    Problem::new(Code::UnknownFeed, format!("there is no feed {id}"))
}

/// An event on its feed, ready to be stored. It ends when it says so, else when the feed does.
fn ready(
    app: &App,
    asked: &Asked,
    accepted_by: &Actor,
    parsed: ParsedEvent,
    feed: &Feed,
) -> Result<NewEvent, Problem> {
    let ParsedEvent { mut event, hash } = parsed;
    if !feed.has_type(&event.kind) {
        return Err(unknown_type(feed));
    }
    if event.at > asked.now.plus(AHEAD) {
        return Err(Problem::invalid_field("time", "lies more than an hour ahead of this server's clock"));
    }
    event.fields = by_own_names(std::mem::take(&mut event.fields), feed)?;
    event.expires_at = event.expires_at.or_else(|| feed.ttl.map(|ttl| event.at.plus(ttl)));
    let id = EventId::generate(&ManualClock::at(asked.now), &*app.chance);
    Ok(NewEvent { id, event, hash, accepted_by: accepted_by.clone() })
}

/// How far ahead a producer's clock may be. What lies in the future would be the newest about its subject until then.
const AHEAD: Duration = Duration::from_secs(3600);

/// Fields by the names that the feed gives them; a payload may call them by their aliases. What the feed does not declare
/// stays as it is: texts may use it.
fn by_own_names(
    fields: BTreeMap<FieldName, String>,
    feed: &Feed,
) -> Result<BTreeMap<FieldName, String>, Problem> {
    let mut named = BTreeMap::new();
    for (name, value) in fields {
        let own = feed.field(&name).map_or_else(|| name.clone(), |(own, _)| own.clone());
        if named.insert(own.clone(), value).is_some() {
            let message = format!("stands beside another name of the same field, {own}");
            return Err(Problem::invalid_field(&format!("fields.{name}"), message));
        }
    }
    Ok(named)
}

fn unknown_type(feed: &Feed) -> Problem {
    let types = feed.event_types.iter().map(|kind| kind.as_str()).chain([MANUAL_ANNOUNCEMENT]);
    let types: Vec<&str> = types.collect();
    let detail = format!("the events of feed {} are of the types {}", feed.id, types.join(", "));
    Problem::new(Code::UnknownEventType, detail)
}

/// What the store says of an event on `feed`, as it is answered.
fn answered(acceptance: EventAcceptance, feed: &Feed) -> Result<dto::EventAccepted, Problem> {
    match acceptance {
        EventAcceptance::Accepted(planned) => Ok(views::accepted(planned)),
        EventAcceptance::IdReused { id } => {
            let detail = format!("the source used this id before for something else, which is event {id}");
            Err(Problem::new(Code::IdReused, detail))
        }
        EventAcceptance::UnknownFeed => Err(unknown_feed(&feed.id)),
        EventAcceptance::UnknownType => Err(unknown_type(feed)),
        EventAcceptance::Failed { detail } => Err(Problem::internal(detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FP-01: a payload may call a field by its alias; filters then find it under its own name.
    #[test]
    fn a_field_has_one_name() {
        let json = r#"{"event_types": ["a"], "fields": {"feeder": {"alias": "feeders"}}}"#;
        let feed = Feed::parse(FeedId::parse("f").unwrap(), json).unwrap();
        let named = |names: &[&str]| {
            let fields = names.iter().map(|name| (FieldName::parse(name).unwrap(), (*name).to_owned()));
            by_own_names(fields.collect(), &feed)
        };
        let names: Vec<String> =
            named(&["feeders", "other"]).unwrap().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["feeder", "other"]);
        assert_eq!(named(&["feeder", "feeders"]).unwrap_err().code, Code::InvalidRequest);
    }
}
