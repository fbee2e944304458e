//! Somebody holds a snapshot, and with it all dead rows.

use angarium_store::*;
use angarium_testbed::postgres::Server;

use crate::support::*;

/// P10: work goes on without an error while somebody's snapshot keeps all dead rows, and that can be seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_held_stops_nothing_and_is_seen() {
    const NOTES: usize = 1000;
    const ROUNDS: u64 = 20;
    let server = Server::start();
    let url = server.create_database();
    let store = opened(&url).await;
    let other = Somebody::at(&url).await;
    other.says("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await;
    let before = store.pulse().await.unwrap().unwrap();
    let notes = names("note", NOTES).iter().map(|name| note(name)).collect();
    in_time(store.accept(notes, at(0))).await.unwrap();
    for round in 0..ROUNDS {
        let claims = in_time(claim_all(&store, at(round))).await.unwrap();
        assert_eq!(claims.len(), NOTES);
        let retried = claims.iter().map(|claim| retried(claim, at(round), at(round + 1))).collect();
        let settled = in_time(store.settle(retried)).await.unwrap();
        assert!(settled.iter().all(|settled| *settled == Settled::Applied));
    }
    let dead = in_time(async {
        loop {
            let pulse = store.pulse().await.unwrap().unwrap();
            assert_eq!(pulse.oldest_snapshot, before.oldest_snapshot);
            if pulse.dead_rows >= 20_000 {
                break pulse.dead_rows;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await; // tidy: sleep between two looks at the server
        }
    });
    assert!(dead.await > before.dead_rows);
    other.says("ROLLBACK").await;
    assert_ne!(store.pulse().await.unwrap().unwrap().oldest_snapshot, before.oldest_snapshot);
}
