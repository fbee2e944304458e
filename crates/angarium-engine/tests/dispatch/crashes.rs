//! What a process leaves behind when it ends, and what the next one makes of it.

use std::future::Future;
use std::time::Duration;

use angarium_domain::channel::{ChannelSettings, OnAmbiguous};
use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_store::View;

use crate::home::On;
use crate::support::{Setup, World, list, within};

/// OB-24: what was in flight is sent again by the next process, under the same id; the lost attempt is on record.
pub(crate) async fn what_was_in_flight_is_sent_again(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.close("a");
    for n in 0..5 {
        world.hand_in(&n.to_string(), "a").await;
    }
    world.adapter.begun(5).await;
    world.let_go();
    world.crash().await;
    world.adapter.open("a");
    world.start().await;
    for n in 0..5 {
        let row = world.until(&n.to_string(), Status::Delivered).await;
        assert_eq!(row.retry_count, 0, "an interruption costs no budget");
        let attempts = world.attempts(&n.to_string()).await;
        assert_eq!(attempts[0].record.class, Some(FailureClass::Interrupted));
        assert!(attempts[0].record.duplicate_risk);
        assert_eq!(attempts.len(), 2);
    }
    assert_eq!(world.adapter.sent_to("a"), 10);
}

/// Where a second send is worse than none, what may have been sent is parked.
pub(crate) async fn what_may_have_been_sent_is_parked_where_that_is_asked_for(on: On) {
    let channel = ChannelSettings { on_ambiguous: OnAmbiguous::Park, ..Setup::default().channel };
    let mut world = World::new(on, Setup { channel, ..Setup::default() }).await;
    world.adapter.close("a");
    world.hand_in("alarm", "a").await;
    world.adapter.begun(1).await;
    world.let_go();
    world.crash().await;
    world.adapter.open("a");
    world.start().await;
    let row = world.until("alarm", Status::Parked).await;
    assert_eq!(row.last_error.unwrap().class, FailureClass::Interrupted);
    assert_eq!(world.adapter.sent_to("a"), 1);
}

