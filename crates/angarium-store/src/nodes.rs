//! The processes that use one database, and the work that one of them does for all.
//!
//! A node signs in when it starts and gives a sign of life from then on. Nothing depends on who is listed: claims end by
//! time, whoever made them. Jobs that must not run twice at once are held by a lease with an epoch; whatever is done
//! under it is guarded by [`fence`] in the same transaction, so that a node that was paused for longer than its
//! lease changes nothing any more.

use std::time::Duration;

use angarium_domain::time::Timestamp;

use crate::Store;
use crate::db::{Op, Row, Tx, params, statements};
use crate::error::{Result, StoreError};

/// A node that gave no sign of life for so long is lost, as far as anybody can tell.
pub const NODE_LOST_AFTER: Duration = Duration::from_secs(30);

/// A lost node's row is kept for so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A lost node's row is kept at least for so long.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);

/// How far ahead of ours another node's reading of the one clock may be.
const SIGNS_AHEAD: Duration = Duration::from_secs(1);

/// Nodes that can be told apart at once: as many as a key has room for.
pub(crate) const SLOTS: i64 = 1 << crate::key::KEY_SLOT_BITS;

statements! {
    FORGET = "DELETE FROM nodes WHERE seen_at < $1";

    FORGET_ALL = "DELETE FROM nodes";

    END_ALL_TENURES = "UPDATE jobs SET until = 0";

    TAKEN_SLOTS = "SELECT slot FROM nodes ORDER BY slot";

    SIGN_IN = "INSERT INTO nodes (slot, name, version, address, started_at, seen_at, skew) VALUES ($1, $2, $3, $4, $5, $5, 0)
        ON CONFLICT (slot) DO NOTHING RETURNING instance";

    ALIVE = "UPDATE nodes SET seen_at = $2, skew = $3 WHERE instance = $1";

    ANOTHER_IN_STEP = "SELECT 1 FROM nodes WHERE instance <> $1 AND seen_at BETWEEN $2 AND $4 AND skew <= $3 LIMIT 1";

    SIGN_OUT = "DELETE FROM nodes WHERE instance = $1";

    LIST = "SELECT n.instance, n.name, n.version, n.address, n.started_at, n.seen_at,
            EXISTS (SELECT 1 FROM jobs j WHERE j.holder = n.instance AND j.until > $1)
        FROM nodes n ORDER BY n.name, n.instance";

    TAKE_JOB = "INSERT INTO jobs (name, holder, epoch, until) VALUES ($1, $2, 1, $4)
        ON CONFLICT (name) DO UPDATE SET holder = $2, epoch = jobs.epoch + 1, until = $4
        WHERE jobs.until <= $3 OR jobs.until > $5 RETURNING epoch";

    KEEP_JOB = "UPDATE jobs SET until = $4 WHERE name = $1 AND holder = $2 AND epoch = $3";

    RESIGN = "UPDATE jobs SET until = 0 WHERE name = $1 AND holder = $2 AND epoch = $3";

    FENCE = "SELECT 1 FROM jobs n WHERE n.name = $1 AND n.holder = $2 AND n.epoch = $3 {lock found}";
}

impl Store {
    pub(crate) fn seat(&self) -> Seat {
        self.keys.seat()
    }

    /// Signs this process in among the nodes that use the database. Until then it claims as nobody.
    pub async fn sign_in(&self, node: NewNode, now: Timestamp) -> Result<Seat> {
        let alone = !self.is_shared();
        let seat = self.db.write_for_dispatch(SignIn { node, alone, now }).await?;
        self.keys.sit(seat);
        Ok(seat)
    }

    /// Gives a sign of life of this node, whose own clock is `skew` from the database's, either way. Clocks that are no
    /// further apart than `in_step` agree.
    pub async fn alive(&self, now: Timestamp, skew: Duration, in_step: Duration) -> Result<SignOfLife> {
        let instance = self.seat().instance;
        self.db.write_for_dispatch(Alive { instance, now, skew, in_step }).await
    }

