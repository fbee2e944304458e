//! Bounces: what mail servers report about an address after they had taken a message for it.
//!
//! A report is a mail that anybody can write. It counts only for an address that an attempt reached, or may have
//! reached; of others nothing is written. So a forged one harms only those who were sent the same notification, and
//! only whoever knows its id can forge it: another member of the list, for one. What was reported before is known and
//! changes nothing, except that a failure for good comes after one that may pass.
//!
//! A bounce is a fact of its own: no status, no claim and no error of an attempt changes. It is laid over them when
//! a notification is looked at ([`crate::views`]), so that a later attempt at another address cannot hide it.

use std::collections::HashMap;
use std::fmt;

use angarium_domain::bounce::{Bounce, BounceAction};
use angarium_domain::id::NotificationId;
use angarium_domain::limits::ERROR_CHARS;
use angarium_domain::text::{Actor, one_line};
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact};
use crate::db::{Op, Tx, params, statements};
use crate::error::Result;
use crate::lanes;
use crate::types::Key;

statements! {
    FAILED = "SELECT address, status, diagnostic FROM bounces
        WHERE notification = $1 AND action = 'failed' ORDER BY hard";

    /// The notification's row comes first, as wherever else it is changed together with what hangs on it. What hangs on it
    /// is looked at afterwards, in a statement of its own: it may have changed while this one waited.
    HOLD = "SELECT n.key FROM notifications n WHERE n.key = (SELECT i.key FROM ids i WHERE i.id = $1) {lock found}";

    FIND = "SELECT n.key, n.channel, n.address,
            EXISTS (SELECT 1 FROM attempts a WHERE a.notification = n.key
                    AND (a.result = 'delivered' OR a.duplicate_risk = 1)),
            n.lease_until IS NOT NULL OR EXISTS (SELECT 1 FROM attempts a WHERE a.notification = n.key
                                                 AND (a.class = 'interrupted' OR a.late = 1))
        FROM notifications n WHERE n.key = $1";

    REACHED = "SELECT address FROM targets
        WHERE notification = $1 AND (state = 'accepted' OR (attempts > 0 AND $2 = 1) OR $3 = 1)";

    KNOWN = "SELECT 1 FROM bounces WHERE notification = $1 AND address = $2 AND action = $3 AND hard >= $4 LIMIT 1";

    RECORD = "INSERT INTO bounces (notification, address, action, hard, at, actor, status, diagnostic)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

    COUNT_FACTS = "UPDATE notifications SET facts = facts + $2, audited = audited + $2 WHERE key = $1";
}

/// What is reported about one notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BounceReport {
    /// The producer's id.
    pub notification: NotificationId,
    /// What became of its addresses.
    pub bounces: Vec<Bounce>,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BounceOutcome {
    /// It was looked through, address by address.
    Recorded {
        /// Bounces that were written down.
        new: usize,
        /// Those that stood there already.
        known: usize,
        /// Addresses that no attempt can have reached; nothing was written for them.
        strangers: usize,
        /// Addresses that get no more messages from now on.
        suppressed: usize,
    },
    /// There is no such notification.
    UnknownNotification,
}

/// A row of `bounces`.
pub(crate) struct RecordedBounce {
    pub(crate) address: String,
    pub(crate) action: BounceAction,
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    pub(crate) status: String,
    pub(crate) diagnostic: Option<String>,
}

impl RecordedBounce {
    /// The mailbox will never take messages: reason enough to send it no more. That is so if its address leads
    /// nowhere (5.1.x) or it is switched off (5.2.1). All else that failed for good, such as a message that was too
    /// large or refused for what it says, tells of this message, of its sender (5.1.7, 5.1.8) or of a server (RFC 3463).
    pub(crate) fn is_hard(&self) -> bool {
        let of_the_sender = matches!(self.status.as_str(), "5.1.7" | "5.1.8");
        let of_the_mailbox = self.status.starts_with("5.1.") || self.status == "5.2.1";
        self.action == BounceAction::Failed && of_the_mailbox && !of_the_sender
    }

    fn reason(&self) -> String {
        Reason { status: &self.status, diagnostic: self.diagnostic.as_deref() }.to_string()
    }
}

/// Why an address bounced, in one line: `bounced: 5.1.1 no such mailbox`.
struct Reason<'a> {
    status: &'a str,
    diagnostic: Option<&'a str>,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.status, self.diagnostic.unwrap_or_default()].map(str::trim);
        let told: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let why = if told.is_empty() { "no reason was given".to_owned() } else { told.join(" ") };
        f.write_str(&one_line(&format!("bounced: {why}"), ERROR_CHARS))
    }
}

/// Why mail to addresses of a notification failed, by address; of several reasons the one that is for good.
pub(crate) async fn failures(tx: &mut Tx<'_>, key: Key) -> Result<HashMap<String, String>> {
    let failed = tx
        .query(&FAILED, params![key.0], |row| {
            let (status, diagnostic) = (row.text(1)?, row.opt_text(2)?);
            let reason = Reason { status: &status, diagnostic: diagnostic.as_deref() };
            Ok((row.text(0)?, reason.to_string()))
        })
        .await?;
    Ok(failed.into_iter().collect())
}

