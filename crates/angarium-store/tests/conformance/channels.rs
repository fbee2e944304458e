use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::{Progress, Scope};
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_store::*;

use crate::support::{Database, LEASE, at, members, note, retried, with_scope};

async fn strike(db: &Database, name: &str, scope: Scope) {
    db.accept(&note(name).when(at(0))).await;
    let claims = db.claim_all(at(0)).await;
    let claim = claims.last().unwrap();
    db.settle(with_scope(retried(claim, at(1), at(1)), claim, scope)).await;
}

fn hooks() -> ChannelName {
    ChannelName::parse("hooks").unwrap()
}

/// A channel that waits, then one that is suspended; the longer wait and the reason stand.
pub(crate) async fn what_stands_in_the_way_of_a_channel_is_shown(db: Database) {
    assert!(db.store.channel_states().await.unwrap().is_empty());
    let state = |waits_until, suspended: Option<&str>| ChannelState {
        channel: "hooks".into(),
        waits_until,
        suspended: suspended.map(str::to_owned),
    };
    strike(&db, "a", Scope::ChannelWaits(at(0))).await;
    assert_eq!(db.store.channel_states().await.unwrap(), [state(at(0), None)]);
    strike(&db, "b", Scope::SuspendChannel(at(300))).await;
    let db = db.reopened().await;
    assert_eq!(db.store.channel_states().await.unwrap(), [state(at(300), Some("HTTP 410"))]);
}

/// What holds up the whole channel is lifted; what one receiver asked for is not.
pub(crate) async fn a_reopened_channel_sends_again(db: Database) {
    db.accept(&note("waits").to("https://b.example/")).await;
    let claim = db.claim_one(at(0)).await;
    db.settle(with_scope(retried(&claim, at(1), at(1)), &claim, Scope::LaneWaits(at(600)))).await;
    strike(&db, "a", Scope::SuspendChannel(at(300))).await;
    assert!(db.claim_all(at(2)).await.is_empty());

    let other = ChannelName::parse("other").unwrap();
    assert!(!db.store.reopen_channel(&other, at(2)).await.unwrap());
    assert!(db.claim_all(at(2)).await.is_empty(), "another channel is none of its business");
    assert!(db.store.reopen_channel(&hooks(), at(2)).await.unwrap());
    assert!(!db.store.reopen_channel(&hooks(), at(2)).await.unwrap(), "nothing stands in its way any more");
    assert!(db.store.channel_states().await.unwrap().is_empty());
    let claimed: Vec<_> = db.claim_all(at(2)).await.into_iter().map(|claim| claim.id).collect();
    assert_eq!(claimed, [note("a").id()]);
    let waiting = db.store.waiting_lanes(at(2)).await.unwrap();
    assert_eq!((waiting.len(), waiting[0].waits_until, waiting[0].suspended), (1, at(600), false));
}

/// C105: what was held back because the channel was broken goes out as soon as it is mended, a list's members too;
/// what waits for a reason of its own goes on to wait.
pub(crate) async fn c105_a_reopened_channel_lets_go_of_what_it_held(db: Database) {
    let broken = || LastError { class: FailureClass::PermanentConfig, detail: "535".into() };
    let held = |claim: &Claim| {
        let state = claim.state.clone().hold_until(at(300), broken()).unwrap();
        Settlement::of(claim, state, claim.progress)
    };
    db.accept(&note("held").to("https://a.example/")).await;
    let claim = db.claim_one(at(0)).await;
    db.settle(with_scope(held(&claim), &claim, Scope::SuspendChannel(at(300)))).await;

    db.accept(&note("waits").to("https://b.example/")).await;
    db.store.reopen_channel(&hooks(), at(1)).await.unwrap();
    let claims = db.claim_all(at(1)).await;
    let names: Vec<_> = claims.iter().map(|claim| claim.id).collect();
    assert_eq!(names, [note("held").id(), note("waits").id()]);
    db.settle(retried(&claims[1], at(1), at(600))).await;
    db.settle(with_scope(held(&claims[0]), &claims[0], Scope::SuspendChannel(at(300)))).await;

    db.accept(&note("list").list("ops")).await;
    db.store.reopen_channel(&hooks(), at(2)).await.unwrap();
    let claims = db.claim_all(at(2)).await;
    assert_eq!(claims.len(), 2);
    let list = claims.iter().find(|claim| claim.list.is_some()).unwrap();
    let all = members(&["https://c.example/", "https://d.example/"]);
    assert!(db.store.resolve(list, ChannelKind::Webhook, &hooks(), all, at(2)).await.unwrap());
    let waiting =
        |class| TargetState::Waiting { due: at(300), error: Some(LastError { class, detail: "x".into() }) };
    let result = |ordinal, class| TargetResult {
        ordinal,
        state: waiting(class),
        progress: Progress::default(),
        provider_message_id: None,
    };
    let results = vec![result(0, FailureClass::PermanentConfig), result(1, FailureClass::Transient)];
    db.store.settle_targets(list, results).await.unwrap();
    let state = list.state.clone().wait_until(at(300), None).unwrap();
    let settlement = Settlement::of(list, state, list.progress);
    db.settle(with_scope(settlement, list, Scope::SuspendChannel(at(300)))).await;
    db.store.reopen_channel(&hooks(), at(3)).await.unwrap();
    let claim = db.claim_one(at(3)).await;
    assert_eq!(claim.id, note("list").id());
    let due = |target: &Target| match target.state {
        TargetState::Waiting { due, .. } => due,
        _ => panic!("nothing was sent"),
    };
    let payload = db.store.load(&claim, at(2)).await.unwrap().unwrap();
    assert_eq!(payload.targets.iter().map(due).collect::<Vec<_>>(), [at(3), at(300)]);
}

