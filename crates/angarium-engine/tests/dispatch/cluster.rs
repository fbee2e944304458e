//! Several nodes on one PostgreSQL database, each with a clock and an adapter of its own.

use std::time::Duration;

use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::time::Clock;
use angarium_engine::leadership::TENURE;
use angarium_store::{Pulse, Quota};
use angarium_testbed::postgres::shared;
use angarium_testbed::proxy::Proxy;

use crate::home::On;
use crate::outcomes::limited;
use crate::support::{Setup, World, fail, hook, id, list, pause, within};

/// In real time so short that all that is done three times a lease is done soon; by the stories' clocks, which stand
/// still, as long as they want it.
const LEASE: Duration = Duration::from_millis(300);

fn short_lease() -> Setup {
    Setup { lease: LEASE, ..Setup::default() }
}

/// A node and its neighbour, both started.
async fn two(setup: Setup) -> (World, World) {
    let one = World::new(On::Postgres, setup).await;
    let mut other = one.neighbour("node-b").await;
    other.start().await;
    (one, other)
}

/// P2: two nodes share the work, and each notification is sent once.
#[tokio::test]
async fn two_nodes_share_the_work() {
    let (one, other) = two(Setup::default()).await;
    let hosts: Vec<String> = (0..20).map(|n| format!("h{n}")).collect();
    for host in &hosts {
        one.adapter.close(host);
        other.adapter.close(host);
    }
    for n in 0..500 {
        one.accept(&n.to_string(), hook(&hosts[n % hosts.len()])).await;
    }
    one.adapter.begun(48).await;
    other.adapter.begun(48).await;
    for host in &hosts {
        one.adapter.open(host);
        other.adapter.open(host);
    }
    for n in 0..500 {
        one.until(&n.to_string(), Status::Delivered).await;
    }
    for n in 0..500 {
        assert_eq!(one.attempts(&n.to_string()).await.len(), 1, "{n}");
    }
    assert_eq!(one.adapter.sent().len() + other.adapter.sent().len(), 500);
}

/// OB-24, P7: what a dead node held is taken over when its lease has ended, and not before.
#[tokio::test]
async fn a_dead_nodes_work_is_taken_over_when_its_lease_has_ended() {
    let (mut one, mut other) = two(short_lease()).await;
    other.dispatcher = None;
    one.adapter.close("a");
    one.hand_in("alarm", "a").await;
    one.adapter.begun(1).await;
    one.dispatcher = None;
    // Somebody else died who held a lease that ends a moment earlier.
    one.accept("canary", hook("b")).await;
    let (now, ended) = (one.clock.now(), LEASE - Duration::from_millis(1));
    let lanes = one.store.waiting_lanes(now).await.unwrap();
    let quotas = lanes.iter().map(|lane| Quota { lane: lane.lane, rows: 1 }).collect();
    assert_eq!(one.store.claim(quotas, "node-c", now, ended).await.unwrap().len(), 1);

    other.clock.advance(ended);
    other.start().await;
    other.until("canary", Status::Delivered).await;
    assert_eq!(other.attempts("alarm").await, [], "not before its lease has ended");
    other.clock.advance(Duration::from_millis(1));
    other.until("alarm", Status::Delivered).await;
    assert_eq!(other.adapter.sent(), ["b", "a"]);
    let attempts = other.attempts("alarm").await;
    let told: Vec<_> = attempts.iter().map(|one| (&*one.record.node, one.record.class)).collect();
    assert_eq!(told, [("node-a", Some(FailureClass::Interrupted)), ("node-b", None)]);
}

/// OB-24, P3a, P3b: a node that was paused for longer than its lease sends nothing more under it. What it had sent before
/// the pause is found to be delivered, and what it had not is sent by the node that took over.
#[tokio::test]
async fn a_paused_node_sends_nothing_under_a_lost_lease() {
    let lists = vec![("ops", vec!["a", "b"])];
    let (one, mut other) = two(Setup { max_parallel_deliveries: 1, lists, ..short_lease() }).await;
    other.dispatcher = None;
    one.adapter.close("a");
    one.accept("alarm", list("ops")).await;
    one.adapter.begun(1).await;
    other.clock.advance(LEASE);
    other.start().await;
    other.until("alarm", Status::Delivered).await;
    assert_eq!(other.adapter.sent(), ["a", "b"]);

    // It wakes up, and what it waited for comes in.
    one.clock.advance(LEASE);
    other.dispatcher = None;
    one.adapter.open("a");
    one.looked("afterwards").await;
    assert_eq!(one.adapter.sent(), ["a", "marker-afterwards"]);
}

