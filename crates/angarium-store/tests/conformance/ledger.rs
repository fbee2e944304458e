//! The ledger: nobody is told the same twice, what was given up makes room, and pace is counted from the same rows.

use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::state::{SkipReason, Status};
use angarium_domain::text::{Actor, ChannelName, KeyName};
use angarium_domain::time::Timestamp;
use angarium_store::*;

use crate::events::{
    Happening, OUTAGES, another, channels, claim, deliver, hand_in, happens, happens_at, held, led_to, only,
    outage, own, park, ready, skip, steps, told,
};
use crate::objects::put;
use crate::subscriptions::{Sub, to_list};
use crate::support::{Database, at, delivered, members};

/// Why the one subscription is not told of this now, and by what, if it is not.
async fn refused(db: &Database, happening: &Happening) -> (SuppressReason, Option<NotificationId>) {
    let planned = happens(db, happening).await;
    let ([], [skipped]) = (&*planned.notifications, &*planned.skipped) else { panic!("{planned:?}") };
    (skipped.reason, skipped.by)
}

async fn act(db: &Database, id: NotificationId, action: Action, now: Timestamp) -> ActionOutcome {
    let actor = Actor::key(&KeyName::parse("ann").unwrap());
    db.store.act(ActionRequest { id, action, actor, reason: None }, now).await.unwrap()
}

async fn status(db: &Database, id: NotificationId) -> Status {
    db.store.get(id).await.unwrap().unwrap().status
}

/// The match that was suppressed for the event.
async fn waiting(db: &Database, happening: &Happening) -> SkippedMatch {
    let mut skipped = led_to(db, happening).await.skipped;
    assert_eq!(skipped.len(), 1);
    skipped.pop().unwrap()
}

const PENDING: ActionOutcome = ActionOutcome::Done { status: Status::Pending, in_flight: false };

