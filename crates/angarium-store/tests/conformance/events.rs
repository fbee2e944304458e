//! Events: accepted once, kept whoever wants them, shown and listed.

use std::sync::Arc;

use angarium_domain::channel::ChannelKind;
use angarium_domain::event::{Defaults, Event};
use angarium_domain::id::{EventId, NotificationId, uuid_from};
use angarium_domain::state::{SkipReason, Status};
use angarium_domain::text::{Actor, ChannelName, KeyName};
use angarium_domain::time::Timestamp;
use angarium_store::*;

use crate::objects::put;
use crate::subscriptions::{Sub, sub};
use crate::support::{Database, at, delivered, parked};

/// Something that happens: named, so that its ids follow from its name.
#[derive(Clone)]
pub(crate) struct Happening {
    name: String,
    feed: String,
    kind: String,
    key: String,
    more: String,
    time: Timestamp,
    pub(crate) now: Timestamp,
}

/// A new outage with the key 42, ten seconds after noon.
pub(crate) fn outage(name: &str) -> Happening {
    let (feed, kind, key) = ("outages".into(), "NewOutage".into(), "42".into());
    Happening { name: name.into(), feed, kind, key, more: String::new(), time: at(10), now: at(10) }
}

impl Happening {
    pub(crate) fn id(&self) -> EventId {
        uuid_from(["event", &*self.name]).into()
    }

    pub(crate) fn of(self, feed: &str) -> Self {
        Happening { feed: feed.into(), ..self }
    }

    pub(crate) fn kind(self, kind: &str) -> Self {
        Happening { kind: kind.into(), ..self }
    }

    pub(crate) fn key(self, key: &str) -> Self {
        Happening { key: key.into(), ..self }
    }

    /// With this member besides.
    pub(crate) fn with(mut self, member: &str) -> Self {
        self.more.push(',');
        self.more.push_str(member);
        self
    }

    /// It happens, and is handed in, so long after noon.
    pub(crate) fn when(self, seconds: u64) -> Self {
        Happening { time: at(seconds), now: at(seconds), ..self }
    }

    /// It happened then, whenever it is handed in.
    pub(crate) fn happened(self, seconds: u64) -> Self {
        Happening { time: at(seconds), ..self }
    }

    pub(crate) fn build(&self) -> NewEvent {
        let Happening { feed, kind, key, more, .. } = self;
        let json = format!(r#"{{"feed":"{feed}","type":"{kind}","key":"{key}"{more}}}"#);
        let defaults = Defaults { source: "erp", external_id: self.name.clone(), at: self.time };
        let parsed = Event::parse(&json, defaults).unwrap();
        let accepted_by = Actor::key(&KeyName::parse("erp").unwrap());
        NewEvent { id: self.id(), event: parsed.event, hash: parsed.hash, accepted_by }
    }
}

pub(crate) fn channels() -> Arc<Channels> {
    let channel = |name, kind, enabled| (ChannelName::parse(name).unwrap(), ChannelFacts { kind, enabled });
    let all = [
        channel("hooks", ChannelKind::Webhook, true),
        channel("mail", ChannelKind::Email, true),
        channel("off", ChannelKind::Webhook, false),
    ];
    Arc::new(all.into())
}

pub(crate) const OUTAGES: &str = r#"{"event_types":["NewOutage","Restoration"],
    "fields":{"area":{"match":"substring"}},"supersedes":{"Restoration":["NewOutage"]}}"#;

/// The channels are known, and the feed that these are of.
pub(crate) async fn ready(db: &Database) {
    db.store.configure(channels());
    put(db, ObjectKind::Feed, "outages", OUTAGES, 1).await;
}

/// Another node on the same database, where there can be one; each has a seat of its own.
pub(crate) async fn another(db: &Database) -> Option<Store> {
    let other = db.beside().await?;
    for (store, name) in [(&db.store, "one"), (&other, "other")] {
        let node = NewNode { name: name.into(), version: "1.0".into(), address: "127.0.0.1:7180".into() };
        store.sign_in(node, at(0)).await.unwrap();
    }
    other.configure(channels());
    Some(other)
}

