use angarium_domain::bounce::{Bounce, BounceAction};
use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Progress;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::text::{Actor, KeyName};
use angarium_domain::time::Timestamp;
use angarium_store::*;

use crate::support::{Database, Note, at, delivered, error, mailbox, note, relay, retried};

fn bounce(address: &str, action: BounceAction, status: &str) -> Bounce {
    let diagnostic = Some("550 no such mailbox".to_owned());
    Bounce { address: mailbox(address), action, status: status.into(), diagnostic }
}

fn hard(address: &str) -> Bounce {
    bounce(address, BounceAction::Failed, "5.1.1")
}

async fn report(db: &Database, about: &Note, bounces: Vec<Bounce>, now: Timestamp) -> BounceOutcome {
    let actor = Actor::key(&KeyName::parse("postmaster").unwrap());
    let report = BounceReport { notification: about.id(), bounces };
    db.store.record_bounces(report, actor, now).await.unwrap()
}

/// New, known, strangers, suppressed.
fn recorded(new: usize, known: usize, strangers: usize, suppressed: usize) -> BounceOutcome {
    BounceOutcome::Recorded { new, known, strangers, suppressed }
}

async fn suppressed(db: &Database) -> Vec<String> {
    let all = db.store.list_suppressions(None, 100).await.unwrap();
    all.into_iter().map(|one| one.address).collect()
}

/// The kinds of a trail's entries.
async fn trail(db: &Database, about: &Note) -> Vec<String> {
    db.store.audit(about.id()).await.unwrap().into_iter().map(|entry| entry.kind).collect()
}

/// A list of these members, each sent to under one claim; the claim is still open.
async fn sent_to_list(db: &Database, about: &Note, states: &[(&str, TargetState)]) -> Claim {
    let members: Vec<_> = states.iter().map(|(address, _)| *address).collect();
    let claim = resolved(db, about, &members).await;
    db.store.settle_targets(&claim, results(0, states)).await.unwrap();
    claim
}

/// A list of these members, none sent to yet.
async fn resolved(db: &Database, about: &Note, members: &[&str]) -> Claim {
    db.accept(about).await;
    let claim = db.claim_one(at(0)).await;
    let members = members.iter().map(|address| mailbox(address)).collect();
    assert!(db.store.resolve(&claim, ChannelKind::Email, &relay(), members, at(0)).await.unwrap());
    claim
}

/// How members fared, from this place of the list on.
fn results(first: i64, states: &[(&str, TargetState)]) -> Vec<TargetResult> {
    let result = |(ordinal, (_, state)): (i64, &(&str, TargetState))| TargetResult {
        ordinal,
        state: state.clone(),
        progress: Progress::default(),
        provider_message_id: None,
    };
    (first..).zip(states).map(result).collect()
}

pub(crate) async fn a_hard_bounce_marks_and_suppresses(db: Database) {
    let alarm = note("alarm").mail("ops@example.net");
    db.delivered(&alarm).await;
    let outcome = report(&db, &alarm, vec![hard("ops@example.net")], at(60)).await;
    assert_eq!(outcome, recorded(1, 0, 0, 1));
    let db = db.reopened().await;

    let why = "bounced: 5.1.1 550 no such mailbox";
    let row = db.view(&alarm).await;
    assert_eq!((row.status, row.delivered_at), (Status::Delivered, Some(at(0))), "delivered stays delivered");
    assert_eq!(row.bounced.as_deref(), Some(why));
    let named =
        LastError { class: FailureClass::PermanentRecipient, detail: format!("ops@example.net: {why}") };
    assert_eq!(row.last_error, Some(named));
    assert_eq!(db.store.list(Filter::default(), 10).await.unwrap().items, [row], "a listing says the same");

    let expected = Suppression {
        channel: "relay".into(),
        address: "ops@example.net".into(),
        reason: why.into(),
        since: at(60),
    };
    assert_eq!(db.store.list_suppressions(None, 100).await.unwrap(), [expected]);

    let trail = db.store.audit(alarm.id()).await.unwrap();
    let last = trail.last().unwrap();
    assert_eq!((last.kind.as_str(), last.actor.as_str(), last.at), ("bounced", "key:postmaster", at(60)));
    let expected = r#"{"action":"failed","address":"ops@example.net","diagnostic":"550 no such mailbox","status":"5.1.1","suppressed":true}"#;
    assert_eq!(last.detail, expected);
}

