//! Looking at events: one with what it led to, many by filter, and all that is known of an event and a subscription.

use std::sync::Arc;

use angarium_domain::id::EventId;
use angarium_domain::text::{ChannelName, SubscriptionId};

use super::rows::{event_columns, event_row};
use super::signal;
use super::types::{
    EventAcceptance, EventFilter, EventListing, EventView, Evidence, Planned, PlannedNotification,
    SkippedMatch, StoredEvent,
};
use crate::db::{Op, Row, Statement, Tx, Value, params, row, statements};
use crate::error::Result;
use crate::routes::as_of;
use crate::routes::known::{self, Known};
use crate::routes::subscriptions::{subscription_columns, subscription_row};
use crate::routes::types::StoredSubscription;

statements! {
    BY_ID = concat!("SELECT ", event_columns!(), " FROM events e WHERE e.id = $1");

    LED_TO = "SELECT n.id, coalesce(s.id, ''), n.channel, coalesce(n.address, n.list, ''), n.status, n.skip_reason
        FROM notifications n LEFT JOIN subscriptions s ON s.key = n.subscription WHERE n.event = $1 ORDER BY n.key LIMIT $2";

    SKIPPED = "SELECT s.id, p.reason, p.holder_id, p.told_by, p.at FROM suppressed p
        JOIN subscriptions s ON s.key = p.subscription WHERE p.event = $1 ORDER BY p.subscription LIMIT $2";

    COUNTS = "SELECT (SELECT count(*) FROM notifications n WHERE n.event = $1),
            (SELECT count(*) FROM suppressed p WHERE p.event = $1)";

    SUBSCRIPTION = concat!("SELECT ", subscription_columns!(), " FROM subscriptions s WHERE s.id = $1 AND s.deleted = 0");

    SUBSCRIPTION_KEY = "SELECT key FROM subscriptions WHERE id = $1";

    SKIPPED_FOR = "SELECT s.id, p.reason, p.holder_id, p.told_by, p.at FROM suppressed p
        JOIN subscriptions s ON s.key = p.subscription WHERE p.event = $1 AND p.subscription = $2";

    LED_TO_FOR = "SELECT n.id, coalesce(s.id, ''), n.channel, coalesce(n.address, n.list, ''), n.status, n.skip_reason
        FROM notifications n LEFT JOIN subscriptions s ON s.key = n.subscription
        WHERE n.event = $1 AND n.subscription = $2";

    /// The notification behind a match that was suppressed: what told it later, or what it is tied to.
    LED_TO_BY_ID = "SELECT n.id, coalesce(s.id, ''), n.channel, coalesce(n.address, n.list, ''), n.status, n.skip_reason
        FROM ids i JOIN notifications n ON n.key = i.key LEFT JOIN subscriptions s ON s.key = n.subscription
        WHERE i.id = $1";
}

/// What an event leads to is shown up to this many, of each.
pub(crate) const SHOWN: i64 = 100;

/// What an event led to, as it is now.
pub(crate) async fn planned(tx: &mut Tx<'_>, stored: &StoredEvent) -> Result<Planned> {
    let asked = params![stored.key.0, SHOWN];
    Ok(Planned {
        id: stored.id,
        duplicate: false,
        planning: stored.planning,
        notifications: tx.query(&LED_TO, asked, led_to).await?,
        skipped: tx.query(&SKIPPED, asked, skipped).await?,
    })
}

/// The subscriptions that are told by what an event led to.
pub(crate) async fn told(
    tx: &mut Tx<'_>,
    acceptance: &EventAcceptance,
) -> Result<Vec<(SubscriptionId, angarium_domain::subscription::Subscription)>> {
    let EventAcceptance::Accepted(planned) = acceptance else { return Ok(Vec::new()) };
    let asked: Vec<_> = planned.notifications.iter().map(|one| row![one.subscription.as_str()]).collect();
    let found = tx.query_each(&SUBSCRIPTION, &asked, |row| subscription_row(row, 0)).await?;
    Ok(found
        .into_iter()
        .flatten()
        .map(|(_, StoredSubscription { id, subscription, .. })| (id, subscription))
        .collect())
}

fn led_to(row: &Row<'_>) -> Result<PlannedNotification> {
    Ok(PlannedNotification {
        id: row.uuid(0)?.into(),
        subscription: subscription_id(&row.text(1)?)?,
        channel: row.opt_text(2)?.and_then(|name| ChannelName::parse(&name).ok()),
        target: row.text(3)?,
        status: row.word(4)?,
        skip_reason: row.opt_text(5)?.and_then(|word| word.parse().ok()),
    })
}

