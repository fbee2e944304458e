//! Claiming: the durable intent to send. Lease and generation are committed before the first byte leaves.

use std::collections::HashSet;
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::disposition::Progress;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::{State, Status};
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;

use crate::db::{Op, Row, Tx, params, row, statements};
use crate::error::{Result, StoreError};
use crate::lanes;
use crate::nodes::Seat;
use crate::types::{Abandoned, Claim, Key, LaneKey, LaneName, Payload, Quota, Target};

/// The columns of a claim, in the order in which [`claim_row`] reads them.
macro_rules! claim_columns {
    () => {
        "notifications.key, notifications.id, notifications.generation, notifications.lane,
        notifications.status, notifications.due_at, notifications.error_class, notifications.error_detail,
        notifications.budget_used, notifications.retry_count, notifications.interruptions, notifications.kind,
        notifications.channel, notifications.list, notifications.address, notifications.resolved,
        notifications.enqueued_at, notifications.created_at, notifications.event IS NOT NULL, notifications.at_most_once"
    };
}

statements! {
    /// The low bits of a generation are the claiming node's: what two servers gave out after a failover that lost the
    /// one, no two nodes share.
    TAKE_DUE = concat!("WITH due AS MATERIALIZED (
            SELECT n.key FROM notifications n
            WHERE n.lane = $2 AND n.due_at <= $1 AND n.lease_until IS NULL
              AND EXISTS (SELECT 1 FROM lanes l LEFT JOIN channel_states c ON c.channel = l.channel
                          WHERE l.key = $2 AND (l.waits_until <= $1 OR l.waits_until > $7)
                            AND (coalesce(c.waits_until, 0) <= $1 OR coalesce(c.waits_until, 0) > $7))
            ORDER BY n.due_at, n.key LIMIT $3 {lock chosen})
        UPDATE notifications SET lease_until = $4, lease_node = $5, lease_by = $6, claimed_at = $1, wire_at = NULL,
            generation = (generation / 1024 + 1) * 1024 + $8
        FROM due WHERE notifications.key = due.key
        RETURNING ", claim_columns!());

    /// What an event led to has no text before it is first sent.
    LOAD = "SELECT coalesce(c.subject, ''), coalesce(c.body, ''), c.data, n.resolved, s.reason, c.presentation
        FROM notifications n LEFT JOIN contents c ON c.key = coalesce(n.content, n.key)
        LEFT JOIN suppressions s ON s.channel = n.channel AND s.address = n.address
        WHERE n.key = $1 AND n.generation = $2 AND n.lease_until IS NOT NULL";

    TARGETS = "SELECT t.ordinal, t.address, t.state, t.due_at, t.error_class, t.error_detail,
            t.budget_used, t.retry_count, s.reason, coalesce(l.waits_until, 0)
        FROM targets t JOIN notifications n ON n.key = t.notification
        LEFT JOIN lanes l ON l.channel = n.channel AND l.receiver = t.receiver
        LEFT JOIN suppressions s ON s.channel = n.channel AND s.address = t.address
        WHERE t.notification = $1 ORDER BY t.ordinal";

    RESOLVE = "UPDATE notifications SET resolved = 1, kind = $3, channel = $4, lane = $5
        WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL AND resolved = 0";

    INSERT_TARGET = "INSERT INTO targets
        (notification, ordinal, address, receiver, due_at, state, attempts, budget_used, retry_count)
        SELECT r.notification, r.ordinal, r.address, r.receiver, r.due_at, 'waiting', 0, 0, 0
        FROM {rows: notification bigint, ordinal bigint, address text, receiver text, due_at bigint}";

    STANDS = "SELECT 1 FROM notifications WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

    MARK_ON_WIRE =
        "UPDATE notifications SET wire_at = $3 WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

    /// A row that somebody else has locked is passed over: it must not cost us all others.
    RENEW = "WITH free AS MATERIALIZED (
            SELECT n.key, r.until FROM {rows: key bigint, generation bigint, until bigint}
            JOIN notifications n ON n.key = r.key AND n.generation = r.generation AND n.lease_until IS NOT NULL {lock chosen})
        UPDATE notifications SET lease_until = free.until FROM free WHERE notifications.key = free.key
        RETURNING notifications.key, notifications.generation";

    RELEASE = "UPDATE notifications SET lease_until = NULL, lease_node = NULL, lease_by = NULL, wire_at = NULL,
            due_at = CASE WHEN due_at < r.not_before THEN r.not_before ELSE due_at END
        FROM {rows: key bigint, generation bigint, not_before bigint}
        WHERE notifications.key = r.key AND notifications.generation = r.generation AND lease_until IS NOT NULL";

    ABANDONED = concat!("SELECT ", claim_columns!(), ", notifications.lease_node, notifications.wire_at IS NOT NULL,
            notifications.claimed_at FROM notifications
         WHERE lease_until IS NOT NULL AND lease_until <= $1 ORDER BY lease_until LIMIT $2");

    LEASED_BY = "SELECT key, generation FROM notifications WHERE lease_until IS NOT NULL AND lease_by = $1 AND claimed_at = $2";
}

