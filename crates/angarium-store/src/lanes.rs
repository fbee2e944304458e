//! Lanes: who waits, who is left alone, and until when. Their state stands in the database, so that all nodes
//! agree on it.
//!
//! A list has two lanes: one for first attempts, one for all that follow. However many of its notifications wait for a
//! member that is dead, they share out among themselves, and a new one need not go through them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use angarium_domain::disposition::Scope;
use angarium_domain::outcome::RETRY_AFTER_BOUNDS;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;

use crate::db::{Op, Tx, Value, params, row, statements};
use crate::error::{Result, StoreError};
use crate::nodes::{Tenure, fence};
use crate::types::{Key, LaneKey, LaneName, ScopeChange, ScopedLane, WaitingLane};

statements! {
    INSERT_LANE = "INSERT INTO lanes (channel, receiver, waits_until) {values: text, text, bigint}
        ON CONFLICT (channel, receiver) DO NOTHING";

    LANE_KEY = "SELECT key FROM lanes WHERE channel = $1 AND receiver = $2";

    /// Hops over the due index from lane to lane, one step each, however many rows wait in them.
    WAITING_LANES = "WITH RECURSIVE waiting (lane) AS (
            SELECT min(lane) FROM notifications WHERE due_at IS NOT NULL AND lease_until IS NULL
            UNION ALL
            SELECT (SELECT min(n.lane) FROM notifications n
                    WHERE n.lane > waiting.lane AND n.due_at IS NOT NULL AND n.lease_until IS NULL)
            FROM waiting WHERE waiting.lane IS NOT NULL)
        SELECT l.key, l.channel, l.receiver, l.waits_until, coalesce(c.waits_until, 0), c.suspended IS NOT NULL,
               (SELECT min(d.due_at) FROM notifications d
                WHERE d.lane = waiting.lane AND d.due_at IS NOT NULL AND d.lease_until IS NULL)
        FROM waiting JOIN lanes l ON l.key = waiting.lane LEFT JOIN channel_states c ON c.channel = l.channel
        WHERE waiting.lane IS NOT NULL";

    LANE_WAITS = "UPDATE lanes SET waits_until = r.until FROM {rows: key bigint, until bigint}
        WHERE lanes.key = r.key AND lanes.waits_until < r.until";

    CHANNEL_WAITS = "INSERT INTO channel_states (channel, waits_until, suspended) VALUES ($1, $2, $3)
        ON CONFLICT (channel) DO UPDATE SET suspended = coalesce($3, channel_states.suspended),
            waits_until = CASE WHEN channel_states.waits_until > $2 THEN channel_states.waits_until ELSE $2 END";

    /// A success while the channel was to be left alone was under way before; only one after that is a sign.
    CHANNEL_OPENS = "DELETE FROM channel_states WHERE channel = $1 AND waits_until <= $2";

    SUPPRESS = "INSERT INTO suppressions (channel, address, reason, since) {values: text, text, text, bigint}
        ON CONFLICT (channel, address) DO NOTHING";

    SHIFT_LANES = "UPDATE lanes SET waits_until = waits_until - $1 WHERE waits_until > $2";

    SHIFT_CHANNELS = "UPDATE channel_states SET waits_until = waits_until - $1 WHERE waits_until > $2";

    /// What was accepted while the clock ran ahead, and never tried.
    DUE_TOO_LATE = "UPDATE notifications SET due_at = $1
        WHERE due_at > $1 AND created_at > $1 AND attempts = 0 AND lease_until IS NULL";

    LIST_STATES = "SELECT channel, waits_until, suspended FROM channel_states ORDER BY channel LIMIT $1";

    LAST_OF_STEP = "SELECT max(step.key) FROM
        (SELECT key FROM notifications WHERE due_at IS NOT NULL AND key > $1 ORDER BY key LIMIT $2) step";

    /// The plus keeps the search to the step's keys: by lane it would go through all that the channel has, each time.
    DUE_AGAIN = "UPDATE notifications SET due_at = $2
        WHERE key > $3 AND key <= $4 AND due_at > $2 AND lease_until IS NULL
          AND +lane IN (SELECT key FROM lanes WHERE channel = $1)
          AND (error_class = 'permanent_config'
               OR EXISTS (SELECT 1 FROM targets t WHERE t.notification = notifications.key AND t.state = 'waiting'
                          AND t.error_class = 'permanent_config'))";

    /// Of a row that is due already, members may be held back too.
    DUE_TARGETS = "UPDATE targets SET due_at = $2
        WHERE state = 'waiting' AND error_class = 'permanent_config' AND due_at > $2
          AND notification IN (SELECT n.key FROM notifications n
                               WHERE n.key > $3 AND n.key <= $4 AND n.due_at IS NOT NULL AND n.lease_until IS NULL
                                 AND n.resolved = 1 AND +n.lane IN (SELECT key FROM lanes WHERE channel = $1))";

    FIND_STATE = "SELECT 1 FROM channel_states WHERE channel = $1";

    REOPEN = "DELETE FROM channel_states WHERE channel = $1";
}

