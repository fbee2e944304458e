//! What becomes of a notification after each outcome.

use std::time::Duration;

use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::state::Status;
use angarium_domain::time::Clock;
use angarium_store::Action;

use crate::home::On;
use crate::support::{Act, Scripted, Setup, World, fail, list, ok};

/// OB-06: woken at once by new work, long before the interval ends.
pub(crate) async fn new_work_wakes_the_dispatcher(on: On) {
    let world =
        World::new(on, Setup { dispatch_interval: Duration::from_secs(3600), ..Setup::default() }).await;
    world.hand_in("alarm", "a").await;
    let row = world.until("alarm", Status::Delivered).await;
    assert_eq!((row.delivered_at, row.last_error), (Some(row.created_at), None));
    assert_eq!(world.attempts("alarm").await.len(), 1);
}

/// OB-06: and the fixed interval finds it without being woken.
pub(crate) async fn work_is_found_without_a_wake_up(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.accept("alarm", crate::support::hook("a")).await;
    world.until("alarm", Status::Delivered).await;
}

/// OB-10, OB-13: a transient failure is tried again when its time has come, and parked when retries end.
pub(crate) async fn transient_failures_are_retried_and_then_parked(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.adapter.outcomes(
        "a",
        [fail(FailureClass::Transient), fail(FailureClass::Transient), fail(FailureClass::Transient)],
    );
    world.hand_in("alarm", "a").await;
    let row = world.until("alarm", Status::Retrying).await;
    assert_eq!(row.retry_count, 1);
    world.advance(9);
    world.looked("not yet").await;
    assert_eq!(world.adapter.sent_to("a"), 1, "not before it is due");
    world.advance(1);
    world.adapter.begun(3).await;
    world.until("alarm", Status::Retrying).await;
    world.advance(10);
    let row = world.until("alarm", Status::Parked).await;
    assert_eq!((world.adapter.sent_to("a"), row.retry_count), (3, 2), "one try and two retries");
    assert_eq!(row.last_error.unwrap().class, FailureClass::Transient);
}

/// OB-10: a permanent failure parks at once.
pub(crate) async fn permanent_failures_park_at_once(on: On) {
    let world = World::new(on, Setup::default()).await;
    for (host, class) in [("m", FailureClass::PermanentMessage), ("r", FailureClass::PermanentRecipient)] {
        world.adapter.outcomes(host, [fail(class)]);
        world.hand_in(host, host).await;
        let row = world.until(host, Status::Parked).await;
        assert_eq!((row.last_error.unwrap().class, world.adapter.sent_to(host)), (class, 1));
    }
}

/// OB-16: Retry starts a fresh budget.
pub(crate) async fn an_operator_retry_starts_afresh(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", [fail(FailureClass::PermanentMessage), fail(FailureClass::Transient), ok()]);
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Parked).await;
    world.act("alarm", Action::Retry).await;
    assert_eq!(world.until("alarm", Status::Retrying).await.retry_count, 1);
    world.advance(10);
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.attempts("alarm").await.len(), 3);
}

/// OB-04: an unknown list is parked with "list not found".
pub(crate) async fn an_unknown_list_is_parked(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.accept("alarm", list("nobody")).await;
    let row = world.until("alarm", Status::Parked).await;
    assert_eq!(row.kind, ChannelKind::Email);
    assert!(row.last_error.unwrap().detail.contains("list not found"));
    assert!(world.adapter.sent().is_empty());
}

/// OB-08: no adapter for a kind parks; the last one registered for a kind wins.
pub(crate) async fn adapters_by_kind(on: On) {
    let setup = Setup { adapters: vec![Scripted::new(ChannelKind::Sms)], ..Setup::default() };
    let world = World::new(on, setup).await;
    world.hand_in("alarm", "a").await;
    let row = world.until("alarm", Status::Parked).await;
    assert!(row.last_error.unwrap().detail.contains("no adapter"));

    let (first, last) = (Scripted::new(ChannelKind::Webhook), Scripted::new(ChannelKind::Webhook));
    let world =
        World::new(on, Setup { adapters: vec![first.clone(), last.clone()], ..Setup::default() }).await;
    world.hand_in("alarm", "a").await;
    world.until("alarm", Status::Delivered).await;
    assert_eq!((first.sent().len(), last.sent().len()), (0, 1));
}

pub(crate) async fn a_disabled_channel_parks(on: On) {
    let channel = ChannelSettings { enabled: false, ..ChannelSettings::of(ChannelKind::Webhook) };
    let world = World::new(on, Setup { channel, ..Setup::default() }).await;
    world.hand_in("alarm", "a").await;
    let row = world.until("alarm", Status::Parked).await;
    assert!(row.last_error.unwrap().detail.contains("channel_disabled"));
    assert!(world.adapter.sent().is_empty() && world.attempts("alarm").await.is_empty());
}

