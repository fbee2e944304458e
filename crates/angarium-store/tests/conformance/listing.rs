use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Scope;
use angarium_domain::state::Status;
use angarium_store::*;

use crate::support::{Database, at, note, parked, with_scope};

async fn names(db: &Database, filter: Filter) -> String {
    let rows = db.store.list(filter, 100).await.unwrap().items;
    rows.iter().map(|row| row.subject.trim_start_matches("about ").to_owned()).collect::<Vec<_>>().join(" ")
}

pub(crate) async fn each_filter(db: Database) {
    db.parked(&note("p").when(at(0))).await;
    db.delivered(&note("d").when(at(10)).from("plant-7", "node-a")).await;
    db.accept(&note("l").when(at(20)).list("ops").from("plant-7", "node-b")).await;
    db.accept(&note("50%_off").when(at(30)).to("https://b.example/")).await;
    let all = Filter::default;
    assert_eq!(names(&db, all()).await, "50%_off l d p");
    let status = |status| Filter { status: Some(status), ..all() };
    assert_eq!(names(&db, status(Status::Parked)).await, "p");
    assert_eq!(names(&db, status(Status::Pending)).await, "50%_off l");
    assert_eq!(names(&db, status(Status::Delivered)).await, "d");
    assert_eq!(names(&db, Filter { kind: Some(ChannelKind::Email), ..all() }).await, "");
    assert_eq!(names(&db, Filter { channel: Some("hooks".into()), ..all() }).await, "50%_off l d p");
    assert_eq!(names(&db, Filter { list: Some("ops".into()), ..all() }).await, "l");
    assert_eq!(names(&db, Filter { site: Some("plant-7".into()), ..all() }).await, "l d");
    assert_eq!(names(&db, Filter { node: Some("node-b".into()), ..all() }).await, "l");
    for (text, found) in
        [("50%", "50%_off"), ("%", "50%_off"), ("_OFF", "50%_off"), ("ABOUT P", "p"), ("\\", "")]
    {
        assert_eq!(names(&db, Filter { subject: Some(text.into()), ..all() }).await, found, "{text}");
    }
    assert_eq!(names(&db, Filter { since: Some(at(20)), ..all() }).await, "50%_off l");
    assert_eq!(names(&db, Filter { until: Some(at(20)), ..all() }).await, "d p");
    assert_eq!(names(&db, Filter { stuck_before: Some(at(21)), ..all() }).await, "l");
}

/// A subject is searched for word for word; only ASCII letters are found in either case, whatever language the database
/// speaks.
pub(crate) async fn a_subject_is_found_in_either_case_of_ascii_letters_alone(db: Database) {
    let subjects =
        "ÄRGER ärger KELVIN \u{212A}elvin İz iz ß SS 50% 500 a_b axb a\\b a\\\\b \u{1F600} é e\u{301}";
    for subject in subjects.split(' ').rev() {
        db.accept(&note(subject).about(subject)).await;
    }
    for (text, found) in [
        ("Ä", "ÄRGER"),
        ("ä", "ärger"),
        ("äRGEr", "ärger"),
        ("Ärger", "ÄRGER"),
        ("RgeR", "ÄRGER ärger"),
        ("kelvin", "KELVIN"),
        ("\u{212A}ELVIN", "\u{212A}elvin"),
        ("elVIN", "KELVIN \u{212A}elvin"),
        ("IZ", "iz"),
        ("İZ", "İz"),
        ("i\u{307}z", ""),
        ("z", "İz iz"),
        ("ss", "SS"),
        ("SS", "SS"),
        ("ß", "ß"),
        ("ẞ", ""),
        ("%", "50%"),
        ("50%", "50%"),
        ("5%0", ""),
        ("_", "a_b"),
        ("A_B", "a_b"),
        ("a__b", ""),
        ("\\", "a\\b a\\\\b"),
        ("A\\B", "a\\b"),
        ("\\\\", "a\\\\b"),
        ("\\%", ""),
        ("\\_", ""),
        ("a\\xb", ""),
        ("\u{1F600}", "\u{1F600}"),
        ("É", ""),
        ("é", "é"),
        ("e\u{301}", "e\u{301}"),
        ("\0", ""),
    ] {
        let filter = Filter { subject: Some(text.into()), ..Filter::default() };
        assert_eq!(names(&db, filter).await, found, "{text:?}");
    }
}

pub(crate) async fn pages_cover_everything_once(db: Database) {
    let batch = (0..25).map(|n| note(&n.to_string()).build()).collect();
    db.store.accept(batch, at(0)).await.unwrap();
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = db.store.list(Filter { before, ..Filter::default() }, 10).await.unwrap();
        before = page.items.last().map(|last| last.key);
        seen.extend(page.items.into_iter().map(|row| row.subject));
        if !page.more {
            break;
        }
    }
    let expected: Vec<_> = (0..25).rev().map(|n| format!("about {n}")).collect();
    assert_eq!(seen, expected);
}

