//! The durable store of Angarium: every notification has exactly one row here, and whatever is acknowledged
//! was committed before (OB-01, OB-02).
//!
//! There is one concrete [`Store`] and no repository trait. Each statement is written once, beside the
//! function that runs it ([`accept`], [`claim`], [`settle`], [`actions`], [`views`], …), for SQLite and PostgreSQL
//! alike; what a database needs said differently stands in [`db::dialect`]. Races are decided by guarded statements whose
//! row count is the answer. Time is a parameter of every statement.
//!
//! A SQLite file serves one process. On PostgreSQL any number of nodes work on one database ([`nodes`]).
//!
//! Deliberately absent: any decision about what follows from an outcome, and any transaction held while something
//! is sent.

mod accept;
mod acknowledged;
mod actions;
mod audit;
mod bounces;
mod claim;
mod db;
mod error;
mod events;
mod key;
mod keys;
mod kpi;
mod lanes;
mod nodes;
mod routes;
mod settle;
mod types;
mod views;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::text::{Actor, ChannelName};
use angarium_domain::time::Timestamp;

pub use bounces::{BounceOutcome, BounceReport};
pub use claim::Renewed;
pub use db::{Database, DatabaseStatus, Migrated, Options, PostgresUrl, Pulse, Standby};
use db::{Db, Joined, Op, Postgres, Sqlite, Tx, params, statements};
pub use error::{Result, StoreError};
pub use events::types::*;
pub use keys::Revoked;
pub use lanes::ChannelState;
pub use nodes::{NODE_LOST_AFTER, NewNode, NodeView, Seat, SignOfLife, Tenure};
pub use routes::types::*;
pub use types::*;

/// Bytes of notifications that may wait to be written, over all producers.
const WAITING_BYTES: usize = 256 * 1024 * 1024;

/// Lanes whose keys are remembered; beyond this they are looked up again.
const REMEMBERED_LANES: usize = 100_000;

/// Rows that are looked at in one step of reopening a channel.
const ROWS_LET_GO: usize = 5_000;

statements! {
    NEWEST_KEY = "SELECT max(newest.key) FROM
        (SELECT max(key) AS key FROM notifications UNION ALL SELECT max(key) FROM events
            UNION ALL SELECT max(key) FROM contents) newest";

    TOUCH = "INSERT INTO meta (name, value) VALUES ($2, $1) ON CONFLICT (name) DO UPDATE SET value = $1";
}

/// The database, open.
pub struct Store {
    db: Arc<Db>,
    accepting: Joined<accept::Accept>,
    keys: Arc<key::Keys>,
    routes: Arc<routes::known::Known>,
    plans: Arc<events::steps::Plans>,
    acknowledged: acknowledged::Acknowledged,
    room: tokio::sync::Semaphore,
    /// The last notification could not be stored.
    refused: AtomicBool,
    lanes: Mutex<HashMap<LaneName, accept::KnownLane>>,
}

/// The key of the newest row, so that keys go on rising after a restart whatever the clock says.
struct NewestKey;

impl Op for NewestKey {
    type Output = i64;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<i64> {
        Ok(tx.query_opt(&NEWEST_KEY, &[], |row| row.opt_int(0)).await?.flatten().unwrap_or(0))
    }
}

/// A write of so many bytes, over the same ones each time, and apart from those of other nodes.
struct Ping {
    bytes: usize,
    slot: i64,
}

/// As much room as an ordinary notification needs, so that a ping fails when they would.
const ORDINARY_BYTES: usize = 64 * 1024;

impl Op for Ping {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        let name = format!("ping:{}", self.slot);
        tx.execute(&TOUCH, params!["x".repeat(self.bytes).as_str(), name.as_str()]).await.map(drop)
    }
}

impl Store {
    /// Opens the database and brings its schema up to date. A SQLite file is taken for this process alone.
    pub async fn open(options: &Options) -> Result<Store> {
        let db = Arc::new(Db::open(options).await?);
        let newest = db.read(NewestKey).await?;
        Ok(Store {
            accepting: Joined::over(&db),
            db,
            refused: AtomicBool::new(false),
            keys: Arc::new(key::Keys::after(newest)),
            routes: Arc::default(),
            plans: Arc::default(),
            acknowledged: acknowledged::Acknowledged::default(),
            room: tokio::sync::Semaphore::new(WAITING_BYTES),
            lanes: Mutex::new(HashMap::new()),
        })
    }

    /// What can be told of a database without opening it: nothing is changed.
    pub async fn status(options: &Options) -> Result<DatabaseStatus> {
        match &options.database {
            Database::Sqlite(path) => Sqlite::status(path),
            Database::Postgres(url) => Postgres::status(url).await,
        }
    }