/// DD-07: an adapter that panics, wherever, becomes a failed attempt, and the work goes on.
pub(crate) async fn a_panic_is_our_own_failure(on: On) {
    let world = World::new(on, Setup { lists: vec![("ops", vec!["c", "d"])], ..Setup::default() }).await;
    for (address, act) in [("a", Act::Panic), ("b", Act::PanicEarly), ("d", Act::PanicEarly)] {
        world.adapter.script(address, [act]);
    }
    world.hand_in("late", "a").await;
    world.hand_in("early", "b").await;
    world.accept("in a list", list("ops")).await;
    for name in ["late", "early", "in a list"] {
        let row = world.until(name, Status::Retrying).await;
        let error = row.last_error.unwrap();
        assert_eq!((error.class, row.retry_count), (FailureClass::Internal, 1), "{name}");
        assert!(error.detail.contains("adapter_threw"), "{name}: {}", error.detail);
    }
    world.looked("goes on").await;
}

/// C035: three receivers, three fates.
pub(crate) async fn c035_each_receiver_is_retried_on_its_own(on: On) {
    let world = World::new(on, Setup::default()).await;
    for host in ["a", "b", "c"] {
        world.adapter.outcomes(host, [fail(FailureClass::Transient)]);
        world.hand_in(host, host).await;
        world.until(host, Status::Retrying).await;
    }
    world.advance(10);
    for host in ["a", "b", "c"] {
        world.until(host, Status::Delivered).await;
        assert_eq!(world.adapter.sent_to(host), 2);
    }
}

pub(crate) fn limited() -> Outcome {
    let retry_after = Some(Duration::from_secs(30));
    Outcome::Failed(Failure { retry_after, ..Failure::new(FailureClass::RateLimited, "HTTP 429") })
}

/// C043: a rate limit holds for its receiver and for nobody else.
pub(crate) async fn c043_a_rate_limit_slows_its_receiver_alone(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", [limited()]);
    world.hand_in("first", "a").await;
    world.until("first", Status::Retrying).await;
    world.hand_in("second", "a").await;
    world.looked("other receiver").await;
    world.advance(29);
    world.looked("still other receiver").await;
    assert_eq!(world.adapter.sent_to("a"), 1, "nothing goes to a before the wait is over");
    world.advance(1);
    world.until("first", Status::Delivered).await;
    world.until("second", Status::Delivered).await;
    assert_eq!(world.adapter.sent_to("a"), 3);
}

/// C043: rate limits cost no budget, however many there are.
pub(crate) async fn c043_a_rate_limit_costs_no_budget(on: On) {
    let world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", (0..5).map(|_| limited()));
    world.hand_in("alarm", "a").await;
    for retries in 1..=5 {
        world.adapter.begun(retries).await;
        let row = world.until("alarm", Status::Retrying).await;
        assert_eq!(row.retry_count as usize, retries, "more than its budget of two");
        world.advance(30);
    }
    world.until("alarm", Status::Delivered).await;
}

/// C114: after an opt-out nothing more is sent to that address, and what waited is parked, visible.
pub(crate) async fn c114_an_opt_out_ends_an_address(on: On) {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world = World::asleep(on, Setup { channel, ..Setup::default() }).await;
    let gone = Failure { suppress: true, ..Failure::new(FailureClass::PermanentRecipient, "HTTP 410") };
    world.adapter.outcomes("a", [Outcome::Failed(gone)]);
    let mut world = world;
    for name in ["first", "second", "third"] {
        world.hand_in(name, "a").await;
    }
    world.start().await;
    for name in ["first", "second", "third"] {
        let row = world.until(name, Status::Parked).await;
        assert_eq!(row.last_error.unwrap().class, FailureClass::PermanentRecipient);
    }
    assert_eq!(world.adapter.sent_to("a"), 1);
    assert_eq!(world.store.list_suppressions(None, 100).await.unwrap().len(), 1);
}

/// C051: a wait of seconds stays one when the clock that all follow is set back by hours.
pub(crate) async fn c051_a_wait_follows_a_clock_that_is_set_back(on: On) {
    let mut world = World::new(on, Setup::default()).await;
    world.adapter.outcomes("a", [limited()]);
    world.hand_in("first", "a").await;
    world.until("first", Status::Retrying).await;
    world.clock.step_wall_clock(world.clock.now().minus(Duration::from_secs(7200)));
    world.beat().await;
    let waits: Vec<_> = world.store.waiting_lanes(world.clock.now()).await.unwrap();
    let longest = waits.iter().map(|lane| lane.waits_until.since(world.clock.now())).max();
    assert_eq!(longest, Some(Duration::from_secs(30)));
    world.hand_in("second", "a").await;
    world.advance(30);
    world.until("second", Status::Delivered).await;
}