/// A page of long texts ends early instead of filling the memory, and says that there is more.
pub(crate) async fn a_page_of_long_texts_is_short(db: Database) {
    let long = |n: usize| note(&n.to_string()).saying(&"x".repeat(250_000)).build();
    db.store.accept((0..60).map(long).collect(), at(0)).await.unwrap();
    let first = db.store.list(Filter::default(), 60).await.unwrap();
    assert!(first.more && first.items.len() < 40, "{}", first.items.len());
    let before = first.items.last().map(|last| last.key);
    let second = db.store.list(Filter { before, ..Filter::default() }, 60).await.unwrap();
    assert_eq!((first.items.len() + second.items.len(), second.more), (60, false));
}

/// A page of notifications to long lists is bounded too.
pub(crate) async fn a_page_of_long_lists_is_short(db: Database) {
    db.store
        .accept((0..60).map(|n| note(&n.to_string()).list("ops").build()).collect(), at(0))
        .await
        .unwrap();
    db.tamper(
        "UPDATE notifications SET resolved = 1;
         WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
         INSERT INTO targets
         SELECT key, i, 'https://' || i || '.example/', i || '.example:443', 'accepted', NULL, 1, 0, 0, NULL, NULL, NULL
         FROM notifications, n",
    );
    let page = db.store.list(Filter::default(), 60).await.unwrap();
    assert!(page.more && page.items.len() < 40, "{}", page.items.len());
    assert_eq!(page.items[0].targets.len(), 1000);
}

/// OB-18, OB-19: the figures of everything, of a site, and of a node within its site.
pub(crate) async fn figures_by_site_and_node(db: Database) {
    db.parked(&note("p").from("plant-7", "n1").when(at(0))).await;
    db.delivered(&note("old").from("plant-7", "n1").when(at(100))).await;
    db.delivered(&note("new").from("plant-7", "n2").when(at(1_000))).await;
    db.accept(&note("stuck").from("plant-7", "n1").when(at(390))).await;
    db.accept(&note("nowhere").when(at(401))).await;
    let claims = db.claim_all(at(400)).await;
    assert_eq!(claims.len(), 1);
    let kpis = db.store.kpis(at(1_001), Duration::from_secs(600), Duration::from_secs(60)).await.unwrap();
    let everything = Kpi {
        queue_depth: 2,
        stuck_count: 1,
        parked_count: 1,
        delivered_last_interval: 1,
        oldest_pending: Some(at(390)),
        in_flight: 1,
    };
    assert_eq!(kpis.global, everything);
    assert_eq!(kpis.sites.len(), 1);
    assert_eq!(kpis.sites["plant-7"].queue_depth, 1);
    let node = |name: &str| kpis.nodes[&("plant-7".to_owned(), name.to_owned())].clone();
    assert_eq!((node("n1").parked_count, node("n1").delivered_last_interval), (1, 0));
    assert_eq!((node("n2").queue_depth, node("n2").delivered_last_interval), (0, 1));
}

pub(crate) async fn keys_and_suppressions(db: Database) {
    let key = |id: &str, name: &str| ApiKey {
        id: id.into(),
        name: name.into(),
        hash: vec![1, 2, 3],
        scopes: "publish read".into(),
        created_at: at(0),
        expires_at: Some(at(9)),
        revoked_at: None,
    };
    assert!(db.store.add_key(key("k1", "erp")).await.unwrap());
    assert!(!db.store.add_key(key("k2", "erp")).await.unwrap(), "the name is taken");
    assert_eq!(db.store.find_key("k1").await.unwrap(), Some(key("k1", "erp")));
    assert_eq!(db.store.revoke_key("k1", "admin", at(5)).await, Ok(Revoked::Done));
    assert_eq!(db.store.revoke_key("k1", "admin", at(6)).await, Ok(Revoked::NotFound));
    assert_eq!(db.store.find_key("k1").await.unwrap().unwrap().revoked_at, Some(at(5)));
    assert!(db.store.replace_key(key("k3", "erp")).await.unwrap());
    assert_eq!(db.store.list_keys().await.unwrap(), [key("k3", "erp")]);
    assert!(db.store.add_key(key("k4", "other")).await.unwrap());
    assert!(db.store.replace_key(key("k4", "erp")).await.unwrap(), "neither name nor id stands in the way");
    assert_eq!(db.store.list_keys().await.unwrap(), [key("k4", "erp")]);

    db.accept(&note("a")).await;
    let claim = db.claim_one(at(1)).await;
    db.settle(with_scope(parked(&claim, at(2)), &claim, Scope::SuppressAddress)).await;
    let listed = db.store.list_suppressions(None, 100).await.unwrap();
    let expected = Suppression {
        channel: "hooks".into(),
        address: "https://a.example/hook".into(),
        reason: "HTTP 410".into(),
        since: at(2),
    };
    assert_eq!(listed, [expected]);
    let after = Some(("hooks".to_owned(), "https://a.example/hook".to_owned()));
    assert!(db.store.list_suppressions(after, 100).await.unwrap().is_empty());
    assert!(!db.store.lift_suppression("hooks", "https://b.example/").await.unwrap());
}
