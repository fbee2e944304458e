//! The ledger: who is told of what. A reservation is taken when a notification is planned, confirmed when it is delivered,
//! and given back when it is given up; cooldown and daily cap are counted from the same rows, so the three can never
//! disagree (FP-05, FP-06).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use angarium_domain::event::Event;
use angarium_domain::id::NotificationId;
use angarium_domain::time::Timestamp;

use crate::db::{Op, Tx, params, row, statements};
use crate::error::Result;
use crate::nodes::{Tenure, fence};
use crate::types::Key;

statements! {
    RESERVE = "INSERT INTO ledger (subscription, feed, subject, type, holder, holder_id, recipients, reserved_at, told_at)
        SELECT r.subscription, r.feed, r.subject, r.type, r.holder, r.holder_id, r.recipients, r.now, 9223372036854775807
        FROM {rows: subscription bigint, feed text, subject text, type text, holder bigint, holder_id uuid,
            recipients bigint, now bigint} WHERE true
        ON CONFLICT (subscription, feed, subject, type) DO NOTHING RETURNING subscription";

    HOLDER = "SELECT holder, holder_id FROM ledger WHERE subscription = $1 AND feed = $2 AND subject = $3 AND type = $4";

    GIVE_BACK = "DELETE FROM ledger WHERE subscription = $1 AND feed = $2 AND subject = $3 AND type = $4";

    /// What is only reserved was told beyond all times.
    TOLD_SINCE = "SELECT holder, holder_id FROM ledger WHERE subscription = $1 AND told_at > $2 ORDER BY told_at DESC LIMIT 1";

    RECIPIENTS_SINCE = "SELECT CAST(coalesce(sum(recipients), 0) AS BIGINT) FROM ledger WHERE subscription = $1 AND told_at > $2";

    CONFIRM = "UPDATE ledger SET told_at = r.at FROM {rows: holder bigint, at bigint}
        WHERE ledger.holder = r.holder AND ledger.told_at = 9223372036854775807 RETURNING subscription, told_at";

    DELIVERED_AT = "INSERT INTO subscription_deliveries (subscription, last_at) {values: bigint, bigint}
        ON CONFLICT (subscription) DO UPDATE SET last_at = excluded.last_at
        WHERE subscription_deliveries.last_at < excluded.last_at";

    RELEASE = "DELETE FROM ledger WHERE holder = $1 AND told_at = 9223372036854775807 RETURNING subscription";

    KEEP = "UPDATE ledger SET told_at = $2 WHERE holder = $1 AND told_at = 9223372036854775807";

    RELEASED = "INSERT INTO releases (subscription, notification, at) {values: bigint, bigint, bigint}
        ON CONFLICT (subscription, notification) DO UPDATE SET at = excluded.at";

    OLDEST = "SELECT subscription, feed, subject, type FROM ledger WHERE told_at < $1 ORDER BY told_at LIMIT $2";

    FORGET = "DELETE FROM ledger WHERE subscription = $1 AND feed = $2 AND subject = $3 AND type = $4 AND told_at < $5";

    /// Members of its list that it has told.
    TOLD_SOME = "SELECT 1 FROM targets WHERE notification = $1 AND state = 'accepted' LIMIT 1";

    /// What a notification stood for: its own signal, and those that were tied to it.
    STOOD_FOR = "SELECT n.subscription, e.feed, e.subject, e.type, 1,
                (SELECT count(*) FROM targets t WHERE t.notification = n.key) FROM notifications n JOIN events e ON e.key = n.event
            WHERE n.key = $1 AND n.subscription IS NOT NULL AND e.test = 0
        UNION ALL
        SELECT s.subscription, e.feed, e.subject, e.type, 0,
                (SELECT count(*) FROM targets t WHERE t.notification = n.key) FROM suppressed s JOIN events e ON e.key = s.event
            JOIN notifications n ON n.event = e.key
            WHERE n.key = $1 AND s.holder = $1 AND s.reason = 'same_target' AND s.told_by IS NULL AND e.test = 0";
}

