//! Lists: each member has its own fate.

use std::time::Duration;

use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_store::Action;

use crate::support::{Setup, World, fail, list};

fn ops(members: Vec<&'static str>) -> Setup {
    Setup { lists: vec![("ops", members)], ..Setup::default() }
}

/// OB-07, OB-12: who accepted is not sent to again; who is busy is retried alone; who refuses is named.
#[tokio::test]
async fn one_fine_one_refused_one_busy() {
    let world = World::new(ops(vec!["fine", "refused", "busy"])).await;
    world.adapter.outcomes("refused", [fail(FailureClass::PermanentRecipient)]);
    world.adapter.outcomes("busy", [fail(FailureClass::Transient)]);
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Retrying).await;
    assert_eq!((row.retry_count, row.targets.len()), (1, 3));
    world.advance(10);
    let row = world.until("alarm", Status::Delivered).await;
    let error = row.last_error.unwrap();
    assert!(error.detail.contains("https://refused.example/"), "{}", error.detail);
    assert!(!error.detail.contains("busy.example"), "{}", error.detail);
    let sent = world.adapter.sent();
    assert_eq!((sent.len(), world.adapter.sent_to("busy")), (4, 2));
    assert_eq!(row.targets[0].state, TargetState::Accepted);
    let attempts = world.attempts("alarm").await;
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1].record.targets.as_deref().unwrap().contains("busy"));
}

/// OB-12: parked when nobody accepted.
#[tokio::test]
async fn a_list_that_nobody_accepts_is_parked() {
    let world = World::new(ops(vec!["a", "b"])).await;
    for host in ["a", "b"] {
        world.adapter.outcomes(host, [fail(FailureClass::PermanentRecipient)]);
    }
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Parked).await;
    let detail = row.last_error.unwrap().detail;
    assert!(detail.contains("a.example") && detail.contains("b.example"), "{detail}");
    world.act("alarm", Action::Retry).await;
    world.until("alarm", Status::Delivered).await;
}

/// A cancelled list stops between members: what has not been sent is not sent.
#[tokio::test]
async fn cancel_stops_a_list_on_its_way() {
    let world = World::new(Setup { max_parallel_deliveries: 1, ..ops(vec!["a", "b", "c"]) }).await;
    world.adapter.close("a");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(1).await;
    world.act("alarm", Action::Cancel).await;
    world.adapter.open("a");
    let row = world.until("alarm", Status::Skipped).await;
    world.looked("afterwards").await;
    assert_eq!(world.adapter.sent(), ["a", "marker-afterwards"]);
    assert_eq!(row.skip_reason.as_deref(), Some("cancelled"));
}

/// A list that was configured only after it was written to is delivered on the channel it has now.
#[tokio::test]
async fn a_list_that_was_not_known_when_it_was_written_to() {
    let mut world = World::asleep(ops(vec!["a"])).await;
    world.accept_stamped("alarm", list("ops"), false).await;
    assert_eq!(world.view("alarm").await.kind, ChannelKind::Email);
    world.start().await;
    let row = world.until("alarm", Status::Delivered).await;
    assert_eq!((row.kind, row.channel.as_deref()), (ChannelKind::Webhook, Some("hooks")));
    assert_eq!(world.adapter.sent(), ["a"]);
}

/// While it cannot be written what became of a member, nothing more is sent, and nothing is sent twice.
#[tokio::test]
async fn a_database_that_takes_no_outcome_stops_a_list() {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let mut world = World::asleep(Setup { channel, ..ops(vec!["a/1", "a/2"]) }).await;
    world.tamper("CREATE TRIGGER broken BEFORE UPDATE ON targets BEGIN SELECT RAISE(ABORT, 'no'); END");
    world.accept("alarm", list("ops")).await;
    world.start().await;
    world.adapter.begun(1).await;
    world.looked("meanwhile").await;
    assert_eq!(world.adapter.sent(), ["a/1", "marker-meanwhile"]);
    world.tamper("DROP TRIGGER broken");
    world.until("alarm", Status::Delivered).await;
    assert_eq!((world.adapter.sent_to("a/1"), world.adapter.sent_to("a/2")), (1, 1));
}

/// What a receiver asks for in one list is heeded for that receiver, and for nobody else in the list.
#[tokio::test]
async fn a_rate_limited_member_holds_up_no_other() {
    let world = World::new(ops(vec!["a", "b"])).await;
    let retry_after = Some(Duration::from_secs(30));
    let limited = Failure { retry_after, ..Failure::new(FailureClass::RateLimited, "HTTP 429") };
    world.adapter.outcomes("a", [Outcome::Failed(limited)]);
    world.accept("first", list("ops")).await;
    world.until("first", Status::Retrying).await;
    world.accept("second", list("ops")).await;
    world.adapter.begun(3).await;
    world.until("second", Status::Pending).await;
    world.looked("meanwhile").await;
    assert_eq!((world.adapter.sent_to("a"), world.adapter.sent_to("b")), (1, 2));
    world.advance(30);
    for name in ["first", "second"] {
        world.until(name, Status::Delivered).await;
    }
    assert_eq!((world.adapter.sent_to("a"), world.adapter.sent_to("b")), (3, 2));
}

/// A member whose receiver hangs holds up neither the other members nor the next notification.
#[tokio::test]
async fn a_member_that_hangs_holds_up_no_other() {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world = World::new(Setup { channel, ..ops(vec!["dead/1", "dead/2", "dead/3", "well"]) }).await;
    world.adapter.close("dead/1");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(2).await;
    assert_eq!(world.adapter.sent(), ["dead/1", "well"], "one at a time to the same receiver");
    world.adapter.open("dead/1");
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent().len(), 4);
}

/// Members behind receivers that failed lately come last.
#[tokio::test]
async fn members_that_work_come_first() {
    let world = World::new(Setup { max_parallel_deliveries: 1, ..ops(vec!["dead", "well"]) }).await;
    world.adapter.outcomes("dead", [fail(FailureClass::Transient)]);
    world.hand_in("first", "dead").await;
    world.until("first", Status::Retrying).await;
    world.accept("alarm", list("ops")).await;
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent(), ["dead", "well", "dead"]);
}
