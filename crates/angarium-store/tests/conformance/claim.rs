use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Scope;
use angarium_domain::targets::TargetState;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;
use angarium_store::*;

use angarium_domain::address::Address;

use crate::support::{Database, LEASE, at, delivered, members, note, parked, retried, with_scope};

/// OB-06: pending rows, and retrying rows whose time has come.
pub(crate) async fn only_due_rows_are_claimed_the_oldest_first(db: Database) {
    for (n, name) in ["c", "a", "b"].into_iter().enumerate() {
        db.accept(&note(name).when(at(n as u64))).await;
    }
    let lane = db.store.waiting_lanes(at(0)).await.unwrap().remove(0).lane;
    assert!(db.store.claim(vec![], "node-a", at(9), LEASE).await.unwrap().is_empty());
    let claims = db.store.claim(vec![Quota { lane, rows: 2 }], "node-a", at(9), LEASE).await.unwrap();
    let ids: Vec<_> = claims.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [note("c").id(), note("a").id()]);
    db.settle(retried(&claims[0], at(9), at(50))).await;
    db.settle(delivered(&claims[1], at(9))).await;
    assert_eq!(db.claim_all(at(49)).await.len(), 1, "the third one only");
    let again = db.claim_one(at(50)).await;
    assert_eq!((again.id, again.progress.budget_used), (note("c").id(), 1));
    assert!(again.generation > claims[0].generation);
}

pub(crate) async fn a_claimed_row_is_claimed_by_nobody_else(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    assert!(db.view(&note("alarm")).await.in_flight);
    assert!(db.claim_all(at(10_000)).await.is_empty(), "a lease is no due time");
    db.store.release(&claim, at(0)).await.unwrap();
    assert!(db.claim_one(at(1)).await.generation > claim.generation);
    assert!(db.store.load(&claim, at(2)).await.unwrap().is_none(), "the first claim no longer stands");
}

pub(crate) async fn a_lane_that_waits_is_left_alone(db: Database) {
    db.accept(&note("a")).await;
    db.accept(&note("b")).await;
    db.accept(&note("c").to("https://other.example/")).await;
    let mut claims = db.claim_all(at(0)).await;
    let other = claims.pop().unwrap();
    let limited = with_scope(retried(&claims[0], at(0), at(30)), &claims[0], Scope::LaneWaits(at(30)));
    db.settle(limited).await;
    db.store.release(&claims[1], at(0)).await.unwrap();
    db.store.release(&other, at(0)).await.unwrap();
    let first = db.claim_all(at(29)).await;
    assert_eq!(first.iter().map(|claim| claim.id).collect::<Vec<_>>(), [note("c").id()]);
    assert_eq!(db.claim_all(at(30)).await.len(), 2);
}

pub(crate) async fn every_waiting_lane_is_found_with_its_first_row(db: Database) {
    assert!(db.store.waiting_lanes(at(0)).await.unwrap().is_empty());
    for n in 0..50u64 {
        for host in ["a", "b", "c"] {
            let name = format!("{host}{n}");
            db.accept(&note(&name).to(&format!("https://{host}.example/")).when(at(100 + n))).await;
        }
    }
    let lanes = db.store.waiting_lanes(at(0)).await.unwrap();
    let mut found: Vec<_> = lanes.iter().map(|lane| (lane.name.receiver.as_str(), lane.due)).collect();
    found.sort_unstable();
    assert_eq!(found, [("a.example:443", at(100)), ("b.example:443", at(100)), ("c.example:443", at(100))]);
    assert_eq!(lanes[0].name.channel, "hooks");
    assert!(!lanes[0].suspended);
}

pub(crate) async fn a_lease_that_ended_is_found(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    assert!(db.store.abandoned(at(59)).await.unwrap().is_empty());
    let lost = db.store.abandoned(at(60)).await.unwrap();
    assert_eq!(lost, [Abandoned { claim, node: "node-a".into(), on_wire: false, claimed_at: at(0) }]);
}

