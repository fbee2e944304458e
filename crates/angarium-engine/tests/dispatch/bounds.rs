//! How much is in flight, and that one receiver's trouble stays its own.

use std::sync::atomic::Ordering;

use angarium_domain::channel::ChannelSettings;
use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;

use crate::support::{Setup, World, fail};

async fn most_in_flight(setup: Setup, hosts: usize) -> usize {
    let mut world = World::asleep(setup).await;
    for n in 0..60 {
        world.hand_in(&n.to_string(), &format!("h{}", n % hosts)).await;
    }
    world.start().await;
    for n in 0..60 {
        world.until(&n.to_string(), Status::Delivered).await;
    }
    assert_eq!(world.adapter.sent().len(), 60);
    world.adapter.most_in_flight.load(Ordering::SeqCst)
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
    assert_eq!(most_in_flight(setup(1, channel(64, 64)), 7).await, 1);
    assert!(most_in_flight(setup(5, channel(64, 64)), 7).await <= 5);
    assert!(most_in_flight(setup(64, channel(3, 64)), 7).await <= 3);
    assert!(most_in_flight(setup(64, channel(64, 2)), 1).await <= 2);
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
