//! What an operator does to one notification (OB-16). The action, its record and its effect commit together;
//! the guarded update decides races, and its row count is the answer.

use angarium_domain::id::NotificationId;
use angarium_domain::state::{SkipReason, State, Status};
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact, RecordedAction};
use crate::claim::error_at;
use crate::db::{Op, Row, Tx, params, statements};
use crate::error::{Result, StoreError};
use crate::events::ledger::{self, Hold};
use crate::types::{Action, ActionOutcome, ActionRequest, Key};

/// Does one action.
pub(crate) struct Act {
    pub(crate) request: ActionRequest,
    pub(crate) now: Timestamp,
}

statements! {
    FIND = "SELECT n.key, n.lease_until IS NOT NULL, n.status, n.due_at, n.completed_at, n.error_class,
            n.error_detail, n.skip_reason, n.event IS NOT NULL, n.at_most_once, n.attempts
        FROM ids i JOIN notifications n ON n.key = i.key WHERE i.id = $1 {lock found}";

    /// Writes the state that follows. The generation moves on, so that an attempt under way can no longer settle,
    /// and the counts start afresh; only a live or a parked row is ever touched.
    CHANGE = "UPDATE notifications SET status = $3, due_at = $4, completed_at = $5, skip_reason = $6,
            budget_used = 0, retry_count = CASE WHEN $3 = 'pending' THEN 0 ELSE retry_count END, interruptions = 0,
            lease_until = NULL, lease_node = NULL, lease_by = NULL, wire_at = NULL, generation = generation + 1,
            facts = facts + 1, audited = audited + 1
        WHERE key = $1 AND status = $2";

    /// Addresses of its list that are not done are tried afresh; those that took it are not.
    RETRY_TARGETS = "UPDATE targets SET state = 'waiting', due_at = $2, budget_used = 0, retry_count = 0
        WHERE notification = $1 AND state <> 'accepted'";

    RECORD = "INSERT INTO actions (notification, action, actor, reason, at, led_to)
        VALUES ($1, $2, $3, $4, $5, $6) RETURNING key";
}

impl Op for Act {
    type Output = ActionOutcome;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<ActionOutcome> {
        let id = self.request.id;
        let found = tx
            .query_opt(&FIND, params![id.uuid()], |row| {
                // What is under way may arrive.
                let tried = row.flag(10)? || row.flag(1)?;
                let telling = Telling { tells: row.flag(8)?, at_most_once: row.flag(9)?, tried };
                Ok((Key(row.int(0)?), row.flag(1)?, state_at(row, 2)?, telling))
            })
            .await?;
        let Some((key, in_flight, state, telling)) = found else { return Ok(ActionOutcome::NotFound) };
        let before = state.status();
        let changed = match self.request.action {
            Action::Retry => state.revive(self.now),
            Action::Discard => state.discard(self.now),
            Action::Cancel => state.skip(self.now, SkipReason::Cancelled),
        };
        let after = match changed {
            Ok(after) => after,
            Err(refused) => return Ok(ActionOutcome::Refused(refused.from)),
        };
        if let Some(refused) = self.answer_to_the_ledger(tx, key, telling).await? {
            return Ok(refused);
        }
        let skip_reason = after.skip_reason().map(SkipReason::as_str);
        let row = params![
            key.0,
            before.as_str(),
            after.status().as_str(),
            after.due(),
            after.completed_at(),
            skip_reason
        ];
        if tx.execute(&CHANGE, row).await? == 0 {
            return Ok(ActionOutcome::Refused(before));
        }
        if self.request.action == Action::Retry {
            tx.execute(&RETRY_TARGETS, params![key.0, self.now]).await?;
        }
        self.record(tx, key, id, after.status()).await?;
        Ok(ActionOutcome::Done { status: after.status(), in_flight })
    }
}

/// The state in six columns: status, due, completed, class and detail of the last error, reason of a skip.
fn state_at(row: &Row<'_>, column: usize) -> Result<State> {
    let unreadable = || StoreError::Corrupt("the state of a notification cannot be read".into());
    let (due, at) = (row.opt_time(column + 1)?, row.opt_time(column + 2)?);
    let error = error_at(row, column + 3)?;
    let known = || error.clone().ok_or_else(unreadable);
    Ok(match row.word(column)? {
        Status::Pending => State::Pending { due: due.ok_or_else(unreadable)?, error },
        Status::Retrying => State::Retrying { due: due.ok_or_else(unreadable)?, error: known()? },
        Status::Delivered => State::Delivered { at: at.ok_or_else(unreadable)?, error },
        Status::Parked => State::Parked { at: at.ok_or_else(unreadable)?, error: known()? },
        Status::Discarded => State::Discarded { at: at.ok_or_else(unreadable)?, error: known()? },
        Status::Skipped => {
            let reason = row.word(column + 5)?;
            State::Skipped { at: at.ok_or_else(unreadable)?, reason, error }
        }
    })
}

/// What of a notification concerns the ledger.
#[derive(Clone, Copy)]
struct Telling {
    tells: bool,
    at_most_once: bool,
    tried: bool,
}

impl Act {
    /// A retry takes the notification's place in the ledger anew, and a cancelled one gives it up. Says why not, if it
    /// cannot be.
    async fn answer_to_the_ledger(
        &self,
        tx: &mut Tx<'_>,
        key: Key,
        telling: Telling,
    ) -> Result<Option<ActionOutcome>> {
        let Telling { tells, at_most_once, tried } = telling;
        match self.request.action {
            Action::Retry if at_most_once && tried => Ok(Some(ActionOutcome::AtMostOnce)),
            Action::Retry if tells => {
                let holder = ledger::retake(tx, Hold { key, id: self.request.id }, self.now).await?;
                Ok(holder.map(|holder| ActionOutcome::AlreadyTold(holder.id)))
            }
            Action::Cancel if tells => {
                ledger::give_up(tx, key, at_most_once && tried, self.now).await?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    async fn record(&self, tx: &mut Tx<'_>, key: Key, id: NotificationId, leads_to: Status) -> Result<()> {
        let action = RecordedAction {
            key: 0,
            action: self.request.action.as_str().to_owned(),
            actor: self.request.actor.as_str().to_owned(),
            reason: self.request.reason.clone(),
            at: self.now,
            led_to: leads_to.as_str().to_owned(),
        };
        let recorded = record(tx, key, action).await?;
        audit::record(tx, &[Fact::action(key, id, &recorded)]).await
    }
}

/// Writes an action down; it comes back with its key.
pub(crate) async fn record(tx: &mut Tx<'_>, key: Key, mut action: RecordedAction) -> Result<RecordedAction> {
    let row =
        params![key.0, &action.action, &action.actor, action.reason.as_deref(), action.at, &action.led_to];
    action.key = tx.query_opt(&RECORD, row, |row| row.int(0)).await?.unwrap_or(0);
    Ok(action)
}
