//! A node is stopped for longer than its leases (a virtual machine that is moved, a disk that hangs) and does not know
//! it when it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use angarium_receivers::http::{Gate, Receiver, Reply};
use angarium_testbed::postgres::Fresh;
use http::Method;
use serde_json::Value;

use super::lock::Lock;
use super::{BRIEF, SHORT, fresh, pair, until};
use crate::support::{Installation, id_of, to, to_with_id, within};

/// When a node that was stopped goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoesOn {
    /// Its leases are not to be trusted any more, but nobody has taken over yet.
    AtTheEndOfItsLease,
    /// The other node is about to do the same.
    WhileAnotherTakesOver,
    /// The other node has done it.
    WhenAllIsDone,
}

use GoesOn::{AtTheEndOfItsLease, WhenAllIsDone, WhileAnotherTakesOver};

const MOMENTS: [GoesOn; 3] = [AtTheEndOfItsLease, WhileAnotherTakesOver, WhenAllIsDone];

/// Notifications in each round.
const EACH: usize = 3;

/// Two nodes, and what one of them has in hand while it is stopped.
struct Round {
    database: Arc<Fresh>,
    receiver: Receiver,
    nodes: [Installation; 2],
    names: Vec<String>,
}

impl Round {
    async fn begin() -> Self {
        let (database, on) = fresh();
        let receiver = Receiver::start().await.unwrap();
        let nodes = pair(&on, SHORT, BRIEF).await;
        let names = (0..EACH).map(|n| format!("alarm {n}")).collect();
        Round { database, receiver, nodes, names }
    }

    /// Lets the connections of both nodes look at a notification once. From then on, when it waits for a lock, the database
    /// has the whole question, and needs nothing more from a node to answer it.
    async fn prepare(&self) {
        const AT_ONCE: usize = 16;
        let lock = Lock::take(&self.database, "suppressions");
        let other = Receiver::start().await.unwrap();
        for node in &self.nodes {
            node.hand_in_all((0..AT_ONCE).map(|n| to(&other.url("/hook"), &format!("{n}"))).collect()).await;
        }
        until(|| lock.waiting(&self.database) >= 10).await;
        lock.release();
        self.nodes[0].drained().await;
    }

    async fn hand_in(&self) {
        let to_hook = |name: &String| to_with_id(&self.receiver.url("/hook"), name);
        self.nodes[0].hand_in_all(self.names.iter().map(to_hook).collect()).await;
    }

    /// Stops the node that has the first notification in hand. That node and the other, and how many it holds.
    fn stop(&self) -> (&Installation, &Installation, usize) {
        let id = id_of(&self.names[0]);
        let holder =
            self.database.sql(&format!("SELECT lease_node FROM angarium.notifications WHERE id = '{id}'"));
        let [a, b] = &self.nodes;
        let (stopped, other) = if holder == "a" { (a, b) } else { (b, a) };
        stopped.signal("STOP");
        let held = format!("SELECT count(*) FROM angarium.notifications WHERE lease_node = '{holder}'");
        (stopped, other, self.database.sql(&held).parse().unwrap())
    }

    /// Waits for that moment.
    async fn comes(&self, moment: GoesOn, other: &Installation) {
        const TRUSTED: &str = "SELECT count(*) FROM angarium.notifications
            WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000000 + 500000";
        const NOT_TAKEN_OVER: &str =
            "SELECT count(*) FROM angarium.notifications WHERE generation < 2048 AND due_at IS NOT NULL";
        match moment {
            AtTheEndOfItsLease => until(|| self.database.sql(TRUSTED) == "0").await,
            WhileAnotherTakesOver => until(|| self.database.sql(NOT_TAKEN_OVER) == "0").await,
            WhenAllIsDone => other.drained().await,
        }
    }

    /// The attempts at a notification, if its history can be true: whatever came after it was delivered changed nothing.
    async fn history(&self, name: &str, node: &Installation) -> Vec<Value> {
        let id = id_of(name);
        let row = node.until(&id, "delivered").await;
        let told = async |of: &str| {
            let answer = node.get(&format!("/v1/notifications/{id}/{of}")).await;
            answer["items"].as_array().unwrap().clone()
        };
        // An outcome that comes in late may fall between two questions.
        let mut attempts = told("attempts").await;
        let trail = loop {
            let trail = told("audit").await;
            let again = told("attempts").await;
            if again == attempts {
                break trail;
            }
            attempts = again;
        };
        let said = format!("{row}\n{attempts:?}\n{trail:?}");
        let numbers: Vec<u64> = attempts.iter().map(|one| one["number"].as_u64().unwrap()).collect();
        assert!(numbers.iter().copied().eq(1..=attempts.len() as u64), "{said}");
        let is_late = |one: &Value| one["late"] == true;
        let ended: Vec<&Value> =
            attempts.iter().filter(|one| one["result"] == "delivered" && !is_late(one)).collect();
        assert_eq!(ended.len(), 1, "{said}");
        let after = attempts.iter().skip_while(|one| *one != ended[0]).skip(1);
        assert!(after.clone().all(is_late), "{said}");
        let ends: Vec<&Value> = trail.iter().filter(|entry| entry["kind"] == "terminal").collect();
        assert_eq!(ends.len(), 1, "{said}");
        assert_eq!(ends[0]["detail"]["status"], "delivered", "{said}");
        let told = trail.iter().filter(|entry| entry["kind"] == "attempt").count();
        assert_eq!(told, attempts.len(), "{said}");
        attempts
    }

