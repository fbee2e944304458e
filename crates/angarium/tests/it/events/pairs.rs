//! Two nodes on one database.

use std::sync::Arc;

use angarium_receivers::http::Receiver;
use angarium_testbed::postgres;
use serde_json::{Value, json};

use super::{FEED, event, only, subscriber, subscription, word};
use crate::support::{Database, Installation, ON_LOOPBACK};

/// Two nodes that know the feed and these subscribers.
async fn pair(subscribers: &[String]) -> [Installation; 2] {
    let on = Database::Fresh(Arc::new(postgres::fresh_database()));
    let configuration =
        |name: &str| format!("node = \"{name}\"\n{ON_LOOPBACK}{FEED}{}", subscribers.concat());
    let (a, b) = (configuration("a"), configuration("b"));
    let (a, b) = tokio::join!(on.started(&a), on.started(&b));
    [a, b]
}

/// FP-06, OB-24: of two events that come in through two nodes at the same moment, the cooldown lets one through; the other says
/// which it was.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_keep_one_cooldown() {
    const ROUNDS: usize = 20;
    let receiver = Receiver::start().await.unwrap();
    let subscribers: Vec<String> = (0..ROUNDS)
        .map(|n| {
            let calm = format!("cooldown = \"1h\"\nfilter = {{ keywords = {{ area = [\"Area {n}.\"] }} }}");
            subscriber(&format!("calm {n}"), &receiver.url(&format!("/calm/{n}")), &calm)
        })
        .collect();
    let [a, b] = pair(&subscribers).await;
    for n in 0..ROUNDS {
        let of = |side: &str| {
            event(&format!("{side}-{n}"), "NewOutage", &format!("{side}-{n}"), &format!("Area {n}."))
        };
        let (left, right) = (of("left"), of("right"));
        let (left, right) = tokio::join!(a.publish(&left), b.publish(&right));
        let was_told = |answer: &Value| !answer["notifications"].as_array().unwrap().is_empty();
        let (told, kept_back) = if was_told(&left) { (&left, &right) } else { (&right, &left) };
        assert!(!was_told(kept_back), "round {n}: {left} {right}");
        let suppressed = &kept_back["skipped"][0];
        assert_eq!((&suppressed["reason"], &suppressed["by"]), (&json!("cooldown"), &json!(only(told))));
        let explained = a.explain(kept_back, &format!("calm-{n}")).await;
        assert_eq!(explained["outcome"], "suppressed");
        assert!(explained["steps"].to_string().contains(&only(told)), "{explained}");
    }
    a.drained().await;
    for n in 0..ROUNDS {
        assert_eq!(receiver.effects(&format!("/calm/{n}")).len(), 1, "round {n}");
    }
}

/// FP-05, OB-24: of one signal that comes in through two nodes under two ids, one is told, whichever it is.
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_tell_one_signal_once() {
    let receiver = Receiver::start().await.unwrap();
    let [a, b] = pair(&[subscriber("Home", &receiver.url("/home"), "")]).await;
    for n in 0..20 {
        let of = |side: &str| event(&format!("{side}-{n}"), "NewOutage", &format!("{n}"), "Bakakeng");
        let (left, right) = (of("left"), of("right"));
        let (left, right) = tokio::join!(a.publish(&left), b.publish(&right));
        let count = |answer: &Value, member: &str| answer[member].as_array().unwrap().len();
        assert_eq!(count(&left, "notifications") + count(&right, "notifications"), 1, "{left} {right}");
        assert_eq!(count(&left, "skipped") + count(&right, "skipped"), 1, "{left} {right}");
    }
    a.drained().await;
    assert_eq!(receiver.requests().len(), 20);
}

/// FP-03, OB-24: what was subscribed at one node before an event was handed in at the other is told of it; what was cancelled
/// there is not.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_was_told_the_other_knows() {
    let receiver = Receiver::start().await.unwrap();
    let nodes = pair(&[]).await;
    for n in 0..20 {
        let (here, there) = (&nodes[n % 2], &nodes[(n + 1) % 2]);
        let path = format!("/turn/{n}");
        let id = here.subscribe(subscription("Home", &receiver.url(&path))).await;
        let told = there.publish(&event(&format!("o-{n}"), "NewOutage", &format!("{n}"), "Bakakeng")).await;
        assert_eq!(word(&told["notifications"][0]["ref"]), id, "round {n}: {told}");
        here.until(&only(&told), "delivered").await;
        here.change(&format!("/v1/subscriptions/{id}"), json!({"active": false})).await;
        let after =
            there.publish(&event(&format!("p-{n}"), "NewOutage", &format!("p-{n}"), "Bakakeng")).await;
        assert_eq!(after["notifications"], json!([]), "round {n}");
        assert_eq!(receiver.effects(&path).len(), 1);
    }
}
