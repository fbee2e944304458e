//! Settling: the attempt and the state that follows from it, written together, guarded by the generation.
//!
//! A result whose claim has ended never changes a terminal state. It is kept as evidence, and if it says that
//! the receiver took the message while the row is still live, the row is delivered: a success is not lost.

use std::collections::HashMap;

use angarium_domain::disposition::Scope;
use angarium_domain::outcome::LastError;
use angarium_domain::state::{State, Status};
use angarium_domain::targets::TargetState;
use angarium_domain::text::Actor;
use angarium_domain::time::Timestamp;

use crate::actions;
use crate::audit::{self, AttemptTold, Fact, RecordedAction};
use crate::db::{Op, Together, Tx, Value, params, row, statements, together};
use crate::error::{Result, StoreError};
use crate::events::ledger::{self, Hold};
use crate::lanes;
use crate::types::{AttemptRecord, Key, ScopeChange, Settled, Settlement, TargetResult};

statements! {
    SETTLE = "UPDATE notifications SET
            status = r.status, due_at = r.due_at, lease_until = NULL, lease_node = NULL, lease_by = NULL, wire_at = NULL,
            attempts = attempts + r.tried, budget_used = r.budget_used, retry_count = r.retry_count,
            interruptions = r.interruptions, error_class = r.error_class, error_detail = r.error_detail,
            skip_reason = r.skip_reason, provider_message_id = coalesce(r.provider_message_id, notifications.provider_message_id),
            facts = notifications.facts + r.facts, audited = audited + r.facts,
            last_attempt_at = coalesce(r.started_at, last_attempt_at), delivered_at = r.delivered_at,
            completed_at = r.completed_at
        FROM {rows: key bigint, generation bigint, status text, due_at bigint, tried bigint, budget_used bigint,
            retry_count bigint, interruptions bigint, error_class text, error_detail text, skip_reason text,
            provider_message_id text, facts bigint, started_at bigint, delivered_at bigint, completed_at bigint,
            ended_by bigint}
        WHERE notifications.key = r.key AND notifications.generation = r.generation AND lease_until IS NOT NULL
          AND (r.ended_by IS NULL OR lease_until <= r.ended_by)
        RETURNING notifications.key, notifications.generation, attempts";

    /// The same attempt, written before: whoever wrote it was not told so.
    WRITTEN = "SELECT 1 FROM attempts
        WHERE notification = $1 AND generation = $2 AND started_at = $3 AND ended_at = $4 AND node = $5 AND result = $6";

    COUNT_LATE = "UPDATE notifications SET attempts = attempts + 1, facts = facts + 1, audited = audited + 1 WHERE key = $1
        RETURNING attempts, status, due_at IS NOT NULL";

    DELIVER_LATE = "UPDATE notifications SET
            status = 'delivered', due_at = NULL, lease_until = NULL, lease_node = NULL, lease_by = NULL, wire_at = NULL,
            generation = generation + 1, provider_message_id = coalesce($2, provider_message_id),
            error_class = NULL, error_detail = NULL, facts = facts + 1, audited = audited + 1,
            delivered_at = $3, completed_at = $3
        WHERE key = $1 AND due_at IS NOT NULL";

    INSERT_ATTEMPT = "INSERT INTO attempts
        (notification, number, generation, started_at, ended_at, node, result, class, detail, status_code,
         duplicate_risk, retry_after_s, response_excerpt, targets, led_to, late, template)
        {values: bigint, bigint, bigint, bigint, bigint, text, text, text, text, bigint,
            bigint, bigint, text, text, text, bigint, text}";

    TAKEN = "SELECT ordinal FROM targets WHERE notification = $1 AND ordinal = $2 AND state = 'accepted'";

    HOLD = "SELECT n.generation, n.lease_until IS NOT NULL FROM notifications n WHERE n.key = $1 {lock found}";

    /// A success counts however late it comes, and stays.
    SETTLE_TARGET = "UPDATE targets SET state = r.state, due_at = r.due_at, budget_used = r.budget_used,
            retry_count = r.retry_count, error_class = r.error_class, error_detail = r.error_detail,
            provider_message_id = coalesce(r.provider_message_id, targets.provider_message_id),
            attempts = attempts + r.tried
        FROM {rows: notification bigint, ordinal bigint, state text, due_at bigint, budget_used bigint,
            retry_count bigint, error_class text, error_detail text, provider_message_id text, tried bigint}
        WHERE targets.notification = r.notification AND targets.ordinal = r.ordinal AND targets.state <> 'accepted'";
}