    fn receipts(&self) -> BTreeMap<String, usize> {
        self.receiver.effects_by_id("/hook")
    }
}

/// Lets a node go on and waits until it answers; what connections it had are too old by now.
async fn goes_on(node: &Installation) {
    node.signal("CONT");
    within(async { while node.try_call(Method::GET, "/healthz", None).await.is_err() {} }).await;
}

/// OB-24, P3: stopped after it claimed and before it sends: whatever the other node does meanwhile, each notification goes
/// out once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_stopped_before_it_sends() {
    let [one, two, three] = MOMENTS.map(stopped_before_it_sends);
    tokio::join!(one, two, three);
}

async fn stopped_before_it_sends(moment: GoesOn) {
    let round = Round::begin().await;
    round.prepare().await;
    let lock = Lock::take(&round.database, "suppressions");
    round.hand_in().await;
    until(|| round.database.sql(LEASED) == EACH.to_string() && lock.waiting(&round.database) == EACH).await;
    let (stopped, other, held) = round.stop();
    assert!(held >= 1);
    lock.release();
    round.comes(moment, other).await;
    goes_on(stopped).await;
    other.drained().await;
    if moment != AtTheEndOfItsLease {
        stopped.logs("a claim was dropped before anything was sent", held).await;
    }
    for name in &round.names {
        round.history(name, other).await;
    }
    let expected = round.names.iter().map(|name| (id_of(name), 1)).collect();
    assert_eq!(round.receipts(), expected, "{moment:?}");
}

const LEASED: &str = "SELECT count(*) FROM angarium.notifications WHERE lease_until IS NOT NULL";

/// OB-24, P3: stopped while the receiver has the request and has not answered: it is sent a second time at most, and what
/// becomes of the first changes nothing that the second has brought about.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_stopped_while_it_sends() {
    let [one, two, three] = MOMENTS.map(|moment| stopped_with_requests_out(moment, false));
    tokio::join!(one, two, three);
}

/// OB-24, P3: the same, and the answer is there when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_stopped_before_it_reads_the_answer() {
    let [one, two, three] = MOMENTS.map(|moment| stopped_with_requests_out(moment, true));
    tokio::join!(one, two, three);
}

async fn stopped_with_requests_out(moment: GoesOn, answered_meanwhile: bool) {
    const LATE_ONES: &str = "SELECT count(*) FROM angarium.attempts WHERE late = 1";
    let round = Round::begin().await;
    let gate = Gate::closed();
    let first = (0..EACH).map(|_| Reply::ok().gate(&gate));
    round.receiver.script("/hook", first.chain([Reply::ok()]));
    round.hand_in().await;
    round.receiver.wait_for("/hook", EACH).await;
    let (stopped, other, held) = round.stop();
    if answered_meanwhile {
        gate.open();
    }
    round.comes(moment, other).await;
    goes_on(stopped).await;
    gate.open();
    other.drained().await;
    if moment == WhenAllIsDone {
        until(|| round.database.sql(LATE_ONES) == held.to_string()).await;
    }
    for name in &round.names {
        round.history(name, other).await;
    }
    let receipts = round.receipts();
    assert_eq!(receipts.len(), EACH);
    assert!(receipts.values().all(|times| *times <= 2), "{moment:?}: {receipts:?}");
}

/// P8: the node that leads is stopped until another does. It does not lead when it goes on, and at no time do two.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_that_leads_is_stopped() {
    let (database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    let leader = a.leader().await;
    let (stopped, other) = if leader == "a" { (&a, &b) } else { (&b, &a) };
    stopped.signal("STOP");
    until(|| database.sql("SELECT epoch FROM angarium.jobs") == "2").await;
    goes_on(stopped).await;
    stopped.logs("another node does the work that one does for all by now", 1).await;
    assert_ne!(other.leader().await, leader);
    assert_eq!(database.sql("SELECT epoch FROM angarium.jobs"), "2");
}
