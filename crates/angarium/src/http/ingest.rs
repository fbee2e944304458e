//! Taking notifications in (OB-01 to OB-04): the one place where a producer's JSON becomes domain types.
//! The answer leaves only after the store has said that everything it names is durable.

use std::collections::HashMap;
use std::sync::Arc;

use angarium_channels::email::options::{OptionError, Options};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::content::{ContentHash, Recipient};
use angarium_domain::id::NotificationId;
use angarium_domain::json;
use angarium_domain::text::{Actor, Body, ChannelName, KeyName, ListName, Provenance, SourceName, Subject};
use angarium_domain::time::ManualClock;
use angarium_store::{Acceptance, NewNotification};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::auth::Caller;
use super::dto::{Accepted, BatchAnswer, BatchResult, FieldError};
use super::exchange::Asked;
use super::fields::Fields;
use super::items::{self, Items};
use super::problem::{Code, Problem};
use super::{App, Shared, body};

/// `POST /v1/notifications`
pub(super) async fn one(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let answer = take_one(&app, &asked, &caller, request).await;
    if let Err(problem) = &answer {
        app.metrics.refused(problem.code);
    }
    answer
}

async fn take_one(
    app: &Shared,
    asked: &Asked,
    caller: &Caller,
    request: Request,
) -> Result<Response, Problem> {
    let ids = Ids::of(request.headers(), caller, "/v1/notifications")?;
    let bytes = body::read_json(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let (reader, asked_then) = (Arc::clone(app), asked.clone());
    let read = move |bytes: &[u8]| {
        let text = body::check(bytes, reader.limits.json_depth)?;
        read(&reader, &asked_then, text, &ids, None)
    };
    let (_held, draft) = bytes.work(read).await?;
    let derived = draft.derived;
    let stamp = Stamps::default().of(app, &draft).await?;
    let notification = draft.stamped(stamp)?;
    let results = app.store.accept(vec![notification], asked.now).await?;
    let accepted = results.into_iter().next().map(|result| settled(app, result));
    let accepted = accepted.unwrap_or_else(|| Err(Problem::internal("the store gave no result")))?;
    let replayed = derived && accepted.duplicate;
    Ok(answer(app, !accepted.duplicate, replayed, accepted))
}

/// `POST /v1/notifications/batch`
pub(super) async fn batch(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let answer = take_batch(&app, &asked, &caller, request).await;
    if let Err(problem) = &answer {
        app.metrics.refused(problem.code);
    }
    answer
}

async fn take_batch(
    app: &Shared,
    asked: &Asked,
    caller: &Caller,
    request: Request,
) -> Result<Response, Problem> {
    let ids = Ids::of(request.headers(), caller, "/v1/notifications/batch")?;
    let bytes = body::read_json(request, app.limits.batch_bytes, app.bounds.body_timeout).await?;
    let (reader, asked_then) = (Arc::clone(app), asked.clone());
    let read = move |bytes: &[u8]| Sorted::read(&reader, &asked_then, bytes, &ids);
    let (_held, sorted) = bytes.work_apart(read).await?;
    let Sorted { drafts, mut results } = sorted;
    let (mut good, mut places, mut all_derived) = (Vec::new(), Vec::new(), true);
    let mut stamps = Stamps::default();
    for (place, draft) in drafts {
        let derived = draft.derived;
        let stamp = stamps.of(app, &draft).await?;
        match draft.stamped(stamp) {
            Ok(notification) => {
                good.push(notification);
                places.push(place);
                all_derived &= derived;
            }
            Err(problem) => fill(&mut results, place, refused(app, asked, &problem)),
        }
    }
    let stored = if good.is_empty() { Vec::new() } else { app.store.accept(good, asked.now).await? };
    let (mut any_new, mut all_duplicate) = (false, !places.is_empty());
    for (place, acceptance) in places.into_iter().zip(stored) {
        let result = match settled(app, acceptance) {
            Ok(accepted) => {
                any_new |= !accepted.duplicate;
                all_duplicate &= accepted.duplicate;
                BatchResult::Accepted(accepted)
            }
            Err(problem) => {
                all_duplicate = false;
                refused(app, asked, &problem)
            }
        };
        fill(&mut results, place, result);
    }
    let missing = || refused(app, asked, &Problem::internal("the store gave no result"));
    let results = results.into_iter().map(|result| result.unwrap_or_else(missing)).collect();
    Ok(answer(app, any_new, all_derived && all_duplicate, BatchAnswer { results }))
}

fn fill(results: &mut [Option<BatchResult>], place: usize, result: BatchResult) {
    if let Some(slot) = results.get_mut(place) {
        *slot = Some(result);
    }
}

/// A batch whose items were judged: the good ones with their places, and the refusals in theirs.
struct Sorted {
    drafts: Vec<(usize, Draft)>,
    results: Vec<Option<BatchResult>>,
}

impl Sorted {
    fn read(app: &App, asked: &Asked, bytes: &[u8], ids: &Ids) -> Result<Self, Problem> {
        let items = items::within::<Envelope<'_>>(bytes, "notifications", &app.limits)?;
        let (mut drafts, mut results) = (Vec::new(), Vec::with_capacity(items.len()));
        for (i, item) in items.into_iter().enumerate() {
            match read_item(app, asked, item, ids, i) {
                Ok(draft) => {
                    drafts.push((i, draft));
                    results.push(None);
                }
                Err(problem) => results.push(Some(refused(app, asked, &problem))),
            }
        }
        Ok(Sorted { drafts, results })
    }
}

/// A notification that is as it must be, unless its list leads to mail and it has a wrong wish about that.
struct Draft {
    notification: NewNotification,
    /// Its id was derived from the idempotency key.
    derived: bool,
    /// What is wrong with it as a mail.
    as_mail: Option<OptionError>,
}

impl Draft {
    fn stamped(self, stamp: Option<Stamp>) -> Result<NewNotification, Problem> {
        let Some((kind, channel)) = stamp else { return Ok(self.notification) };
        match self.as_mail {
            Some(OptionError { field, message }) if kind == ChannelKind::Email => {
                Err(Problem::invalid(vec![FieldError { field, message }]))
            }
            _ => Ok(NewNotification { kind, channel, ..self.notification }),
        }
    }
}

/// What the notifications to a list are sent by (OB-04).
pub(super) type Stamp = (ChannelKind, Option<ChannelName>);

/// What was found out about lists for one request.
#[derive(Default)]
struct Stamps(HashMap<ListName, Stamp>);

impl Stamps {
    /// The stamp of a notification to a list; none if it is to an address, which has its own.
    async fn of(&mut self, app: &App, draft: &Draft) -> Result<Option<Stamp>, Problem> {
        let Recipient::List(list) = &draft.notification.recipient else { return Ok(None) };
        if !self.0.contains_key(list) {
            self.0.insert(list.clone(), stamp(app, list).await?);
        }
        Ok(self.0.get(list).cloned())
    }
}

/// The kind and the channel that a notification to a list is stamped with, as this node knows the list; `email` and none
/// if nobody knows it.
pub(super) async fn stamp(app: &App, list: &ListName) -> Result<Stamp, Problem> {
    let known = match app.store.known_list(list, false).await? {
        None => app.store.known_list(list, true).await?,
        known => known,
    };
    let settings = known.and_then(|list| app.catalog.channels.get_key_value(&list.channel));
    Ok(match settings {
        Some((channel, settings)) => (settings.kind, Some(channel.clone())),
        None => app.catalog.stamp(list),
    })
}

/// 202, and a wake-up if there is new work.
fn answer(app: &App, any_new: bool, replayed: bool, body: impl serde::Serialize) -> Response {
    if any_new {
        app.wake.now();
    }
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}

fn settled(app: &App, acceptance: Acceptance) -> Result<Accepted, Problem> {
    match acceptance {
        Acceptance::Accepted { id, status, duplicate } => {
            app.metrics.accepted(duplicate);
            Ok(Accepted { id: id.to_string(), status: status.as_str().to_owned(), duplicate })
        }
        Acceptance::IdReused { id } => {
            let detail = format!("{id} was used before with another recipient, subject, body or data");
            Err(Problem::new(Code::IdReused, detail))
        }
        Acceptance::Failed { id, detail } => Err(Problem::internal(format!("{id}: {detail}"))),
    }
}

/// A problem of one item, in its place in the answer. The log has what the answer may not tell.
fn refused(app: &App, asked: &Asked, problem: &Problem) -> BatchResult {
    app.metrics.refused(problem.code);
    if let Some(cause) = &problem.cause {
        tracing::error!(
            request.id = &*asked.id,
            code = problem.code.as_str(),
            cause,
            "an item of a batch could not be stored"
        );
    }
    BatchResult::Refused { problem: problem.body(None) }
}

/// Where the id of a notification comes from that names none itself.
pub(super) struct Ids {
    actor: Actor,
    caller: KeyName,
    path: &'static str,
    key: Option<String>,
}

impl Ids {
    /// Refuses a header that is no key.
    pub(super) fn of(headers: &HeaderMap, caller: &Caller, path: &'static str) -> Result<Self, Problem> {
        let mut given = headers.get_all("idempotency-key").iter();
        let key = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(value), None) => {
                let visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
                let key = value.to_str().ok().filter(|key| visible && (1..=255).contains(&key.len()));
                Some(key.ok_or_else(|| Problem::plain(Code::IdempotencyKeyInvalid))?.to_owned())
            }
            _ => return Err(Problem::plain(Code::IdempotencyKeyInvalid)),
        };
        Ok(Ids { actor: caller.actor(), caller: caller.name.clone(), path, key })
    }

    /// The id derived from the key, which does not depend on anything in the body.
    pub(super) fn derived(&self, index: Option<usize>) -> Option<NotificationId> {
        let key = self.key.as_deref()?;
        let index = index.map(|index| index.to_string());
        let scope = [self.caller.as_str(), self.path];
        let scope: Vec<&str> = scope.into_iter().chain(index.as_deref()).collect();
        Some(NotificationId::derived(&scope, key))
    }
}

