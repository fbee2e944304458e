//! The server is stopped, takes no writes, has no room for a connection, or none on its disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use angarium_store::*;
use angarium_testbed::postgres::Server;

use crate::support::*;

fn is_an_outage(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::OutcomeUnknown)
}

/// Nothing works, and each thing says so.
async fn assert_down(store: &Store) {
    let down = accept(store, "while it is down").await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    let down = in_time(claim_all(store, at(0))).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    let down = in_time(store.get(id("while it is down"))).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    let down = in_time(store.ping()).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
}

/// Everything works, with one note more.
async fn assert_up(store: &Store, name: &str) {
    assert_eq!(accept(store, name).await, taken(name, false));
    for claim in in_time(claim_all(store, at(0))).await.unwrap() {
        assert_eq!(settle(store, &delivered(&claim, at(0))).await, Ok(Settled::Applied));
    }
    assert!(in_time(store.get(id(name))).await.unwrap().is_some());
    in_time(store.ping()).await.unwrap();
}

/// P13: a server that is stopped under load, however abruptly, has kept what was acknowledged, and the store goes on by
/// itself when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn c065_a_server_that_comes_back_is_used_again() {
    let server = Server::start();
    let store = Arc::new(opened(&server.create_database()).await);
    for (round, stop) in [Server::stop_fast, Server::stop_immediately].into_iter().enumerate() {
        assert_up(&store, &format!("before {round}")).await;
        let load = Arc::new(Load::default());
        let producers: Vec<_> = (0..8)
            .map(|n| tokio::spawn(produce(Arc::clone(&store), format!("{round} {n}"), Arc::clone(&load))))
            .collect();
        until(|| load.acknowledged.load(Ordering::Relaxed) > 100).await;
        stop(&server);
        assert_down(&store).await;
        load.over.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for producer in producers {
            acknowledged.extend(in_time(producer).await.unwrap());
        }
        server.start_again();
        assert_up(&store, &format!("after {round}")).await;
        for name in acknowledged {
            let again = accept(&store, &name).await;
            assert!(matches!(again, Ok(Acceptance::Accepted { duplicate: true, .. })), "{name}: {again:?}");
        }
    }
}

#[derive(Default)]
struct Load {
    acknowledged: AtomicUsize,
    over: AtomicBool,
}

/// Hands in one note after the other; the names of those that were acknowledged.
async fn produce(store: Arc<Store>, name: String, load: Arc<Load>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let name = format!("{name} {n}");
        match accept(&store, &name).await {
            Ok(answer) => {
                assert!(is_taken(&Ok(answer)));
                acknowledged.push(name);
                load.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert!(is_an_outage(&error), "{error:?}"),
        }
        if load.over.load(Ordering::Relaxed) {
            break;
        }
        tokio::task::yield_now().await;
    }
    acknowledged
}

/// P13: a server that takes no writes, or no connections, is an outage that ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn read_only_and_crowded_servers_are_outages() {
    const READ_ONLY: &str = "ALTER SYSTEM SET default_transaction_read_only = on";
    const WRITABLE: &str =
        "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only";
    const CROWDED: &str = "ALTER ROLE angarium CONNECTION LIMIT 0";
    const ROOMY: &str = "ALTER ROLE angarium CONNECTION LIMIT -1";
    let server = Server::start();
    let url = server.create_database();
    let store = opened(&url).await;
    assert_up(&store, "before").await;

    server.sql("postgres", &format!("{READ_ONLY}; SELECT pg_reload_conf()"));
    until(|| server.sql("postgres", "SHOW default_transaction_read_only") == "on").await;
    in_time(async { while accept(&store, "read only").await.is_ok() {} }).await;
    let told = accept(&store, "read only").await;
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    let told = refusal(&url).await;
    assert!(matches!(told, StoreError::Unavailable(_)), "{told:?}");
    server.sql("postgres", &format!("{WRITABLE}; SELECT pg_reload_conf()"));
    until(|| server.sql("postgres", "SHOW default_transaction_read_only") == "off").await;
    assert_up(&store, "writable again").await;

    server.sql("postgres", CROWDED);
    server.sql(
        "postgres",
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'angarium'",
    );
    assert_down(&store).await;
    let told = refusal(&url).await;
    assert!(
        matches!(&told, StoreError::Unavailable(why) if why.contains("too many connections")),
        "{told:?}"
    );
    server.sql("postgres", ROOMY);
    assert_up(&store, "roomy again").await;
}

/// P13: a full disk is told as such; what was there is there, and once there is room it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_as_such() {
    let server = Server::start();
    let url = server.create_database();
    let database = url.rsplit_once('/').unwrap().1;
    let store = opened(&url).await;
    let file = server.sql(
        database,
        "SELECT current_setting('data_directory') || '/' || pg_relation_filepath('angarium.contents')",
    );
    let (file, aside) = (Path::new(&file), format!("{file}.aside"));

    server.stop_fast();
    std::fs::rename(file, &aside).unwrap();
    // Whatever is written here meets a full disk.
    std::os::unix::fs::symlink("/dev/full", file).unwrap();
    server.start_again();
    for name in ["full", "full", "full too"] {
        assert_eq!(accept(&store, name).await, Err(StoreError::Full));
    }
    assert_eq!(server.sql(database, "SELECT count(*) FROM angarium.ids"), "0");

    server.stop_fast();
    std::fs::remove_file(file).unwrap();
    std::fs::rename(&aside, file).unwrap();
    server.start_again();
    assert_up(&store, "full").await;
}
