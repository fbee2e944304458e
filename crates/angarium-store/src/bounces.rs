//! Bounces: what mail servers report about an address after they had taken a message for it.
//!
//! A report is a mail that anybody can write. It counts only for an address that its notification really went to;
//! otherwise nothing is written, so that a forged one can suppress nobody. What was reported before is known and
//! changes nothing.
//!
//! A bounce is a fact of its own: no status, no claim and no error of an attempt changes. It is laid over them when
//! a notification is looked at ([`crate::views`]), so that a later attempt at another address cannot hide it.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use angarium_domain::address::Address;
use angarium_domain::id::NotificationId;
use angarium_domain::limits::ERROR_CHARS;
use angarium_domain::text::{Actor, one_line};
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact};
use crate::db::{Op, Row, Tx, params};
use crate::error::Result;
use crate::lanes;
use crate::types::Key;

/// What a mail server did with a message for one address (RFC 3464, 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BounceAction {
    /// It gave up.
    Failed,
    /// It goes on trying.
    Delayed,
    /// It delivered.
    Delivered,
    /// It passed the message to a server that reports nothing.
    Relayed,
    /// It sent the message on to the members of a list.
    Expanded,
}

impl BounceAction {
    /// Every action.
    pub const ALL: [BounceAction; 5] = [
        BounceAction::Failed,
        BounceAction::Delayed,
        BounceAction::Delivered,
        BounceAction::Relayed,
        BounceAction::Expanded,
    ];

    /// The word that stands in reports and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            BounceAction::Failed => "failed",
            BounceAction::Delayed => "delayed",
            BounceAction::Delivered => "delivered",
            BounceAction::Relayed => "relayed",
            BounceAction::Expanded => "expanded",
        }
    }
}

/// The text names no action of a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of failed, delayed, delivered, relayed, expanded")]
pub struct UnknownBounceAction;

impl FromStr for BounceAction {
    type Err = UnknownBounceAction;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownBounceAction> {
        BounceAction::ALL.into_iter().find(|action| action.as_str() == text).ok_or(UnknownBounceAction)
    }
}

/// What is reported about one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// The address that was sent to, in normal form.
    pub address: Address,
    /// What the mail server did.
    pub action: BounceAction,
    /// The status code, such as `5.1.1`; empty if the report told none.
    pub status: String,
    /// One line that explains it.
    pub diagnostic: Option<String>,
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
        /// Addresses that the notification never went to; nothing was written for them.
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
    /// The mailbox will never take messages: reason enough to send it no more.
    pub(crate) fn is_hard(&self) -> bool {
        self.action == BounceAction::Failed && self.status.starts_with("5.")
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

/// Joins, to the rows of `whose`, the bounce that says that its address failed.
pub(crate) fn join_failed(notification: &str, address: &str) -> String {
    format!(
        "LEFT JOIN bounces b ON b.notification = {notification} AND b.address = {address} AND b.action = 'failed'"
    )
}

/// The columns that [`failed_at`] reads.
pub(crate) const FAILED_COLUMNS: &str = "b.address IS NOT NULL, coalesce(b.status, ''), b.diagnostic";

/// Why the address of a row failed, if it did.
pub(crate) fn failed_at(row: &Row<'_>, column: usize) -> Result<Option<String>> {
    if !row.flag(column)? {
        return Ok(None);
    }
    let (status, diagnostic) = (row.text(column + 1)?, row.opt_text(column + 2)?);
    Ok(Some(Reason { status: &status, diagnostic: diagnostic.as_deref() }.to_string()))
}

/// Writes down what a report says of the addresses that the notification went to.
pub(crate) struct RecordBounces {
    pub(crate) report: BounceReport,
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
}

const FIND: &str = "SELECT n.key, n.channel, n.address FROM notifications n
    WHERE n.key = (SELECT i.key FROM ids i WHERE i.id = $1)";
const SENT_TO: &str = "SELECT address FROM targets WHERE notification = $1";
const RECORD: &str = "INSERT INTO bounces (notification, address, action, at, actor, status, diagnostic)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (notification, address, action) DO NOTHING";
const COUNT_FACTS: &str =
    "UPDATE notifications SET facts = facts + $2, audited = audited + $2 WHERE key = $1";

impl Op for RecordBounces {
    type Output = BounceOutcome;

    fn weight(&self) -> usize {
        self.report.bounces.len() * 3
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<BounceOutcome> {
        let id = self.report.notification;
        let found = tx
            .query_opt(FIND, params![id.uuid()], |row| {
                Ok((Key(row.int(0)?), row.opt_text(1)?, row.opt_text(2)?))
            })
            .await?;
        let Some((key, channel, address)) = found else { return Ok(BounceOutcome::UnknownNotification) };
        let mut addresses = tx.query(SENT_TO, params![key.0], |row| row.text(0)).await?;
        addresses.extend(address);
        let sent_to = SentTo::these(addresses);
        let channel = channel.unwrap_or_default();
        let (mut known, mut strangers, mut suppressed) = (0, 0, 0);
        let mut facts = Vec::new();
        for bounce in &self.report.bounces {
            let Some(address) = sent_to.spelling_of(bounce.address.as_str()) else {
                strangers += 1;
                continue;
            };
            let recorded = self.recorded(bounce, address);
            if !insert(tx, key, &recorded).await? {
                known += 1;
                continue;
            }
            if recorded.is_hard() {
                let made = lanes::suppress(tx, &channel, address, &recorded.reason(), self.now).await?;
                suppressed += usize::from(made);
            }
            facts.push(Fact::bounced(key, id, &recorded));
        }
        let new = facts.len();
        if new > 0 {
            tx.execute(COUNT_FACTS, params![key.0, i64::try_from(new).unwrap_or(i64::MAX)]).await?;
            audit::record(tx, &facts).await?;
        }
        Ok(BounceOutcome::Recorded { new, known, strangers, suppressed })
    }
}

impl RecordBounces {
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

/// False if it stood there already.
async fn insert(tx: &mut Tx<'_>, key: Key, bounce: &RecordedBounce) -> Result<bool> {
    let row = params![
        key.0,
        &bounce.address,
        bounce.action.as_str(),
        bounce.at,
        &bounce.actor,
        &bounce.status,
        bounce.diagnostic.as_deref(),
    ];
    Ok(tx.execute(RECORD, row).await? == 1)
}

/// The addresses of a notification, as they were sent to.
struct SentTo(HashMap<String, String>);

impl SentTo {
    fn these(addresses: Vec<String>) -> Self {
        let mut spellings: HashMap<String, String> =
            addresses.iter().map(|address| (address.to_ascii_lowercase(), address.clone())).collect();
        // One that is spelt exactly so comes before one that differs in case.
        spellings.extend(addresses.into_iter().map(|address| (address.clone(), address)));
        SentTo(spellings)
    }

    /// The spelling under which this address was sent to; mail servers do not keep the case of the local part.
    fn spelling_of(&self, address: &str) -> Option<&str> {
        let exactly = self.0.get(address);
        exactly.or_else(|| self.0.get(&address.to_ascii_lowercase())).map(String::as_str)
    }
}