/// OB-24, P3b: a success that comes in after another node took over and failed counts, and nobody sends again.
#[tokio::test]
async fn a_late_success_on_another_node_counts() {
    let (one, mut other) = two(short_lease()).await;
    other.dispatcher = None;
    one.adapter.close("a");
    one.hand_in("alarm", "a").await;
    one.adapter.begun(1).await;
    other.adapter.outcomes("a", [fail(FailureClass::Transient)]);
    other.clock.advance(LEASE);
    other.start().await;
    other.until("alarm", Status::Retrying).await;
    one.adapter.open("a");
    other.until("alarm", Status::Delivered).await;
    other.advance(10);
    other.looked("nothing is sent again").await;
    assert_eq!((one.adapter.sent_to("a"), other.adapter.sent_to("a")), (1, 1));
    let attempts = other.attempts("alarm").await;
    let told: Vec<_> = attempts.iter().map(|one| (&*one.record.node, one.record.class)).collect();
    let (lost, failed) = (Some(FailureClass::Interrupted), Some(FailureClass::Transient));
    assert_eq!(told, [("node-a", lost), ("node-b", failed), ("node-a", None)]);
}

/// OB-12, P3b: a member of a list that took the message from a node that was paused has it, though the node that took
/// over was refused by all: the notification is delivered.
#[tokio::test]
async fn a_late_success_with_a_member_counts() {
    let lists = vec![("ops", vec!["a", "b"])];
    let (one, mut other) = two(Setup { max_parallel_deliveries: 1, lists, ..short_lease() }).await;
    other.dispatcher = None;
    for world in [&one, &other] {
        world.adapter.close("a");
    }
    for host in ["a", "b"] {
        other.adapter.outcomes(host, [fail(FailureClass::PermanentRecipient)]);
    }
    one.accept("alarm", list("ops")).await;
    one.adapter.begun(1).await;
    other.clock.advance(LEASE);
    other.start().await;
    other.adapter.begun(1).await;
    one.clock.advance(LEASE);
    one.adapter.open("a");
    one.until_it("alarm", |row| row.targets[0].state == TargetState::Accepted).await;

    other.adapter.open("a");
    let row = other.until("alarm", Status::Delivered).await;
    let refused = row.last_error.unwrap().detail;
    assert!(refused.contains("b.example") && !refused.contains("a.example"), "{refused}");
    assert_eq!((one.adapter.sent(), other.adapter.sent()), (vec!["a".into()], vec!["a".into(), "b".into()]));
}

/// P1: a claim that was made although its answer was lost is given back at once, and costs no attempt.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_given_back() {
    let one = World::asleep(On::Postgres, Setup::default()).await;
    let proxy = Proxy::start(shared().address());
    let mut other = one.neighbour_behind(&proxy).await;
    other.start().await;
    proxy.cut_after(b"COMMIT");
    one.accept("alarm", hook("a")).await;
    other.wake.now();
    let row = other.until("alarm", Status::Delivered).await;
    assert_eq!(proxy.cuts(), 1, "the claim's answer was lost");
    assert_eq!((row.retry_count, other.attempts("alarm").await.len()), (0, 1));
}

/// P9: new work that another node takes in wakes this one, long before the interval ends.
#[tokio::test]
async fn work_of_another_node_wakes_this_one() {
    let setup = Setup { dispatch_interval: Duration::from_secs(3600), ..Setup::default() };
    let one = World::new(On::Postgres, setup).await;
    let mut other = one.neighbour("node-b").await;
    other.start().await;
    // Its own dispatcher is not woken.
    other.accept("alarm", hook("a")).await;
    one.until("alarm", Status::Delivered).await;
    assert_eq!(one.adapter.sent(), ["a"]);
}

/// P9: when the connection that listens for hints is cut, the node listens again: what came in meanwhile is found, and hints
/// come as before.
#[tokio::test]
async fn hints_come_again_after_their_connection_was_cut() {
    let setup = Setup { dispatch_interval: Duration::from_secs(3600), ..Setup::default() };
    let one = World::new(On::Postgres, setup).await;
    let listening =
        "SELECT min(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'
        AND query IN ('LISTEN angarium', '')";
    let process = within(async {
        loop {
            match one.home.tamper(listening) {
                nobody if nobody.is_empty() => pause().await,
                process => return process,
            }
        }
    })
    .await;
    assert_eq!(one.home.tamper(&format!("SELECT pg_terminate_backend({process}, 60000)")), "t");
    // The hint that it gives for this shows it that the connection is gone.
    one.accept("meanwhile", hook("a")).await;
    one.until("meanwhile", Status::Delivered).await;

    let other = one.neighbour("node-b").await;
    let store = std::sync::Arc::clone(&other.store);
    let giving = tokio::spawn(async move { store.exchange_hints(|| ()).await });
    // More often than it looks without a hint: once when a connection is lost, and once when another listens.
    for n in 0..5 {
        other.accept(&n.to_string(), hook("a")).await;
        one.until(&n.to_string(), Status::Delivered).await;
    }
    giving.abort();
}

