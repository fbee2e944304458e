//! Subscriptions: many, each with an opaque public id.

use std::sync::Arc;

use angarium_domain::text::SubscriptionId;
use angarium_store::{Expect, ManagedBy, StoredSubscription, SubscriptionFilter};
use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::super::cursor::{self, Listing, Slice};
use super::super::dto::Page;
use super::super::exchange::Asked;
use super::super::fields::Params;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::draft::{Draft, Lists};
use super::json::{self, Object};
use super::objects::{raw, taken};
use super::{PathName, done, expectation, made, shown, unless_changed, written};

/// Characters of a filter's text.
const FILTER_CHARS: usize = 200;

/// `POST /v1/subscriptions`
pub(in crate::http) async fn make(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<Response, Problem> {
    let bytes = taken(&app, request, false).await?;
    let (_held, draft) = bytes.work(reader(&app)).await?;
    let id = draft.id.clone().unwrap_or_else(|| new_id(&app));
    keep(&app, &asked, id, draft, (Expect::Absent, Code::AlreadyExists)).await
}

/// `PUT /v1/subscriptions/{id}`
pub(in crate::http) async fn put(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    request: Request,
) -> Result<Response, Problem> {
    let id = id(path)?;
    let expect = expectation(request.headers(), Expect::Anything)?;
    let bytes = taken(&app, request, false).await?;
    let (_held, draft) = bytes.work(reader(&app)).await?;
    json::same_name(draft.id.as_ref().map(SubscriptionId::as_str), "id", id.as_str())?;
    keep(&app, &asked, id, draft, (expect, Code::PreconditionFailed)).await
}

/// `PATCH /v1/subscriptions/{id}`
pub(in crate::http) async fn patch(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    request: Request,
) -> Result<Response, Problem> {
    let id = id(path)?;
    let expect = expectation(request.headers(), Expect::Present)?;
    let bytes = taken(&app, request, true).await?;
    let before = find(&app, &id).await?;
    if before.managed_by == ManagedBy::File {
        return Err(Problem::plain(Code::ManagedByFile));
    }
    let (reader, stored) = (Arc::clone(&app), before.subscription.to_json());
    let read = move |bytes: &[u8]| {
        let patch = raw(body::check(bytes, reader.limits.json_depth)?)?;
        Draft::read(&reader, json::merged(Some(&raw(&stored)?), &patch).get())
    };
    let (_held, draft) = bytes.work(read).await?;
    json::same_name(draft.id.as_ref().map(SubscriptionId::as_str), "id", id.as_str())?;
    let expect = unless_changed(expect, before.version);
    keep(&app, &asked, id, draft, (expect, Code::PreconditionFailed)).await
}

/// `GET /v1/subscriptions/{id}`
pub(in crate::http) async fn show(
    State(app): State<Shared>,
    path: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&app, &id(path)?).await?;
    Ok(shown(&headers, found.version, view(&found, &[])?.get().to_owned()))
}