/// What a cap counts over.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// The notification that holds a place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) key: Key,
    pub(crate) id: NotificationId,
}

/// Reserves a place for each subscription and the event's signal, for a notification that tells so many; the subscriptions
/// whose place was free.
pub(crate) async fn reserve(
    tx: &mut Tx<'_>,
    event: &Event,
    wanted: &[(i64, Hold, i64)],
    now: Timestamp,
) -> Result<HashSet<i64>> {
    let rows: Vec<_> = wanted
        .iter()
        .map(|(subscription, hold, recipients)| {
            let (feed, subject, kind) = (event.feed.as_str(), event.key.as_str(), event.kind.as_str());
            row![*subscription, feed, subject, kind, hold.key.0, hold.id.uuid(), *recipients, now]
        })
        .collect();
    Ok(tx.query_rows(&RESERVE, &rows, |row| row.int(0)).await?.into_iter().collect())
}

/// Who holds the place of one subscription.
pub(crate) async fn holder(tx: &mut Tx<'_>, subscription: i64, event: &Event) -> Result<Option<Hold>> {
    Ok(holders(tx, &[subscription], event).await?.remove(&subscription))
}

/// Who holds the places of subscriptions, where somebody does.
pub(crate) async fn holders(
    tx: &mut Tx<'_>,
    subscriptions: &[i64],
    event: &Event,
) -> Result<HashMap<i64, Hold>> {
    let asked: Vec<_> = subscriptions
        .iter()
        .map(|key| row![*key, event.feed.as_str(), event.key.as_str(), event.kind.as_str()])
        .collect();
    let found = tx.query_each(&HOLDER, &asked, hold_at).await?;
    Ok(subscriptions
        .iter()
        .copied()
        .zip(found)
        .filter_map(|(key, mut held)| Some((key, held.pop()?)))
        .collect())
}

fn hold_at(row: &crate::db::Row<'_>) -> Result<Hold> {
    Ok(Hold { key: Key(row.int(0)?), id: row.uuid(1)?.into() })
}

/// Gives places back that were taken in this transaction.
pub(crate) async fn give_back(tx: &mut Tx<'_>, event: &Event, subscriptions: &[i64]) -> Result<()> {
    for key in subscriptions {
        let place = params![*key, event.feed.as_str(), event.key.as_str(), event.kind.as_str()];
        tx.execute(&GIVE_BACK, place).await?;
    }
    Ok(())
}

/// The newest that the subscription was told after `since`, or is about to be.
pub(crate) async fn told_since(tx: &mut Tx<'_>, subscription: i64, since: Timestamp) -> Result<Option<Hold>> {
    tx.query_opt(&TOLD_SINCE, params![subscription, since], hold_at).await
}

/// How many recipients were told for the subscription after `since`, or are about to be.
pub(crate) async fn recipients_since(tx: &mut Tx<'_>, subscription: i64, since: Timestamp) -> Result<i64> {
    let asked = params![subscription, since];
    Ok(tx.query_opt(&RECIPIENTS_SINCE, asked, |row| row.int(0)).await?.unwrap_or(0))
}

/// Notifications were delivered: what they hold is told.
pub(crate) async fn confirm(tx: &mut Tx<'_>, delivered: &[(Key, Timestamp)]) -> Result<()> {
    if delivered.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = delivered.iter().map(|(key, at)| row![key.0, *at]).collect();
    let told = tx.query_rows(&CONFIRM, &rows, |row| Ok((row.int(0)?, row.time(1)?))).await?;
    let mut newest: HashMap<i64, Timestamp> = HashMap::new();
    for (subscription, at) in told {
        let last = newest.entry(subscription).or_insert(at);
        *last = at.max(*last);
    }
    // In one order everywhere, so that two nodes cannot wait for each other.
    let mut newest: Vec<_> = newest.into_iter().collect();
    newest.sort_unstable();
    let rows: Vec<_> = newest.into_iter().map(|(subscription, at)| row![subscription, at]).collect();
    tx.execute_rows(&DELIVERED_AT, &rows).await.map(drop)
}

