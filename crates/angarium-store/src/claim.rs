//! Claiming: the durable intent to send. Lease and generation are committed before the first byte leaves.

use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::disposition::Progress;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::{State, Status};
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;

use crate::db::dialect::LOCK_CHOSEN;
use crate::db::{Op, Row, Tx, params};
use crate::error::{Result, StoreError};
use crate::lanes;
use crate::types::{Abandoned, Claim, Key, LaneKey, LaneName, Payload, Quota, Target};

/// The columns of a claim, in the order in which [`claim_row`] reads them.
const CLAIM_COLUMNS: &str =
    "notifications.key, notifications.id, notifications.generation, notifications.lane,
    notifications.status, notifications.due_at, notifications.error_class, notifications.error_detail,
    notifications.budget_used, notifications.retry_count, notifications.interruptions, notifications.kind,
    notifications.channel, notifications.list, notifications.address, notifications.resolved,
    notifications.enqueued_at, notifications.created_at";

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
    pub(crate) now: Timestamp,
    pub(crate) lease: Duration,
}

fn take_due_sql() -> String {
    format!(
        "WITH due AS MATERIALIZED (
            SELECT n.key FROM notifications n
            WHERE n.lane = $2 AND n.due_at <= $1 AND n.lease_until IS NULL
              AND EXISTS (SELECT 1 FROM lanes l LEFT JOIN channel_states c ON c.channel = l.channel
                          WHERE l.key = $2 AND {} AND {})
            ORDER BY n.due_at, n.key LIMIT $3 {LOCK_CHOSEN})
        UPDATE notifications SET lease_until = $4, lease_node = $5, claimed_at = $1, wire_at = NULL,
            generation = generation + 1
        FROM due WHERE notifications.key = due.key
        RETURNING {CLAIM_COLUMNS}",
        lanes::is_over("l.waits_until", "$1"),
        lanes::is_over("coalesce(c.waits_until, 0)", "$1"),
    )
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
        let sql = take_due_sql();
        let until = self.now.plus(self.lease);
        let mut claims = Vec::new();
        for quota in &self.quotas {
            let rows = i64::try_from(quota.rows).unwrap_or(i64::MAX);
            let params = params![self.now, quota.lane.0, rows, until, &self.node];
            let taken = tx.query(&sql, params, readable_claim).await?;
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

const LOAD: &str = "SELECT c.subject, c.body, c.data, n.resolved, s.reason
    FROM notifications n JOIN contents c ON c.key = n.key
    LEFT JOIN suppressions s ON s.channel = n.channel AND s.address = n.address
    WHERE n.key = $1 AND n.generation = $2 AND n.lease_until IS NOT NULL";

const TARGETS: &str = "SELECT t.ordinal, t.address, t.state, t.due_at, t.error_class, t.error_detail,
        t.budget_used, t.retry_count, s.reason, coalesce(l.waits_until, 0)
    FROM targets t JOIN notifications n ON n.key = t.notification
    LEFT JOIN lanes l ON l.channel = n.channel AND l.receiver = t.receiver
    LEFT JOIN suppressions s ON s.channel = n.channel AND s.address = t.address
    WHERE t.notification = $1 ORDER BY t.ordinal";

impl Op for Load {
    type Output = Option<Payload>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Payload>> {
        let found = tx
            .query_opt(LOAD, params![self.key.0, self.generation], |row| {
                let payload = Payload {
                    subject: row.text(0)?,
                    body: row.text(1)?,
                    data: row.opt_text(2)?,
                    targets: Vec::new(),
                    suppressed: row.opt_text(4)?,
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
    tx.query(TARGETS, params![key.0], |row| {
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

const RESOLVE: &str = "UPDATE notifications SET resolved = 1, kind = $3, channel = $4, lane = $5
    WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL AND resolved = 0";
const INSERT_TARGET: &str =
    "INSERT INTO targets (notification, ordinal, address, receiver, state, due_at, attempts, budget_used, retry_count)
    VALUES ($1, $2, $3, $4, 'waiting', $5, 0, 0, 0)";

impl Op for Resolve {
    type Output = bool;

    fn weight(&self) -> usize {
        self.members.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let lane = lanes::ensure(tx, &self.lane).await?;
        let guard = params![self.key.0, self.generation, self.kind, &self.lane.channel, lane.0];
        if tx.execute(RESOLVE, guard).await? == 0 {
            return Ok(false);
        }
        for (ordinal, member) in (0i64..).zip(&self.members) {
            let target = params![self.key.0, ordinal, member.as_str(), member.receiver(), self.now];
            tx.execute(INSERT_TARGET, target).await?;
        }
        Ok(true)
    }
}

/// Whether a claim still stands, and nothing else.
pub(crate) struct Stands {
    pub(crate) key: Key,
    pub(crate) generation: i64,
}

const STANDS: &str =
    "SELECT 1 FROM notifications WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

impl Op for Stands {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.query_opt(STANDS, params![self.key.0, self.generation], |_| Ok(())).await?.is_some())
    }
}

/// Commits that the first byte is about to leave, for channels where a second send is worse than none. Says
/// whether the claim still stood.
pub(crate) struct MarkOnWire {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) now: Timestamp,
}

const MARK_ON_WIRE: &str =
    "UPDATE notifications SET wire_at = $3 WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

impl Op for MarkOnWire {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.execute(MARK_ON_WIRE, params![self.key.0, self.generation, self.now]).await? == 1)
    }
}

/// Extends leases. Returns the claims that no longer stand.
pub(crate) struct Renew {
    pub(crate) held: Vec<(Key, i64)>,
    pub(crate) until: Timestamp,
}

const RENEW: &str = "UPDATE notifications SET lease_until = $3 WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

impl Op for Renew {
    type Output = Vec<(Key, i64)>;

    fn weight(&self) -> usize {
        self.held.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<(Key, i64)>> {
        let mut lost = Vec::new();
        for &(key, generation) in &self.held {
            if tx.execute(RENEW, params![key.0, generation, self.until]).await? == 0 {
                lost.push((key, generation));
            }
        }
        Ok(lost)
    }
}

/// Gives back claims of which nothing was sent, as if they had never been made; due no sooner than told.
pub(crate) struct Release {
    pub(crate) held: Vec<(Key, i64)>,
    pub(crate) not_before: Timestamp,
}

const RELEASE: &str = "UPDATE notifications SET lease_until = NULL, lease_node = NULL, wire_at = NULL,
        due_at = CASE WHEN due_at < $3 THEN $3 ELSE due_at END
    WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL";

impl Op for Release {
    type Output = ();

    fn weight(&self) -> usize {
        self.held.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        for &(key, generation) in &self.held {
            tx.execute(RELEASE, params![key.0, generation, self.not_before]).await?;
        }
        Ok(())
    }
}

/// Finds leases that ended by `ended_by` without a result.
pub(crate) struct FindAbandoned {
    pub(crate) ended_by: Timestamp,
    pub(crate) limit: i64,
}

fn abandoned_sql() -> String {
    format!(
        "SELECT {CLAIM_COLUMNS}, notifications.lease_node, notifications.wire_at IS NOT NULL,
            notifications.claimed_at FROM notifications
         WHERE lease_until IS NOT NULL AND lease_until <= $1 ORDER BY lease_until LIMIT $2"
    )
}

impl Op for FindAbandoned {
    type Output = Vec<Abandoned>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Abandoned>> {
        let sql = abandoned_sql();
        let bounds = [self.ended_by.into(), self.limit.into()];
        let found = tx.query(&sql, &bounds, |row| {
            let Some(claim) = readable_claim(row)? else { return Ok(None) };
            let node = row.opt_text(18)?.unwrap_or_default();
            let claimed_at = row.opt_time(20)?.unwrap_or(claim.created_at);
            Ok(Some(Abandoned { claim, node, on_wire: row.flag(19)?, claimed_at }))
        });
        Ok(found.await?.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Store};

    struct Explain(String, usize);

    impl Op for Explain {
        type Output = Vec<String>;

        async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<String>> {
            let values = vec![crate::db::Value::Int(1); self.1];
            tx.query(&format!("EXPLAIN QUERY PLAN {}", self.0), &values, |row| row.text(3)).await
        }
    }

    /// C059: however many rows are parked or done, looking and claiming touch the indexes of live rows alone.
    #[tokio::test]
    async fn c059_looking_and_claiming_never_touch_what_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Options::new(folder.path().join("a.db"))).await.unwrap();
        let statements = [(take_due_sql(), 5), (lanes::WAITING_LANES.to_owned(), 0), (abandoned_sql(), 2)];
        for (sql, values) in statements {
            let plan = store.db.read(Explain(sql, values)).await.unwrap();
            let of_rows: Vec<_> = plan
                .iter()
                .filter(|step| {
                    ["notifications", " n ", " d "].iter().any(|name| format!("{step} ").contains(name))
                })
                .collect();
            assert!(!of_rows.is_empty(), "{plan:?}");
            for step in of_rows {
                let by_index = ["notifications_due", "notifications_leased", "INTEGER PRIMARY KEY"];
                assert!(by_index.iter().any(|index| step.contains(index)), "{step} in {plan:#?}");
            }
        }
    }
}
