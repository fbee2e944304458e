//! Who is told: as of the change that an event was accepted with, however many they are, and each once.

use std::collections::BTreeSet;

use angarium_domain::text::SubscriptionId;
use angarium_store::*;

use crate::events::{
    Happening, OUTAGES, another, channels, deliver, hand_in, happens, happens_at, held, led_to, only, outage,
    own, ready, steps, told,
};
use crate::objects::put;
use crate::subscriptions::{Sub, to_list};
use crate::support::{Database, at};

fn named(n: usize) -> Sub {
    own(&format!("s{n:04}"))
}

/// So many subscriptions, each with an address of its own.
async fn many(db: &Database, count: usize) {
    let items = (0..count).map(|n| (named(n).id(), named(n).build())).collect();
    db.store.import_subscriptions(items, at(2)).await.unwrap();
}

/// All who are told, however many.
fn all_told(db: &Database) -> Vec<String> {
    db.ask("SELECT s.id FROM notifications n JOIN subscriptions s ON s.key = n.subscription ORDER BY s.id")
}

fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("s{n:04}")).collect()
}

/// What was subscribed before an event is accepted is in its plan, whichever nodes are asked, and at once.
pub(crate) async fn who_subscribed_on_one_node_is_told_by_the_other(db: Database) {
    ready(&db).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    beside.learn_routes().await.unwrap();
    for round in 0..6 {
        let (here, there) = if round % 2 == 0 { (&db.store, beside) } else { (beside, &db.store) };
        let one = own("one").with(&format!(r#""filter":{{"keywords":{{"area":["place {round}"]}}}}"#));
        here.put_subscription(one.id(), one.build(), Expect::Anything, at(5)).await.unwrap();
        let event = |name: &str, place: usize| {
            outage(&format!("{name}{round}"))
                .key(&format!("{name}{round}"))
                .with(&format!(r#""fields":{{"area":"place {place}"}}"#))
        };
        assert_eq!(told(&happens_at(there, &event("now", round)).await), "one");
        assert_eq!(
            told(&happens_at(there, &event("then", round + 1)).await),
            "",
            "what it said before counts no longer"
        );
    }
    put(&db, ObjectKind::Feed, "new", OUTAGES, 6).await;
    assert_eq!(told(&happens_at(beside, &outage("new").of("new")).await), "");
}

/// FP-03: who is switched off, gone or past its time is not told; of the last it is said.
pub(crate) async fn who_does_not_count_is_not_told(db: Database) {
    ready(&db).await;
    own("active").put(&db).await;
    own("off").with(r#""active":false"#).put(&db).await;
    own("switched-off").put(&db).await;
    own("switched-off").with(r#""active":false"#).put(&db).await;
    own("gone").put(&db).await;
    own("ended").with(r#""expires_at":"2026-10-05T00:00:00Z""#).put(&db).await;
    assert_eq!(told(&happens(&db, &outage("first").key("1")).await), "active gone");
    own("gone").delete(&db).await;
    let planned = happens(&db, &outage("e")).await;
    assert_eq!((&*told(&planned), &*held(&planned)), ("active", "ended: subscription_expired"));
}

/// One that was deleted and made again has the same key, but not the same feed.
pub(crate) async fn who_went_over_to_another_feed_is_told_of_that_alone(db: Database) {
    ready(&db).await;
    put(&db, ObjectKind::Feed, "other", OUTAGES, 1).await;
    own("a").put(&db).await;
    assert_eq!(told(&happens(&db, &outage("before").key("1")).await), "a");
    // Nothing happens in between, so that both changes are learned at once.
    own("a").delete(&db).await;
    own("a").of("other").put(&db).await;
    let planned = happens(&db, &outage("of the old").key("2")).await;
    assert_eq!((told(&planned), held(&planned)), (String::new(), String::new()));
    assert_eq!(db.store.event(planned.id).await.unwrap().unwrap().stored.matched, 0);
    assert_eq!(told(&happens(&db, &outage("of the new").of("other").key("2")).await), "a");
}

async fn all_are_planned_once(db: Database, count: usize) {
    ready(&db).await;
    many(&db, count).await;
    let first = happens(&db, &outage("e")).await;
    assert!(first.planning);
    assert_eq!(first.notifications.len(), 100);
    assert_eq!(all_told(&db), names(0..100), "a hundred in its own transaction");
    let view = db.store.event(first.id).await.unwrap().unwrap();
    assert_eq!((view.stored.planning, view.stored.matched), (true, u32::try_from(count).unwrap()));
    assert_eq!(steps(&db.store, at(11)).await, count - 100);
    assert_eq!(all_told(&db), names(0..count));
    let again = happens(&db, &outage("e")).await;
    assert_eq!(again, Planned { duplicate: true, planning: false, ..first });
    assert_eq!(db.store.plan_step(channels(), at(12)).await.unwrap(), Step::Idle);
    let view = db.store.event(again.id).await.unwrap().unwrap();
    assert_eq!((view.stored.planning, view.notifications), (false, u32::try_from(count).unwrap()));
}

pub(crate) async fn of_250_each_is_planned_once(db: Database) {
    all_are_planned_once(db, 250).await;
}

pub(crate) async fn of_1000_each_is_planned_once(db: Database) {
    all_are_planned_once(db, 1_000).await;
}

pub(crate) async fn a_hundred_are_planned_at_once(db: Database) {
    ready(&db).await;
    many(&db, 100).await;
    let planned = happens(&db, &outage("e")).await;
    assert_eq!((planned.planning, planned.notifications.len()), (false, 100));
    assert_eq!(steps(&db.store, at(11)).await, 0);
}

/// Whatever changes while an event is being planned, and whoever goes on with it: those are told whom it concerned when it
/// was accepted.
pub(crate) async fn a_plan_is_as_of_its_event_to_the_end(db: Database) {
    ready(&db).await;
    many(&db, 350).await;
    named(180).with(r#""active":false"#).put(&db).await;
    named(181).with(r#""filter":{"event_types":["Restoration"]}"#).put(&db).await;
    assert_eq!(happens(&db, &outage("e")).await.notifications.len(), 100);

    for (n, matched_then) in [
        (120, r#""active":false"#),
        (220, r#""filter":{"event_types":["Restoration"]}"#),
        (320, r#""test":true"#),
    ] {
        named(n).with(matched_then).put(&db).await;
    }
    named(180).put(&db).await;
    named(181).put(&db).await;
    named(350).put(&db).await;
    let db = step_and_die(db).await;
    // It was known, and is not any more: nobody could say where to send it.
    named(230).delete(&db).await;
    named(340).delete(&db).await;
    named(340).with(r#""filter":{"event_types":["Restoration"]}"#).put(&db).await;
    steps(&db.store, at(13)).await;
    assert_eq!(all_told(&db), names((0..350).filter(|n| ![180, 181, 230].contains(n))));
}

/// Plans a hundred, and leaves the rest to a process that knows nothing of it.
async fn step_and_die(db: Database) -> Database {
    let mut planned = 0;
    while planned < 100 {
        let step = db.store.plan_step(channels(), at(11)).await.unwrap();
        let Step::Planned { notifications } = step else { panic!("there was more to plan") };
        planned += notifications;
    }
    assert_eq!(planned, 100);
    let db = db.reopened().await;
    db.store.configure(channels());
    db
}

/// The same is true of what the feed said.
pub(crate) async fn a_plan_reads_its_feed_as_it_was(db: Database) {
    ready(&db).await;
    let areas = |n: usize| if n < 200 { "Bakakeng" } else { "kake" };
    let wants = |n: usize| named(n).with(&format!(r#""filter":{{"keywords":{{"area":["{}"]}}}}"#, areas(n)));
    let items = (0..250).map(|n| (wants(n).id(), wants(n).build())).collect();
    db.store.import_subscriptions(items, at(2)).await.unwrap();
    let area = r#""fields":{"area":"Bakakeng Central"}"#;
    assert!(happens(&db, &outage("e").with(area)).await.planning);
    assert!(happens(&db, &outage("f").key("43").with(area)).await.planning);
    put(&db, ObjectKind::Feed, "outages", &OUTAGES.replace("substring", "word"), 3).await;
    assert_eq!(told(&happens(&db, &outage("g").key("44").with(area)).await).len(), 100 * 6 - 1);
    db.store.plan_step(channels(), at(11)).await.unwrap();
    put(&db, ObjectKind::Feed, "outages", &OUTAGES.replacen('{', r#"{"enabled":false,"#, 1), 4).await;
    steps(&db.store, at(12)).await;
    for (happening, wanted) in [(outage("e"), 250), (outage("f"), 250), (outage("g"), 200)] {
        assert_eq!(db.store.event(happening.id()).await.unwrap().unwrap().notifications, wanted);
    }
}

/// Steps of two nodes, in turn and side by side.
pub(crate) async fn two_nodes_plan_each_once(db: Database) {
    ready(&db).await;
    many(&db, 450).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    happens(&db, &outage("in turn")).await;
    let mut turn = 0;
    while let Step::Planned { .. } =
        if turn % 2 == 0 { beside } else { &db.store }.plan_step(channels(), at(11)).await.unwrap()
    {
        turn += 1;
    }
    assert!(turn >= 4, "each had its turns: {turn}");
    assert_eq!(db.store.plan_step(channels(), at(12)).await.unwrap(), Step::Idle);
    assert_eq!(all_told(&db), names(0..450));
    for name in ["x", "y", "z"] {
        happens(&db, &outage(name).key(name)).await;
    }
    let both = async |store: &Store| steps(store, at(13)).await;
    // One finds nothing while the other has the last event in hand.
    let (ours, theirs) = tokio::join!(both(&db.store), both(beside));
    let rest = both(&db.store).await;
    assert_eq!(ours + theirs + rest, 3 * 350);
    let each = all_told(&db);
    assert_eq!(each.len(), 4 * 450);
    assert_eq!(each.into_iter().collect::<BTreeSet<_>>().len(), 450);
}

/// FP-05: who is tied to a message in a later step is told by it, even if it was delivered before.
pub(crate) async fn who_is_tied_to_what_was_delivered_is_told(db: Database) {
    ready(&db).await;
    many(&db, 149).await;
    let address = r#"{"channel":"hooks","address":"https://s0003.example/"}"#;
    let late = own("z").to(address.into()).with(r#""cooldown":"1h""#);
    late.put(&db).await;
    let first = happens(&db, &outage("e")).await;
    let by = first.notifications.get(3).unwrap().id;
    deliver(&db, by, at(12)).await;
    steps(&db.store, at(13)).await;
    let tied = led_to(&db, &outage("e")).await.skipped.pop().unwrap();
    assert_eq!((tied.subscription, tied.reason, tied.by), (late.id(), SuppressReason::SameTarget, Some(by)));
    assert_eq!(late.stored(&db).await.unwrap().last_sent_at, Some(at(12)));
    for n in 0..149 {
        named(n).delete(&db).await;
    }
    let soon = happens(&db, &outage("soon").key("43").when(13)).await;
    assert_eq!(held(&soon), "z: cooldown");
    assert_eq!(
        told(&happens(&db, &outage("later").key("44").when(12 + 3600)).await),
        "z",
        "an hour is over some time"
    );
}

/// What is tried is told like what is done, and nothing of it is left.
pub(crate) async fn a_trial_answers_like_the_event_and_leaves_nothing(db: Database) {
    ready(&db).await;
    own("a").with(r#""cooldown":"1h""#).put(&db).await;
    own("b").put(&db).await;
    own("c").to(r#"{"channel":"hooks","address":"https://b.example/"}"#.into()).put(&db).await;
    deliver(&db, only_of(&happens(&db, &outage("before").key("1")).await, "a"), at(11)).await;
    let rows = db.rows();
    let event = outage("e").when(12);
    let trial = async |happening: &Happening| {
        db.store.try_event(happening.build(), channels(), happening.now).await.unwrap()
    };
    let tried = trial(&event).await;
    assert_eq!(db.rows(), rows);
    assert!(db.store.event(event.id()).await.unwrap().is_none());
    let again = trial(&event).await;
    assert_eq!(tried.acceptance, again.acceptance);
    let done = hand_in(&db.store, &event).await;
    assert_eq!(tried.acceptance, done);
    let EventAcceptance::Accepted(done) = done else { panic!("{done:?}") };
    assert_eq!((&*told(&done), &*held(&done)), ("b", "a: cooldown, c: same_target"));
    assert_eq!(tried.matched, 3);
    let would: Vec<(SubscriptionId, _)> = tried.told;
    assert_eq!(would, [(own("b").id(), own("b").build())]);

    let rows = db.rows();
    assert!(matches!(
        trial(&event).await.acceptance,
        EventAcceptance::Accepted(Planned { duplicate: true, .. })
    ));
    assert_eq!(trial(&outage("x").of("nowhere")).await.acceptance, EventAcceptance::UnknownFeed);
    assert!(matches!(trial(&event.key("44")).await.acceptance, EventAcceptance::IdReused { .. }));
    assert_eq!(db.rows(), rows);
}

fn only_of(planned: &Planned, subscription: &str) -> angarium_domain::id::NotificationId {
    planned.notifications.iter().find(|one| one.subscription.as_str() == subscription).unwrap().id
}

/// Why somebody was or was not told can be gone through as it was then, whatever has become of it.
pub(crate) async fn evidence_is_as_of_the_plan(db: Database) {
    ready(&db).await;
    let (a, b) = (own("a"), own("b").to(r#"{"channel":"mail","address":"Ann@BÜCHER.example"}"#.into()));
    a.put(&db).await;
    b.clone().with(r#""active":false"#).put(&db).await;
    let planned = happens(&db, &outage("e")).await;
    a.clone().with(r#""active":false"#).put(&db).await;
    a.delete(&db).await;
    b.put(&db).await;
    own("c").put(&db).await;
    put(&db, ObjectKind::Feed, "outages", r#"{"event_types":["Restoration"],"enabled":false}"#, 9).await;
    let look = async |name: &str| {
        let id = SubscriptionId::parse(name).unwrap();
        db.store.evidence(planned.id, &id).await.unwrap().unwrap()
    };
    let of_a = look("a").await;
    assert_eq!(of_a.subscription.unwrap().to_json(), a.build().to_json());
    let feed = of_a.feed.unwrap();
    assert_eq!(
        feed.to_json(),
        angarium_domain::feed::Feed::parse(feed.id.clone(), OUTAGES).unwrap().to_json()
    );
    assert_eq!(of_a.notification.unwrap().id, only(&planned));
    assert!(of_a.known && of_a.skipped.is_none());
    let of_b = look("b").await;
    let then = of_b.subscription.unwrap();
    assert!(!then.active && of_b.known && of_b.notification.is_none());
    assert_eq!(then.filter, b.build().filter);
    let of_c = look("c").await;
    assert!(of_c.subscription.is_none() && of_c.known && of_c.notification.is_none());
    let of_nobody = look("nobody").await;
    assert!(of_nobody.subscription.is_none() && !of_nobody.known);
    assert!(db.store.evidence(outage("none").id(), &a.id()).await.unwrap().is_none());

    db.store.delete_subscription(&b.id(), Expect::Anything, at(10)).await.unwrap();
    db.store.delete_subscription(&own("c").id(), Expect::Anything, at(10)).await.unwrap();
    db.store.delete_object(ObjectKind::Feed, "outages", Expect::Anything, at(11)).await.unwrap();
    let of_a = look("a").await;
    assert_eq!(of_a.subscription.unwrap().to_json(), a.build().to_json());
    assert!(of_a.feed.unwrap().enabled);
}

/// In a later step, too, an address and a list are each told once.
pub(crate) async fn a_later_step_ties_to_what_an_earlier_one_planned(db: Database) {
    ready(&db).await;
    for list in ["ops", "night"] {
        let spec = r#"{"channel":"hooks","members":["https://s0001.example/"]}"#;
        put(&db, ObjectKind::List, list, spec, 1).await;
    }
    own("first").to(to_list("ops")).put(&db).await;
    many(&db, 99).await;
    let target = |n: usize| format!(r#"{{"channel":"hooks","address":"https://s{n:04}.example/"}}"#);
    own("ops").to(to_list("ops")).put(&db).await;
    own("one").to(target(1)).put(&db).await;
    own("night").to(to_list("night")).put(&db).await;
    own("mail").to(r#"{"channel":"mail","address":"s0001@example.com"}"#.into()).put(&db).await;
    own("other").to(r#"{"channel":"off","address":"https://s0001.example/"}"#.into()).put(&db).await;
    let first = happens(&db, &outage("e")).await;
    assert!(first.planning);
    assert_eq!(steps(&db.store, at(11)).await, 2);
    let planned = led_to(&db, &outage("e")).await;
    assert_eq!(held(&planned), "ops: same_target, one: same_target, other: channel_disabled");
    let by = |n: usize| first.notifications.get(n).map(|one| one.id);
    let told_by: Vec<_> = planned.skipped.iter().map(|one| one.by).collect();
    assert_eq!(told_by, [by(0), by(2), None]);
}
