//! What an operator does to one notification (OB-16). The action, its record and its effect commit together;
//! the guarded update decides races, and its row count is the answer.

use angarium_domain::id::NotificationId;
use angarium_domain::state::Status;
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact, RecordedAction};
use crate::db::{Op, Tx, params};
use crate::error::Result;
use crate::types::{Action, ActionOutcome, ActionRequest, Key};

/// Does one action.
pub(crate) struct Act {
    pub(crate) request: ActionRequest,
    pub(crate) now: Timestamp,
}

const FIND: &str = "SELECT n.key, n.status, n.lease_until IS NOT NULL FROM ids i JOIN notifications n ON n.key = i.key WHERE i.id = $1";

/// A parked one starts afresh: no count, no budget used, due now.
const RETRY: &str =
    "UPDATE notifications SET status = 'pending', due_at = $2, budget_used = 0, retry_count = 0,
        interruptions = 0, completed_at = NULL, facts = facts + 1, audited = audited + 1
    WHERE key = $1 AND status = 'parked'";
/// Addresses of its list that were given up are tried again; those that took it are not.
const RETRY_TARGETS: &str =
    "UPDATE targets SET state = 'waiting', due_at = $2, budget_used = 0, retry_count = 0
    WHERE notification = $1 AND state = 'refused'";

const DISCARD: &str =
    "UPDATE notifications SET status = 'discarded', completed_at = $2, facts = facts + 1, audited = audited + 1
    WHERE key = $1 AND status = 'parked'";

/// The generation moves on, so that an attempt under way can no longer settle.
const CANCEL: &str = "UPDATE notifications SET status = 'skipped', skip_reason = 'cancelled', due_at = NULL,
        lease_until = NULL, lease_node = NULL, wire_at = NULL, generation = generation + 1,
        completed_at = $2, facts = facts + 1, audited = audited + 1
    WHERE key = $1 AND status IN ('pending', 'retrying')";

const RECORD: &str = "INSERT INTO actions (notification, action, actor, reason, at, led_to)
    VALUES ($1, $2, $3, $4, $5, $6) RETURNING key";

impl Op for Act {
    type Output = ActionOutcome;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<ActionOutcome> {
        let id = self.request.id;
        let found = tx
            .query_opt(FIND, params![id.uuid()], |row| Ok((Key(row.int(0)?), row.word(1)?, row.flag(2)?)))
            .await?;
        let Some((key, status, in_flight)) = found else { return Ok(ActionOutcome::NotFound) };
        let (statement, leads_to): (&str, Status) = match self.request.action {
            Action::Retry => (RETRY, Status::Pending),
            Action::Discard => (DISCARD, Status::Discarded),
            Action::Cancel => (CANCEL, Status::Skipped),
        };
        if tx.execute(statement, params![key.0, self.now]).await? == 0 {
            return Ok(ActionOutcome::Refused(status));
        }
        if self.request.action == Action::Retry {
            tx.execute(RETRY_TARGETS, params![key.0, self.now]).await?;
        }
        self.record(tx, key, id, leads_to).await?;
        Ok(ActionOutcome::Done { status: leads_to, in_flight })
    }
}

impl Act {
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
    action.key = tx.query_opt(RECORD, row, |row| row.int(0)).await?.unwrap_or(0);
    Ok(action)
}
