//! Subscriptions: made, changed, deleted and listed, one by one and many at once.

use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::subscription::{Subscription, Target};
use angarium_domain::text::{ChannelName, SubscriptionId};
use angarium_store::*;

use crate::objects::{feed, history, put};
use crate::support::{Database, at};

/// A subscription in the making: named, so that its id follows from its name.
#[derive(Clone)]
pub(crate) struct Sub {
    name: String,
    feed: String,
    target: String,
    more: String,
}

pub(crate) fn sub(name: &str) -> Sub {
    Sub {
        name: name.into(),
        feed: "outages".into(),
        target: to_address("hooks", "https://a.example/hook"),
        more: String::new(),
    }
}

pub(crate) fn to_list(list: &str) -> String {
    format!(r#"{{"list":"{list}"}}"#)
}

fn to_address(channel: &str, address: &str) -> String {
    format!(r#"{{"channel":"{channel}","address":"{address}"}}"#)
}

impl Sub {
    pub(crate) fn id(&self) -> SubscriptionId {
        SubscriptionId::parse(&self.name).unwrap()
    }

    pub(crate) fn of(self, feed: &str) -> Self {
        Sub { feed: feed.into(), ..self }
    }

    pub(crate) fn to(self, target: String) -> Self {
        Sub { target, ..self }
    }

    /// With this member besides.
    pub(crate) fn with(mut self, member: &str) -> Self {
        self.more.push(',');
        self.more.push_str(member);
        self
    }

    pub(crate) fn build(&self) -> Subscription {
        let Sub { name, feed, target, more } = self;
        let json = format!(r#"{{"name":"About {name}","feed":"{feed}","target":{target}{more}}}"#);
        let kind_of = |channel: &ChannelName| match channel.as_str() {
            "mail" => Some(ChannelKind::Email),
            _ => Some(ChannelKind::Webhook),
        };
        Subscription::parse(&json, &kind_of).unwrap()
    }

    pub(crate) async fn put_if(&self, db: &Database, expect: Expect) -> Changed<StoredSubscription> {
        db.store.put_subscription(self.id(), self.build(), expect, at(5)).await.unwrap()
    }

    pub(crate) async fn put(&self, db: &Database) -> StoredSubscription {
        match self.put_if(db, Expect::Anything).await {
            Changed::Done { now, .. } => now,
            other => panic!("{} was not stored: {other:?}", self.name),
        }
    }

    pub(crate) async fn delete(&self, db: &Database) {
        let answer = db.store.delete_subscription(&self.id(), Expect::Anything, at(6)).await.unwrap();
        assert_eq!(answer, Changed::Done { now: (), created: false });
    }

    pub(crate) async fn stored(&self, db: &Database) -> Option<StoredSubscription> {
        db.store.subscription(&self.id()).await.unwrap()
    }
}

/// The feed that most of these are of.
pub(crate) async fn outages(db: &Database) -> i64 {
    put(db, ObjectKind::Feed, "outages", &feed(r#""NewOutage","Restoration""#), 1).await.0
}

const EVERYTHING: &str = r#""filter":{"event_types":["NewOutage"],"keywords":{"area":["Bakakeng"]},"match":"all"},
    "options":{"ntfy":{"priority":5.0}},"active":false,"cooldown":"1500ms","daily_cap":50,"delivery":"at_most_once",
    "scope":"user","owner":"u1","expires_at":"2026-10-05T00:00:00Z","test":true"#;

pub(crate) async fn a_subscription_comes_back_as_it_was_put(db: Database) {
    let before = outages(&db).await;
    let plain = sub("plain").to(to_list("ops"));
    let full = sub("full").to(to_address("mail", "Ann@BÜCHER.example")).with(EVERYTHING);
    for wanted in [&plain, &full] {
        let answer = wanted.put_if(&db, Expect::Absent).await;
        let Changed::Done { now, created: true } = answer else { panic!("{answer:?}") };
        assert_eq!(Some(&now), wanted.stored(&db).await.as_ref());
        assert_eq!((&now.id, &now.subscription), (&wanted.id(), &wanted.build()));
        assert_eq!((now.managed_by, now.last_sent_at), (ManagedBy::Api, None));
        assert_eq!((now.created_at, now.updated_at), (at(5), at(5)));
    }
    let full = full.stored(&db).await.unwrap();
    assert_eq!(full.version, before + 2);
    assert_eq!(full.subscription.cooldown, Duration::from_millis(1500));
    let Target::Address { address, .. } = full.subscription.target else { panic!() };
    assert_eq!(address, Address::parse(ChannelKind::Email, "Ann@bücher.example").unwrap());
    assert_eq!(address.receiver(), "xn--bcher-kva.example");
}

pub(crate) async fn what_is_put_again_takes_no_number(db: Database) {
    outages(&db).await;
    let wanted = sub("a").with(EVERYTHING);
    let first = wanted.put(&db).await;
    let answer =
        db.store.put_subscription(wanted.id(), wanted.build(), Expect::Anything, at(7)).await.unwrap();
    assert_eq!(answer, Changed::Done { now: first.clone(), created: false });
    assert_eq!(sub("b").put(&db).await.version, first.version + 1);
    assert!(history(&db, "subscription", "a").is_empty());
}

pub(crate) async fn a_subscription_is_changed_only_as_expected(db: Database) {
    outages(&db).await;
    let (one, other) = (sub("a"), sub("a").with(r#""cooldown":"1h""#));
    assert_eq!(one.put_if(&db, Expect::Present).await, Changed::NotFound);
    assert_eq!(one.put_if(&db, Expect::Version(3)).await, Changed::Conflict(None));
    let version = one.put(&db).await.version;
    assert_eq!(other.put_if(&db, Expect::Absent).await, Changed::Conflict(Some(version)));
    assert_eq!(other.put_if(&db, Expect::Version(version + 1)).await, Changed::Conflict(Some(version)));
    assert_eq!(one.stored(&db).await.unwrap().subscription, one.build());

    let answer = other.put_if(&db, Expect::Version(version)).await;
    let Changed::Done { now, created: false } = answer else { panic!("{answer:?}") };
    assert_eq!((now.subscription, now.version), (other.build(), version + 1));

    let delete = async |expect| db.store.delete_subscription(&one.id(), expect, at(6)).await.unwrap();
    assert_eq!(delete(Expect::Version(version)).await, Changed::Conflict(Some(version + 1)));
    assert_eq!(delete(Expect::Version(version + 1)).await, Changed::Done { now: (), created: false });
    assert_eq!(delete(Expect::Anything).await, Changed::NotFound);
    assert_eq!(one.stored(&db).await, None);
}

pub(crate) async fn a_subscription_needs_a_feed_that_counts_and_stays_on_it(db: Database) {
    let one = sub("a");
    assert_eq!(one.put_if(&db, Expect::Anything).await, Changed::UnknownFeed);
    outages(&db).await;
    put(&db, ObjectKind::Feed, "other", &feed(r#""NewOutage""#), 1).await;
    one.put(&db).await;
    assert_eq!(one.clone().of("other").put_if(&db, Expect::Anything).await, Changed::FeedFixed);
    assert_eq!(one.clone().of("nowhere").put_if(&db, Expect::Anything).await, Changed::FeedFixed);
    assert_eq!(one.stored(&db).await.unwrap().subscription, one.build());

    db.tamper("UPDATE objects SET active = 0 WHERE name = 'outages'");
    assert_eq!(sub("b").put_if(&db, Expect::Anything).await, Changed::UnknownFeed, "it counts no longer");
    one.delete(&db).await;
    db.store.delete_object(ObjectKind::Feed, "other", Expect::Anything, at(6)).await.unwrap();
    assert_eq!(one.of("other").put_if(&db, Expect::Anything).await, Changed::UnknownFeed);
}

pub(crate) async fn a_filter_that_makes_no_sense_is_refused(db: Database) {
    outages(&db).await;
    let senseless = sub("a").with(r#""filter":{"event_types":["Earthquake"]}"#);
    let answer = senseless.put_if(&db, Expect::Anything).await;
    assert!(matches!(&answer, Changed::Senseless(why) if !why.is_empty()), "{answer:?}");
    assert_eq!(senseless.stored(&db).await, None);

    let sensible = sub("b").with(r#""filter":{"event_types":["Restoration"]}"#);
    sensible.put(&db).await;
    put(&db, ObjectKind::Feed, "outages", &feed(r#""NewOutage""#), 8).await;
    assert!(sensible.stored(&db).await.is_some(), "a feed may change although a filter no longer suits it");
    let changed = sensible.with(r#""cooldown":"1h""#).put_if(&db, Expect::Anything).await;
    assert!(matches!(changed, Changed::Senseless(_)), "{changed:?}");
}

pub(crate) async fn of_a_deleted_subscription_nothing_personal_is_left(db: Database) {
    outages(&db).await;
    sub("a").to(to_address("mail", "ann@example.com")).with(EVERYTHING).put(&db).await;
    sub("b").put(&db).await;
    let version = sub("b").put(&db).await.version;
    sub("a").delete(&db).await;
    let left = "SELECT id || name || feed || filter || coalesce(channel, '') || coalesce(address, '')
        || coalesce(receiver, '') || coalesce(list, '') || coalesce(options, '') || coalesce(owner, '') || ' ' || active
        || deleted || ' ' || version FROM subscriptions WHERE id = 'a'";
    assert_eq!(db.ask(left), [format!("aoutages{{}} 01 {}", version + 1)]);
    let listed = db.store.subscriptions(SubscriptionFilter::default(), 10).await.unwrap();
    assert_eq!(listed.into_iter().map(|one| one.id).collect::<Vec<_>>(), [sub("b").id()]);
}

pub(crate) async fn a_subscription_made_again_is_the_same_to_the_ledger(db: Database) {
    outages(&db).await;
    let first = sub("a").put(&db).await;
    sub("b").put(&db).await;
    sub("a").delete(&db).await;
    let again = sub("a").with(r#""cooldown":"1h""#);
    let answer = db.store.put_subscription(again.id(), again.build(), Expect::Absent, at(9)).await.unwrap();
    let Changed::Done { now, created: true } = answer else { panic!("{answer:?}") };
    assert_eq!((now.cursor, now.created_at), (first.cursor, at(9)));
    assert_eq!(now.subscription, again.build());
}

pub(crate) async fn what_it_was_is_kept_between_its_two_changes(db: Database) {
    outages(&db).await;
    let (one, other) = (sub("a").with(EVERYTHING), sub("a"));
    let first = one.put(&db).await.version;
    let second = other.put(&db).await.version;
    one.delete(&db).await;
    one.put(&db).await;
    assert_eq!(
        history(&db, "subscription", "a"),
        [
            format!("{first} to {second}: 0 {}", one.build().to_json()),
            format!("{second} to {}: 1 {}", second + 1, other.build().to_json()),
        ]
    );
}

pub(crate) async fn when_it_was_last_told_is_known(db: Database) {
    outages(&db).await;
    let key = sub("a").put(&db).await.cursor;
    let last = at(77);
    db.tamper(&format!("INSERT INTO subscription_deliveries VALUES ({key}, {})", last.micros()));
    assert_eq!(sub("a").stored(&db).await.unwrap().last_sent_at, Some(last));
    let listed = db.store.subscriptions(SubscriptionFilter::default(), 10).await.unwrap();
    assert_eq!(listed.first().unwrap().last_sent_at, Some(last));
}

pub(crate) async fn each_filter_of_a_listing(db: Database) {
    outages(&db).await;
    put(&db, ObjectKind::Feed, "other", &feed(r#""NewOutage""#), 1).await;
    sub("a").put(&db).await;
    sub("b").of("other").with(r#""owner":"u1","scope":"user""#).put(&db).await;
    sub("c").to(to_list("ops")).with(r#""active":false"#).put(&db).await;
    sub("d").to(to_address("mail", "ann@example.com")).with(r#""owner":"u1""#).put(&db).await;
    let names = async |filter: SubscriptionFilter| {
        let found = db.store.subscriptions(filter, 10).await.unwrap();
        found.iter().map(|one| one.id.as_str().to_owned()).collect::<String>()
    };
    let some = |text: &str| Some(text.to_owned());
    let all = SubscriptionFilter::default;
    assert_eq!(names(all()).await, "abcd");
    assert_eq!(names(SubscriptionFilter { feed: some("outages"), ..all() }).await, "acd");
    assert_eq!(names(SubscriptionFilter { channel: some("mail"), ..all() }).await, "d");
    assert_eq!(names(SubscriptionFilter { owner: some("u1"), ..all() }).await, "bd");
    assert_eq!(names(SubscriptionFilter { active: Some(false), ..all() }).await, "c");
    assert_eq!(names(SubscriptionFilter { active: Some(true), ..all() }).await, "abd");
    assert_eq!(names(SubscriptionFilter { name: some("about B"), ..all() }).await, "b");
    assert_eq!(
        names(SubscriptionFilter { name: some("%"), ..all() }).await,
        "",
        "it is a sign like any other"
    );
    let both = SubscriptionFilter { owner: some("u1"), feed: some("outages"), active: Some(true), ..all() };
    assert_eq!(names(both).await, "d");
}

pub(crate) async fn pages_cover_every_subscription_once(db: Database) {
    outages(&db).await;
    for name in ["e", "a", "d", "b", "c"] {
        sub(name).put(&db).await;
    }
    let mut filter = SubscriptionFilter { feed: Some("outages".into()), ..SubscriptionFilter::default() };
    let mut found = String::new();
    loop {
        let page = db.store.subscriptions(filter.clone(), 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        filter.after = Some(last.cursor);
        found.extend(page.iter().map(|one| one.id.as_str()));
    }
    assert_eq!(found, "eadbc", "in the order in which they were made");
}

pub(crate) async fn each_of_an_import_has_its_own_answer_and_all_one_number(db: Database) {
    outages(&db).await;
    let version = sub("same").put(&db).await.version;
    sub("changed").put(&db).await;
    put(&db, ObjectKind::Feed, "other", &feed(r#""NewOutage""#), 1).await;
    let declared =
        Declared { subscriptions: vec![(sub("file").id(), sub("file").build())], ..Declared::default() };
    db.store.apply_declared(declared, at(1)).await.unwrap();
    let items = [
        sub("new"),
        sub("same"),
        sub("changed").with(r#""cooldown":"1h""#),
        sub("new").with(r#""cooldown":"1h""#),
        sub("file").with(r#""cooldown":"1h""#),
        sub("same").of("other"),
        sub("nowhere").of("nowhere"),
        sub("senseless").with(r#""filter":{"event_types":["Earthquake"]}"#),
        sub("changed"),
        sub("last"),
    ];
    let items = items.iter().map(|one| (one.id(), one.build())).collect();
    let answers = db.store.import_subscriptions(items, at(8)).await.unwrap();
    let (made, stood) = (Changed::Done { now: (), created: true }, Changed::Done { now: (), created: false });
    assert_eq!(
        answers.get(..7).unwrap(),
        [
            made.clone(),
            stood.clone(),
            stood,
            Changed::Conflict(None),
            Changed::ReadOnly,
            Changed::Conflict(Some(version)),
            Changed::UnknownFeed,
        ]
    );
    assert!(matches!(answers.get(7), Some(Changed::Senseless(_))), "{answers:?}");
    assert_eq!(answers.get(8..).unwrap(), [Changed::Conflict(Some(version + 1)), made]);

    let number = version + 4;
    for (one, wanted) in
        [(sub("new"), number), (sub("same"), version), (sub("changed"), number), (sub("last"), number)]
    {
        assert_eq!(one.stored(&db).await.unwrap().version, wanted, "{}", one.name);
    }
    assert_eq!(sub("new").stored(&db).await.unwrap().subscription, sub("new").build());
    assert_eq!(history(&db, "subscription", "changed").len(), 1);
}

pub(crate) async fn an_import_of_what_is_so_takes_no_number(db: Database) {
    outages(&db).await;
    let items: Vec<_> = ["a", "b"].map(|name| (sub(name).id(), sub(name).build())).into();
    db.store.import_subscriptions(items.clone(), at(8)).await.unwrap();
    let version = sub("a").stored(&db).await.unwrap().version;
    let answers = db.store.import_subscriptions(items, at(9)).await.unwrap();
    assert_eq!(answers, [const { Changed::Done { now: (), created: false } }; 2]);
    assert_eq!(sub("c").put(&db).await.version, version + 1);
}

/// Whoever has seen a number has seen all that is under it.
pub(crate) async fn numbers_rise_in_the_order_of_commits(db: Database) {
    outages(&db).await;
    let beside = db.beside().await;
    let other = beside.as_ref().unwrap_or(&db.store);
    let made = (0..20).map(async |n| {
        let one = sub(&format!("s{n}"));
        let store = if n % 2 == 0 { &db.store } else { other };
        store.put_subscription(one.id(), one.build(), Expect::Absent, at(5)).await.unwrap()
    });
    let made = futures_util::future::join_all(made).await;
    let mut versions: Vec<(i64, i64)> = made
        .into_iter()
        .map(|answer| match answer {
            Changed::Done { now, created: true } => (now.version, now.cursor),
            other => panic!("{other:?}"),
        })
        .collect();
    versions.sort_unstable();
    assert!(versions.windows(2).all(|two| two[0].0 + 1 == two[1].0 && two[0].1 < two[1].1), "{versions:?}");
}
