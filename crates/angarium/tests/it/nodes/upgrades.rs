//! One node after the other gets a new program.

use std::process::Stdio;
use std::time::Duration;

use angarium_receivers::http::{Receiver, Reply};
use serde_json::Value;

use super::producer::Producer;
use super::{TELL, assert_delivered, configuration, fresh, node, pair};
use crate::support::{Installation, id_of, text, to_with_id};

/// What `db status` says, and its exit code.
fn status(node: &Installation) -> (Value, Option<i32>) {
    let told = node.angarium(&["db", "status", "-o", "json"]);
    (serde_json::from_slice(&told.stdout).unwrap_or_default(), told.status.code())
}

/// The schema is looked at and prepared without a server; a node whose database was brought up to date by a newer program
/// goes on, and an older program does not start on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_left_to_newer_programs() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let mut running = on.installation(&configuration("running", "", ""));
    let (said, code) = status(&running);
    assert_eq!((said["standing"].as_str(), code), (Some("empty"), Some(1)), "{said}");
    assert!(running.angarium(&["db", "migrate"]).status.success());
    running.start().await;
    let (said, code) = status(&running);
    assert_eq!((said["standing"].as_str(), code), (Some("current"), Some(0)), "{said}");
    assert_eq!(said["database"], "postgres");

    let schema = database.sql("SELECT value FROM angarium.meta WHERE name = 'schema'");
    let set = |value: &str| {
        database.sql(&format!("UPDATE angarium.meta SET value = '{value}' WHERE name = 'schema'"))
    };
    set("999");
    running.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    running.until(&id_of("alarm"), "delivered").await;
    let (said, code) = status(&running);
    assert_eq!((said["standing"].as_str(), code), (Some("newer"), Some(1)), "{said}");
    let late = on.installation(&configuration("late", "", ""));
    let refused = late.serve_command(&[]).stderr(Stdio::piped()).output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("999") && said.contains(&schema), "{said}");
    assert!(!late.angarium(&["db", "migrate"]).status.success());
    assert_eq!(
        database.sql("SELECT value FROM angarium.meta WHERE name = 'schema'"),
        "999",
        "it is untouched"
    );
    set(&schema);
    let again = node("again", &on, "", "").await;
    again.hand_in(&to_with_id(&receiver.url("/hook"), "again")).await;
}

/// OB-24: one node after the other is stopped and started while work comes in: producers find the other, and nothing is
/// sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_restarted_one_after_the_other() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().after(Duration::from_millis(50))]);
    let (database, on) = fresh();
    let mut nodes = pair(&on, "", "").await;
    let producer =
        Producer::start(&nodes.each_ref().map(|node| node.address.unwrap()), &receiver.url("/hook"));
    for turn in 0..4 {
        producer.goes_on(60).await;
        let node = &mut nodes[turn % 2];
        node.signal("TERM");
        assert!(node.ended().await.success());
        producer.goes_on(20).await;
        node.start().await;
        producer.finds(turn % 2, node.address.unwrap());
    }
    assert!(producer.refusals().iter().all(|status| *status == 503), "{:?}", producer.refusals());
    let acknowledged = producer.stop().await;
    nodes[0].drained().await;
    assert_eq!(assert_delivered(&database.sql(TELL), &receiver, "/hook", &acknowledged), 0);
    assert_eq!(receiver.requests().len(), acknowledged.len());
}