pub(crate) async fn a_renewed_lease_goes_on_and_a_lost_one_is_named(db: Database) {
    db.accept(&note("a")).await;
    db.accept(&note("b")).await;
    let claims = db.claim_all(at(0)).await;
    let held: Vec<_> = claims.iter().map(|claim| (claim.key, claim.generation)).collect();
    db.settle(delivered(&claims[0], at(1))).await;
    let renewed = db.store.renew(held.clone(), at(100)).await.unwrap();
    assert_eq!(renewed, Renewed { renewed: vec![held[1]], lost: vec![held[0]] });
    assert!(db.store.abandoned(at(99)).await.unwrap().is_empty());
    assert_eq!(db.store.abandoned(at(100)).await.unwrap().len(), 1);
}

/// OB-07: members are taken at the first attempt and kept.
pub(crate) async fn a_list_is_resolved_once(db: Database) {
    db.accept(&note("alarm").list("ops")).await;
    let claim = db.claim_one(at(0)).await;
    assert!(!claim.resolved);
    let hooks = ChannelName::parse("hooks").unwrap();
    let both = members(&["https://a.example/", "https://b.example/"]);
    let resolve = |who: Vec<Address>| db.store.resolve(&claim, ChannelKind::Webhook, &hooks, who, at(0));
    assert!(resolve(both.clone()).await.unwrap());
    assert!(!resolve(members(&["https://later.example/"])).await.unwrap(), "the first members stay");
    let payload = db.store.load(&claim, at(2)).await.unwrap().unwrap();
    let addresses: Vec<_> = payload.targets.iter().map(|target| target.address.as_str()).collect();
    assert_eq!(addresses, ["https://a.example/", "https://b.example/"]);
    assert!(
        payload
            .targets
            .iter()
            .all(|target| matches!(target.state, TargetState::Waiting { due, .. } if due == at(0)))
    );
}

pub(crate) async fn a_suppressed_address_is_told_when_loading(db: Database) {
    db.accept(&note("a")).await;
    db.accept(&note("b")).await;
    let claims = db.claim_all(at(0)).await;
    db.settle(with_scope(parked(&claims[0], at(1)), &claims[0], Scope::SuppressAddress)).await;
    let payload = db.store.load(&claims[1], at(2)).await.unwrap().unwrap();
    assert_eq!(payload.suppressed.as_deref(), Some("HTTP 410"));
    assert!(db.store.lift_suppression("hooks", "https://a.example/hook").await.unwrap());
    assert_eq!(db.store.load(&claims[1], at(2)).await.unwrap().unwrap().suppressed, None);
}

/// A row that could not be read is given back, and left alone for a while.
pub(crate) async fn a_claim_given_back_may_be_put_off(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    db.store.release(&claim, at(5)).await.unwrap();
    assert!(db.claim_all(at(4)).await.is_empty());
    assert!(db.claim_one(at(5)).await.generation > claim.generation);
}

/// ADR 8: the channel that a list has at its first attempt is the one that counts, for its lane too.
pub(crate) async fn a_list_takes_the_channel_it_has_when_it_is_resolved(db: Database) {
    db.accept(&note("alarm").list("ops")).await;
    let claim = db.claim_one(at(0)).await;
    let other = ChannelName::parse("other").unwrap();
    let both = members(&["https://a.example/"]);
    assert!(db.store.resolve(&claim, ChannelKind::Webhook, &other, both, at(0)).await.unwrap());
    db.store.release(&claim, at(0)).await.unwrap();
    let lanes = db.store.waiting_lanes(at(0)).await.unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!(
        (lanes[0].name.channel.as_str(), lanes[0].name.receiver.as_str()),
        ("other", "list again:ops")
    );
    assert_eq!(db.claim_one(at(0)).await.channel, Some(other));
}