/// Settles many claims, each on its own.
pub(crate) struct Settle {
    pub(crate) items: Vec<Settlement>,
}

impl Op for Settle {
    type Output = Vec<Settled>;

    fn weight(&self) -> usize {
        self.items.len() * 4
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Settled>> {
        let mut settled = Vec::with_capacity(self.items.len());
        let mut facts = Vec::new();
        for (item, (became, told)) in self.items.iter().zip(together(&Claims, tx, &self.items).await?) {
            let (became, told) = match became {
                // What happened counts for more than how it is told.
                Settled::Failed => {
                    together(&Claims, tx, &[bare(item)]).await?.pop().unwrap_or((became, told))
                }
                _ => (became, told),
            };
            settled.push(became);
            facts.extend(told);
        }
        audit::record(tx, &facts).await?;
        Ok(settled)
    }
}

/// A settlement without the words that came from outside.
fn bare(item: &Settlement) -> Settlement {
    let attempt = item.attempt.clone().map(|attempt| AttemptRecord {
        detail: attempt.detail.map(|_| "what was told could not be stored".to_owned()),
        response_excerpt: None,
        targets: None,
        ..attempt
    });
    let scopes =
        item.scopes.iter().map(|change| ScopeChange { reason: String::new(), ..change.clone() }).collect();
    Settlement { attempt, scopes, provider_message_id: None, ..item.clone() }
}

struct Claims;

impl Together for Claims {
    type Item = Settlement;
    type Output = (Settled, Vec<Fact>);

    async fn all(&self, tx: &mut Tx<'_>, items: &[Settlement]) -> Result<Vec<Self::Output>> {
        let numbers = apply(tx, items).await?;
        let standing: Vec<(&Settlement, i64)> = items
            .iter()
            .filter_map(|item| Some((item, *numbers.get(&(item.key, item.generation))?)))
            .collect();
        insert_attempts(tx, &standing).await?;
        let mut settled = Vec::with_capacity(items.len());
        for item in items {
            settled.push(match numbers.get(&(item.key, item.generation)) {
                Some(number) => (Settled::Applied, facts_of(tx, item, *number).await?),
                None => not_standing(tx, item).await?,
            });
        }
        tell(tx, &standing).await?;
        beyond_the_rows(tx, &standing).await?;
        Ok(settled)
    }

