//! Lists: each member has its own fate.

use angarium_domain::channel::ChannelSettings;
use angarium_domain::outcome::FailureClass;
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
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world = World::new(Setup { channel, ..ops(vec!["a", "b", "c"]) }).await;
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
