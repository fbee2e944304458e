//! Looking: one notification, many by filter, attempts, trail and figures. Listings are paged by key, so that
//! a page costs the same however far down it is.

use std::time::Duration;

use angarium_domain::time::Timestamp;
use angarium_store::{Filter, Key, View};
use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::dto::{Attempt, AuditEntry, Kpis, Notification, Page};
use super::exchange::{Asked, PathId};
use super::fields::Params;
use super::problem::{Code, Problem};
use super::{Shared, views};

/// Rows of a page, unless the question says otherwise.
const PAGE: usize = 100;
/// Rows of a page at most.
const LARGEST_PAGE: usize = 500;
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
    let next = last.map(|view| to_cursor(view.key));
    let shown = |view: View| views::notification(view, stuck_before);
    Ok(Json(Page { items: found.items.into_iter().map(shown).collect(), next }))
}

fn read_filter(query: Option<&str>, stuck_before: Timestamp) -> Result<(Filter, usize), Problem> {
    let mut params = Params::read(query);
    // Told apart from other errors because a program that pages reacts to it by starting anew.
    let cursor = params.take("cursor", |text| Ok::<_, &str>(from_cursor(text)));
    let limit = params.take("limit", |text| match text.parse::<usize>() {
        Ok(limit) if (1..=LARGEST_PAGE).contains(&limit) => Ok(limit),
        _ => Err(format!("must be a number from 1 to {LARGEST_PAGE}")),
    });
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
    params.finish()?;
    filter.before = match cursor {
        Some(None) => return Err(Problem::plain(Code::CursorInvalid)),
        Some(before) => before,
        None => None,
    };
    Ok((filter, limit.unwrap_or(PAGE)))
}

/// The version of cursors, so that a later one can be told apart.
const CURSOR_VERSION: u8 = 1;

/// A cursor is its version, the key of the last row that was shown, and four bytes that show that it was
/// made here and not by counting. It gives no access to anything, so that no secret is needed.
fn to_cursor(last: Key) -> String {
    let mut bytes = vec![CURSOR_VERSION];
    bytes.extend(last.to_cursor().to_be_bytes());
    let sum = cursor_sum(&bytes);
    bytes.extend(sum);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn from_cursor(text: &str) -> Option<Key> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (named, sum) = bytes.split_at_checked(9)?;
    let (version, key) = named.split_first()?;
    if *version != CURSOR_VERSION || sum != cursor_sum(named) {
        return None;
    }
    Some(Key::from_cursor(i64::from_be_bytes(key.try_into().ok()?)))
}

fn cursor_sum(bytes: &[u8]) -> [u8; 4] {
    let hash = Sha256::new().chain_update(b"angarium cursor").chain_update(bytes).finalize();
    let mut sum = [0; 4];
    sum.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    sum
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
) -> Result<Json<Page<Attempt>>, Problem> {
    let attempts = app.store.attempts(id).await?.ok_or_else(|| Problem::plain(Code::NotificationNotFound))?;
    Ok(Json(Page::whole(attempts.into_iter().map(views::attempt).collect())))
}

/// `GET /v1/notifications/{id}/audit`. The trail outlives the notification.
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
    RawQuery(query): RawQuery,
) -> Result<Json<Kpis>, Problem> {
    Params::read(query.as_deref()).finish()?;
    let kpis = app.store.kpis(asked.now, app.stuck_after, INTERVAL).await?;
    Ok(Json(views::kpis(kpis, asked.now)))
}
