//! Somebody else is at the same rows: deadlocks, locks that are held too long, and statements that are cut off.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::disposition::Scope;
use angarium_store::*;
use angarium_testbed::postgres;
use futures_util::future::join_all;

use crate::support::*;

const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";

/// P11: the loser of a deadlock begins its whole transaction again, and nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_loses_a_deadlock_begins_again() {
    let database = postgres::fresh_database();
    // The store looks for a deadlock before it gives up waiting; the other one never does.
    database.sql(&format!("ALTER DATABASE {} SET deadlock_timeout = '2500ms'", database.name));
    let store = Arc::new(opened(&database.url).await);
    accept(&store, "alarm").await.unwrap();
    let claim = claim_one(&store, at(0)).await;
    let mut settlement = retried(&claim, at(1), at(9));
    settlement.scopes = vec![ScopeChange {
        scope: Scope::ChannelWaits(at(9)),
        lane: ScopedLane::Key(claim.lane),
        channel: claim.channel.clone(),
        address: None,
        reason: "busy".into(),
    }];

    let other = Somebody::in_charge_of(&database).await;
    other.says("SET deadlock_timeout = '1h'; BEGIN").await;
    other.says("INSERT INTO angarium.channel_states VALUES ('hooks', 0, NULL)").await;
    let settling = tokio::spawn({
        let store = Arc::clone(&store);
        async move { settle(&store, &settlement).await }
    });
    until(|| database.sql(&backends(WAITS_FOR_A_LOCK)) == "1").await;
    other.says("UPDATE angarium.notifications SET route = route; COMMIT").await;

    assert_eq!(settling.await.unwrap(), Ok(Settled::Applied));
    until(|| database.sql(DEADLOCKS) == "1").await;
    assert_eq!(store.attempts(id("alarm"), 0, 10).await.unwrap().unwrap().len(), 1);
    assert_eq!(store.channel_states().await.unwrap()[0].waits_until, at(9));
}

/// P11: a lock that is not let go of is not waited for without end, and is told as what it is; later all is well.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_too_long_is_told_and_harms_nobody_afterwards() {
    let database = postgres::fresh_database();
    let store = opened(&database.url).await;
    let other = Somebody::in_charge_of(&database).await;
    other.says(&format!("BEGIN; {}", takes_the_id_of("alarm"))).await;
    let answer = accept(&store, "alarm").await;
    assert!(matches!(answer, Err(StoreError::Contended(_))), "{answer:?}");
    assert_eq!(accept(&store, "another").await, taken("another", false));
    other.says("ROLLBACK").await;
    assert_eq!(accept(&store, "alarm").await, taken("alarm", false));
    assert_stored(&database, 2);
}

fn takes_the_id_of(name: &str) -> String {
    format!("INSERT INTO angarium.ids VALUES ('{}', 1, '', 1)", id(name))
}

/// P11: a statement that somebody cuts off, or whose session somebody ends, has stored nothing, and is said again.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_cut_off_is_said_again() {
    let database = postgres::fresh_database();
    let store = Arc::new(opened(&database.url).await);
    for (name, cut) in [("cancelled", "pg_cancel_backend"), ("terminated", "pg_terminate_backend")] {
        let other = Somebody::in_charge_of(&database).await;
        other.says(&format!("BEGIN; {}", takes_the_id_of(name))).await;
        let accepting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { accept(&store, name).await }
        });
        until(|| database.sql(&backends(WAITS_FOR_A_LOCK)) == "1").await;
        database.sql(&to_backends(cut, WAITS_FOR_A_LOCK));
        other.says("ROLLBACK").await;
        let answer = accepting.await.unwrap();
        assert!(
            answer == taken(name, false) || matches!(answer, Err(StoreError::Unavailable(_))),
            "{name}: {answer:?}"
        );
        assert!(is_taken(&accept(&store, name).await), "{name}");
    }
    assert_stored(&database, 2);
}

/// C052: what was begun first and commits last is found all the same: nobody looks on from the last key that was seen.
#[tokio::test(flavor = "multi_thread")]
async fn c052_a_row_that_commits_late_is_found() {
    let database = postgres::fresh_database();
    let stores = [opened(&database.url).await, opened(&database.url).await].map(Arc::new);
    for (name, store) in ["a", "b"].into_iter().zip(&stores) {
        let node = NewNode { name: name.into(), version: "1".into(), address: "127.0.0.1:1".into() };
        store.sign_in(node, at(0)).await.unwrap();
    }
    let other = Somebody::in_charge_of(&database).await;
    other.says(&format!("BEGIN; {}", takes_the_id_of("late"))).await;
    let accepting = tokio::spawn({
        let store = Arc::clone(&stores[0]);
        async move { accept(&store, "late").await }
    });
    until(|| database.sql(&backends(WAITS_FOR_A_LOCK)) == "1").await;
    assert_eq!(accept(&stores[1], "early").await, taken("early", false));
    let early = claim_one(&stores[1], at(1)).await;
    assert_eq!(settle(&stores[1], &delivered(&early, at(1))).await, Ok(Settled::Applied));
    other.says("ROLLBACK").await;
    assert_eq!(accepting.await.unwrap(), taken("late", false));
    let late = claim_one(&stores[1], at(2)).await;
    assert_eq!(late.id, id("late"));
    assert!(late.key < early.key, "it was begun first");
    assert_eq!(stores[1].list(Filter::default(), 10).await.unwrap().items.len(), 2);
}

