use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Progress;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_store::*;

use crate::support::{Database, at, error, members, note, parked, retried};

/// OB-05, OB-16: who may do what to which status; a wrong status is told, a missing row is not a success.
pub(crate) async fn every_action_on_every_status(db: Database) {
    let all = [Action::Retry, Action::Discard, Action::Cancel];
    let allowed = |status, action| match (status, action) {
        (Status::Parked, Action::Retry) => Some(Status::Pending),
        (Status::Parked, Action::Discard) => Some(Status::Discarded),
        (Status::Pending | Status::Retrying, Action::Cancel) => Some(Status::Skipped),
        _ => None,
    };
    for status in Status::ALL {
        for action in all {
            let one = note(&format!("{status}-{}", action.as_str()));
            bring_to(&db, &one, status).await;
            let expected = match allowed(status, action) {
                Some(status) => ActionOutcome::Done { status, in_flight: false },
                None => ActionOutcome::Refused(status),
            };
            assert_eq!(db.act(&one, action, at(9)).await, expected, "{status} {action:?}");
            let now = allowed(status, action).unwrap_or(status);
            assert_eq!(db.view(&one).await.status, now);
            db.tamper("UPDATE notifications SET due_at = NULL");
        }
    }
    for action in all {
        assert_eq!(db.act(&note("nobody"), action, at(9)).await, ActionOutcome::NotFound);
    }
    assert!(db.store.audit(note("nobody").id()).await.unwrap().is_empty());
}

async fn bring_to(db: &Database, one: &crate::support::Note, status: Status) {
    match status {
        Status::Pending => drop(db.accept(one).await),
        Status::Retrying => {
            db.accept(one).await;
            let claim = db.claim_one(at(0)).await;
            db.settle(retried(&claim, at(0), at(1_000))).await;
        }
        Status::Delivered => db.delivered(one).await,
        Status::Parked => db.parked(one).await,
        Status::Discarded => {
            db.parked(one).await;
            db.act(one, Action::Discard, at(1)).await;
        }
        Status::Skipped => {
            db.accept(one).await;
            db.act(one, Action::Cancel, at(1)).await;
        }
    }
}

/// OB-16: pending, count and next time reset; attempts go on being numbered; the operator is named.
pub(crate) async fn retry_starts_afresh(db: Database) {
    let alarm = note("alarm");
    db.accept(&alarm).await;
    let claim = db.claim_one(at(0)).await;
    db.settle(retried(&claim, at(0), at(1))).await;
    let claim = db.claim_one(at(1)).await;
    db.settle(parked(&claim, at(1))).await;
    let done = ActionOutcome::Done { status: Status::Pending, in_flight: false };
    assert_eq!(db.act(&alarm, Action::Retry, at(5)).await, done);
    assert_eq!(db.act(&alarm, Action::Retry, at(5)).await, ActionOutcome::Refused(Status::Pending));
    let row = db.view(&alarm).await;
    assert_eq!((row.retry_count, row.next_attempt_at, row.completed_at), (0, Some(at(5)), None));
    let again = db.claim_one(at(5)).await;
    assert_eq!(again.progress, Progress::default());
    db.settle(crate::support::delivered(&again, at(6))).await;
    let numbers: Vec<_> = db
        .store
        .attempts(alarm.id(), 0, 1000)
        .await
        .unwrap()
        .unwrap()
        .iter()
        .map(|attempt| attempt.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    let trail = db.store.audit(alarm.id()).await.unwrap();
    let retry = trail.iter().find(|entry| entry.kind == "submitted").unwrap();
    assert_eq!((retry.actor.as_str(), retry.at), ("key:ann", at(5)));
    assert!(retry.detail.contains("asked to"), "{}", retry.detail);
}

pub(crate) async fn retry_of_a_list_spares_those_who_took_it(db: Database) {
    let alarm = note("alarm").list("ops");
    db.accept(&alarm).await;
    let claim = db.claim_one(at(0)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let both = members(&["https://a.example/", "https://b.example/"]);
    db.store.resolve(&claim, ChannelKind::Webhook, &hooks, both, at(0)).await.unwrap();
    let result = |ordinal, state| TargetResult {
        ordinal,
        state,
        progress: Progress::default(),
        provider_message_id: None,
    };
    let results = vec![result(0, TargetState::Accepted), result(1, TargetState::Refused(error("no")))];
    db.store.settle_targets(&claim, results).await.unwrap();
    db.settle(parked(&claim, at(1))).await;
    db.act(&alarm, Action::Retry, at(5)).await;
    let states: Vec<_> = db.view(&alarm).await.targets.into_iter().map(|target| target.state).collect();
    assert_eq!(states[0], TargetState::Accepted);
    assert!(matches!(states[1], TargetState::Waiting { due, .. } if due == at(5)));
}

/// An attempt that is under way may still reach the receiver; the answer says so, and its result changes nothing.
pub(crate) async fn cancel_fences_the_attempt_under_way(db: Database) {
    let alarm = note("alarm");
    db.accept(&alarm).await;
    let claim = db.claim_one(at(0)).await;
    let cancelled = ActionOutcome::Done { status: Status::Skipped, in_flight: true };
    assert_eq!(db.act(&alarm, Action::Cancel, at(1)).await, cancelled);
    assert!(db.store.load(&claim, at(2)).await.unwrap().is_none(), "nothing is sent under that claim");
    assert_eq!(db.settle(retried(&claim, at(2), at(3))).await, Settled::Late);
    let row = db.view(&alarm).await;
    assert_eq!((row.status, row.skip_reason.as_deref()), (Status::Skipped, Some("cancelled")));
    assert!(db.claim_all(at(1_000)).await.is_empty());
}
