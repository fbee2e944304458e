//! A database of the version before is brought up to date with all that is in it.

use std::path::Path;

use angarium_domain::state::Status;
use angarium_store::*;
use angarium_testbed::postgres;

use crate::support::*;

/// What version 1 left behind: one note of each fate, spelt the same for both databases but for bytes.
fn left_behind(bytes: impl Fn(&[u8]) -> String) -> String {
    let mut text = "INSERT INTO lanes (channel, receiver, waits_until) VALUES ('hooks', 'a.example:443', 0);
        INSERT INTO meta (name, value) VALUES ('ping', 'x');"
        .to_owned();
    let (now, past) = (at(0).micros(), at(0).micros() - 1_000_000);
    let due = past.to_string();
    for (key, name, status, due, lease, node) in [
        (1, "pending", "pending", &*due, "NULL", "NULL"),
        (2, "retrying", "retrying", &*due, "NULL", "NULL"),
        (3, "parked", "parked", "NULL", "NULL", "NULL"),
        (4, "leased", "pending", &*due, &*due, "'plant-a'"),
    ] {
        let new = note(name);
        let key = (past << 10) + (key << 10);
        let (id, hash) = (bytes(new.id.uuid().as_bytes()), bytes(new.hash.as_bytes()));
        let tried = i64::from(["retrying", "parked"].contains(&name));
        let (error, completed) = match tried {
            1 => ("'transient', 'HTTP 503'", if name == "parked" { due } else { "NULL" }),
            _ => ("NULL, NULL", "NULL"),
        };
        text += &format!(
            "INSERT INTO ids VALUES ({id}, {key}, {hash}, {past});
            INSERT INTO contents VALUES ({key}, 'about {name}', 'it happened', NULL);
            INSERT INTO notifications (key, id, status, route, kind, channel, address, lane, due_at, lease_until,
                lease_node, claimed_at, generation, attempts, budget_used, retry_count, interruptions, resolved,
                error_class, error_detail, facts, audited, accepted_by, created_at, completed_at)
            VALUES ({key}, {id}, '{status}', 'direct', 'webhook', 'hooks', 'https://a.example/hook', 1, {due}, {lease},
                {node}, {lease}, 3, {tried}, {tried}, {tried}, 0, 0, {error}, 1, 1, 'key:erp', {past}, {completed});"
        );
        if tried == 1 {
            text += &format!(
                "INSERT INTO attempts VALUES ({key}, 1, 2, {past}, {now}, 'plant-a', 'failed', 'transient', 'HTTP 503',
                    503, 0, NULL, 'busy', NULL, '{status}', 0);"
            );
        }
    }
    text + "UPDATE notifications SET list = 'ops', address = NULL, resolved = 1 WHERE status = 'retrying';
        INSERT INTO targets SELECT key, 0, 'https://a.example/hook', 'a.example:443', 'accepted', NULL, 1, 0, 0, NULL, NULL, NULL
            FROM notifications WHERE status = 'retrying';
        INSERT INTO targets SELECT key, 1, 'https://b.example/hook', 'b.example:443', 'waiting', due_at, 1, 1, 1, 'transient', 'HTTP 503', NULL
            FROM notifications WHERE status = 'retrying';"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Everything that version 1 left behind is shown, claimed, found again and acknowledged as it was.
async fn assert_all_is_there(store: &Store) {
    for (name, status, attempts) in [
        ("pending", Status::Pending, 0),
        ("retrying", Status::Retrying, 1),
        ("parked", Status::Parked, 1),
        ("leased", Status::Pending, 0),
    ] {
        let view = in_time(store.get(id(name))).await.unwrap().unwrap();
        assert_eq!((view.status, view.in_flight), (status, name == "leased"), "{name}");
        assert_eq!((&*view.subject, view.last_error.is_some()), (&*format!("about {name}"), attempts == 1));
        let tried = in_time(store.attempts(id(name), 0, 10)).await.unwrap().unwrap();
        assert_eq!(tried.len(), attempts, "{name}");
        let again = accept(store, name).await;
        assert_eq!(again, Ok(Acceptance::Accepted { id: id(name), status, duplicate: true }));
    }
    let abandoned = in_time(store.abandoned(at(0))).await.unwrap();
    assert_eq!(
        abandoned.iter().map(|lost| (lost.claim.id, &*lost.node)).collect::<Vec<_>>(),
        [(id("leased"), "plant-a")]
    );
    let claims = in_time(claim_all(store, at(0))).await.unwrap();
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [id("pending"), id("retrying")]);
    let list = in_time(store.load(&claims[1], at(0))).await.unwrap().unwrap();
    assert_eq!(
        list.targets.iter().map(|target| &*target.address).collect::<Vec<_>>(),
        ["https://a.example/hook", "https://b.example/hook"]
    );
    for claim in &claims {
        assert_eq!(settle(store, &delivered(claim, at(0))).await, Ok(Settled::Applied));
    }
    let taken_back = Settlement { lease_ended_by: Some(at(0)), ..parked(&abandoned[0].claim, at(0)) };
    assert_eq!(settle(store, &taken_back).await, Ok(Settled::Applied));
    assert_eq!(accept(store, "new").await, taken("new", false));
    assert_eq!(claim_one(store, at(0)).await.id, id("new"));
}

