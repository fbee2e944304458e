//! Sessions that go silent one after the other while the server is well: a firewall forgets connections, say, and new
//! ones work.

use std::sync::Arc;

use angarium_store::*;
use angarium_testbed::postgres::{self, Fresh};
use angarium_testbed::proxy::{Direction, Proxy};
use tokio::task::JoinHandle;

use crate::support::*;

/// Sessions that go silent in the middle of a commit: more than a store has for producers.
const SILENCED: usize = 8;

/// As many sessions as a store has for producers, and the one that it asked its first question by.
const SESSIONS: usize = 4 + 1;

/// From now on whoever stores an id waits in the middle of its commit for as long as somebody holds the gate.
const GATE: &str = "CREATE FUNCTION public.pass() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
        $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON angarium.ids DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION public.pass()";
const HOLD: &str = "BEGIN; SELECT pg_advisory_xact_lock(1)";

/// Ways to one server, of which a store uses the first that is open. Each that was closed stays silent.
struct Ways {
    ways: Vec<Proxy>,
    closed: usize,
    database: Fresh,
    url: String,
}

impl Ways {
    fn open(ways: usize) -> Self {
        let database = postgres::fresh_database();
        let ways: Vec<Proxy> = (0..ways).map(|_| Proxy::start(postgres::shared().address())).collect();
        let hosts: Vec<String> = ways.iter().map(|way| way.address().to_string()).collect();
        let url = format!("postgres://angarium@{}/{}", hosts.join(","), database.name);
        Ways { ways, closed: 0, database, url }
    }

    /// Makes all sessions on the way that is used silent. New ones go by the next way.
    fn close_one(&mut self) {
        let way = &self.ways[self.closed];
        way.freeze(Direction::Both);
        way.refuse(true);
        self.closed += 1;
    }

    /// Hands in a note whose session goes silent in the middle of the commit, which the server then carries out.
    async fn commit_in_silence(&mut self, store: &Arc<Store>, name: &str) -> JoinHandle<Result<Acceptance>> {
        let somebody = Somebody::in_charge_of(&self.database).await;
        somebody.says(HOLD).await;
        let (store, note) = (Arc::clone(store), name.to_owned());
        let accepting = tokio::spawn(async move { accept(&store, &note).await });
        until(|| self.database.sql(&backends(WAITS_FOR_A_LOCK)) == "1").await;
        self.close_one();
        somebody.says("COMMIT").await;
        until(|| is_stored(&self.database, name)).await;
        accepting
    }
}

fn is_stored(database: &Fresh, name: &str) -> bool {
    let asked = format!("SELECT count(*) FROM angarium.ids WHERE id = '{}'", id(name));
    database.sql(&asked) == "1"
}

/// P6a: a commit whose session goes silent is in doubt, a resend ends the doubt, and however often that happens, the store
/// does not run out of sessions, nor does the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_silence_costs_no_session_for_good() {
    let mut ways = Ways::open(SILENCED + 1);
    let store = Arc::new(opened(&ways.url).await);
    ways.database.sql(GATE);
    let notes = names("note", SILENCED);
    for two in notes.chunks(2) {
        let mut doubtful = Vec::new();
        for name in two {
            doubtful.push(ways.commit_in_silence(&store, name).await);
        }
        for (name, answer) in two.iter().zip(doubtful) {
            assert_eq!(in_time(answer).await.unwrap(), Err(StoreError::OutcomeUnknown), "{name}");
            assert_eq!(accept(&store, name).await, taken(name, true));
        }
    }
    assert_stored(&ways.database, SILENCED);

    // What the store still holds shows as soon as the ways are open again.
    for way in &ways.ways {
        way.thaw(Direction::Both);
    }
    until(|| ways.ways.iter().map(Proxy::connections).sum::<usize>() <= SESSIONS).await;
    until(|| ways.database.sql(&backends("usename = 'angarium'")).parse::<usize>().unwrap() <= SESSIONS)
        .await;
    assert_eq!(in_time(claim_all(&store, at(0))).await.map(|claims| claims.len()), Ok(SILENCED));
}

/// P6a: sessions that went silent while nobody used them are found out one by one, and each costs one answer at most.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_went_silent_unnoticed_are_replaced() {
    let mut ways = Ways::open(2);
    let store = Arc::new(opened(&ways.url).await);
    ways.database.sql(GATE);
    let somebody = Somebody::in_charge_of(&ways.database).await;
    somebody.says(HOLD).await;
    let mut accepting = Vec::new();
    for (name, waiting) in [("one", "1"), ("two", "2")] {
        let store = Arc::clone(&store);
        accepting.push(tokio::spawn(async move { accept(&store, name).await }));
        until(|| ways.database.sql(&backends(WAITS_FOR_A_LOCK)) == waiting).await;
    }
    somebody.says("COMMIT").await;
    for answer in accepting {
        assert!(is_taken(&answer.await.unwrap()));
    }
    ways.close_one();

    let mut failed = 0;
    while let Err(error) = accept(&store, "after").await {
        assert!(
            matches!(error, StoreError::OutcomeUnknown | StoreError::Overloaded | StoreError::QueryTimeout),
            "{error:?}"
        );
        failed += 1;
        assert!(failed <= 1, "one silent session is reason enough to trust none of them");
    }
    assert!(failed > 0, "the sessions were not silent");
    assert_stored(&ways.database, 3);
}
