//! What a configuration file declares: made once, by whichever node, and taken back only by a newer file.

use angarium_store::*;

use crate::objects::{feed, history, list_of, put};
use crate::subscriptions::{Sub, outages, sub, to_list};
use crate::support::{Database, at};

/// A file in the making.
#[derive(Clone, Default)]
struct File(Declared);

fn file(epoch: i64) -> File {
    File(Declared { epoch, ..Declared::default() })
}

impl File {
    fn object(mut self, kind: ObjectKind, name: &str, spec: &str) -> Self {
        self.0.objects.push((kind, name.into(), spec.into()));
        self
    }

    fn list(self, name: &str, address: &str) -> Self {
        self.object(ObjectKind::List, name, &list_of(address))
    }

    fn outages(self) -> Self {
        self.object(ObjectKind::Feed, "outages", &feed(r#""NewOutage","Restoration""#))
    }

    fn sub(mut self, one: &Sub) -> Self {
        self.0.subscriptions.push((one.id(), one.build()));
        self
    }

    fn pruning(mut self) -> Self {
        self.0.prune = true;
        self
    }

    async fn apply(&self, db: &Database) -> Applied {
        db.store.apply_declared(self.0.clone(), at(20)).await.unwrap()
    }
}

/// The number of the last change.
async fn last(db: &Database) -> i64 {
    let (version, _) = put(db, ObjectKind::List, "probe", &list_of("https://probe.example/"), 1).await;
    db.store.delete_object(ObjectKind::List, "probe", Expect::Anything, at(1)).await.unwrap();
    version - 1
}

async fn list(db: &Database, name: &str) -> Option<StoredObject> {
    db.store.object(ObjectKind::List, name).await.unwrap()
}

fn applied(created: usize, changed: usize, retired: usize, taken: usize) -> Applied {
    Applied { outdated: false, created, changed, retired, taken }
}

const A: &str = "https://a.example/";
const B: &str = "https://b.example/";

pub(crate) async fn what_a_file_declares_is_made_once(db: Database) {
    let one = sub("a").with(r#""filter":{"event_types":["NewOutage"]}"#);
    let first = file(1).outages().list("ops", A).sub(&one);
    assert_eq!(first.apply(&db).await, applied(3, 0, 0, 0));
    let (ops, stored) = (list(&db, "ops").await.unwrap(), one.stored(&db).await.unwrap());
    assert_eq!((ops.managed_by, stored.managed_by), (ManagedBy::File, ManagedBy::File));
    assert_eq!((&*ops.spec, &stored.subscription), (&*list_of(A), &one.build()));
    assert_eq!(ops.version, stored.version, "all of it is one change");

    assert_eq!(first.apply(&db).await, applied(0, 0, 0, 0));
    assert_eq!(file(2).outages().list("ops", A).sub(&one).apply(&db).await, applied(0, 0, 0, 0));
    assert_eq!(last(&db).await, ops.version);

    let changed = file(3).outages().list("ops", B).sub(&one.clone().with(r#""cooldown":"1h""#));
    assert_eq!(changed.apply(&db).await, applied(0, 2, 0, 0));
    let now = list(&db, "ops").await.unwrap();
    assert_eq!((&*now.spec, now.created_at), (&*list_of(B), ops.created_at));
    let kept = format!("{} to {}: 1 ", ops.version, now.version);
    assert_eq!(history(&db, "list", "ops"), [kept.clone() + &list_of(A)]);
    assert_eq!(history(&db, "subscription", "a"), [kept + &one.build().to_json()]);
}

pub(crate) async fn what_a_file_declares_is_read_only_elsewhere(db: Database) {
    let one = sub("a");
    file(1).outages().list("ops", A).sub(&one).apply(&db).await;
    let before = (list(&db, "ops").await, one.stored(&db).await);
    for expect in [Expect::Anything, Expect::Present] {
        let put = db.store.put_object(ObjectKind::List, "ops", list_of(B), expect, at(1)).await.unwrap();
        assert_eq!(put, Changed::ReadOnly);
        let delete = db.store.delete_object(ObjectKind::List, "ops", expect, at(1)).await.unwrap();
        assert_eq!(delete, Changed::ReadOnly);
        assert_eq!(one.clone().with(r#""cooldown":"1h""#).put_if(&db, expect).await, Changed::ReadOnly);
        let delete = db.store.delete_subscription(&one.id(), expect, at(1)).await.unwrap();
        assert_eq!(delete, Changed::ReadOnly);
    }
    assert_eq!((list(&db, "ops").await, one.stored(&db).await), before);
}

pub(crate) async fn what_vanishes_from_the_file_no_longer_counts_until_it_is_back(db: Database) {
    let one = sub("a");
    let (whole, less) = (file(1).outages().list("ops", A).sub(&one), file(1).outages());
    whole.apply(&db).await;
    assert_eq!(less.apply(&db).await, applied(0, 0, 2, 0));
    let (ops, stored) = (list(&db, "ops").await.unwrap(), one.stored(&db).await.unwrap());
    assert!(!ops.active && !stored.subscription.active);
    assert_eq!((&*ops.spec, ops.version), (&*list_of(A), stored.version));
    assert_eq!(less.apply(&db).await, applied(0, 0, 0, 0));
    assert_eq!(last(&db).await, ops.version);

    assert_eq!(whole.apply(&db).await, applied(0, 2, 0, 0));
    let (back, stored) = (list(&db, "ops").await.unwrap(), one.stored(&db).await.unwrap());
    assert!(back.active);
    assert_eq!(stored.subscription, one.build());
    let kept: Vec<String> =
        history(&db, "list", "ops").iter().map(|was| was[..was.find('{').unwrap()].into()).collect();
    let first = kept.first().unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(
        kept,
        [format!("{first} to {}: 1 ", ops.version), format!("{} to {}: 0 ", ops.version, back.version)]
    );
}

pub(crate) async fn what_vanishes_is_deleted_if_the_operator_wants_that(db: Database) {
    let one = sub("a").to(to_list("ops"));
    file(1).outages().list("ops", A).list("night", A).sub(&one).apply(&db).await;
    file(1).outages().list("ops", A).sub(&one).apply(&db).await;
    let pruned = file(2).pruning();
    assert_eq!(pruned.apply(&db).await, applied(0, 0, 4, 0), "also what was switched off before");
    assert_eq!((list(&db, "ops").await, list(&db, "night").await, one.stored(&db).await), (None, None, None));
    assert_eq!(
        db.store.object(ObjectKind::Feed, "outages").await.unwrap(),
        None,
        "nobody subscribes any more"
    );
    let number = last(&db).await;
    assert_eq!(pruned.apply(&db).await, applied(0, 0, 0, 0));
    assert_eq!(last(&db).await, number + 2, "only the two of looking");

    assert_eq!(file(3).outages().sub(&one).apply(&db).await, applied(2, 0, 0, 0));
    assert_eq!(one.stored(&db).await.unwrap().subscription, one.build());
}

pub(crate) async fn what_is_still_needed_is_only_switched_off(db: Database) {
    file(1).outages().apply(&db).await;
    sub("mine").put(&db).await;
    let pruned = file(2).pruning();
    assert_eq!(pruned.apply(&db).await, applied(0, 0, 1, 0));
    assert!(!db.store.object(ObjectKind::Feed, "outages").await.unwrap().unwrap().active);
    assert_eq!(pruned.apply(&db).await, applied(0, 0, 0, 0));
    sub("mine").delete(&db).await;
    assert_eq!(pruned.apply(&db).await, applied(0, 0, 1, 0));
    assert_eq!(db.store.object(ObjectKind::Feed, "outages").await.unwrap(), None);
}

pub(crate) async fn what_the_api_made_keeps_its_name(db: Database) {
    outages(&db).await;
    put(&db, ObjectKind::List, "ops", &list_of(A), 1).await;
    let one = sub("a").put(&db).await;
    let declared =
        file(1).list("ops", B).list("night", B).sub(&sub("a").with(r#""cooldown":"1h""#)).pruning();
    assert_eq!(declared.apply(&db).await, applied(1, 0, 0, 2));
    let ops = list(&db, "ops").await.unwrap();
    assert_eq!((ops.managed_by, &*ops.spec), (ManagedBy::Api, &*list_of(A)));
    assert_eq!(sub("a").stored(&db).await.unwrap(), one);
    assert_eq!(declared.apply(&db).await, applied(0, 0, 0, 2));

    file(2).pruning().apply(&db).await;
    assert_eq!(list(&db, "ops").await.unwrap(), ops, "it is none of the file's");
    assert_eq!(sub("a").stored(&db).await.unwrap(), one);
}

pub(crate) async fn a_deleted_name_is_free_for_the_file(db: Database) {
    outages(&db).await;
    put(&db, ObjectKind::List, "ops", &list_of(A), 1).await;
    sub("a").put(&db).await;
    db.store.delete_object(ObjectKind::List, "ops", Expect::Anything, at(2)).await.unwrap();
    sub("a").delete(&db).await;
    let declared = file(1).list("ops", B).sub(&sub("a"));
    assert_eq!(declared.apply(&db).await, applied(2, 0, 0, 0));
    assert_eq!(list(&db, "ops").await.unwrap().managed_by, ManagedBy::File);

    file(2).pruning().apply(&db).await;
    put(&db, ObjectKind::List, "ops", &list_of(A), 1).await;
    assert_eq!(list(&db, "ops").await.unwrap().managed_by, ManagedBy::Api, "and the other way round");
}

pub(crate) async fn an_older_file_takes_nothing_back(db: Database) {
    let one = sub("a");
    file(7).outages().list("ops", B).sub(&one).apply(&db).await;
    let before = (list(&db, "ops").await, one.stored(&db).await);
    let outdated = Applied { outdated: true, ..Applied::default() };
    assert_eq!(file(6).list("ops", A).list("night", A).pruning().apply(&db).await, outdated);
    assert_eq!((list(&db, "ops").await, one.stored(&db).await), before);
    assert_eq!(list(&db, "night").await, None);

    assert_eq!(file(7).outages().list("ops", A).sub(&one).apply(&db).await, applied(0, 1, 0, 0));
    file(9).outages().list("ops", A).sub(&one).apply(&db).await;
    assert_eq!(file(8).apply(&db).await, outdated, "an epoch counts though nothing else was new");
}

pub(crate) async fn of_a_name_that_stands_twice_the_first_counts(db: Database) {
    let (one, other) = (sub("a"), sub("a").with(r#""cooldown":"1h""#));
    let declared = file(1).outages().list("ops", A).list("ops", B).sub(&one).sub(&other);
    assert_eq!(declared.apply(&db).await, applied(3, 0, 0, 0));
    assert_eq!(list(&db, "ops").await.unwrap().spec, list_of(A));
    assert_eq!(one.stored(&db).await.unwrap().subscription, one.build());
    assert_eq!(declared.apply(&db).await, applied(0, 0, 0, 0));
}

pub(crate) async fn nodes_that_start_together_apply_a_file_once(db: Database) {
    let beside = db.beside().await;
    let other = beside.as_ref().unwrap_or(&db.store);
    let File(declared) = file(1).outages().list("ops", A).sub(&sub("a"));
    let (one, two) = tokio::join!(
        db.store.apply_declared(declared.clone(), at(1)),
        other.apply_declared(declared.clone(), at(1)),
    );
    let mut both = [one.unwrap().created, two.unwrap().created];
    both.sort_unstable();
    assert_eq!(both, [0, 3]);
}