async fn schema_of(options: &Options) -> Option<i64> {
    in_time(Store::status(options)).await.unwrap().schema
}

/// P14: a server's database of version 1 goes on with all that was in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_database_of_the_version_before_goes_on() {
    let database = postgres::fresh_database();
    let first = include_str!("../../migrations/postgres/0001_outbox.sql");
    let rows = left_behind(|bytes| match bytes.len() {
        16 => format!("'{}'", hex(bytes)),
        _ => format!("'\\x{}'", hex(bytes)),
    });
    postgres::psql(
        &database.url,
        &format!("CREATE SCHEMA angarium; SET search_path = angarium; {first}; {rows} INSERT INTO meta VALUES ('schema', '1');"),
    )
    .unwrap();
    let options = options(&database.url);
    assert_eq!(schema_of(&options).await, Some(1));
    let known = in_time(Store::status(&options)).await.unwrap().known;
    assert_eq!(in_time(Store::migrate(&options)).await, Ok(Migrated { from: 1, to: known }));
    assert_eq!(schema_of(&options).await, Some(known));
    assert_all_is_there(&opened(&database.url).await).await;
}

/// P14: one whose role may not change it is refused, and goes on as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_may_not_be_changed_stays_as_it_was() {
    let database = postgres::fresh_database();
    let first = include_str!("../../migrations/postgres/0001_outbox.sql");
    database.sql(&format!(
        "CREATE SCHEMA angarium; SET search_path = angarium; {first}; INSERT INTO meta VALUES ('schema', '1');
        GRANT USAGE ON SCHEMA angarium TO angarium; GRANT ALL ON ALL TABLES IN SCHEMA angarium TO angarium"
    ));
    let told = refusal(&database.url).await;
    assert!(matches!(&told, StoreError::Refused(why) if why.contains("`angarium db migrate`")), "{told:?}");
    assert_eq!(schema_of(&options(&database.url)).await, Some(1));
}

/// P14: a file of version 1 goes on with all that was in it, and stands beside it as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_file_of_the_version_before_goes_on_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("angarium.db");
    let options = Options::new(&path);
    assert_eq!(schema_of(&options).await, None);
    assert!(!path.exists(), "nobody who asks makes a file");
    let first = include_str!("../../migrations/sqlite/0001_outbox.sql");
    let rows = left_behind(|bytes| format!("X'{}'", hex(bytes)));
    let ours = "PRAGMA application_id = 0x414E4741; PRAGMA user_version = 1;";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(&format!("PRAGMA journal_mode = WAL; {first} {rows} {ours}"))
        .unwrap();
    assert_eq!(schema_of(&options).await, Some(1));

    let store = Store::open(&options).await.unwrap();
    assert_eq!(schema_of(&options).await, Some(3));
    assert_all_is_there(&store).await;
    store.close();
    assert_eq!(in_time(Store::migrate(&options)).await, Ok(Migrated { from: 3, to: 3 }));
    assert_is_as_it_was(&folder.path().join("angarium.db.v1"));
}

fn assert_is_as_it_was(copy: &Path) {
    let copy = rusqlite::Connection::open(copy).unwrap();
    let number = |query: &str| copy.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("PRAGMA user_version"), 1);
    assert_eq!(number("SELECT count(*) FROM notifications"), 4);
    assert_eq!(number("SELECT count(*) FROM notifications WHERE lease_until IS NOT NULL"), 1);
    assert_eq!(number("SELECT count(*) FROM sqlite_schema WHERE name = 'nodes'"), 0);
}

/// A file of a newer version is left as it is, to the byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_sqlite_file_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("angarium.db");
    let ours = "PRAGMA journal_mode = WAL; CREATE TABLE later (a); PRAGMA application_id = 0x414E4741; PRAGMA user_version = 999;";
    rusqlite::Connection::open(&path).unwrap().execute_batch(ours).unwrap();
    let before = std::fs::read(&path).unwrap();
    let options = Options::new(&path);
    let newer = StoreError::NewerSchema { found: 999, known: 3 };
    assert_eq!(Store::open(&options).await.err(), Some(newer.clone()));
    assert_eq!(in_time(Store::migrate(&options)).await, Err(newer));
    assert_eq!(schema_of(&options).await, Some(999));
    assert!(std::fs::read(&path).unwrap() == before);
}
