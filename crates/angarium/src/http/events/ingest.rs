//! Taking events in. The answer leaves only after the store has said that everything it names is durable.
//!
//! A request is read in two steps, because which fields a CloudEvent has depends on its feed: what it says, and, once the
//! feeds are known, what that makes of it. Both happen where large bodies are worked on.

use std::sync::Arc;

use angarium_domain::event::{Defaults, Event, ParsedEvent};
use angarium_domain::feed::Feed;
use angarium_domain::id::EventId;
use angarium_domain::text::Actor;
use angarium_domain::time::ManualClock;
use angarium_store::{EventAcceptance, NewEvent};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::auth::{Caller, Scope};
use super::super::exchange::Asked;
use super::super::fields::Params;
use super::super::ingest::Ids;
use super::super::items::{self, Items};
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::cloudevents::{CloudEvent, MARK};
use super::dto::{EventAccepted, EventBatchAnswer, EventBatchResult};
use super::{Feeds, answered, invalid, ready, trial, unknown_feed};

/// `POST /v1/events`
pub(in crate::http) async fn one(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let answer = take(&app, &asked, &caller, request).await;
    counted(&app, answer)
}

async fn take(app: &Shared, asked: &Asked, caller: &Caller, request: Request) -> Result<Response, Problem> {
    let dry_run = wants_dry_run(&request, caller)?;
    match Form::of(request.headers())? {
        Form::Batch if dry_run => {
            Err(Problem::new(Code::InvalidRequest, "a dry run is for one event, not for a batch"))
        }
        Form::Batch => take_batch(app, asked, caller, Form::Batch, request).await,
        form => take_one(app, asked, caller, (form, dry_run), request).await,
    }
}

/// `POST /v1/events/batch`
pub(in crate::http) async fn batch(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let answer = match Form::of(request.headers()) {
        Ok(form @ (Form::Own | Form::Batch)) => take_batch(&app, &asked, &caller, form, request).await,
        Ok(Form::Structured | Form::Binary) => Err(body::unsupported("one CloudEvent is no batch")),
        Err(problem) => Err(problem),
    };
    counted(&app, answer)
}

fn counted(app: &App, answer: Result<Response, Problem>) -> Result<Response, Problem> {
    if let Err(problem) = &answer {
        app.metrics.event_refused(problem.code);
    }
    answer
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As this server's own JSON.
    Own,
    /// As a CloudEvent in an object.
    Structured,
    /// As CloudEvents in an array.
    Batch,
    /// As a CloudEvent in headers, with its data in the body.
    Binary,
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Form, Problem> {
        let (media, parameters) = body::media_type(body::content_type(headers)?);
        let form = match media.to_ascii_lowercase().as_str() {
            "application/cloudevents+json" | "application/cloudevents" => Form::Structured,
            "application/cloudevents-batch+json" | "application/cloudevents-batch" => Form::Batch,
            other if other.starts_with("application/cloudevents") => {
                return Err(body::unsupported("of the formats of CloudEvents only JSON is taken"));
            }
            _ if headers.contains_key(MARK) => return Ok(Form::Binary),
            "application/json" => Form::Own,
            _ => {
                let detail = "the content type must be application/json, application/cloudevents+json or \
                              application/cloudevents-batch+json, or there must be the header ce-specversion";
                return Err(body::unsupported(detail));
            }
        };
        body::check_charset(parameters)?;
        Ok(form)
    }
}

/// Whoever tries an event learns who subscribes to what, so that a key for that must be able to read as well.
fn wants_dry_run(request: &Request, caller: &Caller) -> Result<bool, Problem> {
    let mut params = Params::read(request.uri().query());
    let dry_run = params.take("dry_run", |text| text.parse::<bool>().map_err(|_| "must be true or false"));
    params.finish()?;
    match dry_run {
        Some(true) if !caller.may(Scope::Read) => {
            Err(Problem::new(Code::ScopeDenied, format!("a dry run needs the scope {} too", Scope::Read)))
        }
        dry_run => Ok(dry_run == Some(true)),
    }
}