/// C105: a channel that held more than one step lets go of is empty all the same, and other channels are left alone.
pub(crate) async fn c105_however_much_was_held_it_is_let_go_of(db: Database) {
    let held = (0..5_500).map(|n| note(&n.to_string()).build()).collect();
    db.store.accept(held, at(0)).await.unwrap();
    db.accept(&note("mail").mail("ops@example.net")).await;
    db.tamper(&format!(
        "UPDATE notifications SET error_class = 'permanent_config', error_detail = '535', due_at = {0};
         INSERT INTO channel_states VALUES ('hooks', {0}, '535')",
        at(300).micros()
    ));
    assert!(db.store.reopen_channel(&hooks(), at(1)).await.unwrap());
    let waiting = db.store.waiting_lanes(at(1)).await.unwrap();
    let lane = waiting.iter().find(|lane| lane.name.channel == "hooks").unwrap().lane;
    let all = Quota { lane, rows: 6_000 };
    assert_eq!(db.store.claim(vec![all], "node-a", at(1), LEASE).await.unwrap().len(), 5_500);
    assert!(db.claim_all(at(299)).await.is_empty());
}

/// C105: a notification is due because of one member; another, held back because the channel was broken, goes along.
pub(crate) async fn c105_a_row_that_is_due_may_have_members_that_are_held(db: Database) {
    db.accept(&note("list").list("ops")).await;
    let claim = db.claim_one(at(0)).await;
    let both = members(&["https://a.example/", "https://b.example/"]);
    assert!(db.store.resolve(&claim, ChannelKind::Webhook, &hooks(), both, at(0)).await.unwrap());
    let waiting = |ordinal, class, due| TargetResult {
        ordinal,
        state: TargetState::Waiting { due, error: Some(LastError { class, detail: "x".into() }) },
        progress: Progress::default(),
        provider_message_id: None,
    };
    let results =
        vec![waiting(0, FailureClass::Transient, at(10)), waiting(1, FailureClass::PermanentConfig, at(300))];
    db.store.settle_targets(&claim, results).await.unwrap();
    let state = claim.state.clone().wait_until(at(10), None).unwrap();
    let settlement = Settlement::of(&claim, state, claim.progress);
    db.settle(with_scope(settlement, &claim, Scope::SuspendChannel(at(300)))).await;
    assert!(db.store.reopen_channel(&hooks(), at(11)).await.unwrap());
    let claim = db.claim_one(at(11)).await;
    let targets = db.store.load(&claim, at(11)).await.unwrap().unwrap().targets;
    let is_due = |target: &Target| matches!(target.state, TargetState::Waiting { due, .. } if due <= at(11));
    assert_eq!(targets.iter().map(is_due).collect::<Vec<_>>(), [true, true]);
}

/// C051: a clock that is set back does not make a wait of seconds one of hours; waits that are over stay so.
pub(crate) async fn c051_waits_follow_a_clock_that_is_set_back(db: Database) {
    let day = 86_400;
    db.accept(&note("lane").to("https://a.example/").when(at(day))).await;
    let claim = db.claim_one(at(day)).await;
    db.settle(with_scope(retried(&claim, at(day), at(day)), &claim, Scope::LaneWaits(at(day + 10)))).await;
    db.accept(&note("channel").to("https://b.example/").when(at(day))).await;
    let claim = db.claim_one(at(day)).await;
    db.settle(with_scope(retried(&claim, at(day), at(day)), &claim, Scope::ChannelWaits(at(day + 20)))).await;
    let back = Duration::from_secs(7200);
    let now = day - 7200;
    let tenure = db.tenure().await;
    db.store.shift_waits(back, at(now), &tenure).await.unwrap();
    assert_eq!(db.store.channel_states().await.unwrap()[0].waits_until, at(now + 20));
    db.store.shift_waits(back, at(now + 30), &tenure).await.unwrap();
    assert_eq!(db.store.channel_states().await.unwrap()[0].waits_until, at(now + 20), "that one is over");
    let lanes = db.store.waiting_lanes(at(now)).await.unwrap();
    let mut waits: Vec<_> = lanes.iter().map(|lane| lane.waits_until).collect();
    waits.sort();
    assert_eq!(waits, [at(now + 20), at(now + 20)], "the channel's wait is the longer one for both");
}
