//! What a node's heartbeat does: it is listed, its clock is looked at, and the leader makes up for what is missing.

use std::time::Duration;

use angarium_domain::state::Status;
use angarium_domain::time::Clock;

use crate::home::On;
use crate::outcomes::limited;
use crate::support::{Setup, World, id};

/// A node is listed from its start until it leaves. Whoever left without a word is listed on, where others could live.
pub(crate) async fn a_node_is_listed_until_it_leaves(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    let now = world.clock.now();
    let listed = world.store.nodes(now).await.unwrap();
    let told: Vec<_> = listed.iter().map(|node| (&*node.name, &*node.version, node.leads)).collect();
    assert_eq!(told, [("node-a", "1.2.3", true)]);
    assert_eq!((listed[0].started_at, listed[0].seen_at), (now, now));
    world.advance(5);
    world.beat().await;
    assert_eq!(world.store.nodes(now).await.unwrap()[0].seen_at, world.clock.now());

    world.let_go();
    world.crash().await;
    world.start().await;
    let listed = world.store.nodes(world.clock.now()).await.unwrap();
    assert_eq!(listed.len(), if on == On::Sqlite { 1 } else { 2 });

    world.node.take().unwrap().start().stop().await;
    assert_eq!(world.store.nodes(now).await.unwrap().len(), listed.len() - 1);
}

/// A node that others took for gone for good signs in again.
pub(crate) async fn a_node_that_was_struck_off_signs_in_again(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    let before = world.store.nodes(world.clock.now()).await.unwrap();
    world.home.tamper("DELETE FROM nodes");
    world.beat().await;
    let after = world.store.nodes(world.clock.now()).await.unwrap();
    assert_eq!(after.len(), 1);
    assert_ne!(before[0].instance, after[0].instance);
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Delivered).await;
}

/// Audit entries that could not be written with their facts are written by whoever leads.
pub(crate) async fn missing_audit_entries_are_made_up_for(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Delivered).await;
    let whole = world.store.audit(id("alarm")).await.unwrap();
    world.home.tamper("DELETE FROM audit; UPDATE notifications SET audited = 0;");
    world.node.as_ref().unwrap().leadership().make_up_for_audit().await;
    assert_eq!(world.store.audit(id("alarm")).await.unwrap(), whole);
}

/// P4a: a node whose clock is more than two minutes from the database's leaves the work to another whose is right, and says
/// why; what is in flight goes on, and so does everything once the clock is right again. Without another it goes on.
pub(crate) async fn a_node_whose_clock_is_wrong_claims_nothing(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.close("a");
    world.hand_in("in flight", "a").await;
    world.adapter.begun(1).await;
    let (now, moment) = (world.clock.now(), world.clock.monotonic());
    world.followed.follow(now, moment, moment);
    world.clock.step_wall_clock(now.plus(Duration::from_secs(121)));
    world.beat().await;
    let vitals = world.node.as_ref().unwrap().vitals();
    assert_eq!(vitals.trouble(), None, "nobody else could deliver");
    let seen_at = now.micros();
    world.home.tamper(&format!(
        "INSERT INTO nodes (slot, name, version, address, started_at, seen_at, skew)
         VALUES (9, 'another', '1', '', {seen_at}, {seen_at}, 0)"
    ));
    world.beat().await;
    assert!(vitals.trouble().unwrap().contains("121 s ahead"), "{:?}", vitals.trouble());
    // A look that had begun before may still claim.
    world.looks_again().await;
    world.hand_in("waits", "b").await;
    world.adapter.open("a");
    world.until("in flight", Status::Delivered).await;
    world.looks_again().await;
    let row = world.view("waits").await;
    assert_eq!((row.status, row.in_flight), (Status::Pending, false));
    assert_eq!(world.adapter.sent(), ["a"]);

    world.clock.step_wall_clock(now.plus(Duration::from_secs(3)));
    world.beat().await;
    assert_eq!(vitals.trouble(), None);
    world.until("waits", Status::Delivered).await;
}

/// C051: waits that could not be moved when the clock was set back are moved as soon as they can be, and once.
pub(crate) async fn c051_waits_are_moved_as_soon_as_they_can_be(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", [limited()]);
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Retrying).await;
    let set_to = world.clock.now().minus(Duration::from_secs(7200));
    world.clock.step_wall_clock(set_to);
    let is_moved = async |world: &World| {
        let lanes = world.store.waiting_lanes(set_to).await.unwrap();
        lanes[0].waits_until == set_to.plus(Duration::from_secs(30))
    };
    world.home.break_table("lanes");
    for _ in 0..2 {
        world.beat().await;
        assert!(!is_moved(&world).await);
    }
    world.home.mend_table("lanes");
    for _ in 0..2 {
        world.beat().await;
        assert!(world.leads() && is_moved(&world).await);
    }
}