async fn take_one(
    app: &Shared,
    asked: &Asked,
    caller: &Caller,
    (form, dry_run): (Form, bool),
    request: Request,
) -> Result<Response, Problem> {
    let reader = Reader::of(app, asked, caller, form, "/v1/events", request.headers())?;
    let bytes = body::read(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let first = Arc::clone(&reader);
    let (bytes, draft) = bytes.work(move |bytes| first.whole(bytes)).await?;
    let feed = draft.feed(app, &mut Feeds::default()).await?.ok_or_else(|| draft.without_feed())?;
    let derived = draft.derived();
    let on = Arc::clone(&feed);
    let (held, event) = bytes.work(move |_| reader.ready(draft, &on)).await?;
    if dry_run {
        return trial::answer(app, asked, held, event, &feed).await;
    }
    store(app, asked, event, &feed, derived).await
}

/// Stores one event and answers. `derived`: its id was made from the idempotency key.
pub(super) async fn store(
    app: &App,
    asked: &Asked,
    event: NewEvent,
    feed: &Feed,
    derived: bool,
) -> Result<Response, Problem> {
    let results = app.store.accept_events(vec![event], Arc::clone(&app.channels), asked.now).await?;
    let accepted = results.into_iter().next().map(|acceptance| settled(app, acceptance, feed));
    let accepted = accepted.unwrap_or_else(|| Err(Problem::internal("the store gave no result")))?;
    Ok(answer(app, has_work(&accepted), derived && accepted.duplicate, accepted))
}

async fn take_batch(
    app: &Shared,
    asked: &Asked,
    caller: &Caller,
    form: Form,
    request: Request,
) -> Result<Response, Problem> {
    let reader = Reader::of(app, asked, caller, form, "/v1/events/batch", request.headers())?;
    let bytes = body::read(request, app.limits.batch_bytes, app.bounds.body_timeout).await?;
    let first = Arc::clone(&reader);
    let (bytes, drafts) = bytes.work_apart(move |bytes| first.many(bytes)).await?;
    let mut feeds = Feeds::default();
    let mut placed = Vec::with_capacity(drafts.len());
    for draft in drafts {
        placed.push(match draft {
            Ok(draft) => match draft.feed(app, &mut feeds).await? {
                Some(feed) => Ok((draft, feed)),
                None => Err(draft.without_feed()),
            },
            Err(problem) => Err(problem),
        });
    }
    let judge = move |_: &[u8]| {
        let judged =
            placed.into_iter().map(|placed| placed.and_then(|(draft, feed)| reader.judge(draft, feed)));
        Ok(judged.collect())
    };
    let (_held, judged) = bytes.work_apart(judge).await?;
    store_many(app, asked, judged).await
}

/// Stores those that are as they must be, and answers for each in its place.
async fn store_many(
    app: &App,
    asked: &Asked,
    judged: Vec<Result<Judged, Problem>>,
) -> Result<Response, Problem> {
    let (mut good, mut places) = (Vec::new(), Vec::new());
    let mut results: Vec<Option<EventBatchResult>> = Vec::with_capacity(judged.len());
    for (place, judged) in judged.into_iter().enumerate() {
        results.push(match judged {
            Ok(Judged { event, feed, derived }) => {
                good.push(event);
                places.push((place, feed, derived));
                None
            }
            Err(problem) => Some(refused(app, asked, &problem)),
        });
    }
    let channels = Arc::clone(&app.channels);
    let stored = match good.is_empty() {
        true => Vec::new(),
        false => app.store.accept_events(good, channels, asked.now).await?,
    };
    let (mut any_work, mut all_replayed) = (false, !places.is_empty());
    for ((place, feed, derived), acceptance) in places.into_iter().zip(stored) {
        let result = match settled(app, acceptance, &feed) {
            Ok(accepted) => {
                any_work |= has_work(&accepted);
                all_replayed &= derived && accepted.duplicate;
                EventBatchResult::Accepted(accepted)
            }
            Err(problem) => {
                all_replayed = false;
                refused(app, asked, &problem)
            }
        };
        if let Some(slot) = results.get_mut(place) {
            *slot = Some(result);
        }
    }
    let missing = || refused(app, asked, &Problem::internal("the store gave no result"));
    let results = results.into_iter().map(|result| result.unwrap_or_else(missing)).collect();
    Ok(answer(app, any_work, all_replayed, EventBatchAnswer { results }))
}

/// 202, and a wake-up if there is work.
fn answer(app: &App, any_work: bool, replayed: bool, body: impl serde::Serialize) -> Response {
    if any_work {
        app.wake.now();
        app.wake.plan();
    }
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

fn has_work(accepted: &EventAccepted) -> bool {
    accepted.planning || (!accepted.duplicate && !accepted.notifications.is_empty())
}

fn settled(app: &App, acceptance: EventAcceptance, feed: &Feed) -> Result<EventAccepted, Problem> {
    let accepted = answered(acceptance, feed)?;
    app.metrics.event_accepted(accepted.duplicate);
    Ok(accepted)
}

/// A problem of one item, in its place in the answer. The log has what the answer may not tell.
fn refused(app: &App, asked: &Asked, problem: &Problem) -> EventBatchResult {
    app.metrics.event_refused(problem.code);
    if let Some(cause) = &problem.cause {
        tracing::error!(
            request.id = &*asked.id,
            code = problem.code.as_str(),
            cause,
            "an event of a batch could not be stored"
        );
    }
    EventBatchResult::Refused { problem: problem.body(None) }
}

/// An event as it was read, before its feed is known.
enum Draft {
    Own {
        parsed: ParsedEvent,
        /// Its id was derived from the idempotency key.
        derived: bool,
    },
    Cloud(CloudEvent),
}

impl Draft {
    /// The feed that it belongs to, if there is one.
    async fn feed(&self, app: &App, feeds: &mut Feeds) -> Result<Option<Arc<Feed>>, Problem> {
        match self {
            Draft::Own { parsed, .. } => feeds.named(app, &parsed.event.feed).await,
            Draft::Cloud(event) => match &event.feed {
                Some(id) => feeds.named(app, id).await,
                None => feeds.of_source(app, event.source()).await,
            },
        }
    }

    fn without_feed(&self) -> Problem {
        match self {
            Draft::Own { parsed, .. } => unknown_feed(&parsed.event.feed),
            Draft::Cloud(CloudEvent { feed: Some(id), .. }) => unknown_feed(id),
            Draft::Cloud(_) => {
                let detail =
                    "the event names no feed, and none in the catalogue has a beginning of its source";
                Problem::new(Code::UnknownFeed, detail)
            }
        }
    }

    fn derived(&self) -> bool {
        matches!(self, Draft::Own { derived: true, .. })
    }
}

/// An event that is ready to be stored.
struct Judged {
    event: NewEvent,
    feed: Arc<Feed>,
    derived: bool,
}

/// Reads the body of one request.
struct Reader {
    app: Shared,
    asked: Asked,
    form: Form,
    ids: Ids,
    source: String,
    accepted_by: Actor,
    /// Those of the request, where they are the attributes of an event.
    headers: HeaderMap,
}

impl Reader {
    fn of(
        app: &Shared,
        asked: &Asked,
        caller: &Caller,
        form: Form,
        path: &'static str,
        headers: &HeaderMap,
    ) -> Result<Arc<Self>, Problem> {
        Ok(Arc::new(Reader {
            app: Arc::clone(app),
            asked: asked.clone(),
            form,
            ids: Ids::of(headers, caller, path)?,
            source: caller.name.to_string(),
            accepted_by: caller.actor(),
            headers: if form == Form::Binary { headers.clone() } else { HeaderMap::new() },
        }))
    }

    /// A body that is one event.
    fn whole(&self, bytes: &[u8]) -> Result<Draft, Problem> {
        let depth = self.app.limits.json_depth;
        if self.form == Form::Binary {
            return CloudEvent::binary(&self.headers, bytes, depth).map(Draft::Cloud);
        }
        self.text(body::check(bytes, depth)?, None)
    }

    /// A body that holds many. A fault in one harms no other.
    fn many(&self, bytes: &[u8]) -> Result<Vec<Result<Draft, Problem>>, Problem> {
        let limits = &self.app.limits;
        let items = match self.form {
            Form::Own => items::within::<Envelope<'_>>(bytes, "events", limits)?,
            _ => items::of_array(bytes, limits)?,
        };
        let read = |(i, item): (usize, &RawValue)| self.text(items::check(item, limits)?, Some(i));
        Ok(items.into_iter().enumerate().map(read).collect())
    }

    fn text(&self, text: &str, index: Option<usize>) -> Result<Draft, Problem> {
        if self.form != Form::Own {
            return CloudEvent::structured(text, self.app.limits.json_depth).map(Draft::Cloud);
        }
        let derived = self.ids.derived(index).map(|id| id.to_string());
        let defaults = Defaults {
            source: &self.source,
            external_id: derived.clone().unwrap_or_else(|| fresh_id(&self.app, &self.asked)),
            at: self.asked.now,
        };
        let parsed = Event::parse(text, defaults).map_err(invalid)?;
        let derived = derived.is_some_and(|id| parsed.event.external_id.as_str() == id);
        Ok(Draft::Own { parsed, derived })
    }

    fn ready(&self, draft: Draft, feed: &Feed) -> Result<NewEvent, Problem> {
        let parsed = match draft {
            Draft::Own { parsed, .. } => parsed,
            Draft::Cloud(event) => event.on(feed, self.asked.now)?,
        };
        ready(&self.app, &self.asked, &self.accepted_by, parsed, feed)
    }

    fn judge(&self, draft: Draft, feed: Arc<Feed>) -> Result<Judged, Problem> {
        let derived = draft.derived();
        Ok(Judged { event: self.ready(draft, &feed)?, feed, derived })
    }
}

/// The id of an event to which its producer gave none.
pub(super) fn fresh_id(app: &App, asked: &Asked) -> String {
    EventId::generate(&ManualClock::at(asked.now), &*app.chance).to_string()
}

/// The events of a batch, unchecked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    events: Items<'a>,
}

impl<'a> From<Envelope<'a>> for Items<'a> {
    fn from(envelope: Envelope<'a>) -> Self {
        envelope.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WH-08: the content type says how an event is written.
    #[test]
    fn the_form_follows_from_the_headers() {
        let form = |media: &str, marked: bool| {
            let mut headers = HeaderMap::new();
            if !media.is_empty() {
                headers.insert("content-type", media.parse().unwrap());
            }
            if marked {
                headers.insert(MARK, HeaderValue::from_static("1.0"));
            }
            Form::of(&headers).map_err(|problem| problem.code)
        };
        let no = Err(Code::ContentTypeUnsupported);
        let table = [
            ("application/json", false, Ok(Form::Own)),
            ("Application/JSON; charset=UTF-8", false, Ok(Form::Own)),
            ("application/json; charset=latin1", false, no),
            ("application/json", true, Ok(Form::Binary)),
            ("text/plain", true, Ok(Form::Binary)),
            ("", true, Ok(Form::Binary)),
            ("application/cloudevents+json; charset=utf-8", false, Ok(Form::Structured)),
            ("application/CloudEvents+json", true, Ok(Form::Structured)),
            ("application/cloudevents-batch+json", false, Ok(Form::Batch)),
            ("application/cloudevents+avro", false, no),
            ("application/cloudevents-batch+xml", true, no),
            ("text/plain", false, no),
            ("", false, no),
        ];
        for (media, marked, expected) in table {
            assert_eq!(form(media, marked), expected, "{media} {marked}");
        }
    }
}