    /// Strikes this node off the list.
    pub async fn sign_out(&self) -> Result<()> {
        self.db.write_for_dispatch(SignOut { instance: self.seat().instance }).await
    }

    /// Every node that uses the database, or did within the last day without signing out, by name.
    pub async fn nodes(&self, now: Timestamp) -> Result<Vec<NodeView>> {
        self.db.read(ListNodes { now }).await
    }

    /// Takes a job that one node does for all, if nobody holds it at `now`.
    pub async fn take_job(
        &self,
        job: &'static str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Tenure>> {
        self.db.write_for_dispatch(TakeJob { job, holder: self.seat().instance, now, until }).await
    }

    /// Keeps a job for longer; false if another node has it by now.
    pub async fn keep_job(&self, tenure: &Tenure, until: Timestamp) -> Result<bool> {
        self.db.write_for_dispatch(KeepJob { tenure: tenure.clone(), until }).await
    }

    /// Gives a job up, unless another node has it by now.
    pub async fn resign(&self, tenure: &Tenure) -> Result<()> {
        self.db.write_for_dispatch(Resign { tenure: tenure.clone() }).await
    }

    /// There may be work for other nodes.
    pub(crate) fn hint(&self) {
        if let Some(db) = self.db.shared() {
            db.hint();
        }
    }

    /// Gives hints to other nodes and calls `on_hint` for each of theirs, for ever. Where there are no others, or hints
    /// are switched off, it only never returns.
    pub async fn exchange_hints(&self, on_hint: impl Fn() + Send + Sync + 'static) {
        match self.db.shared() {
            Some(db) => db.exchange_hints(&self.seat().instance.to_string(), on_hint).await,
            None => std::future::pending().await,
        }
    }
}

/// A process that signs in.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// What attempts call it. Names may repeat.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Where it listens.
    pub address: String,
}

/// A node's place among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// One for each start of each process.
    pub instance: i64,
    /// The low bits of the keys it gives out.
    pub(crate) slot: i64,
}

/// A node, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// One for each start of each process.
    pub instance: i64,
    /// What attempts call it.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Where it listens.
    pub address: String,
    /// When it signed in.
    pub started_at: Timestamp,
    /// Its last sign of life.
    pub seen_at: Timestamp,
    /// Whether it does the work that one node does for all.
    pub leads: bool,
}

/// Signs a node in.
pub(crate) struct SignIn {
    pub(crate) node: NewNode,
    /// Nobody else can be using the database: whoever is listed has ended.
    pub(crate) alone: bool,
    pub(crate) now: Timestamp,
}

impl Op for SignIn {
    type Output = Seat;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Seat> {
        if self.alone {
            tx.execute(&FORGET_ALL, &[]).await?;
            tx.execute(&END_ALL_TENURES, &[]).await?;
        }
        // Where every seat is taken, those who are lost give up theirs sooner.
        for forgotten_after in [FORGOTTEN_AFTER, GIVEN_UP_AFTER] {
            tx.execute(&FORGET, params![self.now.minus(forgotten_after)]).await?;
            if let Some(seat) = self.take_seat(tx).await? {
                return Ok(seat);
            }
        }
        Err(StoreError::Refused(format!("{SLOTS} nodes use this database already")))
    }
}

impl SignIn {
    async fn take_seat(&self, tx: &mut Tx<'_>) -> Result<Option<Seat>> {
        let mut taken = tx.query(&TAKEN_SLOTS, &[], |row| row.int(0)).await?.into_iter().peekable();
        for slot in 0..SLOTS {
            if taken.next_if_eq(&slot).is_some() {
                continue;
            }
            let node = &self.node;
            let row = params![slot, &node.name, &node.version, &node.address, self.now];
            // Another may have been quicker.
            if let Some(instance) = tx.query_opt(&SIGN_IN, row, |row| row.int(0)).await? {
                return Ok(Some(Seat { instance, slot }));
            }
        }
        Ok(None)
    }
}

