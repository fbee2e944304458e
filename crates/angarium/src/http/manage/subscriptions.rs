//! Subscriptions: many, each with an opaque public id.

use angarium_domain::subscription::Subscription;
use angarium_domain::text::{ChannelName, SubscriptionId};
use angarium_store::{Expect, StoredSubscription, SubscriptionFilter};
use axum::Extension;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::super::cursor::{self, Listing, Slice};
use super::super::dto::Page;
use super::super::events::invalid;
use super::super::exchange::Asked;
use super::super::fields::Params;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::json::{self, ADDED, Object};
use super::objects::taken;
use super::{done, expectation, made, shown, written};

/// Characters of a filter's text.
const FILTER_CHARS: usize = 200;

/// `POST /v1/subscriptions`
pub(in crate::http) async fn make(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Absent)?;
    let bytes = taken(&app, request, false).await?;
    let reader = std::sync::Arc::clone(&app);
    let read = move |bytes: &[u8]| read(&reader, body::check(bytes, reader.limits.json_depth)?);
    let (_held, (id, subscription)) = bytes.work(read).await?;
    let id = id.unwrap_or_else(|| new_id(&app));
    keep(&app, &asked, id, subscription, expect).await
}

/// `PUT /v1/subscriptions/{id}`
pub(in crate::http) async fn put(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Anything)?;
    let id = id(&path)?;
    let bytes = taken(&app, request, false).await?;
    let reader = std::sync::Arc::clone(&app);
    let read = move |bytes: &[u8]| read(&reader, body::check(bytes, reader.limits.json_depth)?);
    let (_held, (given, subscription)) = bytes.work(read).await?;
    json::same_name(given.as_ref().map(SubscriptionId::as_str), "id", id.as_str())?;
    keep(&app, &asked, id, subscription, expect).await
}

/// `PATCH /v1/subscriptions/{id}`
pub(in crate::http) async fn patch(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Present)?;
    let before = find(&app, &path).await?;
    let bytes = taken(&app, request, true).await?;
    let (reader, stored) = (std::sync::Arc::clone(&app), before.subscription.to_json());
    let read = move |bytes: &[u8]| {
        let raw = |text: &str| {
            RawValue::from_string(text.to_owned()).map_err(|error| Problem::internal(error.to_string()))
        };
        let patch = raw(body::check(bytes, reader.limits.json_depth)?)?;
        read(&reader, json::merged(Some(&raw(&stored)?), &patch).get())
    };
    let (_held, (given, subscription)) = bytes.work(read).await?;
    json::same_name(given.as_ref().map(SubscriptionId::as_str), "id", before.id.as_str())?;
    // Somebody else's change in between is not to be lost.
    let expect = if expect == Expect::Present { Expect::Version(before.version) } else { expect };
    keep(&app, &asked, before.id, subscription, expect).await
}

/// `GET /v1/subscriptions/{id}`
pub(in crate::http) async fn show(
    State(app): State<Shared>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(&app, &path).await?;
    Ok(shown(&headers, found.version, view(&found, &[])?.get().to_owned()))
}

/// `DELETE /v1/subscriptions/{id}`
pub(in crate::http) async fn delete(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let expect = expectation(&headers, Expect::Anything)?;
    let changed = app.store.delete_subscription(&id(&path)?, expect, asked.now).await?;
    done(changed, Code::SubscriptionNotFound, expect)?;
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

/// A subscription as it is handed in, and its id if it names one.
pub(super) fn read(app: &App, text: &str) -> Result<(Option<SubscriptionId>, Subscription), Problem> {
    let mut object = json::object(text)?;
    for added in ADDED.iter().chain(["last_sent_at"].iter()) {
        object.remove(*added);
    }
    let id = json::name(&mut object, "id")?;
    let id = id
        .map(|id| SubscriptionId::parse(&id).map_err(|error| Problem::invalid_field("id", error)))
        .transpose()?;
    let kind_of = |channel: &ChannelName| app.channels.get(channel).map(|facts| facts.kind);
    let subscription = Subscription::parse(&json::text(&object), &kind_of).map_err(invalid)?;
    Ok((id, subscription))
}

/// `ns_` and twelve characters by chance: nobody guesses it, and it says nothing (FP-14).
pub(super) fn new_id(app: &App) -> SubscriptionId {
    let mut random = [0; 9];
    app.chance.fill(&mut random);
    let id = format!("ns_{}", URL_SAFE_NO_PAD.encode(random));
    SubscriptionId::parse(&id)
        .unwrap_or_else(|_| unreachable!("base64 for URLs is made of letters, digits, - and _"))
}

fn id(path: &str) -> Result<SubscriptionId, Problem> {
    SubscriptionId::parse(path).map_err(|_| Problem::plain(Code::SubscriptionNotFound))
}

async fn find(app: &App, path: &str) -> Result<StoredSubscription, Problem> {
    app.store.subscription(&id(path)?).await?.ok_or_else(|| Problem::plain(Code::SubscriptionNotFound))
}

async fn keep(
    app: &App,
    asked: &Asked,
    id: SubscriptionId,
    subscription: Subscription,
    expect: Expect,
) -> Result<Response, Problem> {
    // A filter that lets everything through is right where it is meant (FI4).
    let warnings: &[&str] = match subscription.filter.is_everything() {
        true => &["it has no conditions: it is told of every event of its feed"],
        false => &[],
    };
    let changed = app.store.put_subscription(id, subscription, expect, asked.now).await?;
    let (stored, created) = done(changed, Code::SubscriptionNotFound, expect)?;
    app.wake.now();
    let location = format!("/v1/subscriptions/{}", stored.id);
    Ok(made(created, &location, stored.version, view(&stored, warnings)?.get().to_owned()))
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
