//! The steps of planning that come after an event was answered: the further chunks of one that concerns many, and what
//! was suppressed by a notification that has been given up. Each step is one transaction over a row that it locks, so any
//! number of nodes may take steps, and a crash between two repeats none.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use angarium_domain::feed::Feed;
use angarium_domain::matching::Matcher;
use angarium_domain::state::SkipReason;
use angarium_domain::subscription::Subscription;
use angarium_domain::time::Timestamp;

use super::accept::CHUNK;
use super::ledger;
use super::plan::{Planner, Subject};
use super::rows::{event_columns, event_row};
use super::types::{Step, StoredEvent, SuppressReason};
use crate::db::{Op, Row, Tx, params, statements};
use crate::error::Result;
use crate::routes::{as_of, known};
use crate::types::Key;
use crate::views::first_key;

statements! {
    /// Somebody else who plans it already is passed over.
    UNPLANNED = "SELECT n.key, n.planned_to FROM events n WHERE n.planned_to IS NOT NULL AND n.key > $1
        ORDER BY n.key LIMIT 1 {lock chosen}";

    EVENT = concat!("SELECT ", event_columns!(), " FROM events e WHERE e.key = $1");

    PLANNED_TO = "UPDATE events SET planned_to = $2 WHERE key = $1";

    CHANGED_SINCE = "SELECT key FROM subscriptions WHERE feed = $1 AND version > $2";

    /// What of these was there before, and what it said then.
    AS_THEY_WERE = "SELECT s.key, h.spec FROM subscriptions s JOIN history h ON h.kind = 'subscription' AND h.name = s.id
        WHERE s.feed = $1 AND s.version > $2 AND h.since <= $2 AND h.until > $2 AND h.active = 1";

    RELEASE = "SELECT n.subscription, n.notification FROM releases n
        WHERE (n.subscription, n.notification) > ($1, $2)
        ORDER BY n.subscription, n.notification LIMIT 1 {lock chosen}";

    RELEASE_DONE = "DELETE FROM releases WHERE subscription = $1 AND notification = $2";

    /// What the notification stood in the way of, the newest first.
    WAITING = concat!("SELECT ", event_columns!(), ", s.reason FROM suppressed s JOIN events e ON e.key = s.event
        WHERE s.subscription = $1 AND s.holder = $2 AND s.told_by IS NULL AND s.event < $3
        ORDER BY s.event DESC LIMIT 20");

    /// A daily cap has no one notification behind it; what it kept back is news for as long as it counts.
    CAPPED = concat!("SELECT ", event_columns!(), ", s.reason FROM suppressed s JOIN events e ON e.key = s.event
        WHERE s.subscription = $1 AND s.reason = 'daily_cap' AND s.told_by IS NULL AND s.event > $2 AND s.event < $3
        ORDER BY s.event DESC LIMIT 20");

    WANTED = "SELECT active, expires_at FROM subscriptions WHERE key = $1";

    GIVEN_UP = "SELECT event, skip_reason FROM notifications WHERE key = $1";

    TOLD_AFTER_ALL = "UPDATE suppressed SET told_by = $3 WHERE event = $1 AND subscription = $2";
}

/// What is known from one step to the next.
#[derive(Default)]
pub(crate) struct Plans {
    /// Whom events that are being planned concern, so that it is found out once, and not for each chunk.
    concerned: Mutex<HashMap<Key, Arc<Concerned>>>,
    /// What the last step was about, done or not: steps go round, so that what cannot be planned holds up nothing else.
    last: Mutex<Last>,
}

#[derive(Clone, Copy, Default)]
struct Last {
    /// Chunks and what was given back take turns.
    was_chunk: bool,
    event: i64,
    release: (i64, i64),
}

impl Plans {
    fn concerned(&self) -> MutexGuard<'_, HashMap<Key, Arc<Concerned>>> {
        self.concerned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom an event concerns, as of the change that it was accepted with.
struct Concerned {
    /// None if it cannot be read any more.
    feed: Option<Feed>,
    /// The keys of subscriptions, rising.
    keys: Vec<i64>,
}

/// Events whose matches are remembered.
const REMEMBERED: usize = 16;

/// Subscriptions of a step on SQLite.
const SQLITE_CHUNK: usize = 25;

/// One step.
pub(crate) struct PlanStep {
    pub(crate) planner: Arc<Planner>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) now: Timestamp,
}

impl Op for PlanStep {
    type Output = Step;

    fn weight(&self) -> usize {
        SQLITE_CHUNK * 6
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Step> {
        let was_chunk = self.plans.last().was_chunk;
        for chunk in [!was_chunk, was_chunk] {
            self.plans.last().was_chunk = chunk;
            if chunk {
                if let Some((event, planned_to)) = self.unplanned(tx).await? {
                    return self.chunk(tx, Key(event), planned_to).await;
                }
            } else if let Some((subscription, notification)) = self.released(tx).await? {
                return self.replan(tx, subscription, Key(notification)).await;
            }
        }
        Ok(Step::Idle)
    }
}

impl PlanStep {
    /// The next reservation that was given back: subscription and notification.
    async fn released(&self, tx: &mut Tx<'_>) -> Result<Option<(i64, i64)>> {
        let last = self.plans.last().release;
        for (subscription, notification) in [last, (0, 0)] {
            let after = params![subscription, notification];
            let found = tx.query_opt(&RELEASE, after, |row| Ok((row.int(0)?, row.int(1)?))).await?;
            if let Some(found) = found {
                self.plans.last().release = found;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The next event of which not all was planned, and how far it is.
    async fn unplanned(&self, tx: &mut Tx<'_>) -> Result<Option<(i64, i64)>> {
        let last = self.plans.last().event;
        for after in [last, 0] {
            let found =
                tx.query_opt(&UNPLANNED, params![after], |row| Ok((row.int(0)?, row.int(1)?))).await?;
            if let Some((event, planned_to)) = found {
                self.plans.last().event = event;
                return Ok(Some((event, planned_to)));
            }
        }
        Ok(None)
    }

    async fn event(&self, tx: &mut Tx<'_>, key: Key) -> Result<Option<StoredEvent>> {
        tx.query_opt(&EVENT, params![key.0], event_row).await
    }

    /// Plans the next subscriptions of an event.
    async fn chunk(&self, tx: &mut Tx<'_>, event: Key, planned_to: i64) -> Result<Step> {
        known::catch_up(tx, &self.planner.known).await?;
        let Some(stored) = self.event(tx, event).await? else { return Ok(Step::Idle) };
        let concerned = self.concerned(tx, &stored).await?;
        let from = concerned.keys.partition_point(|key| *key <= planned_to);
        let rest = concerned.keys.get(from..).unwrap_or_default();
        let size = match tx {
            // Producers wait behind a step at the one writer.
            Tx::Sqlite(_) => SQLITE_CHUNK,
            Tx::Postgres(_) => CHUNK,
        };
        let (chunk, rest) = rest.split_at(rest.len().min(size));
        let last = chunk.last().copied().filter(|_| !rest.is_empty());
        let mut notifications = 0;
        if let Some(feed) = &concerned.feed {
            notifications =
                self.planner.plan(tx, &subject(&stored, feed), chunk, false, self.now).await?.0.len();
        }
        tx.execute(&PLANNED_TO, params![event.0, last]).await?;
        if last.is_none() {
            self.plans.concerned().remove(&event);
        }
        Ok(Step::Planned { notifications })
    }

    /// Whom the event concerned as of the change that it was accepted with.
    async fn concerned(&self, tx: &mut Tx<'_>, stored: &StoredEvent) -> Result<Arc<Concerned>> {
        let remembered = self.plans.concerned().get(&stored.key).cloned();
        if let Some(concerned) = remembered {
            return Ok(concerned);
        }
        let feed = as_of::feed(tx, &stored.event.feed, stored.plan_version).await?;
        let keys = match &feed {
            Some(feed) if feed.enabled => self.matched(tx, stored, feed).await?,
            _ => Vec::new(),
        };
        let concerned = Arc::new(Concerned { feed, keys });
        let mut plans = self.plans.concerned();
        if plans.len() >= REMEMBERED {
            plans.clear();
        }
        plans.insert(stored.key, Arc::clone(&concerned));
        Ok(concerned)
    }

    /// The subscriptions that match as they were, on their feed as it was: what is so now, put right by what has changed.
    async fn matched(&self, tx: &mut Tx<'_>, stored: &StoredEvent, feed: &Feed) -> Result<Vec<i64>> {
        let now = match self.planner.known.matches(&stored.event) {
            Some(now) if *now.feed == *feed => now.keys,
            _ => known::index_of(tx, feed).await?.matches(&stored.event),
        };
        let mut matched: HashSet<i64> = now.into_iter().collect();
        let since = params![feed.id.as_str(), stored.plan_version];
        for key in tx.query(&CHANGED_SINCE, since, |row| row.int(0)).await? {
            matched.remove(&key);
        }
        for (key, spec) in tx.query(&AS_THEY_WERE, since, |row| Ok((row.int(0)?, row.text(1)?))).await? {
            if as_of::parsed(&spec).is_some_and(|then| concerns(&then, feed, stored)) {
                matched.insert(key);
            }
        }
        let mut matched: Vec<i64> = matched.into_iter().collect();
        matched.sort_unstable();
        Ok(matched)
    }

    /// A reservation of a subscription was given back: the newest event that it stood in the way of is planned.
    async fn replan(&self, tx: &mut Tx<'_>, subscription: i64, notification: Key) -> Result<Step> {
        known::catch_up(tx, &self.planner.known).await?;
        let asked = params![notification.0];
        let given_up = tx.query_opt(&GIVEN_UP, asked, |row| {
            let reason: Option<SkipReason> = row.opt_text(1)?.and_then(|word| word.parse().ok());
            Ok((row.opt_int(0)?.map(Key), reason))
        });
        let (told_of, skipped) = given_up.await?.unwrap_or_default();
        let mut notifications = 0;
        let mut before = i64::MAX;
        while notifications == 0 && self.is_wanted(tx, subscription).await? {
            let waiting = self.waiting(tx, subscription, notification, before).await?;
            let Some((last, _)) = waiting.last() else { break };
            before = last.key.0;
            // What could not be sent to this target is not sent there again for the sake of another subscription; what its
            // own no longer wanted is.
            let waiting = waiting.into_iter().filter(|(stored, reason)| {
                let same_message = *reason == SuppressReason::SameTarget && told_of == Some(stored.key);
                !same_message || skipped == Some(SkipReason::Unsubscribed)
            });
            match self.first_that_passes(tx, subscription, waiting).await? {
                Passed::Planned => notifications = 1,
                Passed::Tied => break,
                Passed::None => {}
            }
        }
        tx.execute(&RELEASE_DONE, params![subscription, notification.0]).await?;
        Ok(Step::Planned { notifications })
    }

    async fn is_wanted(&self, tx: &mut Tx<'_>, subscription: i64) -> Result<bool> {
        let asked = params![subscription];
        let found = tx.query_opt(&WANTED, asked, |row| {
            let ended = row.opt_time(1)?.is_some_and(|end| end <= self.now);
            Ok(row.flag(0)? && !ended)
        });
        Ok(found.await?.unwrap_or(false))
    }

    /// What waited for the notification, or for the daily cap, and is older than `before`: the newest first.
    async fn waiting(
        &self,
        tx: &mut Tx<'_>,
        subscription: i64,
        notification: Key,
        before: i64,
    ) -> Result<Vec<(StoredEvent, SuppressReason)>> {
        let waits = |row: &Row<'_>| Ok((event_row(row)?, row.word::<SuppressReason>(22)?));
        let mut waiting = tx.query(&WAITING, params![subscription, notification.0, before], waits).await?;
        let a_day_ago = first_key(self.now.minus(ledger::DAY));
        waiting.extend(tx.query(&CAPPED, params![subscription, a_day_ago, before], waits).await?);
        waiting.sort_by_key(|(stored, _)| std::cmp::Reverse(stored.key));
        waiting.truncate(PAGE);
        Ok(waiting)
    }

    /// Plans the first of these events that nothing stands in the way of any more.
    async fn first_that_passes(
        &self,
        tx: &mut Tx<'_>,
        subscription: i64,
        waiting: impl Iterator<Item = (StoredEvent, SuppressReason)> + Send,
    ) -> Result<Passed> {
        for (stored, _) in waiting {
            let Some(feed) = self.planner.known.feed(&stored.event.feed) else { continue };
            let subject = subject(&stored, &feed);
            let (planned, skipped) =
                self.planner.plan(tx, &subject, &[subscription], false, self.now).await?;
            if let Some(planned) = planned.first() {
                let told = params![stored.key.0, subscription, planned.id.uuid()];
                tx.execute(&TOLD_AFTER_ALL, told).await?;
                return Ok(Passed::Planned);
            }
            if skipped.iter().any(|skipped| skipped.reason == SuppressReason::SameTarget) {
                return Ok(Passed::Tied);
            }
        }
        Ok(Passed::None)
    }
}

/// What became of events that waited.
enum Passed {
    Planned,
    /// Another's notification tells this one, too.
    Tied,
    None,
}

/// Events that waited, looked at in one go.
const PAGE: usize = 20;

fn subject<'e>(stored: &'e StoredEvent, feed: &'e Feed) -> Subject<'e> {
    Subject { key: stored.key, id: stored.id, event: &stored.event, feed, actor: &stored.accepted_by }
}

/// Whether a subscription, as it was, was concerned.
fn concerns(then: &Subscription, feed: &Feed, stored: &StoredEvent) -> bool {
    then.active
        && then.feed == feed.id
        && then.test == stored.event.test
        && Matcher::compile(&then.filter, feed).judge(&stored.event).matches
}