/// The key of the lane with this name; it is made if there is none.
pub(crate) async fn ensure(tx: &mut Tx<'_>, name: &LaneName) -> Result<LaneKey> {
    ensure_all(tx, vec![name])
        .await?
        .remove(name)
        .ok_or_else(|| StoreError::Statement("a lane was lost".into()))
}

/// The keys of the lanes with these names, each given once; those that are not there are made.
pub(crate) async fn ensure_all<'n>(
    tx: &mut Tx<'_>,
    mut names: Vec<&'n LaneName>,
) -> Result<HashMap<&'n LaneName, LaneKey>> {
    // In one order everywhere, so that two nodes cannot wait for each other.
    names.sort_by_key(|name| (&name.channel, &name.receiver));
    let mut known = find(tx, &names).await?;
    let missing: Vec<&LaneName> = names.into_iter().filter(|name| !known.contains_key(name)).collect();
    if !missing.is_empty() {
        let rows: Vec<_> = missing.iter().map(|name| row![&name.channel, &name.receiver, 0i64]).collect();
        tx.execute_rows(&INSERT_LANE, &rows).await?;
        known.extend(find(tx, &missing).await?);
    }
    Ok(known)
}

async fn find<'n>(tx: &mut Tx<'_>, names: &[&'n LaneName]) -> Result<HashMap<&'n LaneName, LaneKey>> {
    let asked: Vec<_> = names.iter().map(|name| row![&name.channel, &name.receiver]).collect();
    let found = tx.query_each(&LANE_KEY, &asked, |row| row.int(0)).await?;
    Ok(names.iter().zip(found).filter_map(|(name, mut key)| Some((*name, LaneKey(key.pop()?)))).collect())
}

/// The longest that a receiver's wish to wait is honoured. A wait that ends later was set by a clock that ran ahead, and
/// does not count.
pub(crate) const LONGEST_WAIT: Duration = RETRY_AFTER_BOUNDS.1;

/// A wait that was read; none if it is beyond belief.
pub(crate) fn credible(waits_until: Timestamp, now: Timestamp) -> Timestamp {
    if waits_until.since(now) > LONGEST_WAIT { Timestamp::EPOCH } else { waits_until }
}

/// Every lane that has rows waiting, with the time of the first one.
pub(crate) struct WaitingLanes {
    pub(crate) now: Timestamp,
}

impl Op for WaitingLanes {
    type Output = Vec<WaitingLane>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<WaitingLane>> {
        tx.query(&WAITING_LANES, &[], |row| {
            let wait = |column| Ok::<_, StoreError>(credible(row.time(column)?, self.now));
            Ok(WaitingLane {
                lane: LaneKey(row.int(0)?),
                name: LaneName { channel: row.text(1)?, receiver: row.text(2)? },
                due: row.time(6)?,
                waits_until: wait(3)?.max(wait(4)?),
                suspended: row.flag(5)?,
            })
        })
        .await
    }
}

/// Applies what settlements change beyond their own rows, each at its time, and each row once.
pub(crate) async fn apply_all(tx: &mut Tx<'_>, changes: &[(Timestamp, &ScopeChange)]) -> Result<()> {
    wait(tx, changes).await?;
    let mut healthy: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut suppressed: BTreeMap<(&str, &str), [Value<'_>; 4]> = BTreeMap::new();
    for (now, change) in changes {
        let channel = change.channel.as_ref().map_or("", |channel| channel.as_str());
        match change.scope {
            Scope::Unchanged | Scope::SlowLane | Scope::LaneWaits(_) => {}
            // That a channel works is the same news from everybody; the latest counts.
            Scope::Healthy => {
                let latest = healthy.entry(channel).or_insert(*now);
                *latest = (*latest).max(*now);
            }
            Scope::ChannelWaits(until) => {
                tx.execute(&CHANNEL_WAITS, params![channel, until, None::<&str>]).await?;
            }
            Scope::SuspendChannel(until) => {
                tx.execute(&CHANNEL_WAITS, params![channel, until, &change.reason]).await?;
            }
            Scope::SuppressAddress => {
                if let Some(address) = &change.address {
                    let row = row![channel, address, &change.reason, *now];
                    suppressed.entry((channel, address)).or_insert(row);
                }
            }
        }
    }
    let suppressed: Vec<_> = suppressed.into_values().collect();
    tx.execute_rows(&SUPPRESS, &suppressed).await?;
    for (channel, now) in healthy {
        tx.execute(&CHANNEL_OPENS, params![channel, now]).await?;
    }
    Ok(())
}

/// Lets receivers alone, each until the latest time that was asked for.
async fn wait(tx: &mut Tx<'_>, changes: &[(Timestamp, &ScopeChange)]) -> Result<()> {
    let waits = || {
        changes.iter().filter_map(|(_, change)| match change.scope {
            Scope::LaneWaits(until) => Some((&change.lane, until)),
            _ => None,
        })
    };
    let names: HashSet<&LaneName> = waits()
        .filter_map(|(lane, _)| match lane {
            ScopedLane::Name(name) => Some(name),
            ScopedLane::Key(_) => None,
        })
        .collect();
    let named =
        if names.is_empty() { HashMap::new() } else { ensure_all(tx, names.into_iter().collect()).await? };
    let mut until: BTreeMap<i64, Timestamp> = BTreeMap::new();
    for (lane, time) in waits() {
        let key = match lane {
            ScopedLane::Key(key) => Some(*key),
            ScopedLane::Name(name) => named.get(name).copied(),
        };
        let Some(key) = key else { continue };
        let latest = until.entry(key.0).or_insert(time);
        *latest = (*latest).max(time);
    }
    let rows: Vec<_> = until.into_iter().map(|(key, until)| row![key, until]).collect();
    tx.execute_rows(&LANE_WAITS, &rows).await.map(drop)
}

/// Sends an address no more messages from now on; false if that was so before.
pub(crate) async fn suppress(
    tx: &mut Tx<'_>,
    channel: &str,
    address: &str,
    reason: &str,
    now: Timestamp,
) -> Result<bool> {
    Ok(tx.execute_rows(&SUPPRESS, &[row![channel, address, reason, now]]).await? == 1)
}

/// Moves every wait that is not over to an earlier time, after the clock was set back; what was accepted later than it
/// is now, is due now.
pub(crate) struct ShiftWaits {
    pub(crate) by: Duration,
    pub(crate) now: Timestamp,
    pub(crate) tenure: Tenure,
}

impl Op for ShiftWaits {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        fence(tx, &self.tenure).await?;
        let by = i64::try_from(self.by.as_micros()).unwrap_or(i64::MAX);
        tx.execute(&SHIFT_LANES, params![by, self.now]).await?;
        tx.execute(&SHIFT_CHANNELS, params![by, self.now]).await?;
        tx.execute(&DUE_TOO_LATE, params![self.now]).await.map(drop)
    }
}

/// What stands in the way of a channel as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// The channel.
    pub channel: String,
    /// Until when it is left alone. Once that has passed, one delivery may probe a suspended channel, and any may
    /// go out on another.
    pub waits_until: Timestamp,
    /// Why it is suspended, if it is.
    pub suspended: Option<String>,
}