/// P9: without hints, polling finds it.
#[tokio::test]
async fn polling_alone_finds_the_work_of_another_node() {
    let one = World::new(On::Postgres, Setup { poll_only: true, ..Setup::default() }).await;
    let other = one.neighbour("node-b").await;
    other.accept("alarm", hook("a")).await;
    one.until("alarm", Status::Delivered).await;
}

/// C064: three nodes that start together send each notification once, and one of them does what one does for all.
#[tokio::test]
async fn c064_three_nodes_start_together() {
    let mut one = World::asleep(On::Postgres, Setup::default()).await;
    for n in 0..100 {
        one.accept(&n.to_string(), hook(&format!("h{}", n % 10))).await;
    }
    one.home.tamper("DELETE FROM audit; UPDATE notifications SET audited = 0;");
    let (mut two, mut three) = (one.neighbour("node-b").await, one.neighbour("node-c").await);
    tokio::join!(one.start(), two.start(), three.start());
    for n in 0..100 {
        one.until(&n.to_string(), Status::Delivered).await;
    }
    let nodes = [&one, &two, &three];
    assert_eq!(nodes.map(|node| node.adapter.sent().len()).iter().sum::<usize>(), 100);
    assert_eq!(nodes.map(World::leads).iter().filter(|leads| **leads).count(), 1);
    assert_eq!(one.home.tamper("SELECT count(*), max(epoch) FROM jobs"), "1|1");
    let listed = one.store.nodes(one.clock.now()).await.unwrap();
    let told: Vec<_> = listed.iter().map(|node| &*node.name).collect();
    assert_eq!(told, ["node-a", "node-b", "node-c"]);
    for node in nodes {
        node.node.as_ref().unwrap().leadership().make_up_for_audit().await;
    }
    assert_eq!(one.home.tamper("SELECT count(*) FROM notifications WHERE audited <> facts"), "0");
}

/// A leader that stops lets another one lead at once; one that dies, when its time is over.
#[tokio::test]
async fn leadership_passes_on() {
    let (mut one, mut two) = two(Setup::default()).await;
    let mut three = one.neighbour("node-c").await;
    three.start().await;
    two.beat().await;
    assert_eq!([&one, &two, &three].map(World::leads), [true, false, false]);
    one.node.take().unwrap().start().stop().await;
    two.beat().await;
    three.beat().await;
    assert_eq!([&two, &three].map(World::leads), [true, false]);

    two.node = None;
    three.clock.advance(TENURE - Duration::from_micros(1));
    three.beat().await;
    assert!(!three.leads(), "it might be alive");
    three.clock.advance(Duration::from_micros(1));
    three.beat().await;
    assert!(three.leads());
}

/// P8: a leader that was paused beyond its time believes in itself no more; and one that still does, because its clock
/// stood still as well, changes nothing, nor does it take the work from whoever does it now by resigning.
#[tokio::test]
async fn a_leader_that_was_paused_changes_nothing() {
    let (mut one, mut other) = two(Setup::default()).await;
    one.hand_in("alarm", "a").await;
    one.until("alarm", Status::Delivered).await;
    let whole = one.store.audit(id("alarm")).await.unwrap();
    one.home.tamper("DELETE FROM audit; UPDATE notifications SET audited = 0;");
    other.clock.advance(TENURE);
    other.beat().await;
    assert!(one.leads() && other.leads(), "two believe that they lead");

    one.node.as_ref().unwrap().leadership().make_up_for_audit().await;
    assert_eq!(one.store.audit(id("alarm")).await.unwrap(), []);
    assert!(!one.leads(), "it found out");
    one.node.take().unwrap().start().stop().await;
    other.beat().await;
    assert!(other.leads());
    other.node.as_ref().unwrap().leadership().make_up_for_audit().await;
    assert_eq!(other.store.audit(id("alarm")).await.unwrap(), whole);

    other.clock.advance(TENURE * 9 / 10);
    assert!(!other.leads(), "its own clock tells it");
}

