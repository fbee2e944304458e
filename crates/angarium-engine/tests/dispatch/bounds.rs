//! How much is in flight, and that one receiver's trouble stays its own.

use std::sync::atomic::Ordering;

use angarium_domain::channel::ChannelSettings;
use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;

use crate::support::{Setup, World, fail};

/// With every receiver hanging, exactly `cap` deliveries are under way; and when they answer, never more.
async fn in_flight_is(cap: usize, setup: Setup, hosts: usize) {
    let mut world = World::asleep(setup).await;
    let hosts: Vec<String> = (0..hosts).map(|n| format!("h{n}")).collect();
    for host in &hosts {
        world.adapter.close(host);
    }
    for n in 0..60 {
        world.hand_in(&n.to_string(), &hosts[n % hosts.len()]).await;
    }
    world.start().await;
    world.adapter.begun(cap).await;
    for host in &hosts {
        world.adapter.open(host);
    }
    for n in 0..60 {
        world.until(&n.to_string(), Status::Delivered).await;
    }
    assert_eq!(world.adapter.sent().len(), 60);
    assert_eq!(world.adapter.most_in_flight.load(Ordering::SeqCst), cap);
}

/// OB-09: one is strictly sequential; and each of the three caps holds by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_cap_holds() {
    let channel = |max_parallel, max_parallel_per_receiver| ChannelSettings {
        max_parallel,
        max_parallel_per_receiver,
        ..Setup::default().channel
    };
    let setup =
        |max_parallel_deliveries, channel| Setup { max_parallel_deliveries, channel, ..Setup::default() };
    in_flight_is(1, setup(1, channel(64, 64)), 7).await;
    in_flight_is(5, setup(5, channel(64, 64)), 7).await;
    in_flight_is(3, setup(64, channel(3, 64)), 7).await;
    in_flight_is(2, setup(64, channel(64, 2)), 1).await;
}

/// OB-09: a receiver that never answers holds its own share and nothing else.
#[tokio::test]
async fn a_receiver_that_hangs_holds_up_nobody_else() {
    let mut world = World::asleep(Setup { max_parallel_deliveries: 16, ..Setup::default() }).await;
    world.adapter.close("dead");
    for n in 0..200 {
        world.hand_in(&format!("dead {n}"), "dead").await;
    }
    for n in 0..50 {
        world.hand_in(&format!("well {n}"), "well").await;
    }
    world.start().await;
    for n in 0..50 {
        world.until(&format!("well {n}"), Status::Delivered).await;
    }
    assert_eq!(world.adapter.sent_to("dead"), 8, "its cap, and no more, is in flight");
    world.adapter.open("dead");
    world.until("dead 199", Status::Delivered).await;
}

/// OB-09: however many receivers are dead, half of the permits stay for the others.
#[tokio::test]
async fn dead_receivers_together_take_half_at_most() {
    let world = World::new(Setup { max_parallel_deliveries: 8, ..Setup::default() }).await;
    let dead: Vec<String> = (0..20).map(|n| format!("dead{n}")).collect();
    for host in &dead {
        world.adapter.outcomes(host, (0..3).map(|_| fail(FailureClass::Transient)));
        for n in 0..3 {
            let name = format!("{host} {n}");
            world.hand_in(&name, host).await;
            world.until(&name, Status::Retrying).await;
        }
    }
    world.looked("all failures are known").await;
    let before = world.adapter.sent().len();
    for host in &dead {
        world.adapter.close(host);
    }
    world.advance(10);
    world.adapter.begun(before + 4).await;
    for n in 0..20 {
        world.hand_in(&format!("well {n}"), "well").await;
        world.until(&format!("well {n}"), Status::Delivered).await;
    }
    let sent = world.adapter.sent();
    let to_the_dead = sent.iter().skip(before).filter(|host| host.starts_with("dead")).count();
    assert_eq!(to_the_dead, 4, "half of eight permits");
}