/// Channels whose states are shown at most.
const MOST_CHANNELS: i64 = 10_000;

/// Every channel that waits or is suspended, by name.
pub(crate) struct ChannelStates;

impl Op for ChannelStates {
    type Output = Vec<ChannelState>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<ChannelState>> {
        tx.query(&LIST_STATES, params![MOST_CHANNELS], |row| {
            Ok(ChannelState { channel: row.text(0)?, waits_until: row.time(1)?, suspended: row.opt_text(2)? })
        })
        .await
    }
}

/// Lets go of some of what was held back because the channel was broken: it need not wait out the time that was set
/// then. One step of several, so that the writer is not held up by a channel that held a hundred thousand.
pub(crate) struct LetGo {
    pub(crate) channel: ChannelName,
    pub(crate) now: Timestamp,
    /// Where the step before came to.
    pub(crate) after: Key,
    /// At most so many live rows, of whatever channel, are looked at.
    pub(crate) rows: usize,
}

impl Op for LetGo {
    /// Where this step came to; none if nothing is left.
    type Output = Option<Key>;

    fn weight(&self) -> usize {
        self.rows
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Key>> {
        let rows = i64::try_from(self.rows).unwrap_or(i64::MAX);
        let last = tx.query_opt(&LAST_OF_STEP, params![self.after.0, rows], |row| row.opt_int(0)).await?;
        let Some(last) = last.flatten() else { return Ok(None) };
        let held = params![self.channel.as_str(), self.now, self.after.0, last];
        tx.execute(&DUE_AGAIN, held).await?;
        tx.execute(&DUE_TARGETS, held).await?;
        Ok(Some(Key(last)))
    }
}

/// Whether anything stands in the way of a channel.
pub(crate) struct IsHeldUp(pub(crate) ChannelName);

impl Op for IsHeldUp {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.query_opt(&FIND_STATE, params![self.0.as_str()], |_| Ok(())).await?.is_some())
    }
}

/// Lets a channel send again; false if nothing stood in its way. What its receivers asked for goes on to hold.
pub(crate) struct ReopenChannel(pub(crate) ChannelName);

impl Op for ReopenChannel {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.execute(&REOPEN, params![self.0.as_str()]).await? == 1)
    }
}