pub(crate) async fn the_same_report_again_changes_nothing(db: Database) {
    let alarm = note("alarm").mail("ops@example.net");
    db.delivered(&alarm).await;
    let twice = vec![hard("ops@example.net"), hard("ops@example.net")];
    assert_eq!(report(&db, &alarm, twice, at(60)).await, recorded(1, 1, 0, 1));
    let (row, entries) = (db.view(&alarm).await, db.store.audit(alarm.id()).await.unwrap());
    assert!(db.store.lift_suppression("relay", "ops@example.net").await.unwrap());
    let again = bounce("ops@example.net", BounceAction::Failed, "5.2.2");
    assert_eq!(report(&db, &alarm, vec![again], at(90)).await, recorded(0, 1, 0, 0));
    assert_eq!(db.view(&alarm).await, row);
    assert_eq!(db.store.audit(alarm.id()).await.unwrap(), entries);
    assert!(
        suppressed(&db).await.is_empty(),
        "what an operator lifted is not suppressed again by an old report"
    );
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 0);

    let second = note("second").mail("ops@example.net");
    db.delivered(&second).await;
    let outcome = report(&db, &second, vec![hard("ops@example.net")], at(91)).await;
    assert_eq!(outcome, recorded(1, 0, 0, 1), "a bounce of another notification is news");
    let third = note("third").mail("ops@example.net");
    db.delivered(&third).await;
    let outcome = report(&db, &third, vec![hard("ops@example.net")], at(92)).await;
    assert_eq!(outcome, recorded(1, 0, 0, 0), "it was suppressed before");
}

/// A forged report cannot suppress an address that its notification never went to.
pub(crate) async fn a_stranger_is_never_written_down(db: Database) {
    let (alarm, other) = (note("alarm").mail("ops@example.net"), note("other").mail("boss@example.net"));
    db.delivered(&alarm).await;
    db.delivered(&other).await;
    let forged = vec![hard("boss@example.net"), hard("ops@example.org"), hard("xops@example.net")];
    assert_eq!(report(&db, &alarm, forged, at(60)).await, recorded(0, 0, 3, 0));
    assert!(suppressed(&db).await.is_empty());
    for one in [&alarm, &other] {
        assert!(!trail(&db, one).await.contains(&"bounced".to_owned()));
        assert_eq!((db.view(one).await.bounced, db.view(one).await.last_error), (None, None));
    }
    let mixed = vec![hard("boss@example.net"), hard("ops@example.net")];
    assert_eq!(report(&db, &alarm, mixed, at(61)).await, recorded(1, 0, 1, 1));
    assert_eq!(suppressed(&db).await, ["ops@example.net"]);
}

/// An address that no attempt ever reached: the notification waits, was cancelled, was given up without a try; of a
/// list, a member that still waits or was refused because it is suppressed.
pub(crate) async fn whoever_was_not_sent_to_is_a_stranger(db: Database) {
    let (waiting, cancelled) =
        (note("waiting").mail("ops@example.net"), note("cancelled").mail("ops@example.net"));
    let untried = note("untried").mail("ops@example.net");
    db.accept(&untried).await;
    let claim = db.claim_one(at(0)).await;
    let state = claim.state.clone().park(at(0), error("the address is suppressed: HTTP 410")).unwrap();
    db.settle(Settlement::of(&claim, state, claim.progress)).await;
    db.accept(&waiting).await;
    db.accept(&cancelled).await;
    db.act(&cancelled, Action::Cancel, at(1)).await;
    for about in [&waiting, &cancelled, &untried] {
        let outcome = report(&db, about, vec![hard("ops@example.net")], at(60)).await;
        assert_eq!(outcome, recorded(0, 0, 1, 0), "{:?}", db.view(about).await.status);
    }
    db.act(&waiting, Action::Cancel, at(60)).await;

    let alarm = note("alarm").list("ops");
    let accepted = [("a@example.net", TargetState::Accepted)];
    let members = ["a@example.net", "b@example.net", "c@example.net"];
    let claim = resolved(&db, &alarm, &members).await;
    db.store.settle_targets(&claim, results(0, &accepted)).await.unwrap();
    let refused = [("b@example.net", TargetState::Refused(error("the address is suppressed")))];
    db.store.settle_untried(&claim, results(1, &refused)).await.unwrap();
    db.settle(retried(&claim, at(2), at(500))).await;
    let all: Vec<_> = members.iter().map(|address| hard(address)).collect();
    assert_eq!(report(&db, &alarm, all, at(60)).await, recorded(1, 0, 2, 1));
    assert_eq!(suppressed(&db).await, ["a@example.net"]);
}

