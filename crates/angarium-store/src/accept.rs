//! Accepting: the one transaction that makes a notification ours (OB-01, OB-02).

use std::collections::{HashMap, HashSet};

use angarium_domain::content::Recipient;
use angarium_domain::state::Status;
use angarium_domain::text::SourceName;
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact};
use crate::db::{Joinable, Op, Together, Tx, Value, row, statements, together};
use crate::error::{Result, StoreError};
use crate::lanes;
use crate::types::{Acceptance, Key, LaneKey, LaneName, NewNotification};

statements! {
    CLAIM_ID = "INSERT INTO ids (id, key, hash, created_at) {values: uuid, bigint, bytea, bigint}
        ON CONFLICT (id) DO NOTHING RETURNING key";

    KNOWN_ID = "SELECT i.hash, n.status FROM ids i LEFT JOIN notifications n ON n.key = i.key WHERE i.id = $1 {lock known}";

    INSERT_CONTENT = "INSERT INTO contents (key, subject, body, data) {values: bigint, text, text, text}";

    INSERT_NOTIFICATION = "INSERT INTO notifications
        (key, id, kind, channel, list, address, lane, site, instance, script, node, due_at, created_at, enqueued_at,
         accepted_by, status, route, generation, attempts, budget_used, retry_count, interruptions, resolved, facts, audited)
        SELECT r.key, r.id, r.kind, r.channel, r.list, r.address, r.lane, r.site, r.instance, r.script, r.node, r.now,
            r.now, r.enqueued_at, r.accepted_by, 'pending', 'direct', 0, 0, 0, 0, 0, 0, 1, 1
        FROM {rows: key bigint, id uuid, kind text, channel text, list text, address text, lane bigint, site text,
            instance text, script text, node text, now bigint, enqueued_at bigint, accepted_by text}";
}

/// Inserts notifications, each on its own: a resend is a no-op, a reused id is refused, and neither touches
/// its neighbours.
pub(crate) struct Accept {
    pub(crate) items: Vec<New>,
}

/// One that may be new.
pub(crate) struct New {
    /// Its key, if it is.
    pub(crate) key: Key,
    pub(crate) notification: NewNotification,
    /// Its lane, if that was known before; otherwise it is looked up.
    pub(crate) lane: Option<KnownLane>,
    pub(crate) now: Timestamp,
}

/// A lane that was looked up. On another timeline of the database its key may be another's, or nobody's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownLane {
    key: LaneKey,
    timeline: i64,
}

/// What became of one, and its lane if that was looked up.
pub(crate) type Accepted = (Acceptance, Option<KnownLane>);

impl Op for Accept {
    type Output = Vec<Accepted>;

    fn weight(&self) -> usize {
        let texts: usize = self.items.iter().map(|item| item.notification.text_bytes()).sum();
        self.items.len() * 4 + texts / 4096
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Accepted>> {
        let accepted = together(&Storing, tx, &self.items).await?;
        let is_new =
            |accepted: &Accepted| matches!(accepted.0, Acceptance::Accepted { duplicate: false, .. });
        let facts: Vec<Fact> = self
            .items
            .iter()
            .zip(&accepted)
            .filter(|(_, accepted)| is_new(accepted))
            .map(|(item, _)| {
                let notification = &item.notification;
                Fact::accepted(item.key, notification.id, notification.accepted_by.as_str(), item.now)
            })
            .collect();
        audit::record(tx, &facts).await?;
        Ok(accepted)
    }
}

impl Joinable for Accept {
    fn items(&self) -> usize {
        self.items.len()
    }

    fn join(&mut self, other: Self) {
        self.items.extend(other.items);
    }

    fn take(found: &mut Vec<Accepted>, items: usize) -> Vec<Accepted> {
        let rest = found.split_off(items.min(found.len()));
        std::mem::replace(found, rest)
    }
}

struct Storing;

impl Together for Storing {
    type Item = New;
    type Output = Accepted;

    async fn all(&self, tx: &mut Tx<'_>, items: &[New]) -> Result<Vec<Accepted>> {
        let free = claim_ids(tx, items).await?;
        let (new, known): (Vec<&New>, Vec<&New>) = items.iter().partition(|item| free.contains(&item.key.0));
        let looked_up = look_up_lanes(tx, &new).await?;
        let lane_of = |item: &New| looked_up.get(&item.key.0).copied().or(item.lane).map(|lane| lane.key);
        insert(tx, &new, lane_of).await?;
        let mut earlier = known_ids(tx, &known).await?.into_iter();
        let accepted = |item: &New| {
            let id = item.notification.id;
            if !free.contains(&item.key.0) {
                return earlier.next().map(|earlier| (earlier, None)).ok_or_else(|| lost("an id"));
            }
            let accepted = Acceptance::Accepted { id, status: Status::Pending, duplicate: false };
            Ok((accepted, looked_up.get(&item.key.0).copied()))
        };
        items.iter().map(accepted).collect()
    }

