//! Accepting events: the one transaction that makes an event ours, with the first of the notifications that it leads to.

use std::sync::Arc;

use angarium_domain::event::Event;
use angarium_domain::text::FeedId;
use angarium_domain::time::Timestamp;

use super::plan::{Planner, Subject};
use super::rows::{event_columns, event_row, fields_json, recipients_json};
use super::types::{EventAcceptance, NewEvent, Planned, StoredEvent, Trial};
use super::views;
use crate::db::{Op, Tx, params, statements};
use crate::error::{Result, StoreError};
use crate::routes::known::{self, Matches};
use crate::types::Key;

statements! {
    INSERT_EVENT = "INSERT INTO events
        (key, id, source, external_id, hash, feed, type, subject, at, locale, fields, data, entity_type, entity_id,
         recipients, expires_at, supersede_key, test, accepted_by, created_at, plan_version, planned_to, matched)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
        ON CONFLICT (source, external_id) DO NOTHING RETURNING key";

    /// As of a resend: the row is locked, so that the answer waits for what was committed before it.
    KNOWN_EVENT = concat!("SELECT ", event_columns!(), ", e.hash FROM events e WHERE e.source = $1 AND e.external_id = $2
        {lock known event}");

    /// The newest is what happened last, and of two that happened at once, what arrived last.
    NEWEST_SOURCE = "INSERT INTO sources (feed, subject, event, at, gone_at) VALUES ($1, $2, $3, $4, NULL)
        ON CONFLICT (feed, subject) DO UPDATE SET event = $3, at = $4, gone_at = NULL
        WHERE sources.at < $4 OR (sources.at = $4 AND sources.event < $3)";

    SOURCE_GONE = "UPDATE sources SET gone_at = $3 WHERE feed = $1 AND subject = $2";
}

/// Notifications that are planned in the transaction of their event, and in each step after that.
pub(crate) const CHUNK: usize = 100;

/// Accepts events, each on its own.
pub(crate) struct AcceptEvents {
    pub(crate) items: Vec<NewEvent>,
    pub(crate) planner: Arc<Planner>,
    pub(crate) now: Timestamp,
}

impl Op for AcceptEvents {
    type Output = Vec<EventAcceptance>;

    fn weight(&self) -> usize {
        self.items.len() * 8
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<EventAcceptance>> {
        known::catch_up(tx, &self.planner.known).await?;
        let mut room = CHUNK;
        if let [item] = &*self.items {
            return Ok(vec![self.planner.accept(tx, item, &mut room, self.now).await?.0]);
        }
        let mut answers = Vec::with_capacity(self.items.len());
        for item in &self.items {
            tx.savepoint().await?;
            let done = self.planner.accept(tx, item, &mut room, self.now).await;
            answers.push(match tx.close_savepoint(done).await? {
                Ok((answer, _)) => answer,
                Err(error) if error.concerns_the_database() => return Err(error),
                Err(error) => EventAcceptance::Failed { detail: error.to_string() },
            });
        }
        Ok(answers)
    }
}

/// Does all that accepting does, looks at what came of it, and undoes it.
pub(crate) struct TryEvent {
    pub(crate) item: NewEvent,
    pub(crate) planner: Arc<Planner>,
    pub(crate) now: Timestamp,
}

impl Op for TryEvent {
    type Output = Trial;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Trial> {
        known::catch_up(tx, &self.planner.known).await?;
        tx.savepoint().await?;
        let (mut found, mut room) = (None, CHUNK);
        let done = match self.planner.accept(tx, &self.item, &mut room, self.now).await {
            Ok((acceptance, matched)) => {
                let told = views::told(tx, &acceptance).await;
                found = Some(told.map(|told| Trial { acceptance, told, matched }));
                // An error is what undoes a savepoint.
                Err::<(), _>(StoreError::Statement("it was only tried".into()))
            }
            Err(error) => Err(error),
        };
        match (tx.close_savepoint(done).await?, found) {
            (_, Some(found)) => found,
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(StoreError::Statement("a trial found nothing".into())),
        }
    }
}

impl Planner {
    /// Accepts one event, and plans as much of it as there is `room` left in the transaction. Also says how many
    /// subscriptions it matches.
    async fn accept(
        &self,
        tx: &mut Tx<'_>,
        item: &NewEvent,
        room: &mut usize,
        now: Timestamp,
    ) -> Result<(EventAcceptance, usize)> {
        let event = &item.event;
        let Some(matches) = self.known.matches(event) else { return Ok((EventAcceptance::UnknownFeed, 0)) };
        if !matches.feed.has_type(&event.kind) {
            return Ok((EventAcceptance::UnknownType, 0));
        }
        let (first, rest) = matches.keys.split_at(matches.keys.len().min(*room));
        // Keys begin at 1.
        let planned_to = (!rest.is_empty()).then(|| first.last().copied().unwrap_or(0));
        let key = self.keys.next(now);
        if !insert(tx, item, key, &matches, planned_to, now).await? {
            return Ok((known_event(tx, item).await?, matches.keys.len()));
        }
        *room -= first.len();
        if !event.test {
            let source = params![event.feed.as_str(), event.key.as_str(), key.0, event.at];
            tx.execute(&NEWEST_SOURCE, source).await?;
        }
        let subject =
            Subject { key, id: item.id, event, feed: &matches.feed, actor: item.accepted_by.as_str() };
        let (notifications, skipped) = self.plan(tx, &subject, first, true, now).await?;
        let planned =
            Planned { id: item.id, duplicate: false, planning: planned_to.is_some(), notifications, skipped };
        Ok((EventAcceptance::Accepted(planned), matches.keys.len()))
    }
}

/// Says whether it was new.
async fn insert(
    tx: &mut Tx<'_>,
    item: &NewEvent,
    key: Key,
    matches: &Matches,
    planned_to: Option<i64>,
    now: Timestamp,
) -> Result<bool> {
    let Event { source, external_id, feed, kind, key: subject, at, .. } = &item.event;
    let event = &item.event;
    let hash: &[u8] = item.hash.as_bytes();
    let (fields, recipients) = (fields_json(event), recipients_json(event));
    let matched = i64::try_from(matches.keys.len()).unwrap_or(i64::MAX);
    let row = params![
        key.0,
        item.id.uuid(),
        source.as_str(),
        external_id.as_str(),
        hash,
        feed.as_str(),
        kind.as_str(),
        subject.as_str(),
        *at,
        event.locale.as_ref().map(|locale| locale.as_str()),
        fields.as_str(),
        event.data.as_deref(),
        event.entity.as_ref().map(|entity| entity.kind.as_str()),
        event.entity.as_ref().map(|entity| entity.id.as_str()),
        recipients.as_deref(),
        event.expires_at,
        event.supersede_key.as_ref().map(|key| key.as_str()),
        event.test,
        item.accepted_by.as_str(),
        now,
        matches.version,
        planned_to,
        matched,
    ];
    Ok(tx.query_opt(&INSERT_EVENT, row, |row| row.int(0)).await?.is_some())
}

/// The answer to an event whose source and id are taken.
async fn known_event(tx: &mut Tx<'_>, item: &NewEvent) -> Result<EventAcceptance> {
    let named = params![item.event.source.as_str(), item.event.external_id.as_str()];
    let found: Option<(StoredEvent, Vec<u8>)> =
        tx.query_opt(&KNOWN_EVENT, named, |row| Ok((event_row(row)?, row.bytes(22)?))).await?;
    let (stored, hash) = found.ok_or_else(|| StoreError::Statement("an event was lost".into()))?;
    if hash != item.hash.as_bytes() {
        return Ok(EventAcceptance::IdReused { id: stored.id });
    }
    let planned = views::planned(tx, &stored).await?;
    Ok(EventAcceptance::Accepted(Planned { duplicate: true, ..planned }))
}

/// What a subject's events told of is gone.
pub(crate) struct SourceGone {
    pub(crate) feed: FeedId,
    pub(crate) subject: String,
    pub(crate) now: Timestamp,
}

impl Op for SourceGone {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let row = params![self.feed.as_str(), &self.subject, self.now];
        Ok(tx.execute(&SOURCE_GONE, row).await? > 0)
    }
}
