//! The audit trail (OB-15): a projection of what rows, attempts and actions already record durably.
//!
//! Entries are written right after the facts they tell, in the same transaction but behind a savepoint of
//! their own: if that fails, the facts stand, the failure is logged and counted, and the row's count of
//! audited facts stays behind its count of facts. An index holds exactly such rows; [`Reemit`] derives their
//! entries again. An entry's id depends on the fact alone, so writing one twice writes it once.

use std::sync::atomic::{AtomicU64, Ordering};

use angarium_domain::id::{NotificationId, uuid_from};
use angarium_domain::text::Actor;
use angarium_domain::time::Timestamp;
use uuid::Uuid;

use crate::bounces::RecordedBounce;
use crate::db::{Op, Row, Tx, params, row, statements};
use crate::error::Result;
use crate::nodes::{Tenure, fence};
use crate::types::{AuditView, Key};

/// Audit writes that failed since the process started; each is made up for later.
pub(crate) static FAILED_WRITES: AtomicU64 = AtomicU64::new(0);

statements! {
    INSERT = "INSERT INTO audit (notification_id, event_id, kind, actor, at, detail)
        {values: uuid, uuid, text, text, bigint, text} ON CONFLICT (notification_id, event_id) DO NOTHING";

    FALL_BEHIND = "UPDATE notifications SET audited = audited - 1 WHERE key = $1";

    BEHIND = "SELECT n.key, n.id, n.accepted_by, n.created_at FROM notifications n WHERE n.audited <> n.facts
        ORDER BY n.key LIMIT $1 {lock chosen}";

    ATTEMPTS = "SELECT number, ended_at, result, class, detail, status_code, led_to, late FROM attempts WHERE notification = $1";

    ACTIONS = "SELECT key, action, actor, reason, at, led_to FROM actions WHERE notification = $1";

    BOUNCES = "SELECT address, action, at, actor, status, diagnostic FROM bounces WHERE notification = $1";

    CAUGHT_UP = "UPDATE notifications SET audited = facts WHERE key = $1";

    TRAIL = "SELECT event_id, kind, actor, at, detail FROM audit WHERE notification_id = $1
        ORDER BY event_id DESC LIMIT $2";
}

/// Something that happened to a notification, as it stands in the trail.
pub(crate) struct Fact {
    pub(crate) key: Key,
    id: NotificationId,
    kind: &'static str,
    /// What tells this fact from others of its kind: an attempt's number, an action's key.
    which: String,
    actor: String,
    at: Timestamp,
    detail: serde_json::Value,
}

impl Fact {
    pub(crate) fn accepted(key: Key, id: NotificationId, actor: &str, at: Timestamp) -> Self {
        let actor = actor.to_owned();
        Fact { key, id, kind: "accepted", which: String::new(), actor, at, detail: serde_json::json!({}) }
    }

    pub(crate) fn attempt(
        key: Key,
        id: NotificationId,
        number: i64,
        at: Timestamp,
        detail: serde_json::Value,
    ) -> Self {
        let actor = Actor::system().as_str().to_owned();
        Fact { key, id, kind: "attempt", which: number.to_string(), actor, at, detail }
    }

    /// The end that an attempt led to.
    pub(crate) fn ended(key: Key, id: NotificationId, number: i64, at: Timestamp, status: &str) -> Self {
        let actor = Actor::system().as_str().to_owned();
        let detail = serde_json::json!({"status": status, "attempt": number});
        Fact { key, id, kind: "terminal", which: format!("attempt {number}"), actor, at, detail }
    }

    /// What an operator, or the server itself, did; `terminal` if it ended the notification's life.
    pub(crate) fn action(key: Key, id: NotificationId, action: &RecordedAction) -> Self {
        let detail =
            serde_json::json!({"action": action.action, "status": action.led_to, "reason": action.reason});
        Fact {
            key,
            id,
            kind: if action.led_to == "pending" { "submitted" } else { "terminal" },
            which: format!("action {}", action.key),
            actor: action.actor.clone(),
            at: action.at,
            detail,
        }
    }

