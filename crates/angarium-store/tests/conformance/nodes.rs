//! Who uses the database, and who does what one does for all.

use std::time::Duration;

use angarium_domain::time::Timestamp;
use angarium_store::*;

use crate::support::{Database, LEASE, at, note};

const SECOND: Duration = Duration::from_secs(1);

fn newcomer(name: &str) -> NewNode {
    NewNode { name: name.into(), version: "1.0".into(), address: "127.0.0.1:7180".into() }
}

/// OB-24: nodes work on one database, and none of them is taken for another.
pub(crate) async fn each_node_has_a_seat_of_its_own(db: Database) {
    let first = db.store.sign_in(newcomer("plant"), at(0)).await.unwrap();
    let sign_of_life = db.store.alive(at(60), SECOND, SECOND).await.unwrap();
    assert_eq!(sign_of_life, SignOfLife { listed: true, another_in_step: false });
    let listed = db.store.nodes(at(60)).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].instance, &*listed[0].name, listed[0].leads), (first.instance, "plant", false));
    assert_eq!((listed[0].started_at, listed[0].seen_at), (at(0), at(60)));
    if let Some(other) = db.beside().await {
        let second = other.sign_in(newcomer("plant"), at(70)).await.unwrap();
        assert_ne!(second.instance, first.instance);
        assert_eq!(db.store.nodes(at(70)).await.unwrap().len(), 2);
        for (skew, seen_at, in_step) in [(SECOND, 75, true), (2 * SECOND, 75, false), (SECOND, 30, false)] {
            other.alive(at(seen_at), skew, SECOND).await.unwrap();
            let sign_of_life = db.store.alive(at(76), SECOND, SECOND).await.unwrap();
            assert_eq!(sign_of_life, SignOfLife { listed: true, another_in_step: in_step });
        }
        let both = futures_util::future::join(
            db.store.accept(vec![note("a").build()], at(80)),
            other.accept(vec![note("b").build()], at(80)),
        );
        let (here, there) = both.await;
        let taken = |answers: Result<Vec<Acceptance>>| {
            matches!(answers.unwrap()[..], [Acceptance::Accepted { duplicate: false, .. }])
        };
        assert!(taken(here) && taken(there), "the same moment on two nodes makes two keys");
        other.sign_out().await.unwrap();
    }
    let day = 24 * 3600;
    let db = db.reopened().await;
    db.store.sign_in(newcomer("plant"), at(80 + day)).await.unwrap();
    let listed = db.store.nodes(at(80 + day)).await.unwrap();
    assert_eq!(listed.len(), 1, "who was not seen for a day is forgotten: {listed:?}");
    db.store.sign_out().await.unwrap();
    let sign_of_life = db.store.alive(at(60 + day + 2), SECOND, SECOND).await.unwrap();
    assert!(!sign_of_life.listed, "whoever signed out must sign in again");
}

/// As many nodes as there are seats.
const NODES: usize = 1024;

/// Every seat is taken by a node that was last seen then.
fn seat_all(db: &Database, seen_at: Timestamp) {
    db.tamper(&format!(
        "DELETE FROM nodes;
         WITH RECURSIVE seats (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM seats WHERE slot < {NODES} - 1)
         INSERT INTO nodes (slot, name, version, address, started_at, seen_at, skew)
         SELECT slot, 'old', '1.0', '127.0.0.1:7180', 0, {}, 0 FROM seats",
        seen_at.micros()
    ));
}

/// P8: nodes that were not seen for more than ten minutes keep their seats, unless a new one has no other.
pub(crate) async fn seats_of_the_lost_are_given_up_when_all_are_taken(db: Database) {
    seat_all(&db, at(0));
    let seat = db.store.sign_in(newcomer("new"), at(11 * 60)).await.unwrap();
    let listed = db.store.nodes(at(11 * 60)).await.unwrap();
    assert_eq!(listed.iter().map(|node| node.instance).collect::<Vec<_>>(), [seat.instance]);
    let sign_of_life = db.store.alive(at(11 * 60 + 1), SECOND, SECOND).await.unwrap();
    assert!(sign_of_life.listed);
    assert!(matches!(db.accept(&note("alarm")).await, Acceptance::Accepted { duplicate: false, .. }));

    seat_all(&db, at(0));
    db.tamper("DELETE FROM nodes WHERE slot = 500");
    db.store.sign_in(newcomer("new"), at(11 * 60)).await.unwrap();
    let kept = if db.beside().await.is_some() { NODES } else { 1 };
    assert_eq!(db.store.nodes(at(11 * 60)).await.unwrap().len(), kept, "there was another seat");
}

/// P8: a node for which there is no seat is told so, and takes nobody's. Where one process alone can use the database,
/// whoever is listed has ended.
pub(crate) async fn a_seat_that_is_in_use_is_given_to_nobody(db: Database) {
    seat_all(&db, at(0));
    let signed_in = db.store.sign_in(newcomer("new"), at(1)).await;
    if db.beside().await.is_none() {
        assert!(signed_in.is_ok(), "{signed_in:?}");
        assert_eq!(db.store.nodes(at(1)).await.unwrap().len(), 1);
        return;
    }
    let told = StoreError::Refused("1024 nodes use this database already".into());
    assert_eq!(signed_in, Err(told));
    assert_eq!(db.store.nodes(at(1)).await.unwrap().len(), NODES);
    db.tamper("UPDATE nodes SET seen_at = 0 WHERE slot = 1023");
    let seat = db.store.sign_in(newcomer("new"), at(2)).await.unwrap();
    let listed = db.store.nodes(at(2)).await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].instance),
        (NODES, seat.instance),
        "it took the seat of the one that is lost"
    );
}

