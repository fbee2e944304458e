//! A standby that is waited for: what is acknowledged is on two servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use angarium_domain::state::Status;
use angarium_store::*;
use angarium_testbed::postgres::Server;
use angarium_testbed::proxy::{Direction, Proxy};
use futures_util::future::join_all;

use crate::support::*;

/// As many connections as a store has for producers, deliveries and questions.
const CONNECTIONS: usize = 4 + 6 + 3;

/// A server whose commits wait for its standby.
struct Pair {
    primary: Server,
    standby: Server,
    database: String,
}

impl Pair {
    fn start() -> Self {
        let primary = Server::start();
        let standby = primary.standby();
        let database = primary.endpoint().create_database();
        primary.make_synchronous(true);
        Pair { primary, standby, database }
    }

    fn url(&self) -> String {
        self.primary.url(&self.database)
    }

    /// How many backends on the primary are so.
    fn backends(&self, so: &str) -> usize {
        self.primary.sql(&self.database, &backends(so)).parse().unwrap()
    }

    /// Does something to the backends that wait for the standby.
    fn to_those_who_wait(&self, does: &str) {
        self.primary.sql(&self.database, &to_backends(does, WAITS_FOR_A_STANDBY));
    }
}

fn is_no_answer(answer: &Result<Acceptance>) -> bool {
    use StoreError::{Contended, OutcomeUnknown, Overloaded, QueryTimeout};
    matches!(answer, Err(Contended(_) | OutcomeUnknown | Overloaded | QueryTimeout))
}

fn ids_on(server: &Server, database: &str) -> BTreeSet<String> {
    server.sql(database, "SELECT id FROM angarium.notifications").lines().map(str::to_owned).collect()
}

/// OB-02, P5a: without the standby nothing is acknowledged, new or sent again, however many try, and the server is not filled
/// with sessions that wait; once it is back, everything is acknowledged, and stored once.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_that_the_standby_does_not_have() {
    let pair = Pair::start();
    let store = Arc::new(opened(&pair.url()).await);
    assert_eq!(accept(&store, "before").await, taken("before", false));
    pair.standby.freeze();
    assert_eq!(accept(&store, "first").await, Err(StoreError::OutcomeUnknown));

    let mut notes = names("note", 198);
    notes.extend(["first".to_owned(), "before".to_owned()]);
    let answers = tokio::spawn({
        let (store, notes) = (Arc::clone(&store), notes.clone());
        async move { join_all(notes.iter().map(|name| accept(&store, name))).await }
    });
    let mut most = 0;
    until(|| {
        most = most.max(pair.backends("usename = 'angarium'"));
        answers.is_finished()
    })
    .await;
    for (name, answer) in notes.iter().zip(answers.await.unwrap()) {
        assert!(is_no_answer(&answer), "{name}: {answer:?}");
    }
    assert!(most <= CONNECTIONS, "{most} sessions");

    pair.standby.thaw();
    until(|| pair.backends(WAITS_FOR_A_STANDBY) == 0).await;
    for (name, answer) in notes.iter().zip(join_all(notes.iter().map(|name| accept(&store, name))).await) {
        assert!(is_taken(&answer), "{name}: {answer:?}");
    }
    assert_eq!(ids_on(&pair.primary, &pair.database).len(), 200);
    assert_eq!(pair.primary.sql(&pair.database, "SELECT count(*) FROM angarium.ids"), "200");
}

/// OB-02, P5a: somebody who ends the wait for the standby by hand makes no acknowledgement of it, and what is on the first
/// server alone is not acknowledged to a resend either.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_cut_short_is_no_acknowledgement() {
    let pair = Pair::start();
    let store = Arc::new(opened(&pair.url()).await);
    for (name, cut) in [("cancelled", "pg_cancel_backend"), ("terminated", "pg_terminate_backend")] {
        pair.standby.freeze();
        let accepting = tokio::spawn({
            let store = Arc::clone(&store);
            async move { accept(&store, name).await }
        });
        until(|| pair.backends(WAITS_FOR_A_STANDBY) == 1).await;
        pair.to_those_who_wait(cut);
        assert_eq!(accepting.await.unwrap(), Err(StoreError::OutcomeUnknown), "{name}");
        until(|| {
            pair.primary
                .sql(&pair.database, &format!("SELECT count(*) FROM angarium.ids WHERE id = '{}'", id(name)))
                == "1"
        })
        .await;

        let again = accept(&store, name).await;
        assert!(is_no_answer(&again), "{name} is on one server alone: {again:?}");
        pair.standby.thaw();
        assert_eq!(accept(&store, name).await, taken(name, true));
    }
}

/// OB-02, P5a: nor does it become one because somebody has silenced warnings, wherever that can be said.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_cut_short_is_told_though_warnings_are_silenced() {
    let pair = Pair::start();
    let store = Arc::new(opened(&pair.url()).await);
    let silence = "SET client_min_messages = error";
    let name = &pair.database;
    let everywhere = format!(
        "ALTER ROLE angarium {silence}; ALTER DATABASE {name} {silence};
         ALTER ROLE angarium IN DATABASE {name} {silence}; ALTER SYSTEM {silence}; SELECT pg_reload_conf()"
    );
    pair.primary.sql("postgres", &everywhere);
    assert_eq!(Somebody::at(&pair.url()).await.shows("client_min_messages").await, "error");
    cut_short(&pair, store, "an old session").await;
    cut_short(&pair, Arc::new(opened(&pair.url()).await), "a new session").await;
}

