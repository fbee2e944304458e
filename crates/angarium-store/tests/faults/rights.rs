//! Whose database it is, who may change its schema, and who is first.

use angarium_store::*;
use angarium_testbed::postgres::{self, Fresh};
use futures_util::future::join_all;

use crate::support::*;

const TABLES: &str = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'angarium'::regnamespace";
const GRANTS: &str = "GRANT USAGE ON SCHEMA angarium TO angarium;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA angarium TO angarium;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA angarium TO angarium";

/// A database that belongs to somebody else: role `angarium` may connect, and that is all.
fn of_somebody_else() -> Fresh {
    let database = postgres::fresh_database();
    database.sql(&format!("ALTER DATABASE {} OWNER TO postgres", database.name));
    database
}

fn admin_options(database: &Fresh) -> Options {
    options(&postgres::shared().admin_url(&database.name))
}

async fn schema_of(options: &Options) -> (Option<i64>, i64) {
    let status = in_time(Store::status(options)).await.unwrap();
    (status.schema, status.known)
}

/// Takes, claims, settles and shows a note.
async fn assert_works(store: &Store) {
    assert_eq!(accept(store, "alarm").await, taken("alarm", false));
    let claim = claim_one(store, at(0)).await;
    assert_eq!(settle(store, &delivered(&claim, at(0))).await, Ok(Settled::Applied));
    assert!(in_time(store.get(id("alarm"))).await.unwrap().is_some());
    let node = NewNode { name: "a".into(), version: "1".into(), address: "127.0.0.1:1".into() };
    in_time(store.sign_in(node, at(0))).await.unwrap();
    in_time(store.ping()).await.unwrap();
}

/// A role that may not make tables is told what to do, and works once somebody else has made them.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_the_right_is_told_what_to_do() {
    let database = of_somebody_else();
    let told = refusal(&database.url).await;
    assert!(matches!(&told, StoreError::Refused(why) if why.contains("`angarium db migrate`")), "{told:?}");
    assert_eq!(schema_of(&options(&database.url)).await.0, None);
    let admin = admin_options(&database);
    let known = schema_of(&admin).await.1;
    assert_eq!(in_time(Store::migrate(&admin)).await, Ok(Migrated { from: 0, to: known }));
    assert_eq!(in_time(Store::migrate(&admin)).await, Ok(Migrated { from: known, to: known }));
    let told = refusal(&database.url).await;
    assert!(told.to_string().contains("may not use the schema angarium"), "{told:?}");
    database.sql(GRANTS);
    assert_works(&opened(&database.url).await).await;
    assert_eq!(schema_of(&options(&database.url)).await, (Some(known), known));
}

/// A role that may do nothing, or not enough, in a schema that somebody else made is refused in words that say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_a_right_in_an_existing_schema_is_refused() {
    let database = of_somebody_else();
    in_time(Store::migrate(&admin_options(&database))).await.unwrap();
    let options = options(&database.url);
    for granted in ["SELECT", "GRANT USAGE ON SCHEMA angarium TO angarium"] {
        database.sql(granted);
        for told in [
            refusal(&database.url).await,
            in_time(Store::migrate(&options)).await.unwrap_err(),
            in_time(Store::status(&options)).await.unwrap_err(),
        ] {
            let StoreError::Refused(why) = &told else { panic!("{granted}: {told:?}") };
            assert!(why.contains("schema angarium"), "{granted}: {why}");
        }
    }
    // It may look which schema it is, and no further.
    database.sql("GRANT SELECT ON angarium.meta TO angarium");
    let told = refusal(&database.url).await;
    assert!(!matches!(told, StoreError::Statement(_)), "it is no fault of ours: {told:?}");
    assert!(told.to_string().contains("permission denied"), "{told:?}");
}

