//! Looking at events: many by filter, one with what it led to, and why.

use angarium_domain::id::{EventId, NotificationId};
use angarium_domain::limits::LINE_CHARS;
use angarium_domain::text::SubscriptionId;
use angarium_engine::explain::{self, Tries};
use angarium_store::{EventFilter, Key};
use axum::extract::{RawQuery, State};
use axum::{Extension, Json};

use super::super::cursor::{self, Listing, Slice};
use super::super::dto::Page;
use super::super::exchange::Asked;
use super::super::fields::Params;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared};
use super::dto::{Event, EventDetail, EventExplanation};
use super::{PathEvent, views};

/// `GET /v1/events`
pub(in crate::http) async fn list(
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Json<Page<Event>>, Problem> {
    let (filter, limit) = read_filter(query.as_deref())?;
    let found = app.store.events(filter, limit).await?;
    let last = found.items.last().filter(|_| found.more);
    let next = last.map(|stored| cursor::write(Listing::Events, &stored.key.to_cursor().to_be_bytes()));
    Ok(Json(Page { items: found.items.into_iter().map(views::event).collect(), next }))
}

fn read_filter(query: Option<&str>) -> Result<(EventFilter, usize), Problem> {
    let mut params = Params::read(query);
    let row = |row: Vec<u8>| row.try_into().ok().map(|row| Key::from_cursor(i64::from_be_bytes(row)));
    let slice = Slice::take(&mut params, Listing::Events, row);
    let mut text = |name: &str| {
        params.take(name, |text| match text.chars().count() {
            0..=LINE_CHARS => Ok(text.to_owned()),
            _ => Err(format!("has more than {LINE_CHARS} characters")),
        })
    };
    let (feed, kind, key, source) = (text("feed"), text("type"), text("key"), text("source"));
    let since = params.take("since", str::parse);
    let until = params.take("until", str::parse);
    let (before, limit) = slice.finish(params)?;
    Ok((EventFilter { feed, kind, key, source, since, until, before }, limit))
}

/// `GET /v1/events/{id}`
pub(in crate::http) async fn show(
    State(app): State<Shared>,
    PathEvent(id): PathEvent,
) -> Result<Json<EventDetail>, Problem> {
    let view = app.store.event(id).await?.ok_or_else(|| Problem::plain(Code::EventNotFound))?;
    Ok(Json(views::detail(view)))
}

/// `GET /v1/events/{id}/explain`
pub(in crate::http) async fn explain(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    PathEvent(id): PathEvent,
    RawQuery(query): RawQuery,
) -> Result<Json<EventExplanation>, Problem> {
    let mut params = Params::read(query.as_deref());
    let subscription = params.take("subscription", |text| Ok::<_, &str>(text.to_owned()));
    params.finish()?;
    match subscription {
        Some(subscription) => of_one(&app, &asked, id, &subscription).await.map(Json),
        None => of_all(&app, id).await.map(Json),
    }
}

async fn of_all(app: &App, id: EventId) -> Result<EventExplanation, Problem> {
    let view = app.store.event(id).await?.ok_or_else(|| Problem::plain(Code::EventNotFound))?;
    let feed = app.store.feed(&view.stored.event.feed, false).await?;
    Ok(views::explanation(&view, None, explain::overview(&view, feed.as_deref())))
}

async fn of_one(
    app: &App,
    asked: &Asked,
    id: EventId,
    subscription: &str,
) -> Result<EventExplanation, Problem> {
    let name = SubscriptionId::parse(subscription).map_err(|_| Problem::plain(Code::SubscriptionNotFound))?;
    let evidence = app.store.evidence(id, &name).await?.ok_or_else(|| Problem::plain(Code::EventNotFound))?;
    if !evidence.known {
        return Err(Problem::plain(Code::SubscriptionNotFound));
    }
    let tries = match &evidence.notification {
        Some(notification) => tries(app, notification.id).await?,
        None => None,
    };
    let explanation = explain::explain(&evidence, tries.as_ref(), asked.now);
    Ok(views::explanation(&evidence.view, Some(name.to_string()), explanation))
}

async fn tries(app: &App, id: NotificationId) -> Result<Option<Tries>, Problem> {
    let view = app.store.get(id).await?;
    Ok(view.map(|view| Tries {
        retries: view.retry_count,
        last_error: view.last_error.map(|error| error.detail),
        last_attempt_at: view.last_attempt_at,
        next_attempt_at: view.next_attempt_at.filter(|_| !view.status.is_terminal() && !view.in_flight),
    }))
}