    fn refused(&self, item: &New, error: &StoreError) -> Accepted {
        (Acceptance::Failed { id: item.notification.id, detail: error.to_string() }, None)
    }
}

fn lost(what: &str) -> StoreError {
    StoreError::Statement(format!("{what} was lost"))
}

/// Takes the producers' ids; the keys of those that were free.
async fn claim_ids(tx: &mut Tx<'_>, items: &[New]) -> Result<HashSet<i64>> {
    let mut rows: Vec<_> = items
        .iter()
        .map(|item| {
            let hash: &[u8] = item.notification.hash.as_bytes();
            (item.notification.id.uuid(), row![item.notification.id.uuid(), item.key.0, hash, item.now])
        })
        .collect();
    // Two transactions that take the same ids in the same order wait for each other, and not both for ever.
    rows.sort_by_key(|(id, _)| *id);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(tx.query_rows(&CLAIM_ID, &rows, |row| row.int(0)).await?.into_iter().collect())
}

/// What ids that were not free stand for.
async fn known_ids(tx: &mut Tx<'_>, items: &[&New]) -> Result<Vec<Acceptance>> {
    let asked: Vec<_> = items.iter().map(|item| row![item.notification.id.uuid()]).collect();
    let known = tx.query_each(&KNOWN_ID, &asked, |row| {
        let status = row.opt_text(1)?.and_then(|word| word.parse().ok());
        Ok((row.bytes(0)?, status))
    });
    let known = known.await?.into_iter().map(|mut found| found.pop());
    let answers = items.iter().zip(known).map(|(item, known)| {
        let id = item.notification.id;
        match known {
            // The row itself may have been purged; what was promised then still holds.
            Some((hash, status)) if hash == item.notification.hash.as_bytes() => {
                Acceptance::Accepted { id, status: status.unwrap_or(Status::Delivered), duplicate: true }
            }
            _ => Acceptance::IdReused { id },
        }
    });
    Ok(answers.collect())
}

/// The lanes, by the item's key, of those whose lane was not known before.
async fn look_up_lanes(tx: &mut Tx<'_>, items: &[&New]) -> Result<HashMap<i64, KnownLane>> {
    let timeline = tx.timeline();
    let unknown: Vec<_> = items
        .iter()
        .filter(|item| item.lane.is_none_or(|lane| lane.timeline != timeline))
        .map(|item| (item.key.0, lane_of(&item.notification)))
        .collect();
    let names: HashSet<&LaneName> = unknown.iter().map(|(_, name)| name).collect();
    let lanes = lanes::ensure_all(tx, names.into_iter().collect()).await?;
    let known = |(key, name): &(i64, LaneName)| {
        let lane = lanes.get(name).ok_or_else(|| lost("a lane"))?;
        Ok((*key, KnownLane { key: *lane, timeline }))
    };
    unknown.iter().map(known).collect()
}

async fn insert(
    tx: &mut Tx<'_>,
    items: &[&New],
    lane_of: impl Fn(&New) -> Option<LaneKey> + Send,
) -> Result<()> {
    let contents: Vec<_> = items
        .iter()
        .map(|item| {
            let new = &item.notification;
            row![item.key.0, new.subject.as_str(), new.body.as_str(), new.data.as_deref()]
        })
        .collect();
    tx.execute_rows(&INSERT_CONTENT, &contents).await?;
    let rows: Result<Vec<_>> = items
        .iter()
        .map(|item| Ok(notification_row(item, lane_of(item).ok_or_else(|| lost("a lane"))?)))
        .collect();
    tx.execute_rows(&INSERT_NOTIFICATION, &rows?).await.map(drop)
}

fn notification_row(item: &New, lane: LaneKey) -> [Value<'_>; 14] {
    let new = &item.notification;
    let (list, address) = match &new.recipient {
        Recipient::List(list) => (Some(list.as_str()), None),
        Recipient::Address { address, .. } => (None, Some(address.as_str())),
    };
    let from = &new.provenance;
    row![
        item.key.0,
        new.id.uuid(),
        new.kind.as_str(),
        new.channel.as_ref().map(|channel| channel.as_str()),
        list,
        address,
        lane.0,
        part(&from.site),
        part(&from.instance),
        part(&from.script),
        part(&from.node),
        item.now,
        new.enqueued_at,
        new.accepted_by.as_str(),
    ]
}

fn part(name: &Option<SourceName>) -> Option<&str> {
    name.as_ref().map(SourceName::as_str)
}

/// The lane of a notification is stamped when it is accepted.
pub(crate) fn lane_of(item: &NewNotification) -> LaneName {
    let channel = item.channel.as_ref().map_or("", |channel| channel.as_str()).to_owned();
    match &item.recipient {
        Recipient::List(list) => LaneName::of_list(&channel, list.as_str()),
        Recipient::Address { address, .. } => LaneName { channel, receiver: address.receiver().to_owned() },
    }
}