/// P8: one holder at a time, and an epoch that rises whenever it changes hands.
pub(crate) async fn a_job_is_one_nodes_until_its_time_is_over(db: Database) {
    db.store.sign_in(newcomer("a"), at(0)).await.unwrap();
    let first = db.store.take_job("purge", at(0), at(20)).await.unwrap().unwrap();
    assert_eq!(db.store.take_job("purge", at(19), at(40)).await.unwrap(), None);
    assert!(db.store.nodes(at(19)).await.unwrap()[0].leads);
    assert!(db.store.keep_job(&first, at(40)).await.unwrap());
    assert_eq!(db.store.take_job("purge", at(39), at(60)).await.unwrap(), None);
    let second = db.store.take_job("purge", at(40), at(60)).await.unwrap().unwrap();
    assert_ne!(first, second);
    assert!(!db.store.keep_job(&first, at(99)).await.unwrap());
    db.store.resign(&first).await.unwrap();
    assert_eq!(
        db.store.take_job("purge", at(41), at(60)).await.unwrap(),
        None,
        "an old term ends no new one"
    );
    db.store.resign(&second).await.unwrap();
    assert!(db.store.take_job("purge", at(41), at(60)).await.unwrap().is_some());
}

/// P8: a leader that was paused finds that it is one no more, and has written nothing.
pub(crate) async fn whoever_lost_a_job_changes_nothing_any_more(db: Database) {
    let old = db.store.take_job("housekeeping", at(0), at(20)).await.unwrap().unwrap();
    db.accept(&note("alarm")).await;
    db.tamper("UPDATE notifications SET audited = 0");
    let new = db.store.take_job("housekeeping", at(20), at(40)).await.unwrap().unwrap();
    assert!(db.store.reemit_audit(&old).await.is_err());
    assert!(db.store.shift_waits(LEASE, at(21), &old).await.is_err());
    assert_eq!(db.store.reemit_audit(&new).await.unwrap(), 1);
}

/// P1: a node whose claim was not answered finds what it got, and nothing else.
pub(crate) async fn what_was_claimed_at_one_moment_is_found(db: Database) {
    db.store.sign_in(newcomer("a"), at(0)).await.unwrap();
    db.accept(&note("before")).await;
    db.claim_one(at(1)).await;
    db.accept(&note("then")).await;
    let claim = db.claim_one(at(2)).await;
    let found = db.store.claimed_at(at(2)).await.unwrap();
    assert_eq!(found, [(claim.key, claim.generation)]);
    db.store.release_all(found, at(2)).await.unwrap();
    assert_eq!(db.claim_one(at(3)).await.id, note("then").id());
}

/// Two nodes that each end one of the last two keys that may administer leave one.
pub(crate) async fn the_last_key_that_may_administer_stays(db: Database) {
    let key = |id: &str| ApiKey {
        id: id.into(),
        name: id.into(),
        hash: vec![1, 2, 3],
        scopes: "read admin".into(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    };
    let other = db.beside().await;
    for round in 0..5 {
        let (one, two) = (format!("one{round}"), format!("two{round}"));
        assert!(db.store.add_key(key(&one)).await.unwrap() && db.store.add_key(key(&two)).await.unwrap());
        let ended = futures_util::future::join(
            db.store.revoke_key(&one, "admin", at(1)),
            other.as_ref().unwrap_or(&db.store).revoke_key(&two, "admin", at(1)),
        );
        let ended: [_; 2] = ended.await.into();
        // The one that stayed the round before stands in from then on.
        let stayed = ended.iter().filter(|ended| **ended == Ok(Revoked::LastAdmin)).count();
        assert_eq!(stayed, usize::from(round == 0), "{ended:?}");
    }
}

/// P5b: after a failover that lost a claim, two nodes can have claimed the same row. Their claims differ all the same.
pub(crate) async fn claims_of_two_nodes_are_never_the_same(db: Database) {
    db.store.sign_in(newcomer("a"), at(0)).await.unwrap();
    let Some(other) = db.beside().await else { return };
    other.sign_in(newcomer("b"), at(0)).await.unwrap();
    db.accept(&note("alarm")).await;
    let here = db.claim_one(at(1)).await;
    db.tamper("UPDATE notifications SET generation = 0, lease_until = NULL, lease_by = NULL");
    let lane = Quota { lane: here.lane, rows: 1 };
    let there = other.claim(vec![lane], "b", at(1), LEASE).await.unwrap().pop().unwrap();
    assert_eq!(here.key, there.key);
    assert_ne!(here.generation, there.generation);
    assert!(!db.store.stands(&here).await.unwrap() && other.stands(&there).await.unwrap());
}