/// Gives a sign of life.
pub(crate) struct Alive {
    pub(crate) instance: i64,
    pub(crate) now: Timestamp,
    pub(crate) skew: Duration,
    pub(crate) in_step: Duration,
}

/// What a node learns when it gives a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    /// It is listed still; if not, it must sign in again.
    pub listed: bool,
    /// Another node lives whose clock is no further from the database's than was asked for.
    pub another_in_step: bool,
}

impl Op for Alive {
    type Output = SignOfLife;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<SignOfLife> {
        let listed = tx.execute(&ALIVE, params![self.instance, self.now, micros(self.skew)]).await? == 1;
        // One that was seen later than now was seen by another clock.
        let latest = self.now.plus(SIGNS_AHEAD);
        let alive = params![self.instance, self.now.minus(NODE_LOST_AFTER), micros(self.in_step), latest];
        let another = tx.query_opt(&ANOTHER_IN_STEP, alive, |_| Ok(())).await?;
        Ok(SignOfLife { listed, another_in_step: another.is_some() })
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Strikes a node off the list.
pub(crate) struct SignOut {
    pub(crate) instance: i64,
}

impl Op for SignOut {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute(&SIGN_OUT, params![self.instance]).await.map(drop)
    }
}

/// Every node, by name.
pub(crate) struct ListNodes {
    pub(crate) now: Timestamp,
}

impl Op for ListNodes {
    type Output = Vec<NodeView>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<NodeView>> {
        let node = |row: &Row<'_>| {
            Ok(NodeView {
                instance: row.int(0)?,
                name: row.text(1)?,
                version: row.text(2)?,
                address: row.text(3)?,
                started_at: row.time(4)?,
                seen_at: row.time(5)?,
                leads: row.flag(6)?,
            })
        };
        tx.query(&LIST, params![self.now], node).await
    }
}

/// A job that a node holds, under an epoch that nobody else has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub(crate) job: &'static str,
    pub(crate) holder: i64,
    pub(crate) epoch: i64,
}

/// The longest that a job may be held without being kept: an end later than this was set by a clock that ran ahead.
const LONGEST_TENURE: Duration = Duration::from_secs(3600);

/// Takes a job if nobody holds it.
pub(crate) struct TakeJob {
    pub(crate) job: &'static str,
    pub(crate) holder: i64,
    pub(crate) now: Timestamp,
    pub(crate) until: Timestamp,
}

impl Op for TakeJob {
    type Output = Option<Tenure>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Tenure>> {
        let beyond_belief = self.now.plus(LONGEST_TENURE);
        let row = params![self.job, self.holder, self.now, self.until, beyond_belief];
        let epoch = tx.query_opt(&TAKE_JOB, row, |row| row.int(0)).await?;
        Ok(epoch.map(|epoch| Tenure { job: self.job, holder: self.holder, epoch }))
    }
}

/// Keeps a job for longer; false if another has it by now.
pub(crate) struct KeepJob {
    pub(crate) tenure: Tenure,
    pub(crate) until: Timestamp,
}

impl Op for KeepJob {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let Tenure { job, holder, epoch } = &self.tenure;
        Ok(tx.execute(&KEEP_JOB, params![*job, *holder, *epoch, self.until]).await? == 1)
    }
}

/// Gives a job up, unless another has it by now.
pub(crate) struct Resign {
    pub(crate) tenure: Tenure,
}

impl Op for Resign {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        let Tenure { job, holder, epoch } = &self.tenure;
        tx.execute(&RESIGN, params![*job, *holder, *epoch]).await.map(drop)
    }
}

/// Fails unless the job is still held, and sees to it that nobody takes it before this transaction ends.
pub(crate) async fn fence(tx: &mut Tx<'_>, tenure: &Tenure) -> Result<()> {
    let Tenure { job, holder, epoch } = tenure;
    match tx.query_opt(&FENCE, params![*job, *holder, *epoch], |_| Ok(())).await? {
        Some(()) => Ok(()),
        None => Err(StoreError::Statement(format!("the job {job} is another node's by now"))),
    }
}