    /// Brings the schema of a database up to date, and does nothing else.
    pub async fn migrate(options: &Options) -> Result<Migrated> {
        match &options.database {
            Database::Sqlite(path) => Sqlite::migrate(path),
            Database::Postgres(url) => Postgres::migrate(url).await,
        }
    }

    /// Whether other processes may use the database at the same time.
    pub fn is_shared(&self) -> bool {
        self.db.shared().is_some()
    }

    /// Finishes what is queued and closes the database.
    pub fn close(self) {
        drop(self.accepting);
        if let Ok(db) = Arc::try_unwrap(self.db) {
            db.close();
        }
    }

    /// Whether the process before this one closed the database; if not, it died, or the power went, and
    /// [`Self::quick_check`] is worth its time.
    pub fn closed_before(&self) -> bool {
        self.db.closed_before()
    }

    /// Returns if the store can no longer write, ever; it must not happen while it is open.
    pub async fn ended(&self) {
        self.db.ended().await;
    }

    /// Looks through the whole file for damage, apart from all other work.
    pub async fn quick_check(&self) -> Result<()> {
        self.db.quick_check().await
    }

    /// Stores notifications, each on its own, in one durable commit, and says in order what became of them.
    /// When this returns, what is `Accepted` survives a power cut.
    pub async fn accept(&self, items: Vec<NewNotification>, now: Timestamp) -> Result<Vec<Acceptance>> {
        let room = self.room_for(items.iter().map(NewNotification::text_bytes).sum(), items.len())?;
        let items: Vec<accept::New> = {
            let lanes = self.remembered();
            let new = |notification| accept::New {
                key: self.keys.next(now),
                lane: lanes.get(&accept::lane_of(&notification)).copied(),
                notification,
                now,
            };
            items.into_iter().map(new).collect()
        };
        let names: Vec<LaneName> = items.iter().map(|item| accept::lane_of(&item.notification)).collect();
        let accepted = self.accepting.write(&self.db, accept::Accept { items }).await;
        drop(room);
        self.refused.store(accepted.is_err(), Ordering::Relaxed);
        let accepted = accepted?;
        self.remember(
            names.into_iter().zip(&accepted).filter_map(|(name, (_, lane))| Some((name, (*lane)?))),
        );
        let results: Vec<Acceptance> = accepted.into_iter().map(|(acceptance, _)| acceptance).collect();
        if let Some(db) = self.db.shared() {
            self.acknowledged.note(&results);
            db.hint();
        }
        Ok(results)
    }

    fn remember(&self, looked_up: impl Iterator<Item = (LaneName, accept::KnownLane)>) {
        let mut lanes = self.remembered();
        if lanes.len() > REMEMBERED_LANES {
            lanes.clear();
        }
        lanes.extend(looked_up);
    }

