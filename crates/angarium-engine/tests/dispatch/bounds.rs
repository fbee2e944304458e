//! How much is in flight, and that one receiver's trouble stays its own.

use std::sync::atomic::Ordering;

use angarium_domain::channel::ChannelSettings;
use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;

use crate::home::On;
use crate::support::{Setup, World, fail};

/// With receivers that worked before and hang now, exactly `cap` deliveries are under way; and when they answer,
/// never more.
async fn in_flight_is(on: On, cap: usize, setup: Setup, hosts: usize) {
    let world = World::new(on, setup).await;
    let hosts: Vec<String> = (0..hosts).map(|n| format!("h{n}")).collect();
    for host in &hosts {
        world.hand_in(host, host).await;
        world.until(host, Status::Delivered).await;
    }
    for host in &hosts {
        world.adapter.close(host);
    }
    for n in 0..60 {
        world.hand_in(&n.to_string(), &hosts[n % hosts.len()]).await;
    }
    world.adapter.begun(hosts.len() + cap).await;
    for host in &hosts {
        world.adapter.open(host);
    }
    for n in 0..60 {
        world.until(&n.to_string(), Status::Delivered).await;
    }
    assert_eq!(world.adapter.sent().len(), hosts.len() + 60);
    assert_eq!(world.adapter.most_in_flight.load(Ordering::SeqCst), cap);
}

/// OB-09: one is strictly sequential; and each of the three caps holds by itself.
async fn each_cap_holds(on: On) {
    let channel = |max_parallel, max_parallel_per_receiver| ChannelSettings {
        max_parallel,
        max_parallel_per_receiver,
        ..Setup::default().channel
    };
    let setup =
        |max_parallel_deliveries, channel| Setup { max_parallel_deliveries, channel, ..Setup::default() };
    in_flight_is(on, 1, setup(1, channel(64, 64)), 7).await;
    in_flight_is(on, 5, setup(5, channel(64, 64)), 7).await;
    in_flight_is(on, 3, setup(64, channel(3, 64)), 7).await;
    in_flight_is(on, 2, setup(64, channel(64, 2)), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_cap_holds_on_sqlite() {
    each_cap_holds(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_cap_holds_on_postgres() {
    each_cap_holds(On::Postgres).await;
}

/// OB-09: a receiver that never answers holds its own share and nothing else.
pub(crate) async fn a_receiver_that_hangs_holds_up_nobody_else(on: On) {
    let mut world = World::asleep(on, Setup { max_parallel_deliveries: 16, ..Setup::default() }).await;
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

/// OB-09: receivers that failed lately hold a quarter of the permits together, however many they are.
pub(crate) async fn dead_receivers_together_take_a_quarter_at_most(on: On) {
    let world = World::new(on, Setup { max_parallel_deliveries: 8, ..Setup::default() }).await;
    let dead: Vec<String> = (0..20).map(|n| format!("dead{n}")).collect();
    for host in &dead {
        world.adapter.outcomes(host, [fail(FailureClass::Transient)]);
        world.hand_in(host, host).await;
        world.until(host, Status::Retrying).await;
    }
    world.looked("all failures are known").await;
    let before = world.adapter.sent().len();
    for host in &dead {
        world.adapter.close(host);
    }
    world.advance(10);
    world.adapter.begun(before + 2).await;
    for n in 0..20 {
        world.hand_in(&format!("well {n}"), "well").await;
        world.until(&format!("well {n}"), Status::Delivered).await;
    }
    let sent = world.adapter.sent();
    let to_the_dead = sent.iter().skip(before).filter(|host| host.starts_with("dead")).count();
    assert_eq!(to_the_dead, 2, "a quarter of eight permits");
}

/// OB-09: receivers of which nothing is known yet, and which hang, leave room for those that work, and for the
/// first try of another newcomer.
pub(crate) async fn newcomers_that_hang_leave_room(on: On) {
    let world = World::new(on, Setup { max_parallel_deliveries: 8, ..Setup::default() }).await;
    world.hand_in("proof", "proven").await;
    world.until("proof", Status::Delivered).await;
    for n in 0..20 {
        let host = format!("hangs{n}");
        world.adapter.close(&host);
        for _ in 0..3 {
            world.hand_in(&format!("{host} {}", world.adapter.sent().len() + n * 10), &host).await;
        }
    }
    world.adapter.begun(1 + 7).await;
    for n in 0..20 {
        world.hand_in(&format!("well {n}"), "proven").await;
        world.until(&format!("well {n}"), Status::Delivered).await;
    }
    let hanging = world.adapter.sent().iter().filter(|host| host.starts_with("hangs")).count();
    assert_eq!(hanging, 7, "seven of eight permits, and not one more");
}
