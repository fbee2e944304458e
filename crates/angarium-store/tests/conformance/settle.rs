use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::{Progress, Scope};
use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_store::*;

use crate::support::{Database, at, delivered, error, members, note, parked, retried, with_scope};

/// OB-10: success writes time and state, with the attempt, in one commit.
pub(crate) async fn a_delivery_writes_attempt_and_state_together(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(1)).await;
    assert_eq!(db.settle(delivered(&claim, at(2))).await, Settled::Applied);
    let db = db.reopened().await;
    let row = db.view(&note("alarm")).await;
    assert_eq!(
        (row.status, row.delivered_at, row.completed_at),
        (Status::Delivered, Some(at(2)), Some(at(2)))
    );
    assert_eq!((row.next_attempt_at, row.in_flight, row.last_attempt_at), (None, false, Some(at(2))));
    let attempts = db.store.attempts(note("alarm").id(), 0, 1000).await.unwrap().unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].number, attempts[0].record.class, attempts[0].late), (1, None, false));
    assert_eq!(attempts[0].led_to, Status::Delivered);
    assert!(db.store.waiting_lanes(at(0)).await.unwrap().is_empty());
}

pub(crate) async fn a_failure_is_due_again_and_keeps_its_error(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(1)).await;
    db.settle(retried(&claim, at(2), at(27))).await;
    let row = db.view(&note("alarm")).await;
    assert_eq!((row.status, row.retry_count, row.next_attempt_at), (Status::Retrying, 1, Some(at(27))));
    assert_eq!(row.last_error, Some(error("HTTP 503")));
    assert_eq!(row.provider_response.as_deref(), Some("busy"));
    let attempt = db.store.attempts(note("alarm").id(), 0, 1000).await.unwrap().unwrap().remove(0);
    assert_eq!(
        (attempt.record.class, attempt.record.status_code),
        (Some(FailureClass::Transient), Some(503))
    );
}

/// A result whose generation is stale never takes a state back.
pub(crate) async fn a_late_failure_changes_nothing(db: Database) {
    db.accept(&note("alarm")).await;
    let stale = db.claim_one(at(0)).await;
    db.store.release(&stale, at(0)).await.unwrap();
    let current = db.claim_one(at(1)).await;
    assert_eq!(db.settle(parked(&stale, at(2))).await, Settled::Late);
    let row = db.view(&note("alarm")).await;
    assert_eq!((row.status, row.in_flight), (Status::Pending, true));
    assert_eq!(db.settle(delivered(&current, at(3))).await, Settled::Applied);
    assert_eq!(db.settle(parked(&stale, at(4))).await, Settled::Late);
    assert_eq!(db.settle(retried(&current, at(4), at(9))).await, Settled::Late, "a claim settles once");
    assert_eq!(db.view(&note("alarm")).await.status, Status::Delivered);
    let attempts = db.store.attempts(note("alarm").id(), 0, 1000).await.unwrap().unwrap();
    let seen: Vec<_> = attempts.iter().map(|one| (one.number, one.late)).collect();
    assert_eq!(seen, [(1, true), (2, false), (3, true), (4, true)], "evidence is kept");
}

pub(crate) async fn a_late_success_delivers_a_row_that_is_still_live(db: Database) {
    db.accept(&note("alarm")).await;
    let stale = db.claim_one(at(0)).await;
    db.store.release(&stale, at(0)).await.unwrap();
    let current = db.claim_one(at(1)).await;
    assert_eq!(db.settle(delivered(&stale, at(2))).await, Settled::LateDelivered);
    let row = db.view(&note("alarm")).await;
    assert_eq!((row.status, row.delivered_at, row.in_flight), (Status::Delivered, Some(at(2)), false));
    assert_eq!(db.settle(parked(&current, at(3))).await, Settled::Late, "the other one is fenced");
    assert_eq!(db.view(&note("alarm")).await.status, Status::Delivered);
}

pub(crate) async fn a_late_success_never_revives_a_terminal_row(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    db.act(&note("alarm"), Action::Cancel, at(1)).await;
    assert_eq!(db.settle(delivered(&claim, at(2))).await, Settled::Late);
    let row = db.view(&note("alarm")).await;
    assert_eq!((row.status, row.delivered_at), (Status::Skipped, None));
}

/// A lost claim is written down as interrupted by one process only, and only while its lease has ended.
pub(crate) async fn a_lost_claim_is_taken_back_once(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    let taken_back =
        |ended_by| Settlement { lease_ended_by: Some(ended_by), ..retried(&claim, at(61), at(61)) };
    assert_eq!(db.settle(taken_back(at(59))).await, Settled::Superseded, "the lease still runs");
    assert_eq!(db.settle(taken_back(at(60))).await, Settled::Applied);
    assert_eq!(db.settle(taken_back(at(60))).await, Settled::Superseded);
    assert_eq!(db.store.attempts(note("alarm").id(), 0, 1000).await.unwrap().unwrap().len(), 1);
}

