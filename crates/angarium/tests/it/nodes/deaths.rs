//! A node dies; others live.

use std::time::Duration;

use angarium_receivers::http::{Receiver, Reply};

use super::producer::Producer;
use super::{BRIEF, SHORT, TELL, assert_delivered, fresh, pair, tell, until};
use crate::support::{id_of, to_with_id};

/// OB-24: the node that leads is killed with deliveries in flight. The other takes over what it held once the leases have
/// ended, and leads; everything is delivered, and what was in flight twice at most.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_killed_with_deliveries_in_flight() {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let (database, on) = fresh();
    let wide = "timeout = \"10s\"\nmax_parallel = 40\nmax_parallel_per_receiver = 20\n";
    let mut nodes = pair(&on, "[outbox]\nlease = \"15s\"\n", wide).await;
    if nodes[0].leader().await == "b" {
        nodes.reverse();
    }
    let [mut dies, lives] = nodes;
    let dying = dies.leader().await;
    let names: Vec<String> = (0..60).map(|n| format!("alarm {n}")).collect();
    dies.hand_in_all(names.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect()).await;
    receiver.wait_for("/hook", 40).await;
    let first_end = || database.sql(FIRST_END).parse::<i64>().unwrap();
    let claimed = first_end();
    until(|| first_end() > claimed + 1_000_000).await;
    let attempts = "SELECT count(*) FROM angarium.attempts";
    assert_eq!(database.sql(attempts), "0", "all leases were renewed, and whoever lives keeps what it holds");
    dies.kill().await;
    let held = format!("SELECT count(*) FROM angarium.notifications WHERE lease_node = '{dying}'");
    let held: usize = database.sql(&held).parse().unwrap();
    assert_eq!(held, 20);
    receiver.release();
    lives.drained().await;
    let ids: Vec<String> = names.iter().map(|name| id_of(name)).collect();
    let rows = database.sql(TELL);
    assert_eq!(assert_delivered(&rows, &receiver, "/hook", &ids), held, "each of them was with the receiver");
    assert_eq!(receiver.requests().len(), 60 + held);
    assert_eq!(tell(&rows).values().map(|one| one.in_doubt).sum::<usize>(), held);
    let living = if dying == "a" { "b" } else { "a" };
    until(|| database.sql(LEADER) == living).await;
}

/// When the first of all leases ends, in microseconds.
const FIRST_END: &str = "SELECT min(lease_until) FROM angarium.notifications WHERE lease_until IS NOT NULL";

/// Who holds the job, by the clock of the database.
const LEADER: &str = "SELECT n.name FROM angarium.jobs j JOIN angarium.nodes n ON n.instance = j.holder
    WHERE j.until > extract(epoch FROM clock_timestamp()) * 1000000";

/// OB-24: whoever is struck off the list of nodes while it lives signs in again, and works on meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_struck_off_signs_in_again() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let nodes = pair(&on, SHORT, BRIEF).await;
    until(|| database.sql("SELECT count(*) FROM angarium.nodes") == "2").await;
    database.sql("DELETE FROM angarium.nodes");
    for (n, node) in nodes.iter().enumerate() {
        let name = format!("alarm {n}");
        node.hand_in(&to_with_id(&receiver.url("/hook"), &name)).await;
        node.until(&id_of(&name), "delivered").await;
    }
    until(|| database.sql("SELECT string_agg(name, ' ' ORDER BY name) FROM angarium.nodes") == "a b").await;
    assert_eq!(receiver.requests().len(), 2);
}

/// P7, OB-24: one node or the other is killed again and again while work comes in and is sent. Nothing that was
/// acknowledged is lost, and nothing is sent more often than it was interrupted, and once.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_killed_again_and_again() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().after(Duration::from_millis(50))]);
    let (database, on) = fresh();
    let mut nodes = pair(&on, SHORT, BRIEF).await;
    let producer =
        Producer::start(&nodes.each_ref().map(|node| node.address.unwrap()), &receiver.url("/hook"));
    for turn in 0..6 {
        producer.goes_on(60).await;
        let node = &mut nodes[turn % 2];
        node.kill().await;
        producer.goes_on(20).await;
        node.start().await;
        producer.finds(turn % 2, node.address.unwrap());
    }
    let acknowledged = producer.stop().await;
    nodes[0].drained().await;
    let repeated = assert_delivered(&database.sql(TELL), &receiver, "/hook", &acknowledged);
    eprintln!("{} were acknowledged, {repeated} of them went out twice", acknowledged.len());
}
