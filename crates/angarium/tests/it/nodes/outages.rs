//! The database is away, silent or slow.

use std::sync::Arc;
use std::time::Duration;

use angarium_receivers::http::Receiver;
use angarium_testbed::postgres::{self, Server};
use angarium_testbed::proxy::{Direction, Proxy};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::lock::Lock;
use super::producer::Producer;
use super::{BRIEF, SHORT, TELL, assert_delivered, fresh, node, pair, tell};
use crate::support::{Database, Installation, KEY, ask, client, id_of, to_with_id, within};

/// The name of the database in a server's URL.
fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

/// What a node answers whose database is away: that it is not ready, and to come again later.
async fn turns_away(node: &Installation, url: &str) {
    node.says_ready(false).await;
    let alarm = to_with_id(url, "turned away");
    let answer = node.ask(KEY, Method::POST, "/v1/notifications", Some(alarm)).await.unwrap();
    let said: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &said["retryable"]), (503, &Value::Bool(true)), "{said}");
    assert!(answer.headers.contains_key("retry-after"), "{said}");
    assert_eq!(node.call(Method::GET, "/healthz", None).await.0, 200, "it lives");
}

/// C065, P13: PostgreSQL is restarted under two running nodes, once properly and once by a crash. They turn work away and
/// say so, go on by themselves, and nothing that was acknowledged is lost or sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn c065_postgresql_is_restarted() {
    let server = Server::start();
    let url = server.create_database();
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&Database::at(&url), "", "").await;
    let hook = receiver.url("/hook");
    let producer = Producer::start(&nodes.each_ref().map(|node| node.address.unwrap()), &hook);
    for stop in [Server::stop_fast, Server::stop_immediately] {
        producer.goes_on(100).await;
        stop(&server);
        for node in &nodes {
            turns_away(node, &receiver.url("/other")).await;
        }
        server.start_again();
        for node in &nodes {
            node.says_ready(true).await;
        }
        producer.goes_on(100).await;
    }
    assert!(producer.refusals().iter().all(|status| *status == 503), "{:?}", producer.refusals());
    let acknowledged = producer.stop().await;
    nodes[0].drained().await;
    let rows = server.sql(name_of(&url), TELL);
    assert_eq!(assert_delivered(&rows, &receiver, "/hook", &acknowledged), 0, "some went out twice");
    for node in &nodes {
        let name = format!("afterwards {}", node.address.unwrap());
        node.hand_in(&to_with_id(&hook, &name)).await;
        node.until(&id_of(&name), "delivered").await;
    }
}