/// `DELETE /v1/subscriptions/{id}`
pub(in crate::http) async fn delete(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let id = id(path)?;
    let expect = expectation(&headers, Expect::Anything)?;
    let changed = app.store.delete_subscription(&id, expect, asked.now).await?;
    done(changed, Code::SubscriptionNotFound, Code::PreconditionFailed)?;
    app.wake.now();
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/subscriptions`
pub(in crate::http) async fn list(
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = Params::read(query.as_deref());
    let row = |row: Vec<u8>| row.try_into().ok().map(i64::from_be_bytes);
    let slice = Slice::take(&mut params, Listing::Subscriptions, row);
    let mut text = |name: &str| {
        params.take(name, |text| match text.chars().count() {
            0..=FILTER_CHARS => Ok(text.to_owned()),
            _ => Err(format!("has more than {FILTER_CHARS} characters")),
        })
    };
    let (feed, channel, owner, name) = (text("feed"), text("channel"), text("owner"), text("q"));
    let active = params.take("active", |text| text.parse::<bool>().map_err(|_| "must be true or false"));
    let (after, limit) = slice.finish(params)?;
    let filter = SubscriptionFilter { feed, channel, owner, active, name, after };
    let mut found = app.store.subscriptions(filter, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|last| cursor::write(Listing::Subscriptions, &last.cursor.to_be_bytes()));
    let items: Result<Vec<Box<RawValue>>, Problem> = found.iter().map(|stored| view(stored, &[])).collect();
    let page = Page { items: items?, next };
    Ok(written(StatusCode::OK, serde_json::to_string(&page).unwrap_or_default()))
}

/// `ns_` and twelve characters by chance: nobody guesses it, and it says nothing (FP-14).
pub(super) fn new_id(app: &App) -> SubscriptionId {
    let mut random = [0; 9];
    app.chance.fill(&mut random);
    let id = format!("ns_{}", URL_SAFE_NO_PAD.encode(random));
    SubscriptionId::parse(&id)
        .unwrap_or_else(|_| unreachable!("base64 for URLs is made of letters, digits, - and _"))
}

/// What reads the body of a request.
fn reader(app: &Shared) -> impl FnOnce(&[u8]) -> Result<Draft, Problem> + Send + 'static {
    let app = Arc::clone(app);
    move |bytes| Draft::read(&app, body::check(bytes, app.limits.json_depth)?)
}

fn id(path: PathName) -> Result<SubscriptionId, Problem> {
    let word = path.or(Code::SubscriptionNotFound)?;
    SubscriptionId::parse(&word).map_err(|_| Problem::plain(Code::SubscriptionNotFound))
}

async fn find(app: &App, id: &SubscriptionId) -> Result<StoredSubscription, Problem> {
    app.store.subscription(id).await?.ok_or_else(|| Problem::plain(Code::SubscriptionNotFound))
}

async fn keep(
    app: &App,
    asked: &Asked,
    id: SubscriptionId,
    draft: Draft,
    (expect, conflict): (Expect, Code),
) -> Result<Response, Problem> {
    let (subscription, leads_somewhere) = draft.judged(app, &mut Lists::default()).await?;
    let mut warnings = Vec::new();
    // A filter that lets everything through is right where it is meant (FI4).
    if subscription.filter.is_everything() {
        warnings.push("it has no conditions: it is told of every event of its feed");
    }
    if !leads_somewhere {
        warnings.push("its list is not known: until it is, what is sent to it waits for somebody to look");
    }
    let changed = app.store.put_subscription(id, subscription, expect, asked.now).await?;
    let (stored, created) = done(changed, Code::SubscriptionNotFound, conflict)?;
    app.wake.now();
    let location = format!("/v1/subscriptions/{}", stored.id);
    Ok(made(created, &location, stored.version, view(&stored, &warnings)?.get().to_owned()))
}

/// A subscription as it is shown: what it says, and what is known of it.
fn view(stored: &StoredSubscription, warnings: &[&str]) -> Result<Box<RawValue>, Problem> {
    let json = stored.subscription.to_json();
    let mut members: Object =
        serde_json::from_str(&json).map_err(|error| Problem::internal(error.to_string()))?;
    members.insert("id".to_owned(), json::member(stored.id.as_str()));
    members.insert("active".to_owned(), json::member(stored.subscription.active));
    members.insert("managed_by".to_owned(), json::member(stored.managed_by.as_str()));
    members.insert("version".to_owned(), json::member(stored.version));
    members.insert("created_at".to_owned(), json::member(stored.created_at));
    members.insert("updated_at".to_owned(), json::member(stored.updated_at));
    members.insert("last_sent_at".to_owned(), json::member(stored.last_sent_at));
    if !warnings.is_empty() {
        members.insert("warnings".to_owned(), json::member(warnings));
    }
    Ok(json::member(&members))
}