/// While an attempt is under way, and after one that was lost, it is not known whom it reached.
pub(crate) async fn whoever_may_have_been_sent_to_is_none(db: Database) {
    let (alarm, alone) = (note("alarm").list("ops"), note("alone").mail("c@example.net"));
    let claim = resolved(&db, &alarm, &["a@example.net", "b@example.net"]).await;
    assert_eq!(report(&db, &alarm, vec![hard("a@example.net")], at(1)).await, recorded(1, 0, 0, 1));
    let mut lost = retried(&claim, at(2), at(500));
    lost.attempt.as_mut().unwrap().class = Some(FailureClass::Interrupted);
    db.settle(lost).await;
    assert_eq!(report(&db, &alarm, vec![hard("b@example.net")], at(3)).await, recorded(1, 0, 0, 1));

    db.accept(&alone).await;
    let claim = db.claim_one(at(4)).await;
    assert_eq!(report(&db, &alone, vec![hard("c@example.net")], at(5)).await, recorded(1, 0, 0, 1));
    db.act(&alone, Action::Cancel, at(6)).await;
    assert_eq!(db.settle(retried(&claim, at(7), at(8))).await, Settled::Late);
    let delayed = bounce("c@example.net", BounceAction::Delayed, "4.4.1");
    assert_eq!(report(&db, &alone, vec![delayed], at(9)).await, recorded(1, 0, 0, 0));
}

/// RFC 3463: what is wrong with the message, its sender or a server says nothing about the mailbox.
pub(crate) async fn a_soft_bounce_marks_and_suppresses_nobody(db: Database) {
    let full_or_large =
        ["5.2.2", "5.2.3", "5.2.10", "5.3.4", "5.4.1", "5.7.1", "5.0.0", "5.1.7", "5.1.8", "5.10.1"];
    for status in ["4.2.2", "4.1.1", "", "2.0.0"].into_iter().chain(full_or_large) {
        let alarm = note(&format!("alarm {status}")).mail("ops@example.net");
        db.delivered(&alarm).await;
        let soft = bounce("ops@example.net", BounceAction::Failed, status);
        assert_eq!(report(&db, &alarm, vec![soft], at(60)).await, recorded(1, 0, 0, 0), "{status:?}");
        let why = format!("bounced: {status} 550 no such mailbox").replace("  ", " ");
        assert_eq!(db.view(&alarm).await.bounced, Some(why));
        assert_eq!(trail(&db, &alarm).await.last().unwrap(), "bounced");
    }
    assert!(suppressed(&db).await.is_empty());
    for status in ["5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"] {
        let alarm = note(&format!("alarm {status}")).mail(&format!("{status}@example.net"));
        db.delivered(&alarm).await;
        let gone = bounce(&format!("{status}@example.net"), BounceAction::Failed, status);
        assert_eq!(report(&db, &alarm, vec![gone], at(60)).await, recorded(1, 0, 0, 1), "{status}");
    }
    let silent = note("silent").mail("ops@example.net");
    db.delivered(&silent).await;
    let bounce = Bounce { status: String::new(), diagnostic: None, ..hard("ops@example.net") };
    report(&db, &silent, vec![bounce], at(60)).await;
    assert_eq!(db.view(&silent).await.bounced.as_deref(), Some("bounced: no reason was given"));
}

/// The first report says that the mailbox is full, a later one that it is gone; both stand, and the latter counts.
pub(crate) async fn a_failure_for_good_is_news_after_one_that_may_pass(db: Database) {
    let alarm = note("alarm").mail("ops@example.net");
    db.delivered(&alarm).await;
    let full = || bounce("ops@example.net", BounceAction::Failed, "5.2.2");
    assert_eq!(report(&db, &alarm, vec![full(), full()], at(60)).await, recorded(1, 1, 0, 0));
    assert_eq!(report(&db, &alarm, vec![hard("ops@example.net")], at(61)).await, recorded(1, 0, 0, 1));
    assert_eq!(
        report(&db, &alarm, vec![full(), hard("ops@example.net")], at(62)).await,
        recorded(0, 2, 0, 0)
    );
    assert_eq!(db.view(&alarm).await.bounced.as_deref(), Some("bounced: 5.1.1 550 no such mailbox"));
    assert_eq!(trail(&db, &alarm).await.iter().filter(|kind| *kind == "bounced").count(), 2);

    let second = note("second").mail("ops@example.net");
    db.delivered(&second).await;
    assert_eq!(
        report(&db, &second, vec![full(), hard("ops@example.net")], at(63)).await,
        recorded(2, 0, 0, 0)
    );
    assert_eq!(trail(&db, &second).await.iter().filter(|kind| *kind == "bounced").count(), 2, "told at once");
}