/// A notification was given up. Its places are free again, and what it stood in the way of is to be looked at; but what it
/// told somebody stays told, and what may be told once at most (`tried_at_most_once`) counts as told once it was tried.
pub(crate) async fn give_up(
    tx: &mut Tx<'_>,
    key: Key,
    tried_at_most_once: bool,
    now: Timestamp,
) -> Result<()> {
    if tried_at_most_once {
        return keep(tx, key, now).await;
    }
    match tx.query_opt(&TOLD_SOME, params![key.0], |_| Ok(())).await? {
        Some(()) => confirm(tx, &[(key, now)]).await,
        None => release(tx, key, now).await,
    }
}

/// A notification that had been given up was delivered after all: what it told is told, unless another has told it.
pub(crate) async fn told_late(tx: &mut Tx<'_>, hold: Hold, at: Timestamp) -> Result<()> {
    retake(tx, hold, at).await?;
    confirm(tx, &[(hold.key, at)]).await
}

async fn release(tx: &mut Tx<'_>, key: Key, now: Timestamp) -> Result<()> {
    let freed = tx.query(&RELEASE, params![key.0], |row| row.int(0)).await?;
    let rows: Vec<_> = freed.into_iter().map(|subscription| row![subscription, key.0, now]).collect();
    tx.execute_rows(&RELEASED, &rows).await.map(drop)
}

/// A notification was given up, and may have been delivered: it counts as told from now on, and nobody is told again.
async fn keep(tx: &mut Tx<'_>, key: Key, now: Timestamp) -> Result<()> {
    tx.execute(&KEEP, params![key.0, now]).await.map(drop)
}

/// Forgets what was told before `before`, at most so much; what is only reserved stays. Says how much.
pub(crate) struct Forget {
    pub(crate) before: Timestamp,
    pub(crate) limit: i64,
    pub(crate) tenure: Tenure,
}

impl Op for Forget {
    type Output = usize;

    fn weight(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<usize> {
        fence(tx, &self.tenure).await?;
        let bounds = params![self.before, self.limit];
        let places =
            tx.query(&OLDEST, bounds, |row| Ok((row.int(0)?, row.text(1)?, row.text(2)?, row.text(3)?)));
        let places = places.await?;
        let rows: Vec<_> = places
            .iter()
            .map(|(subscription, feed, subject, kind)| row![*subscription, feed, subject, kind, self.before])
            .collect();
        tx.query_each(&FORGET, &rows, |_| Ok(())).await?;
        Ok(rows.len())
    }
}

/// A notification that was given up is to be sent after all: it takes its places anew. Says who has its own place, if
/// somebody does; then it took none.
pub(crate) async fn retake(tx: &mut Tx<'_>, hold: Hold, now: Timestamp) -> Result<Option<Hold>> {
    let asked = params![hold.key.0];
    let stood_for = tx.query(&STOOD_FOR, asked, |row| {
        Ok((row.int(0)?, row.text(1)?, row.text(2)?, row.text(3)?, row.flag(4)?, row.int(5)?))
    });
    let mut stood_for = stood_for.await?;
    stood_for.sort_by_key(|(.., own, _)| !own);
    for (subscription, feed, subject, kind, own, members) in stood_for {
        let place =
            row![subscription, &feed, &subject, &kind, hold.key.0, hold.id.uuid(), members.max(1), now];
        loop {
            let taken = !tx.query_rows(&RESERVE, &[place], |row| row.int(0)).await?.is_empty();
            if taken || !own {
                break;
            }
            let asked = params![subscription, &feed, &subject, &kind];
            match tx.query_opt(&HOLDER, asked, hold_at).await? {
                Some(holder) if holder.key == hold.key => break,
                Some(holder) => return Ok(Some(holder)),
                // It was given back meanwhile.
                None => {}
            }
        }
    }
    Ok(None)
}
