//! Feeds, templates and lists: made, changed, deleted, and how each change is told.

use angarium_store::*;

use crate::subscriptions::{outages, sub, to_list};
use crate::support::{Database, at, note};

/// A feed with these event types.
pub(crate) fn feed(types: &str) -> String {
    format!(r#"{{"event_types":[{types}],"fields":{{"area":{{"match":"substring"}}}}}}"#)
}

pub(crate) fn list_of(address: &str) -> String {
    format!(r#"{{"channel":"hooks","members":["{address}"]}}"#)
}

fn template(body: &str) -> String {
    format!(r#"{{"event_type":"NewOutage","channel":"hooks","locale":"en","body":"{body}"}}"#)
}

const TEMPLATE: &str = "NewOutage/hooks/en";

/// Puts an object through the API; says which change made it what it is, and whether it was not there.
pub(crate) async fn put(
    db: &Database,
    kind: ObjectKind,
    name: &str,
    spec: &str,
    seconds: u64,
) -> (i64, bool) {
    match db.store.put_object(kind, name, spec.into(), Expect::Anything, at(seconds)).await.unwrap() {
        Changed::Done { now, created } => (now.version, created),
        other => panic!("{name} was not stored: {other:?}"),
    }
}

async fn delete(db: &Database, kind: ObjectKind, name: &str, expect: Expect) -> Changed<()> {
    db.store.delete_object(kind, name, expect, at(9)).await.unwrap()
}

/// What it was before: from which change to which, whether it counted, and what it said.
pub(crate) fn history(db: &Database, kind: &str, name: &str) -> Vec<String> {
    db.ask(&format!(
        "SELECT since || ' to ' || until || ': ' || active || ' ' || spec FROM history
         WHERE kind = '{kind}' AND name = '{name}' ORDER BY since"
    ))
}

const DONE: Changed<()> = Changed::Done { now: (), created: false };

pub(crate) async fn an_object_is_made_changed_and_deleted(db: Database) {
    let kind = ObjectKind::List;
    assert_eq!(db.store.object(kind, "ops").await.unwrap(), None);
    let (first, created) = put(&db, kind, "ops", &list_of("https://a.example/"), 1).await;
    assert!(created);
    let made = db.store.object(kind, "ops").await.unwrap().unwrap();
    assert_eq!((made.kind, &*made.name, &*made.spec), (kind, "ops", &*list_of("https://a.example/")));
    assert_eq!((made.managed_by, made.active, made.version), (ManagedBy::Api, true, first));
    assert_eq!((made.created_at, made.updated_at), (at(1), at(1)));

    let (second, created) = put(&db, kind, "ops", &list_of("https://b.example/"), 2).await;
    assert!(!created && second > first);
    let changed = db.store.object(kind, "ops").await.unwrap().unwrap();
    assert_eq!((&*changed.spec, changed.version), (&*list_of("https://b.example/"), second));
    assert_eq!((changed.created_at, changed.updated_at), (at(1), at(2)));

    assert_eq!(delete(&db, kind, "ops", Expect::Anything).await, DONE);
    assert_eq!(db.store.object(kind, "ops").await.unwrap(), None);
    assert_eq!(delete(&db, kind, "ops", Expect::Anything).await, Changed::NotFound);

    let (fourth, created) = put(&db, kind, "ops", &list_of("https://c.example/"), 10).await;
    assert!(created, "a name is free once what had it is deleted");
    assert_eq!(fourth, second + 2, "the deletion had a number of its own");
    assert_eq!(db.store.object(kind, "ops").await.unwrap().unwrap().created_at, at(10));
}

pub(crate) async fn what_is_so_already_takes_no_number(db: Database) {
    let spec = list_of("https://a.example/");
    let (first, _) = put(&db, ObjectKind::List, "ops", &spec, 1).await;
    assert_eq!(put(&db, ObjectKind::List, "ops", &spec, 2).await, (first, false));
    let (other, _) = put(&db, ObjectKind::List, "night", &spec, 3).await;
    assert_eq!(other, first + 1);
    let ops = db.store.object(ObjectKind::List, "ops").await.unwrap().unwrap();
    assert_eq!(ops.updated_at, at(1));
}

pub(crate) async fn a_change_is_made_only_to_what_was_expected(db: Database) {
    let put = async |spec: &str, expect| {
        db.store.put_object(ObjectKind::Feed, "f", feed(spec), expect, at(1)).await.unwrap()
    };
    assert_eq!(put(r#""A""#, Expect::Present).await, Changed::NotFound);
    assert_eq!(put(r#""A""#, Expect::Version(1)).await, Changed::Conflict(None));
    let Changed::Done { now: made, created: true } = put(r#""A""#, Expect::Absent).await else { panic!() };
    let version = made.version;
    assert_eq!(put(r#""B""#, Expect::Absent).await, Changed::Conflict(Some(version)));
    assert_eq!(
        put(r#""A""#, Expect::Absent).await,
        Changed::Conflict(Some(version)),
        "though it says the same"
    );
    assert_eq!(put(r#""B""#, Expect::Version(version - 1)).await, Changed::Conflict(Some(version)));
    assert!(matches!(put(r#""B""#, Expect::Version(version)).await, Changed::Done { created: false, .. }));
    assert!(matches!(put(r#""C""#, Expect::Present).await, Changed::Done { created: false, .. }));

    let stale = delete(&db, ObjectKind::Feed, "f", Expect::Version(version)).await;
    assert_eq!(stale, Changed::Conflict(Some(version + 2)));
    assert_eq!(delete(&db, ObjectKind::Feed, "f", Expect::Version(version + 2)).await, DONE);
}

pub(crate) async fn of_two_who_expect_the_same_one_is_refused(db: Database) {
    let beside = db.beside().await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    let (version, _) = put(&db, ObjectKind::Feed, "f", &feed(r#""A""#), 1).await;
    for round in 0..10 {
        let expect = Expect::Version(version + round);
        let ours = feed(&format!(r#""A{round}""#));
        let theirs = feed(&format!(r#""B{round}""#));
        let (ours, theirs) = tokio::join!(
            db.store.put_object(ObjectKind::Feed, "f", ours, expect, at(2)),
            beside.put_object(ObjectKind::Feed, "f", theirs, expect, at(2)),
        );
        let done = |answer: &Changed<StoredObject>| matches!(answer, Changed::Done { .. });
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!(done(&ours) != done(&theirs), "{ours:?} and {theirs:?}");
    }
}

pub(crate) async fn kinds_have_names_of_their_own_and_are_listed_by_them(db: Database) {
    for name in ["b", "B", "a", "ä", "c"] {
        put(&db, ObjectKind::List, name, &list_of("https://a.example/"), 1).await;
    }
    put(&db, ObjectKind::Feed, "b", &feed(r#""A""#), 1).await;
    delete(&db, ObjectKind::List, "c", Expect::Anything).await;
    let names = async |after: Option<&str>, limit| {
        let found = db.store.objects(ObjectKind::List, after.map(str::to_owned), limit).await.unwrap();
        found.into_iter().map(|object| object.name).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 10).await, ["B", "a", "b", "ä"]);
    assert_eq!(names(None, 2).await, ["B", "a"]);
    assert_eq!(names(Some("a"), 10).await, ["b", "ä"]);
    let feeds = db.store.objects(ObjectKind::Feed, None, 10).await.unwrap();
    assert_eq!(feeds.len(), 1);
    assert_eq!(feeds.first().unwrap().kind, ObjectKind::Feed);
}

pub(crate) async fn a_feed_stays_while_somebody_subscribes_to_it(db: Database) {
    outages(&db).await;
    sub("a").put(&db).await;
    let refused = delete(&db, ObjectKind::Feed, "outages", Expect::Anything).await;
    assert_eq!(refused, Changed::InUse("subscription a".into()));
    assert!(db.store.object(ObjectKind::Feed, "outages").await.unwrap().is_some());
    sub("a").delete(&db).await;
    assert_eq!(delete(&db, ObjectKind::Feed, "outages", Expect::Anything).await, DONE);
}

pub(crate) async fn a_list_stays_while_it_is_to_be_told(db: Database) {
    outages(&db).await;
    put(&db, ObjectKind::List, "ops", &list_of("https://a.example/"), 1).await;
    sub("a").to(to_list("ops")).put(&db).await;
    let refused = delete(&db, ObjectKind::List, "ops", Expect::Anything).await;
    assert_eq!(refused, Changed::InUse("subscription a".into()));
    sub("a").delete(&db).await;

    let waiting = note("waiting").list("ops");
    db.accept(&waiting).await;
    let refused = delete(&db, ObjectKind::List, "ops", Expect::Anything).await;
    assert_eq!(refused, Changed::InUse(format!("notification {}, which is still to be sent", waiting.id())));
    db.act(&waiting, Action::Cancel, at(1)).await;
    assert_eq!(delete(&db, ObjectKind::List, "ops", Expect::Anything).await, DONE);
}

pub(crate) async fn a_template_stays_while_something_is_to_be_rendered_with_it(db: Database) {
    put(&db, ObjectKind::Template, TEMPLATE, &template("out"), 1).await;
    let told = note("told").to("https://a.example/");
    db.accept(&told).await;
    db.tamper(
        "INSERT INTO events (key, id, source, external_id, hash, feed, type, subject, at, fields, test, accepted_by,
             created_at, plan_version, matched)
         SELECT 7, id, 'erp', '1', hash, 'outages', 'Restoration', '42', 0, '{}', 0, 'key:erp', 0, 0, 1 FROM ids;
         UPDATE notifications SET event = 7",
    );
    assert_eq!(
        delete(&db, ObjectKind::Template, TEMPLATE, Expect::Anything).await,
        DONE,
        "it is of another type"
    );

    put(&db, ObjectKind::Template, TEMPLATE, &template("out"), 1).await;
    db.tamper("UPDATE events SET type = 'NewOutage'");
    let refused = delete(&db, ObjectKind::Template, TEMPLATE, Expect::Anything).await;
    assert_eq!(refused, Changed::InUse(format!("notification {}, which is still to be sent", told.id())));
    db.act(&told, Action::Cancel, at(1)).await;
    assert_eq!(delete(&db, ObjectKind::Template, TEMPLATE, Expect::Anything).await, DONE);
}

pub(crate) async fn what_was_is_kept_between_its_two_changes(db: Database) {
    let (first, _) = put(&db, ObjectKind::List, "ops", &list_of("https://a.example/"), 1).await;
    let (second, _) = put(&db, ObjectKind::List, "ops", &list_of("https://b.example/"), 2).await;
    delete(&db, ObjectKind::List, "ops", Expect::Anything).await;
    let (fourth, _) = put(&db, ObjectKind::List, "ops", &list_of("https://c.example/"), 3).await;
    assert_eq!(
        history(&db, "list", "ops"),
        [
            format!("{first} to {second}: 1 {}", list_of("https://a.example/")),
            format!("{second} to {}: 1 {}", second + 1, list_of("https://b.example/")),
        ]
    );
    assert_eq!(fourth, second + 2, "in between there was none");
}