pub(crate) async fn what_is_no_failure_is_recorded_alone(db: Database) {
    let alarm = note("alarm").mail("ops@example.net");
    db.delivered(&alarm).await;
    let before = db.view(&alarm).await;
    let others = BounceAction::ALL.into_iter().filter(|action| *action != BounceAction::Failed);
    let all: Vec<_> = others.map(|action| bounce("ops@example.net", action, "5.0.0")).collect();
    assert_eq!(report(&db, &alarm, all, at(60)).await, recorded(4, 0, 0, 0));
    assert_eq!(db.view(&alarm).await, before);
    assert!(suppressed(&db).await.is_empty());
    let trail = db.store.audit(alarm.id()).await.unwrap();
    let told: Vec<_> = trail.iter().filter(|entry| entry.kind == "bounced").collect();
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|entry| entry.detail.contains(r#""suppressed":false"#)));
    let failed = report(&db, &alarm, vec![hard("ops@example.net")], at(90)).await;
    assert_eq!(failed, recorded(1, 0, 0, 1), "a failure after a delay is news");
}

/// OB-12: of a list, the members that bounced are marked and named, beside those that had refused before.
pub(crate) async fn a_member_of_a_list_is_named(db: Database) {
    let alarm = note("alarm").list("ops");
    let states = [
        ("a@example.net", TargetState::Accepted),
        ("b@example.net", TargetState::Refused(error("550 no"))),
        ("c@example.net", TargetState::Accepted),
    ];
    let claim = sent_to_list(&db, &alarm, &states).await;
    let state = claim.state.clone().deliver(at(1), Some(error("b@example.net: 550 no"))).unwrap();
    db.settle(Settlement { state, ..delivered(&claim, at(1)) }).await;
    let both = vec![hard("c@example.net"), hard("d@example.net")];
    assert_eq!(report(&db, &alarm, both, at(60)).await, recorded(1, 0, 1, 1));
    let row = db.view(&alarm).await;
    let why = "bounced: 5.1.1 550 no such mailbox";
    let marked: Vec<_> = row.targets.iter().map(|target| target.bounced.as_deref()).collect();
    assert_eq!(marked, [None, None, Some(why)]);
    assert_eq!(row.targets[2].state, TargetState::Accepted);
    assert_eq!((row.status, row.bounced), (Status::Delivered, None));
    let named = LastError {
        class: FailureClass::PermanentRecipient,
        detail: format!("c@example.net: {why}; b@example.net: 550 no"),
    };
    assert_eq!(row.last_error, Some(named));
    assert_eq!(suppressed(&db).await, ["c@example.net"]);
}

/// While a list is still being sent, a bounce touches neither the claim nor the members that wait, and what later
/// attempts write does not hide it. The suppression refuses whoever waits.
pub(crate) async fn a_later_attempt_hides_no_bounce(db: Database) {
    let alarm = note("alarm").list("ops");
    let waiting = TargetState::Waiting { due: at(5), error: None };
    let states = [("a@example.net", TargetState::Accepted), ("b@example.net", waiting.clone())];
    let claim = sent_to_list(&db, &alarm, &states).await;
    let both = vec![hard("a@example.net"), hard("b@example.net")];
    assert_eq!(report(&db, &alarm, both, at(1)).await, recorded(2, 0, 0, 2));
    assert_eq!(db.settle(retried(&claim, at(2), at(5))).await, Settled::Applied, "the claim stood");

    let claim = db.claim_one(at(5)).await;
    assert_eq!(claim.state.error(), Some(&error("HTTP 503")), "what an attempt said stays what it is");
    let targets = db.store.load(&claim, at(2)).await.unwrap().unwrap().targets;
    assert_eq!(targets[1].state, waiting);
    assert_eq!(targets[1].suppressed.as_deref(), Some("bounced: 5.1.1 550 no such mailbox"));
    db.settle(delivered(&claim, at(6))).await;
    let row = db.view(&alarm).await;
    assert_eq!(row.status, Status::Delivered);
    let detail = row.last_error.unwrap().detail;
    assert!(
        detail.starts_with("a@example.net: bounced") && detail.contains("; b@example.net: bounced"),
        "{detail}"
    );
}

pub(crate) async fn a_report_about_nothing_is_told(db: Database) {
    let outcome = report(&db, &note("nobody"), vec![hard("ops@example.net")], at(0)).await;
    assert_eq!(outcome, BounceOutcome::UnknownNotification);
    let alarm = note("alarm").mail("ops@example.net");
    db.delivered(&alarm).await;
    db.tamper("DELETE FROM notifications");
    let outcome = report(&db, &alarm, vec![hard("ops@example.net")], at(0)).await;
    assert_eq!(outcome, BounceOutcome::UnknownNotification, "its id is remembered, its addresses are not");
    assert!(suppressed(&db).await.is_empty());
}

/// Mail servers tell a local part in a case of their own; what is suppressed is the address as it is sent to.
pub(crate) async fn the_case_of_a_local_part_is_no_stranger(db: Database) {
    let alarm = note("alarm").mail("Ops.Night@example.net");
    db.delivered(&alarm).await;
    let outcome = report(&db, &alarm, vec![hard("ops.night@example.net")], at(60)).await;
    assert_eq!(outcome, recorded(1, 0, 0, 1));
    assert_eq!(suppressed(&db).await, ["Ops.Night@example.net"]);
    assert!(db.view(&alarm).await.bounced.is_some());

    let twins = note("twins").list("ops");
    let states = [("X@example.net", TargetState::Accepted), ("x@example.net", TargetState::Accepted)];
    sent_to_list(&db, &twins, &states).await;
    report(&db, &twins, vec![hard("X@example.net")], at(60)).await;
    let marked: Vec<_> =
        db.view(&twins).await.targets.iter().map(|target| target.bounced.is_some()).collect();
    assert_eq!(marked, [true, false], "the one that is spelt exactly so comes first");
}

/// OB-15, OB-16: a bounce stands although the trail could not be written; its entry is written later, once.
pub(crate) async fn a_bounce_that_could_not_be_audited_is_made_up_for(db: Database) {
    let (whole, broken) = (note("whole").mail("a@example.net"), note("broken").mail("a@example.net"));
    let all = || vec![hard("a@example.net"), bounce("a@example.net", BounceAction::Delayed, "4.4.1")];
    for one in [&whole, &broken] {
        db.delivered(one).await;
    }
    report(&db, &whole, all(), at(60)).await;
    db.break_the_trail();
    assert_eq!(report(&db, &broken, all(), at(60)).await, recorded(2, 0, 0, 0));
    db.mend_the_trail();
    assert!(db.view(&broken).await.bounced.is_some());
    assert!(!trail(&db, &broken).await.contains(&"bounced".to_owned()));
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 1);
    assert_eq!(db.store.reemit_audit(&db.tenure().await).await.unwrap(), 0);
    let story = |trail: Vec<AuditView>| {
        let mut story: Vec<_> =
            trail.into_iter().map(|entry| (entry.at, entry.kind, entry.actor, entry.detail)).collect();
        story.sort();
        story
    };
    let (told, made_up) =
        (db.store.audit(whole.id()).await.unwrap(), db.store.audit(broken.id()).await.unwrap());
    assert_eq!(story(made_up), story(told), "what is made up for is what would have been written");
}

/// An attempt that never got to the address, such as at a relay that was down, is no reason to believe a report; one
/// whose answer was lost is.
pub(crate) async fn an_attempt_that_reached_nobody_makes_no_acquaintance(db: Database) {
    for (name, in_doubt, expected) in
        [("down", false, recorded(0, 0, 1, 0)), ("lost", true, recorded(1, 0, 0, 1))]
    {
        let address = format!("{name}@example.net");
        let alarm = note(name).mail(&address);
        db.accept(&alarm).await;
        let claim = db.claim_one(at(0)).await;
        let mut settlement = retried(&claim, at(1), at(600));
        if let Some(attempt) = &mut settlement.attempt {
            attempt.duplicate_risk = in_doubt;
        }
        db.settle(settlement).await;
        assert_eq!(report(&db, &alarm, vec![hard(&address)], at(60)).await, expected, "{name}");
    }
}