/// P13: rights that somebody takes away while the store works are missing for everybody, not for one note: producers are
/// told to come again, and no result is given up. With the rights everything works again.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_waited_for() {
    let database = of_somebody_else();
    in_time(Store::migrate(&admin_options(&database))).await.unwrap();
    database.sql(GRANTS);
    let store = opened(&database.url).await;
    accept(&store, "alarm").await.unwrap();
    let settlement = delivered(&claim_one(&store, at(0)).await, at(0));
    database.sql("REVOKE INSERT ON angarium.ids, angarium.attempts FROM angarium");
    let accepted = accept(&store, "another").await;
    let settled = settle(&store, &settlement).await;
    database.sql(GRANTS);
    assert!(matches!(accepted, Err(StoreError::Unavailable(_))), "{accepted:?}");
    assert!(matches!(settled, Err(StoreError::Unavailable(_))), "{settled:?}");
    assert_eq!(accept(&store, "another").await, taken("another", false));
    assert_eq!(settle(&store, &settlement).await, Ok(Settled::Applied));
}

/// A role that was given a schema of its own needs no right to make one.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_a_schema_of_its_own_needs_no_other_right() {
    let database = of_somebody_else();
    database.sql("CREATE SCHEMA angarium AUTHORIZATION angarium");
    let migrated = in_time(Store::migrate(&options(&database.url))).await;
    assert!(migrated.is_ok(), "{migrated:?}");
    assert_works(&opened(&database.url).await).await;
}

/// A newer schema is left as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_left_untouched() {
    let database = postgres::fresh_database();
    drop(opened(&database.url).await);
    database.sql("UPDATE angarium.meta SET value = '999'; DROP TABLE angarium.bounces");
    let before = database.sql(TABLES);
    let options = options(&database.url);
    let (found, known) = schema_of(&options).await;
    assert_eq!(found, Some(999));
    let newer = StoreError::NewerSchema { found: 999, known };
    assert_eq!(refusal(&database.url).await, newer);
    assert_eq!(in_time(Store::migrate(&options)).await, Err(newer));
    assert_eq!(database.sql(TABLES), before);
    assert_eq!(schema_of(&options).await.0, Some(999));
}

/// A schema of that name that somebody else made is left as it is, whatever is in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_somebody_else_is_left_untouched() {
    for theirs in [
        "CREATE TABLE angarium.songs (title text)",
        "CREATE VIEW angarium.notifications AS SELECT 1",
        "CREATE TABLE angarium.meta (name text, value text); CREATE TABLE angarium.ids (id int)",
        "CREATE TABLE angarium.meta (title text)",
        "CREATE TABLE angarium.meta (name text, value int); INSERT INTO angarium.meta VALUES ('schema', 2)",
        "CREATE TABLE angarium.meta (name text, value text); INSERT INTO angarium.meta VALUES ('schema', 'dbo')",
    ] {
        let database = postgres::fresh_database();
        database.sql(&format!("CREATE SCHEMA angarium AUTHORIZATION angarium; SET ROLE angarium; {theirs}"));
        let before = database.sql(TABLES);
        let options = options(&database.url);
        for told in [
            refusal(&database.url).await,
            in_time(Store::migrate(&options)).await.unwrap_err(),
            in_time(Store::status(&options)).await.unwrap_err(),
        ] {
            assert!(matches!(told, StoreError::NotOurs(_)), "{theirs}: {told:?}");
        }
        assert_eq!(database.sql(TABLES), before, "{theirs}");
    }
}

/// Nodes that start at once on an empty database wait for each other, and all of them work.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_make_one_schema() {
    let database = postgres::fresh_database();
    assert_eq!(schema_of(&options(&database.url)).await.0, None);
    let stores = join_all((0..6).map(|_| opened(&database.url))).await;
    for (n, store) in stores.iter().enumerate() {
        let node = NewNode { name: n.to_string(), version: "1".into(), address: "127.0.0.1:1".into() };
        in_time(store.sign_in(node, at(0))).await.unwrap();
    }
    let accepted = join_all(stores.iter().enumerate().map(|(n, store)| async move {
        let name = n.to_string();
        assert_eq!(accept(store, &name).await, taken(&name, false));
    }));
    accepted.await;
    assert_stored(&database, 6);
}
