//! The connection breaks off at a commit, or right before it.

use angarium_domain::state::Status;
use angarium_store::*;
use futures_util::future::join_all;

use crate::support::*;

/// What the store says to commit.
const COMMIT: &[u8] = b"statement_timeout = 0; COMMIT";
/// What it says in each transaction before that.
const BEFORE: [&[u8]; 3] = [b"BEGIN", b"SAVEPOINT item", b"RELEASE item"];

/// OB-02, P1: the server has it and its answer is lost: that is what the producer is told, and a resend learns that it is
/// stored. Cut off before the commit, it is done again without anybody noticing.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_an_answer_is_in_doubt_and_a_resend_ends_the_doubt() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    for (round, before) in BEFORE.iter().cycle().take(21).enumerate() {
        let (doubtful, lucky) = (format!("doubtful {round}"), format!("lucky {round}"));
        behind.proxy.cut_after(COMMIT);
        assert_eq!(accept(&store, &doubtful).await, Err(StoreError::OutcomeUnknown));
        assert_eq!(accept(&store, &doubtful).await, taken(&doubtful, true));
        behind.proxy.cut_after(before);
        assert_eq!(accept(&store, &lucky).await, taken(&lucky, false));
        behind.proxy.await_cuts(2 * (round + 1));
    }
    assert_stored(&behind.database, 42);
}

/// OB-02, P1: whoever shared the commit is in the same doubt, and everybody is stored once in the end.
#[tokio::test(flavor = "multi_thread")]
async fn many_producers_in_doubt_come_to_one_row_each() {
    const PRODUCERS: usize = 16;
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    let (mut doubts, mut rounds) = (0, 0);
    while behind.proxy.cuts() < 20 {
        behind.proxy.cut_after_next(COMMIT, 1 + rounds % 2);
        let producers = names(&format!("round {rounds}"), PRODUCERS);
        let doubtful = join_all(producers.iter().map(|name| insist(&store, name))).await;
        doubts += doubtful.iter().sum::<usize>();
        rounds += 1;
    }
    assert!(doubts >= 20, "{doubts}");
    assert_stored(&behind.database, rounds * PRODUCERS);
}

/// Hands a note in until it is taken; how often that was in doubt.
async fn insist(store: &Store, name: &str) -> usize {
    let mut doubts = 0;
    loop {
        match accept(store, name).await {
            Ok(answer) => {
                assert!(is_taken(&Ok(answer)), "{name}");
                return doubts;
            }
            Err(error) => assert_eq!(error, StoreError::OutcomeUnknown),
        }
        doubts += 1;
    }
}

/// OB-02, P1: without a server nothing is stored, and that is certain.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_has_stored_nothing() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    assert_eq!(accept(&store, "before").await, taken("before", false));
    behind.proxy.refuse(true);
    behind.proxy.cut();
    for _ in 0..3 {
        let answer = accept(&store, "during").await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    behind.proxy.refuse(false);
    assert_eq!(accept(&store, "during").await, taken("during", false));
    assert_stored(&behind.database, 2);
}

type Fate = fn(&Claim) -> Settlement;

/// P1: an outcome whose commit was not answered is written again, and counts once.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_is_written_again_is_one_attempt() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    let fates: [(Fate, Status); 3] = [
        (|claim| delivered(claim, at(1)), Status::Delivered),
        (|claim| parked(claim, at(1)), Status::Parked),
        (|claim| retried(claim, at(1), at(9999)), Status::Retrying),
    ];
    for (name, (fate, status)) in ["one", "two", "three"].into_iter().zip(fates) {
        accept(&store, name).await.unwrap();
        let settlement = fate(&claim_one(&store, at(0)).await);
        behind.proxy.cut_after(COMMIT);
        assert_eq!(settle(&store, &settlement).await, Err(StoreError::OutcomeUnknown), "{status}");
        assert_eq!(settle(&store, &settlement).await, Ok(Settled::Applied), "{status}");
        behind.proxy.cut_after(BEFORE[0]);
        assert_eq!(settle(&store, &settlement).await, Ok(Settled::Applied), "{status}");
        let attempts = store.attempts(id(name), 0, 10).await.unwrap().unwrap();
        assert_eq!(
            attempts.iter().map(|attempt| (attempt.late, attempt.led_to)).collect::<Vec<_>>(),
            [(false, status)]
        );
        let view = store.get(id(name)).await.unwrap().unwrap();
        assert_eq!((view.status, view.in_flight), (status, false));
    }
}

/// P1: a node learns what it was given by a claim that was not answered, and nobody else gets it meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_an_answer_is_found_and_given_back() {
    let behind = Behind::proxy();
    let store = opened(&behind.url).await;
    let node = NewNode { name: "a".into(), version: "1".into(), address: "127.0.0.1:1".into() };
    store.sign_in(node, at(0)).await.unwrap();
    for name in names("note", 5) {
        accept(&store, &name).await.unwrap();
    }
    behind.proxy.cut_after(COMMIT);
    assert_eq!(in_time(claim_all(&store, at(1))).await, Err(StoreError::OutcomeUnknown));
    assert_eq!(in_time(claim_all(&store, at(2))).await, Ok(vec![]));
    let found = in_time(store.claimed_at(at(1))).await.unwrap();
    assert_eq!(found.len(), 5);
    behind.proxy.cut_after(COMMIT);
    assert_eq!(in_time(store.release_all(found.clone(), at(2))).await, Err(StoreError::OutcomeUnknown));
    in_time(store.release_all(found, at(2))).await.unwrap();
    assert_eq!(in_time(claim_all(&store, at(3))).await.unwrap().len(), 5);
}
