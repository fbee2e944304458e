//! Lanes: who waits, who is left alone, and until when. Their state stands in the database, so that all nodes
//! agree on it.
//!
//! A list has two lanes: one for first attempts, one for all that follow. However many of its notifications wait for a
//! member that is dead, they share out among themselves, and a new one need not go through them.

use std::time::Duration;

use angarium_domain::disposition::Scope;
use angarium_domain::outcome::RETRY_AFTER_BOUNDS;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;

use crate::db::{Op, Tx, params, statements};
use crate::error::{Result, StoreError};
use crate::nodes::{Tenure, fence};
use crate::types::{Key, LaneKey, LaneName, ScopeChange, ScopedLane, WaitingLane};

statements! {
    INSERT_LANE = "INSERT INTO lanes (channel, receiver, waits_until) VALUES ($1, $2, 0) ON CONFLICT (channel, receiver) DO NOTHING";

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

    LANE_WAITS = "UPDATE lanes SET waits_until = $2 WHERE key = $1 AND waits_until < $2";

    CHANNEL_WAITS = "INSERT INTO channel_states (channel, waits_until, suspended) VALUES ($1, $2, $3)
        ON CONFLICT (channel) DO UPDATE SET suspended = coalesce($3, channel_states.suspended),
            waits_until = CASE WHEN channel_states.waits_until > $2 THEN channel_states.waits_until ELSE $2 END";

    /// A success while the channel was to be left alone was under way before; only one after that is a sign.
    CHANNEL_OPENS = "DELETE FROM channel_states WHERE channel = $1 AND waits_until <= $2";

    SUPPRESS = "INSERT INTO suppressions (channel, address, reason, since) VALUES ($1, $2, $3, $4)
        ON CONFLICT (channel, address) DO NOTHING";

    SHIFT_LANES = "UPDATE lanes SET waits_until = waits_until - $1 WHERE waits_until > $2";

    SHIFT_CHANNELS = "UPDATE channel_states SET waits_until = waits_until - $1 WHERE waits_until > $2";

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
    let names = params![&name.channel, &name.receiver];
    if let Some(key) = tx.query_opt(&LANE_KEY, names, |row| row.int(0)).await? {
        return Ok(LaneKey(key));
    }
    tx.execute(&INSERT_LANE, names).await?;
    let key = tx.query_opt(&LANE_KEY, names, |row| row.int(0)).await?;
    key.map(LaneKey).ok_or_else(|| StoreError::Statement("a lane was lost".into()))
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

/// Applies what a settlement changes beyond its own row.
pub(crate) async fn apply(tx: &mut Tx<'_>, change: &ScopeChange, now: Timestamp) -> Result<()> {
    let channel = change.channel.as_ref().map_or("", |channel| channel.as_str());
    let reason = change.reason.as_str();
    match change.scope {
        Scope::Unchanged | Scope::SlowLane => {}
        Scope::Healthy => {
            tx.execute(&CHANNEL_OPENS, params![channel, now]).await?;
        }
        Scope::LaneWaits(until) => {
            let lane = match &change.lane {
                ScopedLane::Key(lane) => *lane,
                ScopedLane::Name(name) => ensure(tx, name).await?,
            };
            tx.execute(&LANE_WAITS, params![lane.0, until]).await?;
        }
        Scope::ChannelWaits(until) => {
            tx.execute(&CHANNEL_WAITS, params![channel, until, None::<&str>]).await?;
        }
        Scope::SuspendChannel(until) => {
            tx.execute(&CHANNEL_WAITS, params![channel, until, reason]).await?;
        }
        Scope::SuppressAddress => {
            if let Some(address) = &change.address {
                suppress(tx, channel, address, reason, now).await?;
            }
        }
    }
    Ok(())
}

/// Sends an address no more messages from now on; false if that was so before.
pub(crate) async fn suppress(
    tx: &mut Tx<'_>,
    channel: &str,
    address: &str,
    reason: &str,
    now: Timestamp,
) -> Result<bool> {
    Ok(tx.execute(&SUPPRESS, params![channel, address, reason, now]).await? == 1)
}

/// Moves every wait that is not over to an earlier time, after the wall clock was set back.
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
        tx.execute(&SHIFT_CHANNELS, params![by, self.now]).await.map(drop)
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