/// The wish of a receiver holds for it wherever its address stands: here, in a list.
pub(crate) async fn a_receiver_that_waits_is_spared_in_lists_too(db: Database) {
    db.accept(&note("direct").to("https://a.example/one")).await;
    let claim = db.claim_one(at(0)).await;
    db.settle(with_scope(retried(&claim, at(0), at(30)), &claim, Scope::LaneWaits(at(30)))).await;
    db.accept(&note("alarm").list("ops")).await;
    let claim = db.claim_one(at(1)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let both = members(&["https://a.example/two", "https://b.example/"]);
    db.store.resolve(&claim, ChannelKind::Webhook, &hooks, both, at(1)).await.unwrap();
    let targets = db.store.load(&claim, at(2)).await.unwrap().unwrap().targets;
    let waits: Vec<_> = targets.iter().map(|target| target.waits_until).collect();
    assert_eq!(waits, [at(30), Timestamp::EPOCH]);
}

/// A wait longer than any receiver may ask for was set by a clock that ran ahead; it holds nobody up.
pub(crate) async fn a_wait_from_a_clock_that_ran_ahead_does_not_count(db: Database) {
    db.accept(&note("a")).await;
    db.accept(&note("b")).await;
    let claims = db.claim_all(at(0)).await;
    let year = at(365 * 86_400);
    db.settle(with_scope(retried(&claims[0], at(0), at(1)), &claims[0], Scope::LaneWaits(year))).await;
    db.settle(with_scope(retried(&claims[1], at(0), at(1)), &claims[1], Scope::ChannelWaits(year))).await;
    assert_eq!(db.claim_all(at(1)).await.len(), 2);

    db.accept(&note("alarm").list("ops")).await;
    let claim = db.claim_one(at(2)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let one = members(&["https://a.example/hook"]);
    assert!(db.store.resolve(&claim, ChannelKind::Webhook, &hooks, one, at(2)).await.unwrap());
    let targets = db.store.load(&claim, at(2)).await.unwrap().unwrap().targets;
    assert_eq!(targets[0].waits_until, Timestamp::EPOCH, "nor a member of a list");
    let targets = db.store.load(&claim, at(364 * 86_400)).await.unwrap().unwrap().targets;
    assert_eq!(targets[0].waits_until, year, "a day before its end it is credible");
}

/// A notification to a list that was tried waits in a lane of its own, so that a new one need not go through them.
pub(crate) async fn a_list_that_was_tried_has_another_lane(db: Database) {
    db.accept(&note("old").list("ops")).await;
    let claim = db.claim_one(at(0)).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let one = members(&["https://a.example/"]);
    assert!(db.store.resolve(&claim, ChannelKind::Webhook, &hooks, one, at(0)).await.unwrap());
    db.store.release(&claim, at(0)).await.unwrap();
    db.accept(&note("new").list("ops").when(at(1))).await;
    let lanes = db.store.waiting_lanes(at(1)).await.unwrap();
    let mut names: Vec<_> = lanes.iter().map(|lane| lane.name.receiver.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["list again:ops", "list:ops"]);
    let quotas = lanes.iter().map(|lane| Quota { lane: lane.lane, rows: 1 }).collect();
    assert_eq!(db.store.claim(quotas, "node-a", at(1), LEASE).await.unwrap().len(), 2);
}

/// A suspension that was committed after the look and before the claim is seen by the claim.
pub(crate) async fn a_channel_that_waits_is_left_alone(db: Database) {
    db.accept(&note("a")).await;
    let claim = db.claim_one(at(0)).await;
    db.accept(&note("b").to("https://b.example/")).await;
    let waits = |until| with_scope(retried(&claim, at(0), at(1)), &claim, Scope::ChannelWaits(until));
    db.settle(waits(at(60))).await;
    assert!(db.claim_all(at(59)).await.is_empty());
    assert_eq!(db.claim_all(at(60)).await.len(), 2);
}

/// One row that cannot be read holds up nobody else.
pub(crate) async fn a_damaged_row_holds_up_nobody(db: Database) {
    db.accept(&note("bad")).await;
    db.accept(&note("good")).await;
    db.tamper("UPDATE notifications SET kind = 'pigeon' WHERE key = (SELECT min(key) FROM notifications)");
    let claim = db.claim_one(at(0)).await;
    assert_eq!(claim.id, note("good").id());
    assert_eq!(db.store.abandoned(at(60)).await.unwrap().len(), 1);
}

/// A mark on the wire is part of the claim: it is gone with the next one.
pub(crate) async fn what_is_about_to_be_sent_is_on_record(db: Database) {
    db.accept(&note("alarm")).await;
    let claim = db.claim_one(at(0)).await;
    assert!(db.store.mark_on_wire(&claim, at(1)).await.unwrap());
    assert!(db.store.abandoned(at(60)).await.unwrap()[0].on_wire);
    db.store.release(&claim, at(0)).await.unwrap();
    assert!(!db.store.mark_on_wire(&claim, at(2)).await.unwrap(), "the claim no longer stands");
    db.claim_one(at(2)).await;
    let ended = at(2).plus(LEASE + Duration::from_secs(1));
    assert!(!db.store.abandoned(ended).await.unwrap()[0].on_wire);
}