/// P11: nodes that take the same new ids for the same new receivers, each in an order of its own, wait for each other
/// and not for ever.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_take_the_same_ids_in_any_order_both_succeed() {
    let database = postgres::fresh_database();
    let stores = [opened(&database.url).await, opened(&database.url).await];
    for (name, store) in ["a", "b"].into_iter().zip(&stores) {
        let node = NewNode { name: name.into(), version: "1".into(), address: "127.0.0.1:1".into() };
        store.sign_in(node, at(0)).await.unwrap();
    }
    for round in 0..20 {
        let notes: Vec<NewNotification> = (0..40)
            .map(|n| note_to(&format!("r{}-{round}.example", n % 7), &format!("round {round} note {n}")))
            .collect();
        let reversed: Vec<NewNotification> = notes.iter().rev().cloned().collect();
        let both = join_all([stores[0].accept(notes, at(0)), stores[1].accept(reversed, at(0))]);
        for answers in in_time(both).await {
            assert!(answers.unwrap().into_iter().all(|answer| is_taken(&Ok(answer))));
        }
    }
    assert_stored(&database, 800);
    assert_eq!(count(&database, "lanes"), 140);
}

/// P11: nor does anybody lose a deadlock when many do so at once, from either end of 200 ids.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_batches_of_the_same_ids_at_once_are_one() {
    let database = postgres::fresh_database();
    let stores = [opened(&database.url).await, opened(&database.url).await];
    for (name, store) in ["a", "b"].into_iter().zip(&stores) {
        let node = NewNode { name: name.into(), version: "1".into(), address: "127.0.0.1:1".into() };
        store.sign_in(node, at(0)).await.unwrap();
    }
    let notes: Vec<NewNotification> =
        (0..200).map(|n| note_to(&format!("r{}.example", n % 7), &format!("note {n}"))).collect();
    let batches = (0..20).map(|batch| {
        let mut notes = notes.clone();
        if batch % 2 == 1 {
            notes.reverse();
        }
        let store = &stores[batch / 2 % 2];
        async move { in_time(store.accept(notes, at(0))).await }
    });
    let mut first = 0;
    for answers in join_all(batches).await {
        match answers {
            Ok(answers) => {
                assert!(answers.iter().all(|answer| is_taken(&Ok(answer.clone()))));
                first += answers.iter().filter(|answer| is_first(answer)).count();
            }
            Err(error) => assert!(may_be_tried_again(&error), "{error:?}"),
        }
    }
    assert!(first <= 200, "{first}");
    let answers = in_time(stores[1].accept(notes, at(0))).await.unwrap();
    assert!(answers.into_iter().all(|answer| is_taken(&Ok(answer))));
    assert_stored(&database, 200);
    assert_eq!(count(&database, "lanes"), 7);
    // What happened to sessions is counted when they have ended.
    drop(stores);
    until(|| database.sql(&backends("usename = 'angarium'")) == "0").await;
    assert_eq!(database.sql(DEADLOCKS), "0");
}

fn is_first(answer: &Acceptance) -> bool {
    matches!(answer, Acceptance::Accepted { duplicate: false, .. })
}

fn may_be_tried_again(error: &StoreError) -> bool {
    use StoreError::{Contended, OutcomeUnknown, Overloaded, QueryTimeout, Unavailable};
    matches!(error, Contended(_) | OutcomeUnknown | Overloaded | QueryTimeout | Unavailable(_))
}

/// P12: while every question of the console waits, producers and deliveries go on.
#[tokio::test(flavor = "multi_thread")]
async fn slow_questions_hold_up_nobody_else() {
    let database = postgres::fresh_database();
    let options = Options { query_timeout: Duration::from_secs(60), ..options(&database.url) };
    let store = Arc::new(in_time(Store::open(&options)).await.unwrap());
    accept(&store, "old").await.unwrap();
    let other = Somebody::in_charge_of(&database).await;
    other.says("BEGIN; LOCK TABLE angarium.bounces").await;
    let questions: Vec<_> = (0..200)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.list(Filter::default(), 10).await })
        })
        .collect();
    until(|| database.sql(&backends(WAITS_FOR_A_LOCK)) == "3").await;
    for name in names("new", 20) {
        assert_eq!(accept(&store, &name).await, taken(&name, false));
        assert_eq!(in_time(store.find_key("nobody")).await, Ok(None));
    }
    let claims = in_time(claim_all(&store, at(1))).await.unwrap();
    assert_eq!(claims.len(), 21);
    for claim in &claims {
        assert!(in_time(store.load(claim, at(1))).await.unwrap().is_some());
        assert_eq!(settle(&store, &delivered(claim, at(1))).await, Ok(Settled::Applied));
    }
    in_time(store.ping()).await.unwrap();
    assert!(questions.iter().all(|question| !question.is_finished()), "they waited all the time");
    other.says("ROLLBACK").await;
    for question in questions {
        assert!(!in_time(question).await.unwrap().unwrap().items.is_empty());
    }
}