/// Writes down what a report says of the addresses that the notification went to.
pub(crate) struct RecordBounces {
    pub(crate) report: BounceReport,
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
}

/// What is known of the notification itself.
struct Found {
    key: Key,
    channel: String,
    /// The address it is for, if it is for a single one.
    address: Option<String>,
    /// An attempt took the message to somebody, or may have.
    reached: bool,
    /// An attempt is under way, or one was lost: whom it reached is not known.
    in_doubt: bool,
}

impl Op for RecordBounces {
    type Output = BounceOutcome;

    fn weight(&self) -> usize {
        self.report.bounces.len() * 3
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<BounceOutcome> {
        let Some(found) = self.find(tx).await? else { return Ok(BounceOutcome::UnknownNotification) };
        let reached = Reached::by(tx, &found).await?;
        let (mut known, mut strangers, mut suppressed) = (0, 0, 0);
        let mut facts = Vec::new();
        for bounce in &self.report.bounces {
            let Some(address) = reached.spelling_of(bounce.address.as_str()) else {
                strangers += 1;
                continue;
            };
            let recorded = self.recorded(bounce, address);
            if !insert(tx, found.key, &recorded).await? {
                known += 1;
                continue;
            }
            if recorded.is_hard() {
                let reason = recorded.reason();
                let made = lanes::suppress(tx, &found.channel, address, &reason, self.now).await?;
                suppressed += usize::from(made);
            }
            facts.push(Fact::bounced(found.key, self.report.notification, &recorded));
        }
        let new = facts.len();
        if new > 0 {
            let count = i64::try_from(new).unwrap_or(i64::MAX);
            tx.execute(&COUNT_FACTS, params![found.key.0, count]).await?;
            audit::record(tx, &facts).await?;
        }
        Ok(BounceOutcome::Recorded { new, known, strangers, suppressed })
    }
}

impl RecordBounces {
    async fn find(&self, tx: &mut Tx<'_>) -> Result<Option<Found>> {
        let id = params![self.report.notification.uuid()];
        let Some(key) = tx.query_opt(&HOLD, id, |row| row.int(0)).await? else { return Ok(None) };
        tx.query_opt(&FIND, params![key], |row| {
            Ok(Found {
                key: Key(row.int(0)?),
                channel: row.opt_text(1)?.unwrap_or_default(),
                address: row.opt_text(2)?,
                reached: row.flag(3)?,
                in_doubt: row.flag(4)?,
            })
        })
        .await
    }

    fn recorded(&self, bounce: &Bounce, address: &str) -> RecordedBounce {
        RecordedBounce {
            address: address.to_owned(),
            action: bounce.action,
            at: self.now,
            actor: self.actor.as_str().to_owned(),
            status: bounce.status.clone(),
            diagnostic: bounce.diagnostic.clone(),
        }
    }
}

/// False if it, or worse, stood there already.
async fn insert(tx: &mut Tx<'_>, key: Key, bounce: &RecordedBounce) -> Result<bool> {
    let (action, hard) = (bounce.action.as_str(), bounce.is_hard());
    let known = params![key.0, &bounce.address, action, hard];
    if tx.query_opt(&KNOWN, known, |_| Ok(())).await?.is_some() {
        return Ok(false);
    }
    let row = params![
        key.0,
        &bounce.address,
        action,
        hard,
        bounce.at,
        &bounce.actor,
        &bounce.status,
        bounce.diagnostic.as_deref(),
    ];
    tx.execute(&RECORD, row).await?;
    Ok(true)
}

/// The addresses that attempts reached, or may have reached, as they were sent to.
struct Reached(HashMap<String, String>);

impl Reached {
    async fn by(tx: &mut Tx<'_>, found: &Found) -> Result<Self> {
        let mut addresses = tx
            .query(&REACHED, params![found.key.0, found.reached, found.in_doubt], |row| row.text(0))
            .await?;
        addresses.extend(found.address.clone().filter(|_| found.reached || found.in_doubt));
        Ok(Reached::these(addresses))
    }

    fn these(addresses: Vec<String>) -> Self {
        let mut spellings: HashMap<String, String> =
            addresses.iter().map(|address| (address.to_ascii_lowercase(), address.clone())).collect();
        // One that is spelt exactly so comes before one that differs in case.
        spellings.extend(addresses.into_iter().map(|address| (address.clone(), address)));
        Reached(spellings)
    }

    /// The spelling under which this address was sent to; mail servers do not keep the case of the local part.
    fn spelling_of(&self, address: &str) -> Option<&str> {
        let exactly = self.0.get(address);
        exactly.or_else(|| self.0.get(&address.to_ascii_lowercase())).map(String::as_str)
    }
}