    /// What a mail server reported about an address.
    pub(crate) fn bounced(key: Key, id: NotificationId, bounce: &RecordedBounce) -> Self {
        let action = bounce.action.as_str();
        let detail = serde_json::json!({
            "address": bounce.address,
            "action": action,
            "status": bounce.status,
            "diagnostic": bounce.diagnostic,
            "suppressed": bounce.is_hard(),
        });
        let what = if bounce.is_hard() { "failed for good" } else { action };
        let which = format!("{what} {}", bounce.address);
        Fact { key, id, kind: "bounced", which, actor: bounce.actor.clone(), at: bounce.at, detail }
    }

    /// Ordered by time, and the same for the same fact.
    fn event_id(&self) -> Uuid {
        let mut bytes = uuid_from([&*self.id.to_string(), self.kind, &self.which]).into_bytes();
        let millis = (self.at.micros() / 1000).to_be_bytes();
        for (byte, time) in bytes.iter_mut().zip(millis.into_iter().skip(2)) {
            *byte = time;
        }
        Uuid::from_bytes(bytes)
    }
}

/// A row of `actions`.
pub(crate) struct RecordedAction {
    pub(crate) key: i64,
    pub(crate) action: String,
    pub(crate) actor: String,
    pub(crate) reason: Option<String>,
    pub(crate) at: Timestamp,
    pub(crate) led_to: String,
}

/// Writes entries for facts that were just recorded. Whoever records a fact counts it in `facts` and
/// `audited`; if the entry cannot be written, `audited` is taken back.
pub(crate) async fn record(tx: &mut Tx<'_>, facts: &[Fact]) -> Result<()> {
    if facts.is_empty() {
        return Ok(());
    }
    tx.savepoint().await?;
    let written = insert_all(tx, facts).await;
    if let Err(error) = tx.close_savepoint(written).await? {
        tracing::warn!(store.error = %error, audit.entries = facts.len(), "audit entries could not be written and will be re-emitted");
        FAILED_WRITES.fetch_add(facts.len() as u64, Ordering::Relaxed);
        for fact in facts {
            tx.execute(&FALL_BEHIND, params![fact.key.0]).await?;
        }
    }
    Ok(())
}

async fn insert_all(tx: &mut Tx<'_>, facts: &[Fact]) -> Result<()> {
    let details: Vec<String> = facts.iter().map(|fact| fact.detail.to_string()).collect();
    let rows: Vec<_> = facts
        .iter()
        .zip(&details)
        .map(|(fact, detail)| row![fact.id.uuid(), fact.event_id(), fact.kind, &fact.actor, fact.at, detail])
        .collect();
    tx.execute_rows(&INSERT, &rows).await.map(drop)
}

/// Derives again the entries of rows that lack some. Says how many rows it made whole.
pub(crate) struct Reemit {
    pub(crate) limit: i64,
    pub(crate) tenure: Tenure,
}

impl Op for Reemit {
    type Output = usize;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<usize> {
        fence(tx, &self.tenure).await?;
        let behind = tx
            .query(&BEHIND, params![self.limit], |row| {
                Ok((Key(row.int(0)?), NotificationId::from(row.uuid(1)?), row.text(2)?, row.time(3)?))
            })
            .await?;
        let mut whole = 0;
        let mut last_error = None;
        for (key, id, by, created_at) in &behind {
            tx.savepoint().await?;
            let made_up = make_up(tx, *key, *id, by, *created_at).await;
            match tx.close_savepoint(made_up).await? {
                Ok(()) => whole += 1,
                Err(error) => last_error = Some(error),
            }
        }
        match last_error {
            Some(error) if whole == 0 => Err(error),
            _ => Ok(whole),
        }
    }
}

async fn make_up(
    tx: &mut Tx<'_>,
    key: Key,
    id: NotificationId,
    by: &str,
    created_at: Timestamp,
) -> Result<()> {
    let facts = all_facts(tx, key, id, by, created_at).await?;
    insert_all(tx, &facts).await?;
    tx.execute(&CAUGHT_UP, params![key.0]).await.map(drop)
}

