//! Settling: the attempt and the state that follows from it, written together, guarded by the generation.
//!
//! A result whose claim has ended never changes a terminal state. It is kept as evidence, and if it says that
//! the receiver took the message while the row is still live, the row is delivered: a success is not lost.

use angarium_domain::disposition::Scope;
use angarium_domain::outcome::LastError;
use angarium_domain::state::{State, Status};
use angarium_domain::targets::TargetState;
use angarium_domain::text::Actor;
use angarium_domain::time::Timestamp;

use crate::actions;
use crate::audit::{self, AttemptTold, Fact, RecordedAction};
use crate::db::{Op, Tx, params};
use crate::error::Result;
use crate::lanes;
use crate::types::{AttemptRecord, Key, Settled, Settlement, TargetResult};

/// Settles many claims, each on its own.
pub(crate) struct Settle {
    pub(crate) items: Vec<Settlement>,
}

const SETTLE: &str = "UPDATE notifications SET
        status = $3, due_at = $4, lease_until = NULL, lease_node = NULL, wire_at = NULL,
        attempts = attempts + $5, budget_used = $6, retry_count = $7, interruptions = $8,
        error_class = $9, error_detail = $10, skip_reason = $11,
        provider_message_id = coalesce($12, provider_message_id),
        facts = facts + $13, audited = audited + $13,
        last_attempt_at = coalesce($14, last_attempt_at), delivered_at = $15, completed_at = $16
    WHERE key = $1 AND generation = $2 AND lease_until IS NOT NULL AND ($17 IS NULL OR lease_until <= $17)
    RETURNING attempts";

const COUNT_LATE: &str =
    "UPDATE notifications SET attempts = attempts + 1, facts = facts + 1, audited = audited + 1 WHERE key = $1
    RETURNING attempts, status, due_at IS NOT NULL";

const DELIVER_LATE: &str = "UPDATE notifications SET
        status = 'delivered', due_at = NULL, lease_until = NULL, lease_node = NULL, wire_at = NULL,
        generation = generation + 1, provider_message_id = coalesce($2, provider_message_id),
        error_class = NULL, error_detail = NULL, facts = facts + 1, audited = audited + 1,
        delivered_at = $3, completed_at = $3
    WHERE key = $1 AND due_at IS NOT NULL";

const INSERT_ATTEMPT: &str = "INSERT INTO attempts
    (notification, number, generation, started_at, ended_at, node, result, class, detail, status_code,
     duplicate_risk, retry_after_s, response_excerpt, targets, led_to, late)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

impl Op for Settle {
    type Output = Vec<Settled>;

    fn weight(&self) -> usize {
        self.items.len() * 4
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Settled>> {
        let mut settled = Vec::with_capacity(self.items.len());
        let mut facts = Vec::new();
        for item in &self.items {
            let facts_before = facts.len();
            tx.savepoint().await?;
            let one = settle_one(tx, item, &mut facts).await;
            settled.push(match tx.close_savepoint(one).await? {
                Err(error) if error.concerns_the_database() => return Err(error),
                Err(error) => {
                    tracing::error!(notification.id = %item.id, store.error = %error, "an outcome could not be written");
                    facts.truncate(facts_before);
                    Settled::Failed
                }
                Ok(one) => one,
            });
        }
        audit::record(tx, &facts).await?;
        Ok(settled)
    }
}

async fn settle_one(tx: &mut Tx<'_>, item: &Settlement, facts: &mut Vec<Fact>) -> Result<Settled> {
    let Some(number) = apply(tx, item).await? else {
        return match &item.attempt {
            Some(attempt) if item.lease_ended_by.is_none() => keep_late(tx, item, attempt, facts).await,
            _ => Ok(Settled::Superseded),
        };
    };
    let status = item.state.status();
    let at = match &item.attempt {
        Some(attempt) => {
            insert_attempt(tx, item, attempt, number, status.as_str(), false).await?;
            facts.push(attempt_fact(item, attempt, number, false));
            if status.is_terminal() {
                facts.push(Fact::ended(item.key, item.id, number, attempt.ended_at, status.as_str()));
            }
            attempt.ended_at
        }
        None => record_change(tx, item, facts).await?,
    };
    for scope in &item.scopes {
        lanes::apply(tx, scope, at).await?;
    }
    Ok(Settled::Applied)
}

/// A state that was reached without a try is recorded as an action of the server's own.
async fn record_change(tx: &mut Tx<'_>, item: &Settlement, facts: &mut Vec<Fact>) -> Result<Timestamp> {
    let Some(at) = item.state.completed_at() else { return Ok(Timestamp::EPOCH) };
    let action = match item.state.status() {
        Status::Parked => "give up",
        // The last members of a list had been settled before the last process ended, or were given up untried.
        Status::Delivered => "conclude",
        _ => "skip",
    };
    let action = RecordedAction {
        key: 0,
        action: action.to_owned(),
        actor: Actor::system().as_str().to_owned(),
        reason: item.state.error().map(|error| error.detail.clone()),
        at,
        led_to: item.state.status().as_str().to_owned(),
    };
    let recorded = actions::record(tx, item.key, action).await?;
    facts.push(Fact::action(item.key, item.id, &recorded));
    Ok(at)
}

/// The guarded update. The number of attempts so far if the claim still stood.
async fn apply(tx: &mut Tx<'_>, item: &Settlement) -> Result<Option<i64>> {
    let error = item.state.error();
    let tried = item.attempt.is_some();
    let completed_at = item.state.completed_at();
    let delivered_at = match item.state {
        State::Delivered { at, .. } => Some(at),
        _ => None,
    };
    let facts = i64::from(tried) + i64::from(completed_at.is_some());
    let row = params![
        item.key.0,
        item.generation,
        item.state.status().as_str(),
        item.state.due(),
        tried,
        item.progress.budget_used,
        item.progress.retry_count,
        item.progress.interruptions,
        error.map(|error| error.class.as_str()),
        error.map(|error| error.detail.as_str()),
        item.state.skip_reason().map(|reason| reason.as_str()),
        item.provider_message_id.as_deref(),
        facts,
        item.attempt.as_ref().map(|attempt| attempt.started_at),
        delivered_at,
        completed_at,
        item.lease_ended_by,
    ];
    tx.query_opt(SETTLE, row, |row| row.int(0)).await
}

async fn keep_late(
    tx: &mut Tx<'_>,
    item: &Settlement,
    attempt: &AttemptRecord,
    facts: &mut Vec<Fact>,
) -> Result<Settled> {
    let row = tx
        .query_opt(COUNT_LATE, params![item.key.0], |row| Ok((row.int(0)?, row.text(1)?, row.flag(2)?)))
        .await?;
    let Some((number, status, live)) = row else {
        tracing::warn!(notification.id = %item.id, "a notification was gone when the outcome of its attempt came in");
        return Ok(Settled::Gone);
    };
    let delivered = matches!(item.state, State::Delivered { .. });
    if delivered && live {
        let params = params![item.key.0, item.provider_message_id.as_deref(), attempt.ended_at];
        tx.execute(DELIVER_LATE, params).await?;
        insert_attempt(tx, item, attempt, number, "delivered", false).await?;
        facts.push(attempt_fact(item, attempt, number, false));
        facts.push(Fact::ended(item.key, item.id, number, attempt.ended_at, "delivered"));
        return Ok(Settled::LateDelivered);
    }
    insert_attempt(tx, item, attempt, number, &status, true).await?;
    facts.push(attempt_fact(item, attempt, number, true));
    for change in item.scopes.iter().filter(|change| change.scope == Scope::SuppressAddress) {
        lanes::apply(tx, change, attempt.ended_at).await?;
    }
    Ok(Settled::Late)
}

fn result_word(attempt: &AttemptRecord) -> &'static str {
    if attempt.class.is_none() { "delivered" } else { "failed" }
}

