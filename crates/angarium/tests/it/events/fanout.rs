//! Events that concern many.

use std::collections::BTreeMap;

use angarium_receivers::http::{Received, Receiver};
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, subscription, word};
use crate::support::{Database, Installation, ON_LOOPBACK, text};

/// So many that planning takes a while.
const MANY: usize = 3000;

/// Deliveries at once.
const AT_ONCE: usize = 64;

/// Subscribes so many, each with an address of its own.
async fn subscribe_many(server: &Installation, receiver: &Receiver, count: usize) {
    let line = |n: usize| {
        let mut one = subscription(&format!("Subscriber {n}"), &receiver.url(&format!("/many/{n}")));
        one["id"] = json!(format!("many-{n}"));
        format!("{one}\n")
    };
    let lines: String = (0..count).map(line).collect();
    let media = [("content-type", "application/x-ndjson")];
    let answer = server.send(Method::POST, "/v1/subscriptions/import", &media, lines).await;
    assert_eq!(answer.status, 200, "{}", text(&answer.body));
    let last = text(&answer.body).lines().last().map(str::to_owned).unwrap_or_default();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["done"], &last["stored"]), (&json!(true), &json!(count)), "{last}");
}

fn wide(on: &Database) -> String {
    let parallel =
        format!("timeout = \"5s\"\nmax_parallel = {AT_ONCE}\nmax_parallel_per_receiver = {AT_ONCE}\n");
    format!("{ON_LOOPBACK}{parallel}{FEED}{}", on.lease("10s"))
}

/// How often each of the many was told, by path.
fn times(requests: &[Received]) -> BTreeMap<&str, usize> {
    let mut times = BTreeMap::new();
    for request in requests {
        *times.entry(request.path.as_str()).or_default() += 1;
    }
    times
}

/// FP-20, OB-24: an event that concerns a thousand is acknowledged with the first hundred of them planned; then all thousand
/// are told, each once.
pub(crate) async fn a_thousand_are_told(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&wide(&on)).await;
    subscribe_many(&server, &receiver, 1000).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    assert_eq!(told["planning"], true);
    assert_eq!(told["notifications"].as_array().unwrap().len(), 100);
    let planned = server.planned(&told).await;
    assert_eq!((&planned["matched"], &planned["notification_count"]), (&json!(1000), &json!(1000)));
    server.drained().await;
    let requests = receiver.requests();
    let times = times(&requests);
    assert_eq!((times.len(), requests.len()), (1000, 1000));
    assert_eq!(server.get("/v1/kpis").await["global"]["parked_count"], 0);
    let explained = server.explain(&told, "many-999").await;
    assert_eq!(explained["outcome"], "delivered", "{explained}");
}

/// FP-20, OB-01, OB-24: killed while an event that concerns thousands is being planned: after the restart the rest is planned,
/// each of them is told, and only what was in flight a second time, under the same id.
pub(crate) async fn killed_in_the_middle_of_planning(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let mut server = on.started(&wide(&on)).await;
    subscribe_many(&server, &receiver, MANY).await;
    // Once in a while it is done before it is killed.
    for n in 0..10 {
        let seen = receiver.requests().len();
        let told = server.publish(&event(&format!("o-{n}"), "NewOutage", &format!("{n}"), "Bakakeng")).await;
        server.kill().await;
        assert_eq!(told["planning"], true);
        server.start().await;
        let started = started_last(&server).await;
        let planned = server.planned(&told).await;
        assert_eq!((&planned["matched"], &planned["notification_count"]), (&json!(MANY), &json!(MANY)));
        server.drained().await;
        assert_each_was_told(&receiver.requests()[seen..]);
        assert_eq!(server.get("/v1/kpis").await["global"]["parked_count"], 0);
        let later = server.get(&format!("/v1/notifications?since={started}&limit=1")).await;
        if !later["items"].as_array().unwrap().is_empty() {
            return;
        }
    }
    panic!("it never died before all was planned");
}

/// When the server that runs was started.
async fn started_last(server: &Installation) -> String {
    let nodes = server.get("/v1/nodes").await;
    nodes["items"].as_array().unwrap().iter().map(|node| word(&node["started_at"])).max().unwrap()
}

/// Each of the many was told, under one id, and no more of them twice than can be in flight.
fn assert_each_was_told(requests: &[Received]) {
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    for request in requests {
        let id = request.header("webhook-id").unwrap();
        assert_eq!(*ids.entry(request.path.as_str()).or_insert(id), id, "{}", request.path);
    }
    let times = times(requests);
    assert_eq!(times.len(), MANY);
    assert!(times.values().all(|times| *times <= 2));
    let repeats = requests.len() - times.len();
    assert!(repeats <= AT_ONCE, "{repeats} were repeated");
}