    fn refused(&self, item: &Settlement, error: &StoreError) -> Self::Output {
        tracing::error!(notification.id = %item.id, store.error = %error, "an outcome could not be written");
        (Settled::Failed, Vec::new())
    }
}

/// The guarded update. For each claim that still stood, the number of attempts at its row so far.
async fn apply(tx: &mut Tx<'_>, items: &[Settlement]) -> Result<HashMap<(Key, i64), i64>> {
    // In one order everywhere, so that two nodes cannot wait for each other.
    let mut items: Vec<&Settlement> = items.iter().collect();
    items.sort_by_key(|item| item.key);
    let rows: Vec<_> = items.iter().map(|item| state_row(item)).collect();
    let numbers = tx.query_rows(&SETTLE, &rows, |row| Ok(((Key(row.int(0)?), row.int(1)?), row.int(2)?)));
    Ok(numbers.await?.into_iter().collect())
}

fn state_row(item: &Settlement) -> [Value<'_>; 17] {
    let error = item.state.error();
    let completed_at = item.state.completed_at();
    let delivered_at = match item.state {
        State::Delivered { at, .. } => Some(at),
        _ => None,
    };
    let tried = item.attempt.is_some();
    row![
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
        i64::from(tried) + i64::from(completed_at.is_some()),
        item.attempt.as_ref().map(|attempt| attempt.started_at),
        delivered_at,
        completed_at,
        item.lease_ended_by,
    ]
}

async fn insert_attempts(tx: &mut Tx<'_>, standing: &[(&Settlement, i64)]) -> Result<()> {
    let rows: Vec<_> = standing
        .iter()
        .filter_map(|(item, number)| {
            Some(attempt_row(item, item.attempt.as_ref()?, *number, item.state.status().as_str(), false))
        })
        .collect();
    tx.execute_rows(&INSERT_ATTEMPT, &rows).await.map(drop)
}

/// What the trail tells of a settlement that was applied. A state that was reached without a try is recorded as an
/// action of the server's own.
async fn facts_of(tx: &mut Tx<'_>, item: &Settlement, number: i64) -> Result<Vec<Fact>> {
    let status = item.state.status();
    let Some(attempt) = &item.attempt else {
        return Ok(record_change(tx, item).await?.into_iter().collect());
    };
    let mut facts = vec![attempt_fact(item, attempt, number, false)];
    if status.is_terminal() {
        facts.push(Fact::ended(item.key, item.id, number, attempt.ended_at, status.as_str()));
    }
    Ok(facts)
}

async fn record_change(tx: &mut Tx<'_>, item: &Settlement) -> Result<Option<Fact>> {
    let Some(at) = item.state.completed_at() else { return Ok(None) };
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
        reason: match item.state.skip_reason() {
            Some(reason) => Some(reason.as_str().to_owned()),
            None => item.state.error().map(|error| error.detail.clone()),
        },
        at,
        led_to: item.state.status().as_str().to_owned(),
    };
    let recorded = actions::record(tx, item.key, action).await?;
    Ok(Some(Fact::action(item.key, item.id, &recorded)))
}

/// What ended stands in the ledger as told, or no longer stands there.
async fn tell(tx: &mut Tx<'_>, standing: &[(&Settlement, i64)]) -> Result<()> {
    let telling: Vec<&Settlement> =
        standing.iter().map(|(item, _)| *item).filter(|item| item.tells).collect();
    let delivered: Vec<(Key, Timestamp)> = telling
        .iter()
        .filter_map(|item| match item.state {
            State::Delivered { at, .. } => Some((item.key, at)),
            _ => None,
        })
        .collect();
    ledger::confirm(tx, &delivered).await?;
    for (item, tries) in standing.iter().filter(|(item, _)| item.tells) {
        if let State::Parked { at, .. } | State::Skipped { at, .. } = item.state {
            ledger::give_up(tx, item.key, item.at_most_once && *tries > 0, at).await?;
        }
    }
    Ok(())
}

/// What settlements change beyond their own rows.
async fn beyond_the_rows(tx: &mut Tx<'_>, standing: &[(&Settlement, i64)]) -> Result<()> {
    let at = |item: &Settlement| {
        let tried = item.attempt.as_ref().map(|attempt| attempt.ended_at);
        tried.or(item.state.completed_at()).unwrap_or(Timestamp::EPOCH)
    };
    let changes: Vec<_> =
        standing.iter().flat_map(|(item, _)| item.scopes.iter().map(|change| (at(item), change))).collect();
    lanes::apply_all(tx, &changes).await
}

/// The claim no longer stood: its result is evidence, or, if it is a success, more than that.
async fn not_standing(tx: &mut Tx<'_>, item: &Settlement) -> Result<(Settled, Vec<Fact>)> {
    match &item.attempt {
        Some(attempt) if item.lease_ended_by.is_none() => keep_late(tx, item, attempt).await,
        _ => Ok((Settled::Superseded, Vec::new())),
    }
}