fn attempt_fact(item: &Settlement, attempt: &AttemptRecord, number: i64, late: bool) -> Fact {
    let told = audit::attempt_detail(&AttemptTold {
        number,
        result: result_word(attempt),
        class: attempt.class.map(|class| class.as_str()),
        detail: attempt.detail.as_deref(),
        status_code: attempt.status_code.map(i64::from),
        late,
    });
    Fact::attempt(item.key, item.id, number, attempt.ended_at, told)
}

async fn insert_attempt(
    tx: &mut Tx<'_>,
    item: &Settlement,
    attempt: &AttemptRecord,
    number: i64,
    led_to: &str,
    late: bool,
) -> Result<()> {
    let row = params![
        item.key.0,
        number,
        item.generation,
        attempt.started_at,
        attempt.ended_at,
        &attempt.node,
        result_word(attempt),
        attempt.class.map(|class| class.as_str()),
        attempt.detail.as_deref(),
        attempt.status_code.map(i64::from),
        attempt.duplicate_risk,
        attempt.retry_after_s,
        attempt.response_excerpt.as_deref(),
        attempt.targets.as_deref(),
        led_to,
        late,
    ];
    tx.execute(INSERT_ATTEMPT, row).await.map(drop)
}

/// Writes how addresses of a list fared, as soon as it is known, so that a crash in the middle of a long list
/// repeats no more than what was in flight.
pub(crate) struct SettleTargets {
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) results: Vec<TargetResult>,
    /// They were sent to.
    pub(crate) tried: bool,
}

/// A success counts however late it comes; a failure only under the claim that is still good.
const SETTLE_TARGET: &str = "UPDATE targets SET state = $3, due_at = $4, budget_used = $5, retry_count = $6,
        error_class = $7, error_detail = $8, provider_message_id = coalesce($9, provider_message_id),
        attempts = attempts + $11
    WHERE notification = $1 AND ordinal = $2 AND state <> 'accepted'
      AND ($3 = 'accepted' OR EXISTS (SELECT 1 FROM notifications n
                                      WHERE n.key = $1 AND n.generation = $10 AND n.lease_until IS NOT NULL))";

impl Op for SettleTargets {
    type Output = ();

    fn weight(&self) -> usize {
        self.results.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        for result in &self.results {
            let (state, due, error) = target_columns(&result.state);
            let row = params![
                self.key.0,
                result.ordinal,
                state,
                due,
                result.progress.budget_used,
                result.progress.retry_count,
                error.map(|error| error.class.as_str()),
                error.map(|error| error.detail.as_str()),
                result.provider_message_id.as_deref(),
                self.generation,
                self.tried,
            ];
            tx.execute(SETTLE_TARGET, row).await?;
        }
        Ok(())
    }
}

fn target_columns(state: &TargetState) -> (&'static str, Option<Timestamp>, Option<&LastError>) {
    match state {
        TargetState::Waiting { due, error } => ("waiting", Some(*due), error.as_ref()),
        TargetState::Accepted => ("accepted", None, None),
        TargetState::Refused(error) => ("refused", None, Some(error)),
    }
}