fn claim_row(row: &Row<'_>) -> Result<Claim> {
    let due = row.time(5)?;
    let error = error_at(row, 6)?;
    let state = match (row.word(4)?, error) {
        (Status::Pending, error) => State::Pending { due, error },
        (Status::Retrying, Some(error)) => State::Retrying { due, error },
        (status, _) => return Err(StoreError::Corrupt(format!("a claimed row is {status}"))),
    };
    let kind = row.word(11)?;
    Ok(Claim {
        key: Key(row.int(0)?),
        id: row.uuid(1)?.into(),
        generation: row.int(2)?,
        lane: LaneKey(row.int(3)?),
        state,
        progress: Progress {
            budget_used: row.count(8)?,
            retry_count: row.count(9)?,
            interruptions: row.count(10)?,
        },
        kind,
        channel: row.opt_text(12)?.and_then(|name| ChannelName::parse(&name).ok()),
        list: row.opt_text(13)?,
        address: row.opt_text(14)?.map(|text| Address::stored(kind, text)),
        resolved: row.flag(15)?,
        enqueued_at: row.opt_time(16)?,
        created_at: row.time(17)?,
        tells: row.flag(18)?,
        at_most_once: row.flag(19)?,
    })
}

/// The error in two columns, class first.
pub(crate) fn error_at(row: &Row<'_>, column: usize) -> Result<Option<LastError>> {
    let Some(word) = row.opt_text(column)? else { return Ok(None) };
    let class: FailureClass = word.parse().map_err(|_| StoreError::Corrupt("a class of failure".into()))?;
    Ok(Some(LastError { class, detail: row.opt_text(column + 1)?.unwrap_or_default() }))
}

/// Takes due rows from open lanes, the oldest first.
pub(crate) struct TakeDue {
    pub(crate) quotas: Vec<Quota>,
    pub(crate) node: String,
    pub(crate) seat: Seat,
    pub(crate) now: Timestamp,
    pub(crate) lease: Duration,
}

/// A claim, or nothing if the row cannot be read: one damaged row must not hold up all others. It keeps its
/// lease and is seen as in flight.
fn readable_claim(row: &Row<'_>) -> Result<Option<Claim>> {
    match claim_row(row) {
        Err(StoreError::Corrupt(detail)) => {
            tracing::error!(
                notification.key = row.int(0)?,
                store.error = detail,
                "a notification cannot be read"
            );
            Ok(None)
        }
        other => other.map(Some),
    }
}

impl Op for TakeDue {
    type Output = Vec<Claim>;

    fn weight(&self) -> usize {
        self.quotas.iter().map(|quota| quota.rows).sum()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Claim>> {
        let (until, beyond_belief) = (self.now.plus(self.lease), self.now.plus(lanes::LONGEST_WAIT));
        let each: Vec<_> = self
            .quotas
            .iter()
            .map(|quota| {
                let rows = i64::try_from(quota.rows).unwrap_or(i64::MAX);
                row![
                    self.now,
                    quota.lane.0,
                    rows,
                    until,
                    &self.node,
                    self.seat.instance,
                    beyond_belief,
                    self.seat.slot
                ]
            })
            .collect();
        let mut claims = Vec::new();
        for taken in tx.query_each(&TAKE_DUE, &each, readable_claim).await? {
            let mut taken: Vec<Claim> = taken.into_iter().flatten().collect();
            taken.sort_by_key(|claim| (claim.state.due(), claim.key));
            claims.extend(taken);
        }
        Ok(claims)
    }
}

/// Reads what is to be sent, if the claim still stands: not cancelled, not taken back.
pub(crate) struct Load {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) now: Timestamp,
}

impl Op for Load {
    type Output = Option<Payload>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Payload>> {
        let found = tx
            .query_opt(&LOAD, params![self.key.0, self.generation], |row| {
                let payload = Payload {
                    subject: row.text(0)?,
                    body: row.text(1)?,
                    data: row.opt_text(2)?,
                    targets: Vec::new(),
                    suppressed: row.opt_text(4)?,
                    presentation: row.opt_text(5)?,
                };
                Ok((payload, row.flag(3)?))
            })
            .await?;
        let Some((mut payload, resolved)) = found else { return Ok(None) };
        if resolved {
            payload.targets = targets_of(tx, self.key).await?;
            for target in &mut payload.targets {
                target.waits_until = lanes::credible(target.waits_until, self.now);
            }
        }
        Ok(Some(payload))
    }
}

/// The members of a notification's list, in order, without what came back from them.
pub(crate) async fn targets_of(tx: &mut Tx<'_>, key: Key) -> Result<Vec<Target>> {
    tx.query(&TARGETS, params![key.0], |row| {
        let error = error_at(row, 4)?;
        let state = match (row.text(2)?.as_str(), error) {
            ("accepted", _) => TargetState::Accepted,
            ("refused", Some(error)) => TargetState::Refused(error),
            (_, error) => TargetState::Waiting { due: row.opt_time(3)?.unwrap_or(Timestamp::EPOCH), error },
        };
        let progress = Progress { budget_used: row.count(6)?, retry_count: row.count(7)?, interruptions: 0 };
        Ok(Target {
            ordinal: row.int(0)?,
            address: row.text(1)?,
            state,
            progress,
            suppressed: row.opt_text(8)?,
            bounced: None,
            waits_until: row.time(9)?,
        })
    })
    .await
}

