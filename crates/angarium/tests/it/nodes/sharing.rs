//! Nodes that are all well.

use std::collections::BTreeSet;

use angarium_receivers::http::{Receiver, Reply};
use serde_json::json;

use super::{TELL, assert_delivered, configuration, fresh, node, pair, tell};
use crate::support::{id_of, to, to_with_id, within};

/// OB-24: two nodes on one database take turns at two thousand notifications: each goes out once.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_the_work() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let nodes = pair(&on, "", "max_parallel = 64\nmax_parallel_per_receiver = 32\n").await;
    let names: Vec<String> = (0..2000).map(|n| format!("alarm {n}")).collect();
    for (turn, batch) in names.chunks(100).enumerate() {
        let batch = batch.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect();
        nodes[turn % 2].hand_in_all(batch).await;
    }
    nodes[0].drained().await;
    let ids: Vec<String> = names.iter().map(|name| id_of(name)).collect();
    let rows = database.sql(TELL);
    assert_eq!(assert_delivered(&rows, &receiver, "/hook", &ids), 0);
    let told = tell(&rows);
    assert_eq!((told.len(), receiver.requests().len()), (2000, 2000));
    assert!(told.values().all(|one| one.attempts == 1));
    let senders: BTreeSet<&str> = told.values().flat_map(|one| &one.nodes).map(String::as_str).collect();
    assert_eq!(senders, BTreeSet::from(["a", "b"]), "both took part");
}

/// OB-24, C064: three nodes start together on a hundred due notifications: each is sent once, and one node does what is to
/// be done once. When that one leaves, another does.
#[tokio::test(flavor = "multi_thread")]
async fn c064_three_nodes_start_together() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let mut first = node("first", &on, "", "").await;
    first.hand_in(&to_with_id(&receiver.url("/hook"), "first")).await;
    first.until(&id_of("first"), "delivered").await;
    assert_eq!(first.leader().await, "first");
    let later = "(SELECT max(seen_at) FROM angarium.nodes) + 3600000000";
    database.sql(&format!("UPDATE angarium.lanes SET waits_until = {later}"));
    let names: Vec<String> = (0..100).map(|n| format!("alarm {n}")).collect();
    first.hand_in_all(names.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect()).await;
    first.signal("TERM");
    assert!(first.ended().await.success());
    assert_eq!(receiver.requests().len(), 1, "the receiver was left alone");
    database.sql("UPDATE angarium.lanes SET waits_until = 0");

    let epoch = || database.sql("SELECT epoch FROM angarium.jobs").parse::<u32>().unwrap();
    let before = epoch();
    let mut nodes = ["a", "b", "c"].map(|name| on.installation(&configuration(name, "", "")));
    let [a, b, c] = &mut nodes;
    tokio::join!(a.start(), b.start(), c.start());
    a.drained().await;
    let ids: Vec<String> = names.iter().map(|name| id_of(name)).collect();
    assert_eq!(assert_delivered(&database.sql(TELL), &receiver, "/hook", &ids), 0);
    assert_eq!(receiver.requests().len(), 101);
    let leader = a.leader().await;
    assert_eq!(epoch(), before + 1, "the job was taken once");
    let listed: BTreeSet<String> =
        a.nodes().await.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, ["a", "b", "c"].map(str::to_owned).into());

    let (mut leaving, staying): (Vec<_>, Vec<_>) =
        nodes.into_iter().zip(["a", "b", "c"]).partition(|(_, name)| *name == leader);
    let (leaving, _) = &mut leaving[0];
    leaving.signal("TERM");
    assert!(leaving.ended().await.success());
    let next = staying[0].0.leader().await;
    assert_ne!(next, leader);
    assert_eq!(staying[0].0.nodes().await.len(), 2, "it has signed out");
}

/// OB-02, OB-24: the same id through both nodes at the same time is one notification.
#[tokio::test(flavor = "multi_thread")]
async fn a_resend_through_the_other_node_is_a_duplicate() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    let mut ids = Vec::new();
    for n in 0..50 {
        let name = format!("alarm {n}");
        let alarm = to_with_id(&receiver.url("/hook"), &name);
        let (one, other) = tokio::join!(a.hand_in(&alarm), b.hand_in(&alarm));
        let duplicates = [&one, &other].map(|answer| answer["duplicate"].as_bool().unwrap());
        assert_eq!(duplicates.iter().filter(|duplicate| **duplicate).count(), 1, "{one} {other}");
        ids.push(id_of(&name));
    }
    b.drained().await;
    assert_eq!(assert_delivered(&database.sql(TELL), &receiver, "/hook", &ids), 0);
    assert_eq!(receiver.requests().len(), 50);
}

/// P9, OB-24: nobody is told of work, everybody finds it: what is handed in at a node that has its hands full, and that
/// gives no hints, is sent by the other; and the other way round by a node that takes none.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_found_by_polling() {
    for (busy_polls, idle_polls) in [(true, false), (false, true)] {
        let receiver = Receiver::start().await.unwrap();
        receiver.script("/hung", [Reply::silence()]);
        let (database, on) = fresh();
        let outbox = |polls: bool, more: &str| format!("[outbox]\npoll_only = {polls}\n{more}");
        let busy = node("busy", &on, &outbox(busy_polls, "max_parallel_deliveries = 1\n"), "").await;
        busy.hand_in(&to(&receiver.url("/hung"), "hung")).await;
        receiver.wait_for("/hung", 1).await;
        let _idle = node("idle", &on, &outbox(idle_polls, ""), "").await;
        let names: Vec<String> = (0..20).map(|n| format!("alarm {n}")).collect();
        busy.hand_in_all(names.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect()).await;
        receiver.wait_for("/hook", 20).await;
        let told = within(async {
            loop {
                let told = tell(&database.sql(TELL));
                if told.values().filter(|one| one.status == "delivered").count() == 20 {
                    return told;
                }
            }
        })
        .await;
        for name in &names {
            assert_eq!(told[&id_of(name)].nodes, ["idle".to_owned()].into(), "{name}");
        }
    }
}

/// A receiver that asks one node to come back later is left alone by the other as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_asks_for_patience_is_left_alone_by_all() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(429).header("retry-after", "3600")]);
    let other = Receiver::start().await.unwrap();
    let (_database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    a.hand_in(&to_with_id(&receiver.url("/hook"), "first")).await;
    a.until(&id_of("first"), "retrying").await;
    for node in [&a, &b] {
        node.hand_in_all((0..20).map(|n| to(&receiver.url("/hook"), &format!("alarm {n}"))).collect()).await;
    }
    // What came later to somebody else has been sent by both, so that both have looked.
    for n in 0..200 {
        let marker = format!("marker {n}");
        [&a, &b][n % 2].hand_in(&to_with_id(&other.url("/hook"), &marker)).await;
        a.until(&id_of(&marker), "delivered").await;
    }
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(a.get("/v1/kpis").await["global"]["queue_depth"], json!(41));
}