/// OB-12: a crash in the middle of a list repeats at most what was in flight.
pub(crate) async fn a_crash_in_a_list_repeats_what_was_in_flight(on: On) {
    let members = vec!["a", "b", "c", "d", "e", "f"];
    let mut world = World::new(on, Setup { lists: vec![("ops", members)], ..Setup::default() }).await;
    world.adapter.close("d");
    world.adapter.close("e");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(6).await;
    within(async {
        let accepted =
            |row: &View| row.targets.iter().filter(|one| one.state == TargetState::Accepted).count();
        while accepted(&world.view("alarm").await) < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.let_go();
    world.crash().await;
    world.adapter.open("d");
    world.adapter.open("e");
    world.start().await;
    world.until("alarm", Status::Delivered).await;
    let sent = |host| world.adapter.sent_to(host);
    let times: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(sent).into();
    assert_eq!(times, [1, 1, 1, 2, 2, 1]);
}

/// A soft stop claims nothing more, however much waits, and finishes what is in flight.
pub(crate) async fn a_soft_stop_finishes_what_is_in_flight(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.close("a");
    for n in 0..50 {
        world.hand_in(&n.to_string(), "a").await;
    }
    world.adapter.begun(8).await;
    let mut stopping = Box::pin(world.dispatcher.take().unwrap().stop(Duration::from_secs(60)));
    let begun = std::future::poll_fn(|context| std::task::Poll::Ready(stopping.as_mut().poll(context))).await;
    assert!(begun.is_pending(), "it waits for what is in flight");
    world.adapter.open("a");
    assert!(within(stopping).await, "everything was settled in time");
    assert_eq!(world.adapter.sent_to("a"), 8, "nothing new was claimed");
    for n in 0..50 {
        let row = world.view(&n.to_string()).await;
        let expected = if n < 8 { Status::Delivered } else { Status::Pending };
        assert_eq!((row.status, row.in_flight), (expected, false), "{n}");
    }
}

/// A stop whose grace ends cuts off what still hangs; the next start takes it back.
pub(crate) async fn a_stop_does_not_wait_for_ever(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.close("a");
    world.hand_in("alarm", "a").await;
    world.adapter.begun(1).await;
    assert!(!world.dispatcher.take().unwrap().stop(Duration::ZERO).await);
    assert!(world.view("alarm").await.in_flight);
    world.adapter.open("a");
    world.free_leases();
    world.start().await;
    world.until("alarm", Status::Delivered).await;
}

/// C126: a delivery that takes longer than its lease keeps the lease, and is made once.
pub(crate) async fn c126_a_slow_delivery_keeps_its_lease(on: On) {
    let lease = Duration::from_millis(60);
    let world = World::new(on, Setup { lease, ..Setup::default() }).await;
    world.adapter.close("a");
    world.hand_in("alarm", "a").await;
    world.adapter.begun(1).await;
    let first_end = angarium_domain::time::Clock::now(world.clock.as_ref()).plus(lease);
    world.clock.advance(lease / 2);
    within(async {
        while !world.store.abandoned(first_end).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    world.adapter.open("a");
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent_to("a"), 1);
}

/// A process that was paused for longer than its lease drops the claim before the first byte.
pub(crate) async fn a_paused_process_does_not_send_under_a_lost_lease(on: On) {
    let lists = vec![("ops", vec!["a", "b"])];
    let setup =
        Setup { max_parallel_deliveries: 1, lists, lease: Duration::from_secs(600), ..Setup::default() };
    let world = World::new(on, setup).await;
    world.adapter.close("a");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(1).await;
    world.clock.advance(Duration::from_secs(599));
    world.adapter.open("a");
    let row = world.until("alarm", Status::Delivered).await;
    assert_eq!(row.targets.len(), 2);
    let told: Vec<_> =
        world.attempts("alarm").await.into_iter().map(|one| one.record.targets.unwrap()).collect();
    assert_eq!(told.len(), 2, "the second member waits for a claim that can be trusted");
    assert!(told[0].contains("a.example") && !told[0].contains("b.example"), "{}", told[0]);
    assert!(told[1].contains("b.example") && !told[1].contains("a.example"), "{}", told[1]);
}

/// C127: a channel that was taken out of the configuration while a retry waited gets nothing more; the row says why.
pub(crate) async fn c127_a_channel_that_is_gone_gets_nothing_more(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", [crate::support::fail(FailureClass::Transient)]);
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Retrying).await;
    world.let_go();
    world.crash().await;
    world.setup.unconfigured = true;
    world.start().await;
    world.advance(10);
    let row = world.until("alarm", Status::Parked).await;
    assert!(row.last_error.unwrap().detail.contains("channel_unknown"));
    assert_eq!(world.adapter.sent_to("a"), 1);
}

/// C047: a row that waits for longer than a lease holds none, and is tried once when its time has come.
pub(crate) async fn c047_a_wait_longer_than_the_lease(on: On) {
    let hours = |n: u64| Duration::from_secs(n * 3600);
    let retry = angarium_domain::retry::RetryPolicy::fixed(hours(6), 3);
    let channel = ChannelSettings { retry, ..Setup::default().channel };
    let world = World::new(on, Setup { channel, lease: hours(1), ..Setup::default() }).await;
    world.adapter.outcomes("a", [crate::support::fail(FailureClass::Transient)]);
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Retrying).await;
    for _ in 0..5 {
        world.advance(3600);
        assert!(world.store.abandoned(angarium_domain::time::Timestamp::LAST).await.unwrap().is_empty());
    }
    world.looked("five hours later").await;
    assert_eq!(world.adapter.sent_to("a"), 1);
    world.advance(3600);
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent_to("a"), 2);
}
