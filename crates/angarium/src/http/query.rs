//! Looking: one notification, many by filter, attempts, trail and figures. Listings are paged by key, so that
//! a page costs the same however far down it is.

use std::time::Duration;

use angarium_domain::time::Timestamp;
use angarium_store::{Filter, Key, View};
use axum::extract::{RawQuery, State};
use axum::{Extension, Json};

use super::cursor::{Listing, Slice};
use super::dto::{Attempt, AuditEntry, Kpis, Notification, Page};
use super::exchange::{Asked, PathId};
use super::fields::Params;
use super::problem::{Code, Problem};
use super::{Shared, cursor, views};

/// Characters of a filter's text.
const FILTER_CHARS: usize = 200;
/// How far back deliveries count as being of the last interval (OB-18).
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// `GET /v1/notifications`
pub(super) async fn list(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    RawQuery(query): RawQuery,
) -> Result<Json<Page<Notification>>, Problem> {
    let stuck_before = asked.now.minus(app.stuck_after);
    let (filter, limit) = read_filter(query.as_deref(), stuck_before)?;
    let found = app.store.list(filter, limit).await?;
    let last = found.items.last().filter(|_| found.more);
    let next = last.map(|view| cursor::write(Listing::Notifications, &view.key.to_cursor().to_be_bytes()));
    let shown = |view: View| views::notification(view, stuck_before);
    Ok(Json(Page { items: found.items.into_iter().map(shown).collect(), next }))
}

fn read_filter(query: Option<&str>, stuck_before: Timestamp) -> Result<(Filter, usize), Problem> {
    let mut params = Params::read(query);
    let slice = Slice::take(&mut params, Listing::Notifications, |row| Some(Key::from_cursor(number(row)?)));
    let stuck = params.take("stuck", |text| text.parse::<bool>().map_err(|_| "must be true or false"));
    let mut filter = Filter {
        status: params.take("status", |text| text.parse()),
        kind: params.take("kind", |text| text.parse()),
        since: params.take("since", |text| text.parse()),
        until: params.take("until", |text| text.parse()),
        stuck_before: (stuck == Some(true)).then_some(stuck_before),
        ..Filter::default()
    };
    let mut text = |name: &str| {
        params.take(name, |text| match text.chars().count() {
            0..=FILTER_CHARS => Ok(text.to_owned()),
            _ => Err(format!("has more than {FILTER_CHARS} characters")),
        })
    };
    filter.channel = text("channel");
    filter.list = text("list");
    filter.site = text("site");
    filter.node = text("node");
    filter.subject = text("q");
    let (before, limit) = slice.finish(params)?;
    filter.before = before;
    Ok((filter, limit))
}

fn number(row: Vec<u8>) -> Option<i64> {
    row.try_into().ok().map(i64::from_be_bytes)
}

/// `GET /v1/notifications/{id}`
pub(super) async fn show(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    PathId(id): PathId,
) -> Result<Json<Notification>, Problem> {
    let view = app.store.get(id).await?.ok_or_else(|| Problem::plain(Code::NotificationNotFound))?;
    Ok(Json(views::notification(view, asked.now.minus(app.stuck_after))))
}

/// `GET /v1/notifications/{id}/attempts`
pub(super) async fn attempts(
    State(app): State<Shared>,
    PathId(id): PathId,
    RawQuery(query): RawQuery,
) -> Result<Json<Page<Attempt>>, Problem> {
    let mut params = Params::read(query.as_deref());
    let (after, limit) = Slice::take(&mut params, Listing::Attempts, number).finish(params)?;
    let found = app.store.attempts(id, after.unwrap_or(0), limit + 1).await?;
    let mut attempts = found.ok_or_else(|| Problem::plain(Code::NotificationNotFound))?;
    let more = attempts.len() > limit;
    attempts.truncate(limit);
    let last = attempts.last().filter(|_| more);
    let next = last.map(|last| cursor::write(Listing::Attempts, &last.number.to_be_bytes()));
    Ok(Json(Page { items: attempts.into_iter().map(views::attempt).collect(), next }))
}

/// `GET /v1/notifications/{id}/audit`. The trail outlives the notification; a very long one is cut.
pub(super) async fn audit(
    State(app): State<Shared>,
    PathId(id): PathId,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    let trail = app.store.audit(id).await?;
    if trail.is_empty() && app.store.get(id).await?.is_none() {
        return Err(Problem::plain(Code::NotificationNotFound));
    }
    Ok(Json(Page::whole(trail.into_iter().map(views::audit_entry).collect())))
}

/// `GET /v1/kpis`
pub(super) async fn kpis(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
) -> Result<Json<Kpis>, Problem> {
    let kpis = app.store.kpis(asked.now, app.stuck_after, INTERVAL).await?;
    Ok(Json(views::kpis(kpis, asked.now)))
}
