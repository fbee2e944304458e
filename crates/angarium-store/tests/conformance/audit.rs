use angarium_domain::state::Status;
use angarium_store::*;

use crate::support::{Database, at, error, note, parked, retried};

fn kinds(trail: &[AuditView]) -> Vec<(&str, &str)> {
    trail.iter().map(|entry| (entry.kind.as_str(), entry.actor.as_str())).collect()
}

/// OB-15, OB-16: accepted, one entry for each attempt, one for each end, and what operators did.
pub(crate) async fn the_trail_tells_the_whole_story(db: Database) {
    let alarm = note("alarm");
    db.accept(&alarm).await;
    db.accept(&alarm).await;
    let claim = db.claim_one(at(1)).await;
    db.settle(retried(&claim, at(1), at(2))).await;
    let claim = db.claim_one(at(2)).await;
    db.settle(parked(&claim, at(2))).await;
    db.act(&alarm, Action::Retry, at(3)).await;
    let claim = db.claim_one(at(3)).await;
    let unsent = Settlement { attempt: None, ..parked(&claim, at(4)) };
    db.settle(unsent).await;
    db.act(&alarm, Action::Discard, at(5)).await;
    let trail = db.store.audit(alarm.id()).await.unwrap();
    let expected = [
        ("accepted", "key:erp"),
        ("attempt", "system"),
        ("attempt", "system"),
        ("terminal", "system"),
        ("submitted", "key:ann"),
        ("terminal", "system"),
        ("terminal", "key:ann"),
    ];
    assert_eq!(kinds(&trail), expected);
}

/// OB-15, OB-16: an audit that cannot be written refuses nothing, and is written later, each entry once.
pub(crate) async fn a_failed_audit_write_changes_no_outcome_and_is_made_up_for(db: Database) {
    let (whole, broken) = (note("whole"), note("broken"));
    let live = |one: crate::support::Note, db: Database| async move {
        db.accept(&one).await;
        let claim = db.claim_one(at(1)).await;
        db.settle(retried(&claim, at(1), at(2))).await;
        let claim = db.claim_one(at(2)).await;
        let unsent = Settlement { attempt: None, ..parked(&claim, at(3)) };
        assert_eq!(db.settle(unsent).await, Settled::Applied);
        let revived = ActionOutcome::Done { status: Status::Pending, in_flight: false };
        assert_eq!(db.act(&one, Action::Retry, at(4)).await, revived);
        let claim = db.claim_one(at(4)).await;
        assert_eq!(db.settle(parked(&claim, at(5))).await, Settled::Applied);
        assert_eq!(db.view(&one).await.last_error, Some(error("HTTP 503")));
        db
    };
    let db = live(whole.clone(), db).await;
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 0, "nothing is missing");
    let failed_before = db.store.failed_audit_writes();
    db.break_the_trail();
    let db = live(broken.clone(), db).await;
    assert!(db.store.audit(broken.id()).await.unwrap().is_empty());
    assert!(db.store.failed_audit_writes() >= failed_before + 6, "each failure is counted");
    assert!(db.store.reemit_audit(&db.tenure().await).await.is_err());
    db.mend_the_trail();
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 1);
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 0);
    let (told, made_up) =
        (db.store.audit(whole.id()).await.unwrap(), db.store.audit(broken.id()).await.unwrap());
    let story = |trail: &[AuditView]| {
        trail
            .iter()
            .map(|entry| (entry.kind.clone(), entry.actor.clone(), entry.at, entry.detail.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(story(&made_up), story(&told), "what is made up for is what would have been written");
    db.tamper("UPDATE notifications SET audited = 0");
    db.store.reemit_audit(&db.tenure().await).await.unwrap();
    assert_eq!(db.store.audit(whole.id()).await.unwrap(), told, "writing an entry twice writes it once");
}