async fn all_facts(
    tx: &mut Tx<'_>,
    key: Key,
    id: NotificationId,
    by: &str,
    created_at: Timestamp,
) -> Result<Vec<Fact>> {
    let mut facts = vec![Fact::accepted(key, id, by, created_at)];
    let attempts = tx.query(&ATTEMPTS, params![key.0], |row| facts_of_attempt(key, id, row)).await?;
    facts.extend(attempts.into_iter().flatten());
    let actions =
        tx.query(&ACTIONS, params![key.0], |row| Ok(Fact::action(key, id, &action_row(row)?))).await?;
    facts.extend(actions);
    let bounces =
        tx.query(&BOUNCES, params![key.0], |row| Ok(Fact::bounced(key, id, &bounce_row(row)?))).await?;
    facts.extend(bounces);
    Ok(facts)
}

fn bounce_row(row: &Row<'_>) -> Result<RecordedBounce> {
    Ok(RecordedBounce {
        address: row.text(0)?,
        action: row.word(1)?,
        at: row.time(2)?,
        actor: row.text(3)?,
        status: row.text(4)?,
        diagnostic: row.opt_text(5)?,
    })
}

fn action_row(row: &Row<'_>) -> Result<RecordedAction> {
    Ok(RecordedAction {
        key: row.int(0)?,
        action: row.text(1)?,
        actor: row.text(2)?,
        reason: row.opt_text(3)?,
        at: row.time(4)?,
        led_to: row.text(5)?,
    })
}

fn facts_of_attempt(key: Key, id: NotificationId, row: &Row<'_>) -> Result<Vec<Fact>> {
    let (number, at) = (row.int(0)?, row.time(1)?);
    let led_to: angarium_domain::state::Status = row.word(6)?;
    let late = row.flag(7)?;
    let told = attempt_detail(&AttemptTold {
        number,
        result: &row.text(2)?,
        class: row.opt_text(3)?.as_deref(),
        detail: row.opt_text(4)?.as_deref(),
        status_code: row.opt_int(5)?,
        late,
    });
    let mut facts = vec![Fact::attempt(key, id, number, at, told)];
    if led_to.is_terminal() && !late {
        facts.push(Fact::ended(key, id, number, at, led_to.as_str()));
    }
    Ok(facts)
}

/// What the trail says about an attempt.
pub(crate) struct AttemptTold<'a> {
    pub(crate) number: i64,
    pub(crate) result: &'a str,
    pub(crate) class: Option<&'a str>,
    pub(crate) detail: Option<&'a str>,
    pub(crate) status_code: Option<i64>,
    pub(crate) late: bool,
}

pub(crate) fn attempt_detail(told: &AttemptTold<'_>) -> serde_json::Value {
    serde_json::json!({
        "number": told.number,
        "result": told.result,
        "class": told.class,
        "detail": told.detail,
        "status_code": told.status_code,
        "late": told.late,
    })
}

/// Entries of one trail that are shown at most: the newest.
const TRAIL_ENTRIES: i64 = 10_000;

/// The trail of one notification, in order.
pub(crate) struct Trail {
    pub(crate) id: NotificationId,
}

impl Op for Trail {
    type Output = Vec<AuditView>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<AuditView>> {
        let mut entries = tx
            .query(&TRAIL, params![self.id.uuid(), TRAIL_ENTRIES], |row| {
                Ok(AuditView {
                    event_id: row.uuid(0)?,
                    kind: row.text(1)?,
                    actor: row.text(2)?,
                    at: row.time(3)?,
                    detail: row.text(4)?,
                })
            })
            .await?;
        entries.sort_by_key(|entry| (entry.at, rank(&entry.kind), entry.event_id));
        Ok(entries)
    }
}

/// Entries of the same instant stand in the order in which things happen.
fn rank(kind: &str) -> u8 {
    match kind {
        "enqueued" => 0,
        "accepted" => 1,
        "submitted" => 2,
        "attempt" => 3,
        _ => 4,
    }
}