/// FP-05: one entry for a subscription, a feed, a key and a type; it blocks while it is reserved, and once it is told for
/// good.
pub(crate) async fn the_same_is_told_once(db: Database) {
    ready(&db).await;
    put(&db, ObjectKind::Feed, "other", r#"{"event_types":["NewOutage"]}"#, 1).await;
    own("a").put(&db).await;
    own("o").of("other").put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    let already = (SuppressReason::AlreadyTold, Some(first));
    assert_eq!(refused(&db, &outage("2")).await, already);
    deliver(&db, first, at(11)).await;
    assert_eq!(refused(&db, &outage("3").when(40 * 86_400)).await, already, "for good");
    own("b").put(&db).await;
    let another = happens(&db, &outage("4").when(12)).await;
    assert_eq!((&*told(&another), &*held(&another)), ("b", "a: already_told"), "each for itself");
    let key = happens(&db, &outage("5").key("43").when(12)).await;
    let kind = happens(&db, &outage("6").kind("Restoration").when(13)).await;
    assert_eq!((&*told(&key), &*told(&kind)), ("a b", "a b"));
    assert_eq!(told(&happens(&db, &outage("7").of("other").when(14)).await), "o");
}

/// FP-05, C024: what was given up leaves no entry; the newest that it stood in the way of is told, and no other.
pub(crate) async fn c024_what_was_given_up_frees_its_place(db: Database) {
    ready(&db).await;
    own("a").with(r#""cooldown":"5m""#).put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    assert_eq!(refused(&db, &outage("2").when(20)).await, (SuppressReason::Cooldown, Some(first)));
    refused(&db, &outage("3").key("43").when(21)).await;
    refused(&db, &outage("4").when(22).with(r#""ttl":"1s""#)).await;
    park(&db, first, at(25)).await;
    assert_eq!(steps(&db.store, at(26)).await, 1);
    let second = only(&led_to(&db, &outage("3")).await);
    let waited = waiting(&db, &outage("3")).await;
    assert_eq!(
        (waited.reason, waited.by, waited.told_by),
        (SuppressReason::Cooldown, Some(first), Some(second))
    );
    assert_eq!(waiting(&db, &outage("4")).await.reason, SuppressReason::Expired);
    assert_eq!(waiting(&db, &outage("2")).await.told_by, None, "the newest alone");
    assert_eq!(steps(&db.store, at(27)).await, 0);

    park(&db, second, at(30)).await;
    let third = happens(&db, &outage("5").when(31)).await;
    assert_eq!(told(&third), "a", "nobody was told of anything yet");
    let last_sent = own("a").stored(&db).await.unwrap().last_sent_at;
    assert_eq!(last_sent, None, "which is told by deliveries alone");
}

/// FP-06: the window runs from the delivery; a reservation holds others off, too, and zero holds nothing off.
pub(crate) async fn c024_a_cooldown_counts_from_the_delivery(db: Database) {
    ready(&db).await;
    own("a").with(r#""cooldown":"300s""#).put(&db).await;
    let first = only(&happens(&db, &outage("1").key("1")).await);
    let cooldown = (SuppressReason::Cooldown, Some(first));
    assert_eq!(refused(&db, &outage("2").key("2").when(3_000)).await, cooldown, "it is about to be told");
    deliver(&db, first, at(4_000)).await;
    assert_eq!(own("a").stored(&db).await.unwrap().last_sent_at, Some(at(4_000)));
    assert_eq!(refused(&db, &outage("3").key("3").when(4_299)).await, cooldown);
    assert_eq!(told(&happens(&db, &outage("4").key("4").when(4_300)).await), "a");
    own("a").put(&db).await;
    assert_eq!(told(&happens(&db, &outage("5").key("5").when(4_300)).await), "a", "without one nobody waits");
}

/// With the incident in the key both are told; where a cooldown holds one back, it names what did.
pub(crate) async fn c025_what_is_held_back_names_what_did(db: Database) {
    ready(&db).await;
    own("coarse").with(r#""cooldown":"15m""#).put(&db).await;
    own("fine").put(&db).await;
    let first = happens(&db, &outage("x").key("deadlock 1")).await;
    assert_eq!(told(&first), "coarse fine");
    let second = happens(&db, &outage("y").key("deadlock 2").when(130)).await;
    assert_eq!((&*told(&second), &*held(&second)), ("fine", "coarse: cooldown"));
    let by = second.skipped.first().unwrap().by.unwrap();
    assert_eq!(by, first.notifications.first().unwrap().id);
    let coarse = db.store.evidence(second.id, &own("coarse").id()).await.unwrap().unwrap();
    assert_eq!(coarse.skipped.unwrap().by, Some(by));
}

/// FP-06: recipients are counted, over any 24 hours, those that are about to be told with the others.
pub(crate) async fn c021_a_daily_cap_counts_recipients(db: Database) {
    ready(&db).await;
    let five: Vec<String> = (0..5).map(|n| format!(r#""https://m{n}.example/""#)).collect();
    let list = format!(r#"{{"channel":"hooks","members":[{}]}}"#, five.join(","));
    put(&db, ObjectKind::List, "ops", &list, 1).await;
    own("a").to(to_list("ops")).with(r#""daily_cap":10"#).put(&db).await;
    let first = only(&happens(&db, &outage("1").key("1")).await);
    let second = only(&happens(&db, &outage("2").key("2")).await);
    assert_eq!(refused(&db, &outage("3").key("3")).await, (SuppressReason::DailyCap, None));
    deliver_to_list(&db, first, at(100)).await;
    let day = 86_400;
    assert_eq!(
        refused(&db, &outage("4").key("4").when(99 + day)).await.0,
        SuppressReason::DailyCap,
        "one is reserved"
    );
    deliver_to_list(&db, second, at(200)).await;
    assert_eq!(refused(&db, &outage("5").key("5").when(99 + day)).await.0, SuppressReason::DailyCap);
    assert_eq!(
        told(&happens(&db, &outage("6").key("6").when(100 + day)).await),
        "a",
        "the first was told a day ago"
    );
    assert_eq!(refused(&db, &outage("7").key("7").when(199 + day)).await.0, SuppressReason::DailyCap);
    let third = only(&happens(&db, &outage("8").key("8").when(200 + day)).await);
    park(&db, third, at(201 + day)).await;
    assert_eq!(steps(&db.store, at(202 + day)).await, 1, "what fits again is the newest");
    assert!(waiting(&db, &outage("7")).await.told_by.is_some());
}

async fn deliver_to_list(db: &Database, id: NotificationId, now: Timestamp) {
    let claim = claim(db, id, now).await;
    let hooks = ChannelName::parse("hooks").unwrap();
    let members = members(&["https://m0.example/", "https://m1.example/"]);
    db.store.resolve(&claim, ChannelKind::Webhook, &hooks, members, now).await.unwrap();
    assert_eq!(db.settle(delivered(&claim, now)).await, Settled::Applied);
}

/// FP-06: where several stand in the way, the first in a fixed order is named.
pub(crate) async fn reasons_come_in_a_fixed_order(db: Database) {
    ready(&db).await;
    let all = r#""cooldown":"1h","daily_cap":1"#;
    own("a").with(all).put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    assert_eq!(refused(&db, &outage("2")).await, (SuppressReason::Cooldown, Some(first)));
    own("a").with(r#""daily_cap":1"#).put(&db).await;
    assert_eq!(refused(&db, &outage("3")).await, (SuppressReason::AlreadyTold, Some(first)));
    assert_eq!(refused(&db, &outage("4").key("43")).await, (SuppressReason::DailyCap, None));
    let overtaken = outage("5").key("44").happened(1);
    happens(&db, &outage("after").key("44").kind("Restoration").when(5)).await;
    assert_eq!(refused(&db, &overtaken).await, (SuppressReason::Superseded, None));
    let ended = outage("6").key("44").happened(1).with(r#""ttl":"1s""#);
    assert_eq!(refused(&db, &ended).await, (SuppressReason::Expired, None));
    own("a").to(r#"{"channel":"off","address":"https://a.example/"}"#.into()).with(all).put(&db).await;
    assert_eq!(
        refused(&db, &outage("7").key("44").happened(1).with(r#""ttl":"1s""#)).await.0,
        SuppressReason::ChannelDisabled
    );
    own("a").to(r#"{"channel":"nowhere","address":"https://a.example/"}"#.into()).with(all).put(&db).await;
    assert_eq!(refused(&db, &outage("8")).await.0, SuppressReason::ChannelUnknown);
    let ended = r#""expires_at":"2026-10-05T00:00:00Z""#;
    own("a").to(r#"{"channel":"off","address":"https://a.example/"}"#.into()).with(ended).put(&db).await;
    assert_eq!(refused(&db, &outage("9")).await.0, SuppressReason::SubscriptionExpired);
}

fn beside_a(name: &str) -> Sub {
    own(name).to(r#"{"channel":"hooks","address":"https://a.example/"}"#.into())
}

/// One address is told once of one event; what it fails for fails for all of them.
pub(crate) async fn one_message_tells_all_with_the_same_target(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    beside_a("b").put(&db).await;
    beside_a("c").put(&db).await;
    let planned = happens(&db, &outage("1")).await;
    let first = only(&planned);
    assert_eq!((&*told(&planned), &*held(&planned)), ("a", "b: same_target, c: same_target"));
    assert!(planned.skipped.iter().all(|tied| tied.by == Some(first)));
    let again = happens(&db, &outage("2")).await;
    assert_eq!(held(&again), "a: already_told, b: already_told, c: already_told");
    park(&db, first, at(20)).await;
    assert_eq!(
        steps(&db.store, at(21)).await,
        1,
        "the later one is told, once, and the failed one not again"
    );
    assert_eq!(told(&led_to(&db, &outage("1")).await), "a");
    let second = only(&led_to(&db, &outage("2")).await);
    deliver(&db, second, at(22)).await;
    for one in ["a", "b", "c"] {
        assert_eq!(own(one).stored(&db).await.unwrap().last_sent_at, Some(at(22)), "{one}");
    }
    assert_eq!(told(&happens(&db, &outage("3")).await), "");
}

/// A message that its own subscription no longer wanted is still wanted by those that were tied to it.
pub(crate) async fn who_is_tied_is_told_when_another_no_longer_wants_to_be(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    beside_a("b").put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    own("a").delete(&db).await;
    skip(&db, first, SkipReason::Unsubscribed, at(20)).await;
    assert_eq!(steps(&db.store, at(21)).await, 1);
    let led_to = led_to(&db, &outage("1")).await;
    assert_eq!(told(&led_to), "a b");
    let second = led_to.notifications.last().unwrap().id;
    assert_eq!(led_to.skipped.first().unwrap().told_by, Some(second));
    deliver(&db, second, at(22)).await;
    assert_eq!(told(&happens(&db, &outage("2")).await), "");
}

/// A retry takes its places anew, with those that were tied to it, and is refused when another holds its own.
pub(crate) async fn a_retry_takes_its_place_anew(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    beside_a("b").put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    park(&db, first, at(20)).await;
    assert_eq!(act(&db, first, Action::Retry, at(21)).await, PENDING);
    assert_eq!(steps(&db.store, at(22)).await, 0);
    let again = happens(&db, &outage("2")).await;
    assert_eq!(held(&again), "a: already_told, b: already_told");
    assert!(again.skipped.iter().all(|one| one.by == Some(first)));

    park(&db, first, at(30)).await;
    assert_eq!(steps(&db.store, at(31)).await, 1);
    let second = only(&led_to(&db, &outage("2")).await);
    let rows = db.ask("SELECT CAST(holder AS TEXT) FROM ledger ORDER BY subscription");
    assert_eq!(act(&db, first, Action::Retry, at(32)).await, ActionOutcome::AlreadyTold(second));
    assert_eq!(status(&db, first).await, Status::Parked);
    assert_eq!(db.ask("SELECT CAST(holder AS TEXT) FROM ledger ORDER BY subscription"), rows);
    park(&db, second, at(33)).await;
    assert_eq!(act(&db, first, Action::Retry, at(34)).await, PENDING);
    deliver(&db, first, at(35)).await;
    assert_eq!(own("b").stored(&db).await.unwrap().last_sent_at, Some(at(35)));
    assert_eq!(act(&db, second, Action::Retry, at(36)).await, ActionOutcome::AlreadyTold(first));
}

pub(crate) async fn a_cancelled_notification_makes_room(db: Database) {
    ready(&db).await;
    own("a").with(r#""cooldown":"1h""#).put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    refused(&db, &outage("2")).await;
    let cancelled = ActionOutcome::Done { status: Status::Skipped, in_flight: false };
    assert_eq!(act(&db, first, Action::Cancel, at(20)).await, cancelled);
    assert_eq!(steps(&db.store, at(21)).await, 1);
    assert_eq!(told(&led_to(&db, &outage("2")).await), "a");
}

/// WH-03: what may be told once at most keeps its place once it was tried, and is never tried again; its cooldown ends
/// like that of others.
pub(crate) async fn what_is_told_at_most_once_keeps_its_place(db: Database) {
    ready(&db).await;
    own("a").with(r#""delivery":"at_most_once","cooldown":"300s""#).put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    park(&db, first, at(20)).await;
    assert_eq!(steps(&db.store, at(21)).await, 0);
    assert_eq!(refused(&db, &outage("2").key("43").when(22)).await, (SuppressReason::Cooldown, Some(first)));
    assert_eq!(act(&db, first, Action::Retry, at(23)).await, ActionOutcome::AtMostOnce);
    assert_eq!(refused(&db, &outage("3").when(320)).await, (SuppressReason::AlreadyTold, Some(first)));
    assert_eq!(own("a").stored(&db).await.unwrap().last_sent_at, None);

    let untried = only(&happens(&db, &outage("4").key("44").when(321)).await);
    skip(&db, untried, SkipReason::Expired, at(322)).await;
    let under_way = only(&happens(&db, &outage("5").key("44").when(323)).await);
    let _sent = claim(&db, under_way, at(323)).await;
    let cancelled = ActionOutcome::Done { status: Status::Skipped, in_flight: true };
    assert_eq!(act(&db, under_way, Action::Cancel, at(324)).await, cancelled);
    let already = (SuppressReason::AlreadyTold, Some(under_way));
    assert_eq!(refused(&db, &outage("6").key("44").when(900)).await, already, "it may have arrived");
}

/// FP-17: a test reaches test subscriptions alone, and counts for nothing.
pub(crate) async fn a_test_tells_tests_and_takes_no_place(db: Database) {
    ready(&db).await;
    own("live").with(r#""cooldown":"1h""#).put(&db).await;
    own("test").with(r#""test":true,"cooldown":"1h","daily_cap":1"#).put(&db).await;
    for name in ["1", "2"] {
        let planned = happens(&db, &outage(name).with(r#""test":true"#)).await;
        assert_eq!((&*told(&planned), &*held(&planned)), ("test", ""));
        deliver(&db, only(&planned), at(11)).await;
    }
    assert!(db.ask("SELECT feed FROM ledger").is_empty());
    assert_eq!(told(&happens(&db, &outage("3")).await), "live");
    let failed = only(&happens(&db, &outage("4").with(r#""test":true"#)).await);
    park(&db, failed, at(12)).await;
    assert_eq!(steps(&db.store, at(13)).await, 0);
    assert_eq!(act(&db, failed, Action::Retry, at(14)).await, PENDING);
    assert_eq!(db.ask("SELECT feed FROM ledger").len(), 1);
}

/// FP-06: of two at once, on two nodes, one is told; the other says by what it is held back.
pub(crate) async fn of_two_at_once_a_cooldown_lets_one_through(db: Database) {
    ready(&db).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    for (round, pace) in [r#""cooldown":"1h""#, r#""daily_cap":1"#].iter().cycle().take(8).enumerate() {
        let one = own(&format!("s{round}")).with(pace);
        one.put(&db).await;
        let event = |name: &str| outage(&format!("{name}{round}")).key(&format!("{name}{round}"));
        let (ours, theirs) = (event("ours"), event("theirs"));
        let (ours, theirs) = tokio::join!(happens_at(&db.store, &ours), happens_at(beside, &theirs));
        let (one_told, other) = if ours.notifications.is_empty() { (theirs, ours) } else { (ours, theirs) };
        let first = only(&one_told);
        assert!(one_told.skipped.is_empty() && other.notifications.is_empty(), "{one_told:?}, {other:?}");
        let [held] = &*other.skipped else { panic!("{other:?}") };
        match held.reason {
            SuppressReason::Cooldown => assert_eq!(held.by, Some(first)),
            reason => assert_eq!((reason, held.by), (SuppressReason::DailyCap, None)),
        }
        one.delete(&db).await;
    }
}

/// Of two about the same at once, on two nodes, one is told.
pub(crate) async fn of_two_at_once_about_the_same_one_is_told(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    beside_a("b").put(&db).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    for round in 0..8 {
        let event = |name: &str| outage(&format!("{name}{round}")).key(&round.to_string());
        let (ours, theirs) = (event("ours"), event("theirs"));
        let (ours, theirs) = tokio::join!(happens_at(&db.store, &ours), happens_at(beside, &theirs));
        let (one, other) = if ours.notifications.is_empty() { (theirs, ours) } else { (ours, theirs) };
        assert_eq!((&*told(&one), &*held(&one)), ("a", "b: same_target"));
        assert_eq!((&*told(&other), &*held(&other)), ("", "a: already_told, b: already_told"));
        assert!(other.skipped.iter().all(|held| held.by == Some(only(&one))));
    }
}

/// Where the ledger cannot be written, nothing is said to be stored, planned or suppressed.
pub(crate) async fn c028_without_its_ledger_nothing_is_accepted(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let rows = db.rows();
    db.refuse("ledger", "type", "NewOutage");
    let alone = db.store.accept_events(vec![outage("1").build()], channels(), at(10)).await;
    assert!(alone.is_err(), "{alone:?}");
    assert_eq!(db.rows(), rows);
    let both = vec![outage("1").build(), outage("2").kind("Restoration").build()];
    let answers = db.store.accept_events(both, channels(), at(10)).await.unwrap();
    assert!(
        matches!(&*answers, [EventAcceptance::Failed { .. }, EventAcceptance::Accepted(_)]),
        "{answers:?}"
    );
    assert!(db.store.event(outage("1").id()).await.unwrap().is_none());
    db.allow("ledger");
    let EventAcceptance::Accepted(planned) = hand_in(&db.store, &outage("1").when(20)).await else {
        panic!()
    };
    assert_eq!((planned.duplicate, &*told(&planned)), (false, "a"));
}

/// FP-21: while a feed is off, nobody is told of what had to wait either.
pub(crate) async fn what_waited_is_not_told_while_its_feed_is_off(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let first = only(&happens(&db, &outage("1")).await);
    refused(&db, &outage("2")).await;
    put(&db, ObjectKind::Feed, "outages", &OUTAGES.replacen('{', r#"{"enabled":false,"#, 1), 2).await;
    park(&db, first, at(20)).await;
    assert_eq!(steps(&db.store, at(21)).await, 0);
    let waited = waiting(&db, &outage("2")).await;
    assert_eq!((waited.reason, waited.told_by), (SuppressReason::FeedDisabled, None));
}

/// FP-05: what was told is remembered for as long as the operator wants, and what is only reserved for as long as it takes.
pub(crate) async fn what_was_told_long_ago_is_forgotten(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let told = only(&happens(&db, &outage("1")).await);
    deliver(&db, told, at(11)).await;
    let reserved = only(&happens(&db, &outage("2").key("43")).await);
    let tenure = db.tenure().await;
    assert_eq!(db.store.forget_told(at(11), &tenure).await, Ok(0), "not that old");
    assert_eq!(db.store.forget_told(at(12), &tenure).await, Ok(1));
    assert_ne!(only(&happens(&db, &outage("3")).await), told, "it may be told again");
    let already = (SuppressReason::AlreadyTold, Some(reserved));
    assert_eq!(refused(&db, &outage("4").key("43")).await, already);
}