/// OB-17: no error, and what the trail already says stands.
pub(crate) async fn an_outcome_for_a_row_that_is_gone_is_no_error(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    db.tamper("DELETE FROM notifications");
    assert_eq!(db.settle(delivered(&claim, at(1))).await, Settled::Gone);
    assert_eq!(db.store.audit(note("alarm").id()).await.unwrap().len(), 1);
}

pub(crate) async fn one_bad_outcome_harms_no_other(db: Database) {
    db.accept(&note("bad")).await;
    db.accept(&note("good")).await;
    let claims = db.claim_all(at(0)).await;
    db.tamper(
        "INSERT INTO attempts SELECT key, 1, 1, 0, 0, '', 'failed', NULL, NULL, NULL, 0, NULL, NULL, NULL, 'pending', 0, NULL
         FROM notifications ORDER BY key LIMIT 1",
    );
    let items = claims.iter().map(|claim| delivered(claim, at(1))).collect();
    assert_eq!(db.store.settle(items).await.unwrap(), [Settled::Failed, Settled::Applied]);
    assert!(db.view(&note("bad")).await.in_flight, "its lease ends by itself");
    assert_eq!(db.view(&note("good")).await.status, Status::Delivered);
}

/// A settlement with this answer of the receiver.
fn answered(mut settlement: Settlement, answer: &str) -> Settlement {
    settlement.attempt.as_mut().unwrap().response_excerpt = Some(answer.to_owned());
    Settlement { provider_message_id: Some(answer.to_owned()), ..settlement }
}

/// C062: what happened counts for more than the receiver's words, if these cannot be stored: the attempt is kept without
/// them, and nothing is sent again. Others that are settled with it keep theirs.
pub(crate) async fn a_success_counts_though_its_answer_cannot_be_stored(db: Database) {
    for name in ["delivered", "failed", "quiet"] {
        db.accept(&note(name)).await;
    }
    let claims = db.claim_all(at(0)).await;
    db.refuse_answers();
    let [good, bad, quiet] = &claims[..] else { panic!("{claims:?}") };
    let items = [
        answered(delivered(good, at(1)), "250 2.0.0 queued"),
        answered(retried(bad, at(1), at(9)), "451 4.0.0 busy"),
        delivered(quiet, at(1)),
    ];
    // Told twice, as if the first answer had been lost.
    for _ in 0..2 {
        assert_eq!(db.store.settle(items.to_vec()).await.unwrap(), [Settled::Applied; 3]);
    }
    let statuses = [Status::Delivered, Status::Retrying, Status::Delivered];
    for (name, status) in ["delivered", "failed", "quiet"].into_iter().zip(statuses) {
        let row = db.view(&note(name)).await;
        assert_eq!((row.status, row.in_flight, row.provider_response), (status, false, None), "{name}");
        let attempts = db.store.attempts(note(name).id(), 0, 10).await.unwrap().unwrap();
        assert_eq!(attempts.len(), 1, "{name}");
        assert_eq!((attempts[0].led_to, attempts[0].late), (status, false), "{name}");
        assert_eq!(attempts[0].record.response_excerpt, None, "{name}");
        assert_eq!(attempts[0].record.status_code, Some(if name == "failed" { 503 } else { 204 }));
        let trail = db.store.audit(note(name).id()).await.unwrap();
        assert_eq!(trail.iter().filter(|entry| entry.kind == "attempt").count(), 1, "{name}");
    }
}

/// C062: nor is a success lost that comes late with words that cannot be stored.
pub(crate) async fn a_late_success_counts_though_its_answer_cannot_be_stored(db: Database) {
    db.accept(&note("alarm")).await;
    let stale = db.claim_one(at(0)).await;
    db.store.release(&stale, at(0)).await.unwrap();
    db.claim_one(at(1)).await;
    db.refuse_answers();
    let settlement = answered(delivered(&stale, at(2)), "250 2.0.0 queued");
    assert_eq!(db.settle(settlement).await, Settled::LateDelivered);
    let row = db.view(&note("alarm")).await;
    assert_eq!((row.status, row.delivered_at, row.in_flight), (Status::Delivered, Some(at(2)), false));
    assert_eq!(db.store.attempts(note("alarm").id(), 0, 10).await.unwrap().unwrap().len(), 1);
}