/// C051, P4b: when the clock that all follow is set back, waits are moved with it once, by whoever led all along.
#[tokio::test]
async fn c051_waits_are_moved_once() {
    let (mut one, mut other) = two(Setup::default()).await;
    one.adapter.outcomes("a", [limited()]);
    other.adapter.outcomes("a", [limited()]);
    one.hand_in("alarm", "a").await;
    one.until("alarm", Status::Retrying).await;
    let set_to = one.clock.now().minus(Duration::from_secs(7200));
    for world in [&one, &other] {
        world.clock.step_wall_clock(set_to);
    }
    let is_moved = async || {
        let lanes = other.store.waiting_lanes(set_to).await.unwrap();
        lanes[0].waits_until == set_to.plus(Duration::from_secs(30))
    };
    let mut node = other.node.take().unwrap();
    node.live(None).await.unwrap();
    assert!(!is_moved().await, "that is the leader's to do");
    one.beat().await;
    assert!(is_moved().await);
    node.live(None).await.unwrap();
    one.beat().await;

    one.node.take().unwrap().start().stop().await;
    other.clock.advance(TENURE);
    node.live(None).await.unwrap();
    assert!(node.leadership().tenure().is_some());
    assert!(is_moved().await, "whoever leads next does not do it again");
}

/// C051, P4b: waits that could not be moved are not moved any more once another node led, which may have moved them.
#[tokio::test]
async fn c051_waits_are_not_moved_once_another_led() {
    let (mut one, mut other) = two(Setup::default()).await;
    one.adapter.outcomes("a", [limited()]);
    other.adapter.outcomes("a", [limited()]);
    one.hand_in("alarm", "a").await;
    one.until("alarm", Status::Retrying).await;
    let waits_until = one.store.waiting_lanes(one.clock.now()).await.unwrap()[0].waits_until;
    let set_to = one.clock.now().minus(Duration::from_secs(7200));
    for world in [&one, &other] {
        world.clock.step_wall_clock(set_to);
    }
    one.home.break_table("lanes");
    one.beat().await;
    other.beat().await;
    one.home.tamper("UPDATE jobs SET until = 0");
    for world in [&one, &other] {
        world.clock.advance(TENURE);
    }
    other.beat().await;
    assert!(other.leads());
    one.home.mend_table("lanes");
    // It leads again, but not all along.
    one.home.tamper("UPDATE jobs SET until = 0");
    for _ in 0..2 {
        one.beat().await;
        other.beat().await;
    }
    assert_eq!([&one, &other].map(World::leads), [true, false]);
    let waits = one.home.tamper("SELECT max(waits_until) FROM lanes");
    assert_eq!(waits, waits_until.micros().to_string());
}

/// P5b: after a failover it is told which of the notifications acknowledged before are gone.
#[tokio::test]
async fn what_a_failover_lost_is_counted() {
    let mut world = World::new(On::Postgres, Setup::default()).await;
    for name in ["kept", "lost", "lost too"] {
        world.hand_in(name, "a").await;
        world.until(name, Status::Delivered).await;
    }
    let now = world.clock.now();
    let pulse = |timeline| Pulse { now, timeline, oldest_snapshot: None, dead_rows: 17 };
    let node = world.node.as_mut().unwrap();
    let vitals = node.vitals();
    for name in ["lost", "lost too"] {
        world.home.tamper(&format!("DELETE FROM ids WHERE id = '{}'", id(name)));
    }
    node.live(Some(pulse(1))).await.unwrap();
    assert_eq!((vitals.lost_acknowledgements(), vitals.dead_rows()), (0, 17), "no failover yet");
    node.live(Some(pulse(2))).await.unwrap();
    assert_eq!(vitals.lost_acknowledgements(), 2);
    node.live(Some(pulse(2))).await.unwrap();
    assert_eq!(vitals.lost_acknowledgements(), 2, "told once");
    world.hand_in("afterwards", "a").await;
    world.until("afterwards", Status::Delivered).await;
}

/// P4a: a node follows the database's clock, however its own is set. A heartbeat that fails is counted, and the next
/// one makes up for it.
#[tokio::test]
async fn a_heartbeat_follows_the_clock_of_the_database() {
    let one = World::asleep(On::Postgres, Setup::default()).await;
    let proxy = Proxy::start(shared().address());
    let mut world = one.neighbour_behind(&proxy).await;
    world.start().await;
    let mut node = world.node.take().unwrap();
    let clock_of_database = || {
        let micros = world.home.tamper("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
        angarium_domain::time::Timestamp::from_micros(micros.parse().unwrap())
    };
    let before = clock_of_database();
    node.beat().await.unwrap();
    let after = clock_of_database();
    assert!((before..=after).contains(&world.followed.now()));
    assert!(
        world.followed.skew().0.max(world.followed.skew().1) > Duration::from_secs(3600),
        "this story's own clock is off"
    );

    proxy.refuse(true);
    proxy.cut();
    within(async { while node.beat().await.is_ok() {} }).await;
    assert_eq!(node.vitals().failed_heartbeats(), 1);
    proxy.refuse(false);
    within(async { while node.beat().await.is_err() {} }).await;
}