/// The items of a batch, unchecked. Kept apart so that a fault in one harms no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    notifications: Items<'a>,
}

impl<'a> From<Envelope<'a>> for Items<'a> {
    fn from(envelope: Envelope<'a>) -> Self {
        envelope.notifications
    }
}

fn read_item(app: &App, asked: &Asked, item: &RawValue, ids: &Ids, index: usize) -> Result<Draft, Problem> {
    let text = items::check(item, &app.limits)?;
    read(app, asked, text, ids, Some(index))
}

/// Reads one notification, or says everything that is wrong with it. What it is sent by is known of an address only.
fn read(app: &App, asked: &Asked, text: &str, ids: &Ids, index: Option<usize>) -> Result<Draft, Problem> {
    let limits = &app.limits;
    let mut fields = Fields::read(text)?;
    let own_id = fields.text("id", |id| id.parse::<NotificationId>());
    let target = read_target(app, &mut fields);
    let subject = fields.required("subject", |subject| Subject::parse(subject, limits));
    let text = fields.required("body", |body| Body::parse(body, limits));
    let data = fields.raw("data");
    let as_mail = check_options(&mut fields, target.as_ref(), data);
    let provenance = fields.object("source", read_source).unwrap_or_default();
    let enqueued_at = fields.text("enqueued_at", |time| time.parse());
    if let (Some(subject), Some(body)) = (&subject, &text)
        && subject.as_str().is_empty()
        && body.as_str().is_empty()
    {
        fields.refuse("body", "must not be empty when the subject is empty too");
    }
    fields.finish()?;
    let (Some(target), Some(subject), Some(body)) = (target, subject, text) else {
        return Err(Problem::internal("a notification without target, subject or body passed its checks"));
    };
    let derived = if own_id.is_none() { ids.derived(index) } else { None };
    let id = own_id
        .or(derived)
        .unwrap_or_else(|| NotificationId::generate(&ManualClock::at(asked.now), &*app.chance));
    let Target { recipient, kind, channel } = target;
    let canonical = data.map(json::canonical);
    let notification = NewNotification {
        id,
        hash: ContentHash::of(&recipient, &subject, &body, canonical.as_deref()),
        kind,
        channel,
        recipient,
        subject,
        body,
        data: data.map(|raw| raw.get().to_owned()),
        provenance,
        enqueued_at,
        accepted_by: ids.actor.clone(),
    };
    Ok(Draft { notification, derived: derived.is_some(), as_mail })
}

