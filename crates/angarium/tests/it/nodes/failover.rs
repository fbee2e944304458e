//! The database's server dies for good, and a standby takes its place.

use std::collections::BTreeSet;

use angarium_receivers::http::Receiver;
use angarium_testbed::postgres::Server;
use angarium_testbed::proxy::{Direction, Proxy};
use tokio::time::Instant;

use super::producer::Producer;
use super::{TELL, assert_delivered, pair, until};
use crate::support::{Database, Installation, id_of, to_with_id};

/// A server and one that follows it over a link, and a database on both.
struct Servers {
    first: Server,
    second: Server,
    link: Proxy,
    name: String,
}

impl Servers {
    fn start() -> Self {
        let first = Server::start();
        let name = first.create_database().rsplit('/').next().unwrap().to_owned();
        let second = first.standby();
        let link = Proxy::start(first.address());
        let way =
            format!("user=postgres host=127.0.0.1 port={} application_name=standby1", link.address().port());
        let follow = format!("ALTER SYSTEM SET primary_conninfo = '{way}'; SELECT pg_reload_conf()");
        second.sql("postgres", &follow);
        link.await_connections(1);
        Servers { first, second, link, name }
    }

    /// Nothing more gets to the second, also not what is on its way.
    fn cut_link(&self) {
        self.link.refuse(true);
        self.link.cut();
    }

    /// Both in one URL.
    fn database(&self) -> Database {
        let (first, second) = (self.first.address(), self.second.address());
        Database::at(&format!("postgres://angarium@{first},{second}/{}", self.name))
    }
}

/// Commits that wait for the standby.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// P5a, OB-24: with a synchronous standby nothing that was acknowledged is lost, and all goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn failover_to_a_synchronous_standby() {
    let servers = Servers::start();
    servers.first.make_synchronous(true);
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&servers.database(), "", "").await;
    let addresses = nodes.each_ref().map(|node| node.address.unwrap());
    let producer = Producer::start(&addresses, &receiver.url("/hook"));
    producer.goes_on(300).await;
    // Nothing gets through until everybody waits for that: what only the first server has must not be acknowledged.
    servers.link.freeze(Direction::Both);
    let (mut seen, mut times) = ((0, String::new()), 0);
    until(|| {
        let waiting = servers.first.sql("postgres", WAITING);
        let looks = (producer.acknowledged().len(), waiting);
        times = if looks == seen { times + 1 } else { 0 };
        seen = looks;
        times == 10
    })
    .await;
    assert_ne!(seen.1, "0");
    servers.first.stop_immediately();
    servers.cut_link();
    servers.second.promote();
    let promoted = Instant::now();
    producer.goes_on(1).await;
    let ingest = promoted.elapsed();
    nodes[0].hand_in(&to_with_id(&receiver.url("/marker"), "marker")).await;
    receiver.wait_for("/marker", 1).await;
    eprintln!(
        "after the promotion: the first 202 after {ingest:?}, a delivery after {:?}",
        promoted.elapsed()
    );
    producer.goes_on(300).await;
    let acknowledged = producer.stop().await;
    for node in &nodes {
        node.says_ready(true).await;
    }
    nodes[0].drained().await;
    let repeated =
        assert_delivered(&servers.second.sql(&servers.name, TELL), &receiver, "/hook", &acknowledged);
    eprintln!("{} were acknowledged, {repeated} of them went out twice", acknowledged.len());
    for node in &nodes {
        assert!(!node.log().contains("durability_regression"), "nothing was lost");
    }
}

/// P5c: the standby takes over while the first server lives on and the nodes still reach it. It waits for a standby that is
/// none any more, and answers no commit: the nodes go over to the other, with all they do, and do not come back.
#[tokio::test(flavor = "multi_thread")]
async fn failover_while_the_first_server_lives_on() {
    let servers = Servers::start();
    servers.first.make_synchronous(true);
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&servers.database(), "", "").await;
    let addresses = nodes.each_ref().map(|node| node.address.unwrap());
    let producer = Producer::start(&addresses, &receiver.url("/hook"));
    producer.goes_on(100).await;
    servers.second.promote();
    producer.goes_on(100).await;
    let known = |server: &Server| server.sql(&servers.name, "SELECT count(*) FROM angarium.ids");
    let left_behind = known(&servers.first);
    producer.goes_on(100).await;
    assert_eq!(known(&servers.first), left_behind, "nobody writes there any more");
    servers.first.stop_immediately();
    producer.goes_on(100).await;
    let acknowledged = producer.stop().await;
    nodes[0].drained().await;
    assert_delivered(&servers.second.sql(&servers.name, TELL), &receiver, "/hook", &acknowledged);
    for node in &nodes {
        assert!(!node.log().contains("durability_regression"), "nothing was lost");
    }
}

/// P5b: a standby that was behind takes over. What was acknowledged and has not got there is named, each and no other.
#[tokio::test(flavor = "multi_thread")]
async fn failover_to_a_standby_that_was_behind() {
    let servers = Servers::start();
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&servers.database(), "", "").await;
    hand_in(&nodes, &receiver, "before").await;
    let known = |server: &Server| server.sql(&servers.name, "SELECT id FROM angarium.ids");
    until(|| known(&servers.second).lines().count() == 20).await;
    servers.cut_link();
    let lost = hand_in(&nodes, &receiver, "behind").await;
    servers.first.stop_immediately();
    assert_eq!(known(&servers.second).lines().count(), 20, "the standby was behind");
    servers.second.promote();

    let mut named = BTreeSet::new();
    for (node, lost) in nodes.iter().zip(&lost) {
        node.logs("durability_regression", 1).await;
        node.says_ready(true).await;
        until(|| ids_in(&node.log()).len() == lost.len()).await;
        named.extend(ids_in(&node.log()));
    }
    assert_eq!(named, lost.into_iter().flatten().collect());
    // They are free to be handed in again.
    for (turn, node) in nodes.iter().enumerate() {
        let name = format!("behind {turn} 0");
        node.hand_in(&to_with_id(&receiver.url("/again"), &name)).await;
        node.until(&id_of(&name), "delivered").await;
    }
}

/// Ten through each node; their ids.
async fn hand_in(nodes: &[Installation; 2], receiver: &Receiver, what: &str) -> [BTreeSet<String>; 2] {
    let mut ids = [BTreeSet::new(), BTreeSet::new()];
    for (turn, node) in nodes.iter().enumerate() {
        for n in 0..10 {
            let name = format!("{what} {turn} {n}");
            node.hand_in(&to_with_id(&receiver.url("/hook"), &name)).await;
            ids[turn].insert(id_of(&name));
        }
    }
    ids
}

/// The ids in lines of a log that tell of lost acknowledgements.
fn ids_in(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter(|line| line.contains("durability_regression"));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_hexdigit() && c != '-'));
    words.filter(|word| word.len() == 36 && word.matches('-').count() == 4).map(str::to_owned).collect()
}