fn skipped(row: &Row<'_>) -> Result<SkippedMatch> {
    Ok(SkippedMatch {
        subscription: subscription_id(&row.text(0)?)?,
        reason: row.word(1)?,
        by: row.opt_uuid(2)?.map(Into::into),
        told_by: row.opt_uuid(3)?.map(Into::into),
        at: row.time(4)?,
    })
}

fn subscription_id(text: &str) -> Result<SubscriptionId> {
    let unreadable = |_| crate::StoreError::Corrupt("the id of a subscription cannot be read".into());
    SubscriptionId::parse(text).map_err(unreadable)
}

/// One event, with what it led to.
pub(crate) struct Get {
    pub(crate) id: EventId,
    pub(crate) known: Arc<Known>,
}

impl Op for Get {
    type Output = Option<EventView>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<EventView>> {
        known::catch_up(tx, &self.known).await?;
        view(tx, self.id, &self.known).await
    }
}

async fn view(tx: &mut Tx<'_>, id: EventId, known: &Known) -> Result<Option<EventView>> {
    let Some(stored) = tx.query_opt(&BY_ID, params![id.uuid()], event_row).await? else { return Ok(None) };
    let planned = planned(tx, &stored).await?;
    let counts =
        tx.query_opt(&COUNTS, params![stored.key.0], |row| Ok((row.count(0)?, row.count(1)?))).await?;
    let (notifications, suppressed) = counts.unwrap_or_default();
    let source_gone = signal::source_row(tx, &stored.event).await?.is_some_and(|(_, gone)| gone);
    let superseded_by = match known.feed(&stored.event.feed) {
        Some(feed) => signal::superseding(tx, stored.key, &stored.event, &feed).await?,
        None => None,
    };
    Ok(Some(EventView { stored, planned, notifications, suppressed, source_gone, superseded_by }))
}

/// All that is known of an event and a subscription.
pub(crate) struct Look {
    pub(crate) id: EventId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) known: Arc<Known>,
}

impl Op for Look {
    type Output = Option<Evidence>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Evidence>> {
        known::catch_up(tx, &self.known).await?;
        let Some(view) = view(tx, self.id, &self.known).await? else { return Ok(None) };
        let (event, version) = (view.stored.key.0, view.stored.plan_version);
        let feed = as_of::feed(tx, &view.stored.event.feed, version).await?.map(Arc::new);
        let subscription = as_of::subscription(tx, self.subscription.as_str(), version).await?;
        let id = params![self.subscription.as_str()];
        let key = tx.query_opt(&SUBSCRIPTION_KEY, id, |row| row.int(0)).await?;
        let pair = params![event, key.unwrap_or(0)];
        let skipped = tx.query_opt(&SKIPPED_FOR, pair, skipped).await?;
        let mut notification = tx.query_opt(&LED_TO_FOR, pair, led_to).await?;
        let behind = skipped.as_ref().and_then(|skipped| skipped.told_by.or(skipped.by));
        if let (None, Some(id)) = (&notification, behind) {
            notification = tx.query_opt(&LED_TO_BY_ID, params![id.uuid()], led_to).await?;
        }
        Ok(Some(Evidence { view, feed, subscription, known: key.is_some(), skipped, notification }))
    }
}

/// Events by filter, the newest first.
pub(crate) struct List {
    pub(crate) filter: EventFilter,
    pub(crate) limit: usize,
}

impl Op for List {
    type Output = EventListing;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<EventListing> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX - 1).saturating_add(1);
        let EventFilter { feed, kind, key, source, since, until, before } = &self.filter;
        let conditions: [(&str, Value<'_>); 7] = [
            ("e.feed =", feed.as_deref().into()),
            ("e.type =", kind.as_deref().into()),
            ("e.subject =", key.as_deref().into()),
            ("e.source =", source.as_deref().into()),
            ("e.created_at >=", (*since).into()),
            ("e.created_at <", (*until).into()),
            ("e.key <", before.map(|key| key.0).into()),
        ];
        let mut text = format!("SELECT {} FROM events e WHERE true", event_columns!());
        let mut values = Vec::new();
        for (condition, value) in conditions {
            if !matches!(value, Value::Null) {
                values.push(value);
                text.push_str(&format!(" AND {condition} ${}", values.len()));
            }
        }
        values.push(Value::Int(limit));
        text.push_str(&format!(" ORDER BY e.key DESC LIMIT ${}", values.len()));
        let mut items = tx.query(&Statement::composed(text), &values, event_row).await?;
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        Ok(EventListing { items, more })
    }
}