/// What the data says about how its kind of channel is to deliver is judged now, while somebody listens. What is returned
/// is wrong if it is delivered by mail.
fn check_options(
    fields: &mut Fields<'_>,
    target: Option<&Target>,
    data: Option<&RawValue>,
) -> Option<OptionError> {
    let target = target.filter(|target| target.kind == ChannelKind::Email)?;
    let error = Options::of(data.map(RawValue::get)).err()?;
    if matches!(target.recipient, Recipient::List(_)) {
        return Some(error);
    }
    fields.refuse(&error.field, &error.message);
    None
}

/// Whom to tell, with the kind and the channel that are stamped; those of a list are not known yet.
struct Target {
    recipient: Recipient,
    kind: ChannelKind,
    channel: Option<ChannelName>,
}

fn read_target(app: &App, fields: &mut Fields<'_>) -> Option<Target> {
    match (fields.has("list"), fields.has("to")) {
        (true, true) => fields.refuse("to", "must not stand beside list"),
        (false, false) => fields.refuse("list", "is required, or to instead of it"),
        _ => {}
    }
    let list = fields.text("list", |list| ListName::parse(&list));
    let to = fields.object("to", |to| read_to(app, to)).flatten();
    let by_list =
        list.map(|list| Target { recipient: Recipient::List(list), kind: ChannelKind::Email, channel: None });
    by_list.or(to)
}

fn read_to(app: &App, to: &mut Fields<'_>) -> Option<Target> {
    let channel = to.required("channel", |name| match ChannelName::parse(&name) {
        Ok(name) => app.catalog.channels.get_key_value(&name).ok_or("is not a configured channel".to_owned()),
        Err(error) => Err(error.to_string()),
    });
    let Some((name, settings)) = channel else {
        // Without the channel's kind the address cannot be judged, only that it is there.
        let _unjudged = to.required("address", Ok::<_, &str>);
        return None;
    };
    let address = to.required("address", |address| Address::parse(settings.kind, &address))?;
    let recipient = Recipient::Address { channel: name.clone(), address };
    Some(Target { recipient, kind: settings.kind, channel: Some(name.clone()) })
}

fn read_source(source: &mut Fields<'_>) -> Provenance {
    let mut name = |field: &str| source.text(field, |name| SourceName::parse(&name));
    Provenance { site: name("site"), instance: name("instance"), script: name("script"), node: name("node") }
}