/// Somebody ends the wait of a commit for the standby.
async fn cut_short(pair: &Pair, store: Arc<Store>, name: &'static str) {
    let before = format!("before {name}");
    assert_eq!(accept(&store, &before).await, taken(&before, false));
    pair.standby.freeze();
    let accepting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { accept(&store, name).await }
    });
    until(|| pair.backends(WAITS_FOR_A_STANDBY) == 1).await;
    pair.to_those_who_wait("pg_cancel_backend");
    assert_eq!(accepting.await.unwrap(), Err(StoreError::OutcomeUnknown), "{name}");
    pair.standby.thaw();
    assert_eq!(accept(&store, name).await, taken(name, true));
}

/// OB-02, P5a: a result that is on the first server alone does not count as written either.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_counts_once_the_standby_has_it() {
    let pair = Pair::start();
    let store = Arc::new(opened(&pair.url()).await);
    accept(&store, "alarm").await.unwrap();
    let settlement = delivered(&claim_one(&store, at(0)).await, at(1));
    pair.standby.freeze();
    let settling = tokio::spawn({
        let (store, settlement) = (Arc::clone(&store), settlement.clone());
        async move { settle(&store, &settlement).await }
    });
    until(|| pair.backends(WAITS_FOR_A_STANDBY) == 1).await;
    pair.to_those_who_wait("pg_cancel_backend");
    assert_eq!(settling.await.unwrap(), Err(StoreError::OutcomeUnknown));
    let again = settle(&store, &settlement).await;
    assert!(again.is_err(), "it is on one server alone: {again:?}");
    pair.standby.thaw();
    assert_eq!(settle(&store, &settlement).await, Ok(Settled::Applied));
    assert_eq!(store.attempts(id("alarm"), 0, 10).await.unwrap().unwrap().len(), 1);
}

/// OB-02, P5a: the standby takes over in the middle of the work. It has everything that was acknowledged, and the store goes on
/// there, given both in its URL.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_takes_over_has_all_that_was_acknowledged() {
    let Pair { primary, standby, database } = Pair::start();
    let url = format!("postgres://angarium@{},{}/{database}", primary.address(), standby.address());
    let store = Arc::new(opened(&url).await);
    let before = store.pulse().await.unwrap().unwrap();
    let producers: Vec<_> = (0..8).map(|n| tokio::spawn(produce(Arc::clone(&store), n))).collect();
    until(|| primary.sql(&database, "SELECT count(*) > 200 FROM angarium.ids") == "t").await;
    primary.stop_immediately();
    let mut acknowledged = BTreeSet::new();
    for producer in producers {
        acknowledged.extend(in_time(producer).await.unwrap());
    }
    standby.promote();
    let there = ids_on(&standby, &database);
    assert!(
        acknowledged.len() > 100 && acknowledged.is_subset(&there),
        "{} of {}",
        there.len(),
        acknowledged.len()
    );

    assert_eq!(accept(&store, "after").await, taken("after", false));
    assert_eq!(in_time(store.after_a_failover()).await, Ok(vec![]));
    let pulse = in_time(store.pulse()).await.unwrap().unwrap();
    assert_eq!(pulse.timeline, before.timeline + 1);
    let claims = in_time(claim_all(&store, at(1))).await.unwrap();
    assert_eq!(claims.len(), there.len() + 1);
    for claim in claims {
        assert_eq!(settle(&store, &delivered(&claim, at(1))).await, Ok(Settled::Applied));
    }
    assert_eq!(store.get(id("after")).await.unwrap().unwrap().status, Status::Delivered);
}

/// Hands in one note after the other until one is refused; the ids of those that were acknowledged.
async fn produce(store: Arc<Store>, producer: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let name = format!("producer {producer} note {n}");
        match accept(&store, &name).await {
            Ok(answer) => {
                assert!(is_taken(&Ok(answer)));
                acknowledged.push(id(&name).to_string());
            }
            Err(error) => {
                assert!(
                    matches!(error, StoreError::Unavailable(_) | StoreError::OutcomeUnknown),
                    "{error:?}"
                );
                break;
            }
        }
    }
    acknowledged
}

/// OB-02, P5a: the first server can be reached no more, but what was said to it goes on to wait: commits on every connection that
/// deliveries have. The standby takes over, and nobody waits for what waits there.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_hang_on_the_old_server_block_nobody_on_the_new_one() {
    let Pair { primary, standby, database } = Pair::start();
    let proxy = Proxy::start(primary.address());
    let url = format!("postgres://angarium@{},{}/{database}", proxy.address(), standby.address());
    let store = Arc::new(opened(&url).await);
    let before = store.pulse().await.unwrap().unwrap();
    let notes = names("note", 12).iter().map(|name| note(name)).collect();
    in_time(store.accept(notes, at(0))).await.unwrap();
    let claims = in_time(claim_all(&store, at(0))).await.unwrap();
    standby.freeze();
    let settling: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { settle(&store, &delivered(&claim, at(0))).await })
        })
        .collect();
    until(|| primary.sql(&database, &backends(WAITS_FOR_A_STANDBY)) == "6").await;
    proxy.freeze(Direction::Both);
    proxy.refuse(true);
    standby.thaw();
    standby.promote();
    let pulse = in_time(async {
        loop {
            if let Ok(Some(pulse)) = store.pulse().await {
                break pulse;
            }
        }
    });
    assert_eq!(pulse.await.timeline, before.timeline + 1);
    assert_eq!(in_time(store.after_a_failover()).await, Ok(vec![]));
    assert_eq!(accept(&store, "after").await, taken("after", false));
    assert_eq!(in_time(claim_all(&store, at(0))).await.map(|claims| claims.len()), Ok(1));
    for settled in join_all(settling).await {
        assert!(matches!(settled.unwrap(), Ok(Settled::Applied) | Err(_)));
    }
}
