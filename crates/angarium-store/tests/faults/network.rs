//! The network holds back what is said, for ever or for a while.

use std::time::Duration;

use angarium_store::*;
use angarium_testbed::postgres;
use angarium_testbed::proxy::Direction;
use futures_util::future::{Either, join_all, ready, select};

use crate::support::*;

/// P6a: a network that swallows everything, or the answers alone, makes everything fail in the end and nothing hang;
/// afterwards all is well, and nothing was done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network_hangs_nobody() {
    join_all([Direction::Both, Direction::ToClient].map(silence)).await;
}

async fn silence(direction: Direction) {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    accept(&store, "claimed").await.unwrap();
    let settlement = delivered(&claim_one(&store, at(0)).await, at(0));
    accept(&store, "waiting").await.unwrap();

    behind.proxy.freeze(direction);
    let (accepted, claimed, settled, seen, listed, keyed, pinged, pulse) = tokio::join!(
        accept(&store, "silence"),
        in_time(claim_all(&store, at(1))),
        settle(&store, &settlement),
        in_time(store.get(id("waiting"))),
        in_time(store.list(Filter::default(), 10)),
        in_time(store.find_key("nobody")),
        in_time(store.ping()),
        in_time(store.pulse()),
    );
    assert!(
        accepted.is_err() && claimed.is_err() && settled.is_err(),
        "{accepted:?} {claimed:?} {settled:?}"
    );
    assert!(seen.is_err() && listed.is_err() && keyed.is_err() && pinged.is_err() && pulse.is_err());
    behind.proxy.thaw(direction);

    assert!(is_taken(&accept(&store, "silence").await));
    assert_eq!(settle(&store, &settlement).await, Ok(Settled::Applied));
    assert_stored_once(&store, &behind).await;
}

/// Three notes: one that was delivered by one attempt, and two that are claimed, now or during the silence.
async fn assert_stored_once(store: &Store, behind: &Behind) {
    assert_eq!(["ids", "notifications", "attempts"].map(|table| behind.count(table)), [3, 3, 1]);
    let during = in_time(store.claimed_at(at(1))).await.unwrap();
    let now = in_time(claim_all(store, at(2))).await.unwrap();
    assert_eq!(during.len() + now.len(), 2);
    in_time(store.ping()).await.unwrap();
    in_time(store.pulse()).await.unwrap();
    assert_eq!(in_time(store.list(Filter::default(), 10)).await.unwrap().items.len(), 3);
}

/// P6a: nor does anything that opens the database hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network_hangs_nobody_who_opens_the_database() {
    let behind = Behind::proxy();
    behind.proxy.freeze(Direction::Both);
    let options = options(&behind.url);
    let (open, status, migrated) = tokio::join!(
        in_time(Store::open(&options)),
        in_time(Store::status(&options)),
        in_time(Store::migrate(&options)),
    );
    assert!(open.is_err() && status.is_err() && migrated.is_err());
    behind.proxy.thaw(Direction::Both);
    assert_eq!(accept(&opened(&behind.url).await, "after").await, taken("after", false));
}

/// P6a: a server that is named first and says nothing hides none that does.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_hides_no_other() {
    let behind = Behind::proxy();
    let (silent, other) = (behind.proxy.address(), postgres::shared().address());
    behind.proxy.refuse(true);
    let store = opened(&format!("postgres://angarium@{silent},{other}/{}", behind.database.name)).await;
    behind.proxy.refuse(false);
    behind.proxy.freeze(Direction::Both);
    assert_eq!(in_time(store.after_a_failover()).await, Ok(vec![]));
    assert_eq!(accept(&store, "alarm").await, taken("alarm", false));
}

/// P6a: a producer who waits behind many others waits no longer than one who is alone: a claim, which may take three
/// times as long, is still waited for when the last of them has been answered.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_longer_because_many_do() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    accept(&store, "before").await.unwrap();
    claim_one(&store, at(0)).await;
    behind.proxy.freeze(Direction::Both);
    let notes = names("note", 6000);
    let accepting = Box::pin(join_all(notes.iter().map(|name| accept(&store, name))));
    let claiming = Box::pin(in_time(claim_all(&store, at(1))));
    let Either::Left((answers, _)) = select(accepting, claiming).await else {
        panic!("some producers wait longer than a claim")
    };
    assert!(answers.iter().all(Result::is_err));
}

/// P6c: slow answers are answers.
#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_are_answers() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    behind.proxy.delay(Duration::from_millis(200));
    for name in ["one", "two"] {
        assert_eq!(accept(&store, name).await, taken(name, false));
    }
    let claims = in_time(claim_all(&store, at(0))).await.unwrap();
    let settled = in_time(store.settle(claims.iter().map(|claim| delivered(claim, at(0))).collect())).await;
    assert_eq!(settled, Ok(vec![Settled::Applied; 2]));
    assert_eq!(in_time(store.list(Filter::default(), 10)).await.unwrap().items.len(), 2);
    assert_eq!(["ids", "notifications", "attempts"].map(|table| behind.count(table)), [2; 3]);
}

/// P6c: when answers are too slow, producers are told so, and so many that wait are enough; nobody is told anything that
/// is not true.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_too_slow_turn_producers_away() {
    const PRODUCERS: usize = 12_000;
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    behind.proxy.delay(Duration::from_secs(2));
    let slow = accept(&store, "slow").await;
    assert!(is_clear("slow", &slow), "{slow:?}");

    let notes = names("note", PRODUCERS);
    let accepting = Box::pin(join_all(notes.iter().map(|name| accept(&store, name))));
    let Either::Right(((), accepting)) = select(accepting, ready(())).await else {
        panic!("nobody can be answered yet")
    };
    // All of them have come, and no more than fit are waiting.
    behind.proxy.delay(Duration::ZERO);
    let answers = accepting.await;
    let turned_away = answers.iter().filter(|answer| **answer == Err(StoreError::Overloaded)).count();
    assert!((1..PRODUCERS).contains(&turned_away), "{turned_away}");
    for (name, answer) in notes.iter().zip(&answers) {
        assert!(is_clear(name, answer), "{name}: {answer:?}");
    }
    let again = in_time(store.accept(notes.iter().map(|name| note(name)).collect(), at(0))).await.unwrap();
    for (again, before) in again.into_iter().zip(&answers) {
        assert!(
            matches!(again, Acceptance::Accepted { duplicate, .. } if duplicate || !is_taken(before)),
            "{again:?}"
        );
    }
}

/// Stored, not stored, or in doubt: but no fault of ours, and none of the note's.
fn is_clear(name: &str, answer: &Result<Acceptance>) -> bool {
    use StoreError::{OutcomeUnknown, Overloaded, QueryTimeout, Unavailable};
    matches!(answer, Err(OutcomeUnknown | Overloaded | QueryTimeout | Unavailable(_)))
        || *answer == taken(name, false)
}
