//! A connection pooler stands before the server: it is refused, unless it keeps and passes on everything.

use angarium_store::*;
use angarium_testbed::pgbouncer::{Mode, Pooler};
use angarium_testbed::postgres;

use crate::support::*;

/// P15: a pooler that shares sessions is refused at the start, in words that say what is wrong, whether it refuses our
/// settings or swallows them.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_does_not_pass_our_settings_on_is_refused() {
    let database = postgres::fresh_database();
    let lax = [("ignore_startup_parameters", "options,extra_float_digits")];
    for mode in [Mode::Transaction, Mode::Session] {
        for settings in [&[][..], &lax] {
            let pooler = Pooler::start(postgres::shared(), mode, settings);
            let told = refusal(&pooler.url(&database.name)).await;
            let StoreError::Refused(why) = &told else { panic!("{mode:?} {settings:?}: {told:?}") };
            assert!(why.contains("pooler"), "{mode:?} {settings:?}: {why}");
        }
    }
    assert_eq!(database.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'angarium'"), "0");
}

/// P15: nor does one go unnoticed before a server that happens to be set as the first of our sessions wants it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_shares_sessions_is_noticed_by_that() {
    let database = postgres::fresh_database();
    for setting in ["search_path = angarium", "statement_timeout = '10s'"] {
        database.sql(&format!("ALTER DATABASE {} SET {setting}", database.name));
    }
    let shapes: [&[(&str, &str)]; 4] = [
        &[],
        &[("default_pool_size", "1"), ("query_wait_timeout", "2")],
        &[("server_reset_query_always", "1")],
        &[("server_round_robin", "1"), ("min_pool_size", "3")],
    ];
    for shape in shapes {
        let settings: Vec<_> = shape
            .iter()
            .copied()
            .chain([("ignore_startup_parameters", "options,extra_float_digits")])
            .collect();
        let pooler = Pooler::start(postgres::shared(), Mode::Transaction, &settings);
        let opened = in_time(Store::open(&options(&pooler.url(&database.name)))).await;
        // Whatever the first session was taken for, no other one works with settings that are not ours.
        let told = match &opened {
            Ok(store) => accept(store, "alarm").await.err(),
            Err(told) => Some(told.clone()),
        };
        assert!(
            matches!(&told, Some(StoreError::Refused(_) | StoreError::Unavailable(_))),
            "{shape:?}: {told:?}"
        );
    }
}
