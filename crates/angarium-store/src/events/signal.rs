//! The signal is judged again before each attempt (FP-22): is what it says still so, does the subscription still want it,
//! and which text is sent. A text that is sent is kept first, so that after an attempt in doubt the same bytes go out
//! again; until then it is made from the newest event about the same subject (FP-07).

use std::sync::Arc;

use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::id::EventId;
use angarium_domain::time::Timestamp;

use super::rows::{event_columns, event_row};
use super::types::{RenderedText, Signal, StoredEvent};
use crate::db::{Op, Tx, params, row, statements};
use crate::error::{Result, StoreError};
use crate::key::Keys;
use crate::routes::as_of;
use crate::routes::known::{self, Known};
use crate::types::Key;

statements! {
    SUPERSEDED_BY_TYPE = "SELECT e.id FROM events e WHERE e.feed = $1 AND e.subject = $2 AND e.type = $3
            AND (e.at > $4 OR (e.at = $4 AND e.key > $5)) AND e.test = $6
        ORDER BY e.at, e.key LIMIT 1";

    SUPERSEDED_BY_KEY = "SELECT e.id FROM events e WHERE e.feed = $1 AND e.supersede_key = $2
            AND (e.at > $3 OR (e.at = $3 AND e.key > $4)) AND e.test = $5
        ORDER BY e.at, e.key LIMIT 1";

    /// The event that a claimed notification tells of.
    SIGNAL = concat!("SELECT ", event_columns!(), ", n.subscription,
            (SELECT max(a.number) FROM attempts a WHERE a.notification = n.key AND a.duplicate_risk = 1), c.hash
        FROM notifications n JOIN events e ON e.key = n.event LEFT JOIN contents c ON c.key = n.content
        WHERE n.key = $1 AND n.generation = $2 AND n.lease_until IS NOT NULL");

    SOURCE_ROW = concat!("SELECT ", event_columns!(), ", s.gone_at IS NOT NULL
        FROM sources s JOIN events e ON e.key = s.event WHERE s.feed = $1 AND s.subject = $2");

    WANTED = "SELECT s.name, s.active, s.expires_at, s.options FROM subscriptions s WHERE s.key = $1";

    SHARED_TEXT = "SELECT c.key FROM contents c WHERE c.hash = $1";

    SHARE_TEXT = "INSERT INTO contents (key, subject, body, data, hash, presentation) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (hash) WHERE hash IS NOT NULL DO NOTHING";

    PIN = "UPDATE notifications SET content = $3 WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";
}

/// The later event that makes this one untrue, if there is one: of a type that its feed declares to do so, about the same
/// subject, or with the same supersede key.
pub(crate) async fn superseding(
    tx: &mut Tx<'_>,
    key: Key,
    event: &Event,
    feed: &Feed,
) -> Result<Option<EventId>> {
    let by_type: Vec<_> = feed
        .superseding(&event.kind)
        .into_iter()
        .map(|kind| row![event.feed.as_str(), event.key.as_str(), kind.as_str(), event.at, key.0, event.test])
        .collect();
    let found = tx.query_each(&SUPERSEDED_BY_TYPE, &by_type, |row| row.uuid(0)).await?;
    if let Some(id) = found.into_iter().flatten().next() {
        return Ok(Some(id.into()));
    }
    let Some(supersede_key) = &event.supersede_key else { return Ok(None) };
    let asked = params![event.feed.as_str(), supersede_key.as_str(), event.at, key.0, event.test];
    Ok(tx.query_opt(&SUPERSEDED_BY_KEY, asked, |row| row.uuid(0)).await?.map(EventId::from))
}

/// The newest event about a subject, and whether what it told of is gone.
pub(crate) async fn source_row(tx: &mut Tx<'_>, event: &Event) -> Result<Option<(StoredEvent, bool)>> {
    let subject = params![event.feed.as_str(), event.key.as_str()];
    tx.query_opt(&SOURCE_ROW, subject, |row| Ok((event_row(row)?, row.flag(22)?))).await
}

/// Reads what a claimed notification is about.
pub(crate) struct ReadSignal {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) known: Arc<Known>,
    pub(crate) now: Timestamp,
}

impl Op for ReadSignal {
    type Output = Option<Signal>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Signal>> {
        known::catch_up(tx, &self.known).await?;
        let claim = params![self.key.0, self.generation];
        let found = tx.query_opt(&SIGNAL, claim, |row| {
            let pinned = row.opt_bytes(24)?.and_then(|hash| hash.try_into().ok());
            Ok((event_row(row)?, row.opt_int(22)?, row.opt_int(23)?.is_some(), pinned))
        });
        let Some((stored, subscription, in_doubt, pinned)) = found.await? else { return Ok(None) };
        let feed = match self.known.feed(&stored.event.feed) {
            Some(feed) => Some(feed),
            // It is switched off, or gone; what made what untrue is still so.
            None => as_of::feed(tx, &stored.event.feed, stored.plan_version).await?.map(Arc::new),
        };
        let superseded = match feed {
            Some(feed) => superseding(tx, stored.key, &stored.event, &feed).await?.is_some(),
            None => false,
        };
        // A test tells of itself: it is no news about its subject.
        let row = match stored.event.test {
            true => Some(stored.clone()),
            false => source_row(tx, &stored.event).await?.filter(|(_, gone)| !gone).map(|(row, _)| row),
        };
        let Wanted { name, options, wanted } = match subscription {
            Some(key) => self.wanted(tx, key).await?,
            None => Wanted { wanted: true, ..Wanted::default() },
        };
        Ok(Some(Signal {
            event: stored,
            row,
            superseded,
            unsubscribed: !wanted,
            subscription: name,
            options,
            in_doubt,
            pinned,
        }))
    }
}

/// What a subscription says now, and whether it still wants to be told. One that is gone does not.
#[derive(Default)]
struct Wanted {
    name: Option<String>,
    options: Option<String>,
    wanted: bool,
}

impl ReadSignal {
    async fn wanted(&self, tx: &mut Tx<'_>, key: i64) -> Result<Wanted> {
        let asked = params![key];
        let found = tx.query_opt(&WANTED, asked, |row| {
            let ended = row.opt_time(2)?.is_some_and(|end| end <= self.now);
            let (name, options) = (Some(row.text(0)?), row.opt_text(3)?);
            Ok(Wanted { name, options, wanted: row.flag(1)? && !ended })
        });
        Ok(found.await?.unwrap_or_default())
    }
}

/// Keeps a text before it is sent. Says whether the claim still stood.
pub(crate) struct Pin {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) text: RenderedText,
    pub(crate) hash: [u8; 32],
    pub(crate) keys: Arc<Keys>,
    pub(crate) now: Timestamp,
}

impl Op for Pin {
    type Output = bool;

    fn weight(&self) -> usize {
        2
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        if let Some(content) = self.shared(tx).await? {
            return self.pin(tx, content).await;
        }
        let key = self.keys.next(self.now).0;
        if !self.pin(tx, key).await? {
            return Ok(false);
        }
        let RenderedText { subject, body, data, presentation } = &self.text;
        let text = params![key, subject, body, data.as_deref(), self.hash.as_slice(), presentation];
        if tx.execute(&SHARE_TEXT, text).await? == 1 {
            return Ok(true);
        }
        // Another node has just stored the same.
        let content =
            self.shared(tx).await?.ok_or_else(|| StoreError::Statement("a text was lost".into()))?;
        self.pin(tx, content).await
    }
}

impl Pin {
    async fn shared(&self, tx: &mut Tx<'_>) -> Result<Option<i64>> {
        tx.query_opt(&SHARED_TEXT, params![self.hash.as_slice()], |row| row.int(0)).await
    }

    async fn pin(&self, tx: &mut Tx<'_>, content: i64) -> Result<bool> {
        Ok(tx.execute(&PIN, params![self.key.0, self.generation, content]).await? == 1)
    }
}