/// C062: whatever bytes a receiver answers, the attempt is stored, with U+FFFD for what has no place in a text; the same
/// on both databases.
pub(crate) async fn c062_bad_bytes_are_kept_as_replacement_characters(db: Database) {
    let (told, kept) =
        ("a\0b\u{FFFD}c\u{FFFE}d\u{10FFFF}\0", "a\u{FFFD}b\u{FFFD}c\u{FFFE}d\u{10FFFF}\u{FFFD}");
    db.accept(&note("taken")).await;
    let claim = db.claim_one(at(0)).await;
    assert_eq!(db.settle(answered(delivered(&claim, at(1)), told)).await, Settled::Applied);
    db.accept(&note("refused").list("ops")).await;
    let claim = db.claim_one(at(2)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    db.store
        .resolve(&claim, ChannelKind::Webhook, &hooks, members(&["https://a.example/"]), at(2))
        .await
        .unwrap();
    let result = TargetResult {
        ordinal: 0,
        state: TargetState::Refused(error(told)),
        progress: Progress::default(),
        provider_message_id: Some(told.to_owned()),
    };
    db.store.settle_targets(&claim, vec![result]).await.unwrap();
    let mut settlement = answered(parked(&claim, at(3)), told);
    settlement.state = claim.state.clone().park(at(3), error(told)).unwrap();
    let attempt = settlement.attempt.as_mut().unwrap();
    (attempt.detail, attempt.targets) = (Some(told.to_owned()), Some(told.to_owned()));
    assert_eq!(db.settle(settlement).await, Settled::Applied);

    let row = db.view(&note("taken")).await;
    assert_eq!((row.status, row.provider_message_id.as_deref()), (Status::Delivered, Some(kept)));
    assert_eq!(row.provider_response.as_deref(), Some(kept));
    let row = db.view(&note("refused")).await;
    assert_eq!((row.status, row.last_error), (Status::Parked, Some(error(kept))));
    assert_eq!(row.targets[0].state, TargetState::Refused(error(kept)));
    let attempt = db.store.attempts(note("refused").id(), 0, 10).await.unwrap().unwrap().remove(0).record;
    assert_eq!(
        [attempt.detail, attempt.response_excerpt, attempt.targets],
        [(); 3].map(|()| Some(kept.to_owned()))
    );
    let trail = db.store.audit(note("refused").id()).await.unwrap();
    assert_eq!(trail.iter().filter(|entry| entry.kind == "attempt").count(), 1);
}

/// OB-12: what one address of a list accepted stays accepted, whatever comes later.
pub(crate) async fn an_accepted_address_is_never_sent_to_again(db: Database) {
    db.accept(&note("alarm").list("ops")).await;
    let stale = db.claim_one(at(0)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let both = members(&["https://a.example/", "https://b.example/"]);
    db.store.resolve(&stale, ChannelKind::Webhook, &hooks, both, at(0)).await.unwrap();
    let result = |ordinal, state| TargetResult {
        ordinal,
        state,
        progress: Progress::default(),
        provider_message_id: None,
    };
    db.store.settle_targets(&stale, vec![result(0, TargetState::Accepted)]).await.unwrap();
    db.store.release(&stale, at(0)).await.unwrap();
    let current = db.claim_one(at(1)).await;
    let refused = TargetState::Refused(error("no"));
    let late = vec![result(0, refused.clone()), result(1, refused.clone())];
    db.store.settle_targets(&stale, late).await.unwrap();
    let states =
        |payload: Payload| payload.targets.into_iter().map(|target| target.state).collect::<Vec<_>>();
    let now = states(db.store.load(&current, at(2)).await.unwrap().unwrap());
    assert_eq!(now[0], TargetState::Accepted);
    assert!(matches!(now[1], TargetState::Waiting { .. }), "a late refusal does not count");
    db.store.settle_targets(&stale, vec![result(1, TargetState::Accepted)]).await.unwrap();
    let now = states(db.store.load(&current, at(2)).await.unwrap().unwrap());
    assert_eq!(now[1], TargetState::Accepted, "a late success does");
}

pub(crate) async fn a_suspended_channel_is_shown_and_reopened_by_a_success(db: Database) {
    for name in ["a", "b", "c"] {
        db.accept(&note(name)).await;
    }
    let claims = db.claim_all(at(0)).await;
    db.settle(with_scope(retried(&claims[0], at(1), at(1)), &claims[0], Scope::SuspendChannel(at(300))))
        .await;
    let waiting = || async { db.store.waiting_lanes(at(0)).await.unwrap().remove(0) };
    let lane = waiting().await;
    assert_eq!((lane.suspended, lane.waits_until), (true, at(300)));
    db.settle(with_scope(delivered(&claims[1], at(2)), &claims[1], Scope::Healthy)).await;
    assert!(waiting().await.suspended, "that delivery was under way before");
    db.settle(with_scope(delivered(&claims[2], at(301)), &claims[2], Scope::Healthy)).await;
    assert!(!waiting().await.suspended);
}