    /// Room in memory for what waits to be written; turned away when there is none.
    fn room_for(&self, text_bytes: usize, items: usize) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let bytes = text_bytes + items * 256;
        let bytes = u32::try_from(bytes.min(WAITING_BYTES)).unwrap_or(u32::MAX);
        self.room.try_acquire_many(bytes).map_err(|_| StoreError::Overloaded)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<LaneName, accept::KnownLane>> {
        self.lanes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Lanes that have rows waiting at `now`, with the time of their first row.
    pub async fn waiting_lanes(&self, now: Timestamp) -> Result<Vec<WaitingLane>> {
        self.db.read_for_dispatch(lanes::WaitingLanes { now }).await
    }

    /// Claims due rows, at most so many from each lane as its quota says. Durable when this returns.
    pub async fn claim(
        &self,
        quotas: Vec<Quota>,
        node: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Claim>> {
        let (node, seat) = (node.to_owned(), self.keys.seat());
        self.db.write_for_dispatch(claim::TakeDue { quotas, node, seat, now, lease }).await
    }

    /// What [`Self::claim`], asked at `now`, gave to this node, by key and generation: for when its answer was lost.
    pub async fn claimed_at(&self, now: Timestamp) -> Result<Vec<(Key, i64)>> {
        let instance = self.keys.seat().instance;
        self.db.read_for_dispatch(claim::FindLeasedBy { instance, claimed_at: now }).await
    }

    /// What is to be sent under this claim at `now`; none if the claim no longer stands.
    pub async fn load(&self, claim: &Claim, now: Timestamp) -> Result<Option<Payload>> {
        self.db.read_for_dispatch(claim::Load { key: claim.key, generation: claim.generation, now }).await
    }

    /// Writes down the members of the claim's list, and the channel that the list has now. Says whether the
    /// claim still stood.
    pub async fn resolve(
        &self,
        claim: &Claim,
        kind: ChannelKind,
        channel: &ChannelName,
        members: Vec<Address>,
        now: Timestamp,
    ) -> Result<bool> {
        let (key, generation) = (claim.key, claim.generation);
        let list = claim.list.as_deref().unwrap_or_default();
        let lane = LaneName::of_tried_list(channel.as_str(), list);
        self.db
            .write_for_dispatch(claim::Resolve { key, generation, kind: kind.as_str(), lane, members, now })
            .await
    }

    /// Whether the claim still stands: not settled, not cancelled, not taken back.
    pub async fn stands(&self, claim: &Claim) -> Result<bool> {
        self.db.read_for_dispatch(claim::Stands { key: claim.key, generation: claim.generation }).await
    }

    /// Commits that the first byte is about to leave. Says whether the claim still stood.
    pub async fn mark_on_wire(&self, claim: &Claim, now: Timestamp) -> Result<bool> {
        self.db
            .write_for_dispatch(claim::MarkOnWire { key: claim.key, generation: claim.generation, now })
            .await
    }

    /// Extends the leases of these claims, by key and generation, until `until`.
    pub async fn renew(&self, held: Vec<(Key, i64)>, until: Timestamp) -> Result<Renewed> {
        self.db.write_for_dispatch(claim::Renew { held, until }).await
    }

    /// Gives back a claim of which nothing was sent; it is due no sooner than `not_before`.
    pub async fn release(&self, claim: &Claim, not_before: Timestamp) -> Result<()> {
        self.release_all(vec![(claim.key, claim.generation)], not_before).await
    }

    /// Gives back claims, by key and generation, of which nothing was sent.
    pub async fn release_all(&self, held: Vec<(Key, i64)>, not_before: Timestamp) -> Result<()> {
        self.db.write_for_dispatch(claim::Release { held, not_before }).await
    }

    /// Up to 256 leases that ended by `ended_by` without a result.
    pub async fn abandoned(&self, ended_by: Timestamp) -> Result<Vec<Abandoned>> {
        self.db.read_for_dispatch(claim::FindAbandoned { ended_by, limit: 256 }).await
    }

    /// Writes results and the states that follow, each guarded by its generation. Durable when this returns.
    pub async fn settle(&self, items: Vec<Settlement>) -> Result<Vec<Settled>> {
        self.db.write_for_dispatch(settle::Settle { items }).await
    }

    /// Writes how some addresses of a list fared that were sent to. Returns the ordinals of those that have the message by
    /// now although this result says otherwise: another attempt's success came in late.
    pub async fn settle_targets(&self, claim: &Claim, results: Vec<TargetResult>) -> Result<Vec<i64>> {
        let (key, generation, tried) = (claim.key, claim.generation, true);
        self.db.write_for_dispatch(settle::SettleTargets { key, generation, results, tried }).await
    }

    /// Writes what became of some addresses of a list without a try; returns the same.
    pub async fn settle_untried(&self, claim: &Claim, results: Vec<TargetResult>) -> Result<Vec<i64>> {
        let (key, generation, tried) = (claim.key, claim.generation, false);
        self.db.write_for_dispatch(settle::SettleTargets { key, generation, results, tried }).await
    }

    /// Does what an operator asks, and records it, in one commit.
    pub async fn act(&self, request: ActionRequest, now: Timestamp) -> Result<ActionOutcome> {
        let outcome = self.db.write(actions::Act { request, now }).await;
        self.hint();
        outcome
    }

    /// Writes down what a mail server reports about a notification, and suppresses addresses that will never take
    /// messages, in one commit. `actor` is who hands the report in.
    pub async fn record_bounces(
        &self,
        report: BounceReport,
        actor: Actor,
        now: Timestamp,
    ) -> Result<BounceOutcome> {
        self.db.write(bounces::RecordBounces { report, actor, now }).await
    }

    /// One notification, if there is one with this id.
    pub async fn get(&self, id: NotificationId) -> Result<Option<View>> {
        self.db.read(views::Get { id }).await
    }

    /// Up to `limit` notifications that match, the newest first; fewer if their texts are long.
    pub async fn list(&self, filter: Filter, limit: usize) -> Result<Listing> {
        self.db.read(views::List { filter, limit }).await
    }

    /// Up to `limit` attempts of a notification with numbers above `after`, in order; none if there is no such
    /// notification.
    pub async fn attempts(
        &self,
        id: NotificationId,
        after: i64,
        limit: usize,
    ) -> Result<Option<Vec<AttemptView>>> {
        self.db.read(views::Attempts { id, after, limit }).await
    }

    /// The trail of a notification, in order: its newest 10,000 entries. It outlives the notification.
    pub async fn audit(&self, id: NotificationId) -> Result<Vec<AuditView>> {
        self.db.read(audit::Trail { id }).await
    }

    /// Writes audit entries that could not be written before; says for how many rows.
    pub async fn reemit_audit(&self, tenure: &Tenure) -> Result<usize> {
        self.db.write_for_dispatch(audit::Reemit { limit: 64, tenure: tenure.clone() }).await
    }

    /// Audit entries that could not be written when their facts were, since the process started.
    pub fn failed_audit_writes(&self) -> u64 {
        audit::FAILED_WRITES.load(Ordering::Relaxed)
    }

    /// The figures of one moment. `stuck_after` is the age from which a waiting row is stuck, `interval` how
    /// far back deliveries count.
    pub async fn kpis(&self, now: Timestamp, stuck_after: Duration, interval: Duration) -> Result<Kpis> {
        let count = kpi::Count { stuck_before: now.minus(stuck_after), delivered_since: now.minus(interval) };
        self.db.read(count).await
    }

    /// Says whether the database takes notifications: its file is where it was, and since the last one that
    /// could not be stored, there is room again.
    pub async fn ping(&self) -> Result<()> {
        if !self.db.is_in_place() {
            return Err(StoreError::Unavailable("its file is gone or was replaced".into()));
        }
        let bytes = if self.refused.load(Ordering::Relaxed) { ORDINARY_BYTES } else { 1 };
        self.db.write_for_ingest(Ping { bytes, slot: self.keys.seat().slot }).await?;
        self.refused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Every channel that waits or is suspended, by name. A wait may have passed.
    pub async fn channel_states(&self) -> Result<Vec<ChannelState>> {
        self.db.read(lanes::ChannelStates).await
    }

    /// The wall clock was set back by this much, and reads `now`: waits of receivers and channels that are not over
    /// end so much earlier, as they would have.
    pub async fn shift_waits(&self, by: Duration, now: Timestamp, tenure: &Tenure) -> Result<()> {
        self.db.write_for_dispatch(lanes::ShiftWaits { by, now, tenure: tenure.clone() }).await
    }

    /// Lets a channel send again at once, with what was held back while it was broken; false if it was neither
    /// suspended nor waiting. The waits of single receivers on it stay. Done in steps, the channel itself last: if one
    /// fails, the channel is as it was, and asking again goes on.
    pub async fn reopen_channel(&self, channel: &ChannelName, now: Timestamp) -> Result<bool> {
        if !self.db.read(lanes::IsHeldUp(channel.clone())).await? {
            return Ok(false);
        }
        let mut after = Key(0);
        let step = |after| lanes::LetGo { channel: channel.clone(), now, after, rows: ROWS_LET_GO };
        while let Some(last) = self.db.write(step(after)).await? {
            after = last;
        }
        let reopened = self.db.write(lanes::ReopenChannel(channel.clone())).await;
        self.hint();
        reopened
    }

    /// Stores a key; false if its name is taken.
    pub async fn add_key(&self, key: ApiKey) -> Result<bool> {
        self.db.write(keys::AddKey(key)).await
    }

    /// Stores a key in the place of the one with the same name or id; false if it could not be.
    pub async fn replace_key(&self, key: ApiKey) -> Result<bool> {
        self.db.write(keys::ReplaceKey(key)).await
    }

    /// The key with this id, ended or not.
    pub async fn find_key(&self, id: &str) -> Result<Option<ApiKey>> {
        self.db.read_for_ingest(keys::FindKey(id.to_owned())).await
    }

    /// Every key, by name.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>> {
        self.db.read(keys::ListKeys).await
    }

    /// Ends a key, unless it is the last whose scopes hold the word `admin`.
    pub async fn revoke_key(&self, id: &str, admin: &'static str, now: Timestamp) -> Result<Revoked> {
        self.db.write(keys::RevokeKey { id: id.to_owned(), admin, now }).await
    }

    /// Up to `limit` suppressed addresses after this channel and address, in order; from the first if none is given.
    pub async fn list_suppressions(
        &self,
        after: Option<(String, String)>,
        limit: usize,
    ) -> Result<Vec<Suppression>> {
        self.db.read(keys::ListSuppressions { after: after.unwrap_or_default(), limit }).await
    }

    /// Lets an address have messages again; false if it was not suppressed.
    pub async fn lift_suppression(&self, channel: &str, address: &str) -> Result<bool> {
        self.db.write(keys::LiftSuppression(channel.to_owned(), address.to_owned())).await
    }
}