/// P6a: between one node and the database nothing gets through any more, and nobody says so. That node turns work away and
/// claims nothing; the other takes over what it had in flight. Once it hears again, it works again.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_cut_off_from_the_database() {
    let (database, on) = fresh();
    let proxy = Proxy::start(postgres::shared().address());
    let by_way = Database::at(&postgres::shared().url_by_way_of(proxy.address(), &database.name));
    let receiver = Receiver::start().await.unwrap();
    let hook = receiver.url("/hook");
    let well = node("well", &on, SHORT, BRIEF).await;
    let cut_off = node("cut-off", &by_way, SHORT, BRIEF).await;
    receiver.hold();
    let names: Vec<String> = (0..16).map(|n| format!("alarm {n}")).collect();
    well.hand_in_all(names.iter().map(|name| to_with_id(&hook, name)).collect()).await;
    receiver.wait_for("/hook", 16).await;
    proxy.freeze(Direction::Both);
    receiver.release();

    let refused =
        within(cut_off.ask(KEY, Method::POST, "/v1/notifications", Some(to_with_id(&hook, "asked"))));
    let (refused, unready) = tokio::join!(refused, cut_off.says_ready(false));
    assert_eq!(refused.unwrap().status, 503, "{unready}");
    well.hand_in(&to_with_id(&hook, "meanwhile")).await;
    well.until(&id_of("meanwhile"), "delivered").await;
    // What the other had in flight as well.
    well.drained().await;

    proxy.thaw(Direction::Both);
    cut_off.says_ready(true).await;
    for name in ["asked", "afterwards"] {
        cut_off.hand_in(&to_with_id(&hook, name)).await;
        cut_off.until(&id_of(name), "delivered").await;
    }
    let more = ["asked", "meanwhile", "afterwards"].map(str::to_owned);
    let ids: Vec<String> = names.iter().chain(&more).map(|name| id_of(name)).collect();
    within(async {
        while cut_off.get("/v1/kpis").await["global"]["in_flight"] != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let repeated = assert_delivered(&database.sql(TELL), &receiver, "/hook", &ids);
    assert!(repeated <= 8, "no more than one node may have in flight: {repeated}");
}

/// P6c: every answer of the database takes a seventh of a second. Leases are kept all the same: nothing is tried twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_is_slow() {
    let (database, _) = fresh();
    let proxy = Proxy::start(postgres::shared().address());
    let by_way = Database::at(&postgres::shared().url_by_way_of(proxy.address(), &database.name));
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&by_way, SHORT, BRIEF).await;
    let names: Vec<String> = (0..100).map(|n| format!("alarm {n}")).collect();
    for (turn, batch) in names.chunks(10).enumerate() {
        // From the third batch on, when both have connections.
        proxy.delay(if turn < 2 { Duration::ZERO } else { Duration::from_millis(140) });
        let batch = batch.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect();
        nodes[turn % 2].hand_in_all(batch).await;
    }
    super::until(|| {
        database.sql("SELECT count(*) FROM angarium.notifications WHERE due_at IS NOT NULL") == "0"
    })
    .await;
    let rows = database.sql(TELL);
    let ids: Vec<String> = names.iter().map(|name| id_of(name)).collect();
    assert_eq!(assert_delivered(&rows, &receiver, "/hook", &ids), 0);
    assert!(tell(&rows).values().all(|one| one.attempts == 1), "{rows}");
    for node in &nodes {
        node.says_ready(true).await;
    }
}

/// P12: questions that take for ever, more than there are connections for, keep nobody from handing in and nothing from
/// being sent.
#[tokio::test(flavor = "multi_thread")]
async fn slow_questions_hold_up_no_work() {
    let (database, on) = fresh();
    let receiver = Receiver::start().await.unwrap();
    let hook = receiver.url("/hook");
    let node = node("a", &on, "", "").await;
    node.hand_in(&to_with_id(&hook, "asked after")).await;
    node.until(&id_of("asked after"), "delivered").await;
    let new_key = Some(json!({"name": "erp", "scopes": ["publish"]}));
    let (_, made) = node.call(Method::POST, "/v1/keys", new_key).await;
    let lock = Lock::take(&database, "bounces");
    let path = format!("/v1/notifications/{}", id_of("asked after"));
    let mut questions = JoinSet::new();
    let (client, address) = (Arc::new(client()), node.address.unwrap());
    for _ in 0..200 {
        let (client, path) = (Arc::clone(&client), path.clone());
        questions
            .spawn(async move { ask(&client, address, KEY, Method::GET, &path, None).await.unwrap().status });
    }
    super::until(|| lock.waiting(&database) > 0).await;
    // By a key that has to be looked up.
    let key = made["key"].as_str().unwrap();
    for n in 0..20 {
        let alarm = Some(to_with_id(&hook, &format!("alarm {n}")));
        let answer = node.ask(key, Method::POST, "/v1/notifications", alarm).await.unwrap();
        assert_eq!(answer.status, 202);
    }
    let done = "SELECT count(*) = 21 FROM angarium.notifications WHERE status = 'delivered'";
    super::until(|| database.sql(done) == "t").await;
    assert!(
        questions.try_join_next().is_none_or(|status| status.unwrap() == 503),
        "nobody can have been answered"
    );
    lock.release();
    while let Some(status) = questions.join_next().await {
        assert!(matches!(status.unwrap(), 200 | 503));
    }
    node.says_ready(true).await;
}