/// The subscription of this name, which leads to an address of its own.
pub(crate) fn own(name: &str) -> Sub {
    sub(name).to(format!(r#"{{"channel":"hooks","address":"https://{name}.example/"}}"#))
}

pub(crate) async fn hand_in(store: &Store, happening: &Happening) -> EventAcceptance {
    let accepted = store.accept_events(vec![happening.build()], channels(), happening.now).await;
    accepted.unwrap().pop().unwrap()
}

pub(crate) async fn happens_at(store: &Store, happening: &Happening) -> Planned {
    match hand_in(store, happening).await {
        EventAcceptance::Accepted(planned) => planned,
        other => panic!("{} was not accepted: {other:?}", happening.name),
    }
}

pub(crate) async fn happens(db: &Database, happening: &Happening) -> Planned {
    happens_at(&db.store, happening).await
}

/// Who is told, by the names of subscriptions.
pub(crate) fn told(planned: &Planned) -> String {
    let names: Vec<&str> = planned.notifications.iter().map(|one| one.subscription.as_str()).collect();
    names.join(" ")
}

/// Who is not, and why.
pub(crate) fn held(planned: &Planned) -> String {
    let held =
        planned.skipped.iter().map(|one| format!("{}: {}", one.subscription.as_str(), one.reason.as_str()));
    held.collect::<Vec<_>>().join(", ")
}

/// The id of the one notification that was planned.
pub(crate) fn only(planned: &Planned) -> NotificationId {
    let [one] = &*planned.notifications else { panic!("{planned:?}") };
    one.id
}

/// What the event has led to by now.
pub(crate) async fn led_to(db: &Database, happening: &Happening) -> Planned {
    db.store.event(happening.id()).await.unwrap().unwrap().planned
}

/// Claims one notification, and leaves all others.
pub(crate) async fn claim(db: &Database, id: NotificationId, now: Timestamp) -> Claim {
    let mut found = None;
    for claim in db.claim_all(now).await {
        match claim.id == id {
            true => found = Some(claim),
            false => db.store.release(&claim, now).await.unwrap(),
        }
    }
    found.unwrap_or_else(|| panic!("{id} is not due"))
}

pub(crate) async fn deliver(db: &Database, id: NotificationId, now: Timestamp) {
    let claim = claim(db, id, now).await;
    assert_eq!(db.settle(delivered(&claim, now)).await, Settled::Applied);
}

pub(crate) async fn park(db: &Database, id: NotificationId, now: Timestamp) {
    let claim = claim(db, id, now).await;
    assert_eq!(db.settle(parked(&claim, now)).await, Settled::Applied);
}

pub(crate) async fn skip(db: &Database, id: NotificationId, reason: SkipReason, now: Timestamp) {
    let claim = claim(db, id, now).await;
    let state = claim.state.clone().skip(now, reason).unwrap();
    assert_eq!(db.settle(Settlement::of(&claim, state, claim.progress)).await, Settled::Applied);
}

/// Takes steps until nothing is left to be done; says how many notifications they made.
pub(crate) async fn steps(store: &Store, now: Timestamp) -> usize {
    let mut made = 0;
    while let Step::Planned { notifications } = store.plan_step(channels(), now).await.unwrap() {
        made += notifications;
    }
    made
}

/// FP-02: a resend is told what has become of it since, and stores nothing.
pub(crate) async fn a_resent_event_is_told_how_it_stands(db: Database) {
    ready(&db).await;
    sub("a").put(&db).await;
    sub("b").put(&db).await;
    own("c").to(r#"{"channel":"off","address":"https://c.example/"}"#.into()).put(&db).await;
    let first = happens(&db, &outage("e")).await;
    assert!(!first.duplicate && !first.planning);
    assert_eq!((&*told(&first), &*held(&first)), ("a", "b: same_target, c: channel_disabled"));
    assert_eq!(first.id, outage("e").id());
    let rows = db.rows();
    let again = happens(&db, &outage("e").when(20)).await;
    assert_eq!(again, Planned { duplicate: true, ..first.clone() });

    deliver(&db, only(&first), at(21)).await;
    let other = NewEvent { id: uuid_from(["another id"]).into(), ..outage("e").build() };
    let later = db.store.accept_events(vec![other], channels(), at(22)).await.unwrap();
    let [EventAcceptance::Accepted(later)] = &*later else { panic!("{later:?}") };
    assert_eq!(later.notifications.first().unwrap().status, Status::Delivered);
    assert_eq!((later.id, &later.skipped), (first.id, &again.skipped));
    let events =
        |rows: Vec<String>| rows.into_iter().filter(|row| row.starts_with("events ")).collect::<String>();
    assert_eq!(events(db.rows()), events(rows));
}

pub(crate) async fn an_id_that_meant_another_event_is_refused(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let first = happens(&db, &outage("e")).await;
    let rows = db.rows();
    for other in [outage("e").key("43"), outage("e").kind("Restoration"), outage("e").with(r#""data":1"#)] {
        assert_eq!(hand_in(&db.store, &other).await, EventAcceptance::IdReused { id: first.id });
    }
    assert_eq!(db.rows(), rows);
}

/// FP-01, FP-17: what no feed has is not stored; announcements by hand may be made on every feed.
pub(crate) async fn an_event_of_no_feed_or_type_is_not_stored(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let rows = db.rows();
    assert_eq!(hand_in(&db.store, &outage("e").of("nowhere")).await, EventAcceptance::UnknownFeed);
    assert_eq!(hand_in(&db.store, &outage("e").kind("Earthquake")).await, EventAcceptance::UnknownType);
    assert_eq!(db.rows(), rows);
    let by_hand = happens(&db, &outage("e").kind("ManualAnnouncement")).await;
    assert_eq!(told(&by_hand), "a");
}

/// FP-21: what nobody wants is kept, and so is what comes in while its feed is off.
pub(crate) async fn an_event_that_nobody_is_told_of_is_kept(db: Database) {
    ready(&db).await;
    own("a").with(r#""filter":{"event_types":["Restoration"]}"#).put(&db).await;
    let unwanted = happens(&db, &outage("unwanted")).await;
    put(&db, ObjectKind::Feed, "outages", &OUTAGES.replacen('{', r#"{"enabled":false,"#, 1), 2).await;
    let off = happens(&db, &outage("off").kind("Restoration")).await;
    for planned in [&unwanted, &off] {
        assert_eq!((told(planned), held(planned)), (String::new(), String::new()));
        let view = db.store.event(planned.id).await.unwrap().unwrap();
        assert_eq!((view.stored.matched, view.notifications, view.suppressed), (0, 0, 0));
    }
    assert_eq!(steps(&db.store, at(20)).await, 0, "nor is anybody told later");
    put(&db, ObjectKind::Feed, "outages", OUTAGES, 3).await;
    assert_eq!(told(&happens(&db, &outage("on").kind("Restoration")).await), "a");
}

pub(crate) async fn one_bad_event_harms_no_neighbour(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    db.refuse("events", "subject", "bad");
    let batch = [outage("x").key("1"), outage("y").key("bad"), outage("z").key("2")];
    let events = batch.iter().map(Happening::build).collect();
    let answers = db.store.accept_events(events, channels(), at(10)).await.unwrap();
    let [EventAcceptance::Accepted(x), EventAcceptance::Failed { .. }, EventAcceptance::Accepted(z)] =
        &*answers
    else {
        panic!("{answers:?}")
    };
    assert_eq!((&*told(x), &*told(z)), ("a", "a"));
    assert!(db.store.event(outage("y").id()).await.unwrap().is_none());
    db.allow("events");
    assert!(!happens(&db, &outage("y").key("bad")).await.duplicate, "and can be handed in again");
}

/// Of two who hand in the same, on whichever node, one stores it and the other is told so.
pub(crate) async fn c022_two_at_once_with_one_id_make_one_event(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    for round in 0..10 {
        let one = outage(&format!("e{round}")).key(&format!("{round}"));
        let same = NewEvent { id: uuid_from(["again", &*one.name]).into(), ..one.build() };
        let (ours, theirs) =
            tokio::join!(hand_in(&db.store, &one), beside.accept_events(vec![same], channels(), at(11)));
        let theirs = theirs.unwrap().pop().unwrap();
        let (EventAcceptance::Accepted(ours), EventAcceptance::Accepted(theirs)) = (&ours, &theirs) else {
            panic!("{ours:?}, {theirs:?}")
        };
        assert!(ours.duplicate != theirs.duplicate, "{ours:?}, {theirs:?}");
        assert_eq!(
            (ours.id, &ours.notifications, told(ours)),
            (theirs.id, &theirs.notifications, "a".into())
        );
    }
    assert_eq!(db.ask("SELECT CAST(count(*) AS TEXT) FROM events"), ["10"]);
    assert_eq!(db.ask("SELECT CAST(count(*) AS TEXT) FROM notifications"), ["10"]);
}

/// Whatever was acknowledged is there with all that it leads to, as soon as the store is.
pub(crate) async fn c004_what_was_planned_is_there_after_reopening(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    own("b").put(&db).await;
    let all: Vec<Happening> = (0..20).map(|n| outage(&format!("e{n}")).key(&n.to_string())).collect();
    let mut planned = Vec::new();
    for one in &all {
        planned.push(happens(&db, one).await);
    }
    let db = db.reopened().await;
    for (one, before) in all.iter().zip(&planned) {
        assert_eq!(&led_to(&db, one).await, before);
        assert_eq!(told(before), "a b");
    }
    assert_eq!(db.claim_all(at(20)).await.len(), 40);
    db.store.configure(channels());
    let again = happens(&db, all.first().unwrap()).await;
    assert_eq!((again.duplicate, told(&again)), (true, "a b".into()));
}

pub(crate) async fn events_are_listed_by_what_they_say(db: Database) {
    ready(&db).await;
    put(&db, ObjectKind::Feed, "other", r#"{"event_types":["NewOutage"]}"#, 1).await;
    let all = [
        outage("1").when(11),
        outage("2").kind("Restoration").when(12),
        outage("3").key("43").with(r#""source":"scada""#).when(13),
        outage("4").of("other").when(14).happened(1),
    ];
    for one in &all {
        happens(&db, one).await;
    }
    let listed = async |filter: EventFilter| {
        let listing = db.store.events(filter, 10).await.unwrap();
        assert!(!listing.more);
        listing.items.iter().map(|one| one.event.external_id.as_str().to_owned()).collect::<String>()
    };
    let some = |text: &str| Some(text.to_owned());
    let any = EventFilter::default;
    assert_eq!(listed(any()).await, "4321");
    assert_eq!(listed(EventFilter { feed: some("outages"), ..any() }).await, "321");
    assert_eq!(listed(EventFilter { kind: some("NewOutage"), ..any() }).await, "431");
    assert_eq!(listed(EventFilter { key: some("42"), ..any() }).await, "421");
    assert_eq!(listed(EventFilter { source: some("scada"), ..any() }).await, "3");
    assert_eq!(listed(EventFilter { since: Some(at(12)), until: Some(at(14)), ..any() }).await, "32");
    assert_eq!(listed(EventFilter { feed: some("outages"), kind: some("Restoration"), ..any() }).await, "2");

    let (mut filter, mut found, mut more) = (any(), String::new(), true);
    while more {
        let page = db.store.events(filter.clone(), 3).await.unwrap();
        assert!(page.items.len() <= 3);
        filter.before = page.items.last().map(|one| one.key);
        found.extend(page.items.iter().map(|one| one.event.external_id.as_str()));
        more = page.more;
    }
    assert_eq!(found, "4321", "each once");
}

pub(crate) async fn an_event_comes_back_as_it_was_handed_in(db: Database) {
    ready(&db).await;
    let full = outage("full").with(
        r#""locale":"nl-NL","fields":{"area":"Bakakeng","n":1.50},"data":{"b": 1.50},"recipients":["u1","u2"],
        "entity":{"type":"PurchaseOrder","id":"po-1"},"ttl":"1h","supersede_key":"k","test":true"#,
    );
    for one in [full, outage("plain")] {
        let built = one.build();
        happens(&db, &one).await;
        let view = db.store.event(one.id()).await.unwrap().unwrap();
        assert_eq!((view.stored.event, view.stored.id), (built.event, built.id));
        assert_eq!((&*view.stored.accepted_by, view.stored.created_at), ("key:erp", at(10)));
    }
    assert!(db.store.event(outage("none").id()).await.unwrap().is_none());
}