async fn keep_late(
    tx: &mut Tx<'_>,
    item: &Settlement,
    attempt: &AttemptRecord,
) -> Result<(Settled, Vec<Fact>)> {
    // Held first, and looked at after that: what was under way meanwhile is seen then.
    hold(tx, item.key).await?;
    let same = params![
        item.key.0,
        item.generation,
        attempt.started_at,
        attempt.ended_at,
        &attempt.node,
        result_word(attempt)
    ];
    if tx.query_opt(&WRITTEN, same, |_| Ok(())).await?.is_some() {
        return Ok((Settled::Applied, Vec::new()));
    }
    let row = tx
        .query_opt(&COUNT_LATE, params![item.key.0], |row| Ok((row.int(0)?, row.text(1)?, row.flag(2)?)))
        .await?;
    let Some((number, status, live)) = row else {
        tracing::warn!(notification.id = %item.id, "a notification was gone when the outcome of its attempt came in");
        return Ok((Settled::Gone, Vec::new()));
    };
    if matches!(item.state, State::Delivered { .. }) && live {
        let params = params![item.key.0, item.provider_message_id.as_deref(), attempt.ended_at];
        tx.execute(&DELIVER_LATE, params).await?;
        tx.execute_rows(&INSERT_ATTEMPT, &[attempt_row(item, attempt, number, "delivered", false)]).await?;
        ledger::confirm(tx, &[(item.key, attempt.ended_at)]).await?;
        let ended = Fact::ended(item.key, item.id, number, attempt.ended_at, "delivered");
        return Ok((Settled::LateDelivered, vec![attempt_fact(item, attempt, number, false), ended]));
    }
    tx.execute_rows(&INSERT_ATTEMPT, &[attempt_row(item, attempt, number, &status, true)]).await?;
    if item.tells && matches!(item.state, State::Delivered { .. }) {
        ledger::told_late(tx, Hold { key: item.key, id: item.id }, attempt.ended_at).await?;
    }
    let suppressions = item.scopes.iter().filter(|change| change.scope == Scope::SuppressAddress);
    let changes: Vec<_> = suppressions.map(|change| (attempt.ended_at, change)).collect();
    lanes::apply_all(tx, &changes).await?;
    Ok((Settled::Late, vec![attempt_fact(item, attempt, number, true)]))
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

fn attempt_row<'a>(
    item: &Settlement,
    attempt: &'a AttemptRecord,
    number: i64,
    led_to: &'a str,
    late: bool,
) -> [Value<'a>; 17] {
    row![
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
        attempt.template.as_deref(),
    ]
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

impl Op for SettleTargets {
    /// Those of them that have the message by now, whatever this result says.
    type Output = Vec<i64>;

    fn weight(&self) -> usize {
        self.results.len()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<i64>> {
        let stands = hold(tx, self.key).await? == Some((self.generation, true));
        // A success counts however late it comes; a failure only under the claim that is still good.
        let counts = |result: &&TargetResult| stands || matches!(result.state, TargetState::Accepted);
        let rows: Vec<_> = self
            .results
            .iter()
            .filter(counts)
            .map(|result| target_row(self.key, result, self.tried))
            .collect();
        tx.execute_rows(&SETTLE_TARGET, &rows).await?;
        let not_taken = |result: &&TargetResult| !matches!(result.state, TargetState::Accepted);
        let others: Vec<_> =
            self.results.iter().filter(not_taken).map(|result| row![self.key.0, result.ordinal]).collect();
        let taken = tx.query_each(&TAKEN, &others, |row| row.int(0)).await?;
        Ok(taken.into_iter().flatten().collect())
    }
}

/// Locks a notification; its generation, and whether it is claimed.
async fn hold(tx: &mut Tx<'_>, key: Key) -> Result<Option<(i64, bool)>> {
    tx.query_opt(&HOLD, params![key.0], |row| Ok((row.int(0)?, row.flag(1)?))).await
}

fn target_row(key: Key, result: &TargetResult, tried: bool) -> [Value<'_>; 10] {
    let (state, due, error) = target_columns(&result.state);
    row![
        key.0,
        result.ordinal,
        state,
        due,
        result.progress.budget_used,
        result.progress.retry_count,
        error.map(|error| error.class.as_str()),
        error.map(|error| error.detail.as_str()),
        result.provider_message_id.as_deref(),
        tried,
    ]
}

fn target_columns(state: &TargetState) -> (&'static str, Option<Timestamp>, Option<&LastError>) {
    match state {
        TargetState::Waiting { due, error } => ("waiting", Some(*due), error.as_ref()),
        TargetState::Accepted => ("accepted", None, None),
        TargetState::Refused(error) => ("refused", None, Some(error)),
    }
}