/// Writes down the members of a list, once, at the first attempt, and stamps the channel that the list has by
/// then. Says whether the claim still stood.
pub(crate) struct Resolve {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) kind: &'static str,
    pub(crate) lane: LaneName,
    pub(crate) members: Vec<Address>,
    pub(crate) now: Timestamp,
}

impl Op for Resolve {
    type Output = bool;

    fn weight(&self) -> usize {
        self.members.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let lane = lanes::ensure(tx, &self.lane).await?;
        let guard = params![self.key.0, self.generation, self.kind, &self.lane.channel, lane.0];
        if tx.execute(&RESOLVE, guard).await? == 0 {
            return Ok(false);
        }
        let targets: Vec<_> = (0i64..)
            .zip(&self.members)
            .map(|(ordinal, member)| row![self.key.0, ordinal, member.as_str(), member.receiver(), self.now])
            .collect();
        tx.execute_rows(&INSERT_TARGET, &targets).await?;
        Ok(true)
    }
}

/// Whether a claim still stands, and nothing else.
pub(crate) struct Stands {
    pub(crate) key: Key,
    pub(crate) generation: i64,
}

impl Op for Stands {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.query_opt(&STANDS, params![self.key.0, self.generation], |_| Ok(())).await?.is_some())
    }
}

/// Commits that the first byte is about to leave, for channels where a second send is worse than none. Says
/// whether the claim still stood.
pub(crate) struct MarkOnWire {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) now: Timestamp,
}

impl Op for MarkOnWire {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.execute(&MARK_ON_WIRE, params![self.key.0, self.generation, self.now]).await? == 1)
    }
}

/// Extends leases.
pub(crate) struct Renew {
    pub(crate) held: Vec<(Key, i64)>,
    pub(crate) until: Timestamp,
}

/// What became of claims, by key and generation, whose leases were to be extended. Those whose rows somebody else had
/// locked just then are in neither: they have what they had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Extended.
    pub renewed: Vec<(Key, i64)>,
    /// They no longer stand.
    pub lost: Vec<(Key, i64)>,
}

impl Op for Renew {
    type Output = Renewed;

    fn weight(&self) -> usize {
        self.held.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Renewed> {
        let mut held = self.held.clone();
        held.sort();
        let rows: Vec<_> =
            held.iter().map(|(key, generation)| row![key.0, *generation, self.until]).collect();
        let renewed = tx.query_rows(&RENEW, &rows, |row| Ok((Key(row.int(0)?), row.int(1)?))).await?;
        let done: HashSet<(Key, i64)> = renewed.iter().copied().collect();
        held.retain(|claim| !done.contains(claim));
        let asked: Vec<_> = held.iter().map(|(key, generation)| row![key.0, *generation]).collect();
        let standing = tx.query_each(&STANDS, &asked, |_| Ok(())).await?;
        let lost = held.into_iter().zip(standing).filter(|(_, stands)| stands.is_empty());
        Ok(Renewed { renewed, lost: lost.map(|(claim, _)| claim).collect() })
    }
}

/// Gives back claims of which nothing was sent, as if they had never been made; due no sooner than told.
pub(crate) struct Release {
    pub(crate) held: Vec<(Key, i64)>,
    pub(crate) not_before: Timestamp,
}

impl Op for Release {
    type Output = ();

    fn weight(&self) -> usize {
        self.held.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        let rows: Vec<_> =
            self.held.iter().map(|&(key, generation)| row![key.0, generation, self.not_before]).collect();
        tx.execute_rows(&RELEASE, &rows).await.map(drop)
    }
}

/// Finds leases that ended by `ended_by` without a result.
pub(crate) struct FindAbandoned {
    pub(crate) ended_by: Timestamp,
    pub(crate) limit: i64,
}

impl Op for FindAbandoned {
    type Output = Vec<Abandoned>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Abandoned>> {
        let bounds = params![self.ended_by, self.limit];
        let abandoned = |row: &Row<'_>| {
            let Some(claim) = readable_claim(row)? else { return Ok(None) };
            let node = row.opt_text(20)?.unwrap_or_default();
            let claimed_at = row.opt_time(22)?.unwrap_or(claim.created_at);
            Ok(Some(Abandoned { claim, node, on_wire: row.flag(21)?, claimed_at }))
        };
        Ok(tx.query(&ABANDONED, bounds, abandoned).await?.into_iter().flatten().collect())
    }
}

/// Finds what a node claimed at one moment, and holds in the database.
pub(crate) struct FindLeasedBy {
    pub(crate) instance: i64,
    pub(crate) claimed_at: Timestamp,
}

impl Op for FindLeasedBy {
    type Output = Vec<(Key, i64)>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<(Key, i64)>> {
        let claims = params![self.instance, self.claimed_at];
        tx.query(&LEASED_BY, claims, |row| Ok((Key(row.int(0)?), row.int(1)?))).await
    }
}
