//! kill -9, restarts and stops.

use std::collections::HashMap;

use angarium_receivers::http::{Gate, Receiver, Reply};
use serde_json::json;

use crate::support::{Database, Installation, ON_LOOPBACK, id_of, to_with_id, within};

/// OB-24, C046: killed with forty in flight and twenty waiting: all sixty are delivered after the restart, those
/// in flight a second time at most, under the same id, and the lost attempts are on record.
pub(crate) async fn c046_killed_with_forty_in_flight(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let wide = "timeout = \"5s\"\nmax_parallel = 60\nmax_parallel_per_receiver = 40\n";
    let wide = format!("{ON_LOOPBACK}{wide}{}", on.lease("10s"));
    let mut server = on.started(&wide).await;
    let names: Vec<String> = (0..60).map(|n| format!("alarm {n}")).collect();
    server.hand_in_all(names.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect()).await;
    let in_flight = receiver.wait_for("/hook", 40).await.len();
    assert_eq!(in_flight, 40);
    server.kill().await;
    receiver.release();
    server.start().await;
    server.drained().await;
    assert_eq!(server.count("delivered").await, 60);
    let requests = receiver.requests();
    assert!(requests.len() <= 60 + 40, "{} requests", requests.len());
    for name in &names {
        let times = requests.iter().filter(|one| one.header("webhook-id") == Some(&id_of(name))).count();
        assert!((1..=2).contains(&times), "{name}: {times}");
    }
    let mut interrupted = 0;
    for name in &names {
        let attempts = server.get(&format!("/v1/notifications/{}/attempts", id_of(name))).await;
        let items = attempts["items"].as_array().unwrap().clone();
        interrupted += items.iter().filter(|one| one["class"] == "interrupted").count();
        assert_eq!(server.view(&id_of(name)).await["retry_count"], 0);
    }
    assert_eq!(interrupted, 40);
}

/// OB-12, OB-24: killed in the middle of a list of five hundred, while answers come in: after the restart every
/// member has the message, and no more got it a second time than were in flight at the kill.
pub(crate) async fn killed_in_the_middle_of_a_list_of_five_hundred(on: Database) {
    const AT_ONCE: usize = 32;
    let receiver = Receiver::start().await.unwrap();
    let paths: Vec<String> = (0..500).map(|n| format!("/member/{n}")).collect();
    // The last two hundred are not answered until the server has died, so that it dies before the list's end.
    let gate = Gate::closed();
    for path in &paths[300..] {
        receiver.script(path, [Reply::ok().gate(&gate)]);
    }
    let members: Vec<String> = paths.iter().map(|path| receiver.url(path)).collect();
    let wide = format!("timeout = \"5s\"\nmax_parallel = 64\nmax_parallel_per_receiver = {AT_ONCE}\n");
    let list = format!("[lists.ops]\nchannel = \"hooks\"\nmembers = {members:?}\n");
    let mut server = on.started(&format!("{ON_LOOPBACK}{wide}{list}{}", on.lease("10s"))).await;
    let accepted = server.hand_in(&json!({"list": "ops", "subject": "s", "body": "b"})).await;
    receiver.wait_until(|requests| requests.len() >= 150).await;
    server.kill().await;
    let before = receiver.requests();
    assert!(before.len() <= 300 + AT_ONCE, "it died in the middle");
    gate.open();
    server.start().await;
    let id = accepted["id"].as_str().unwrap();
    let row = server.until(id, "delivered").await;
    let results = row["resolved_targets"].as_array().unwrap();
    assert_eq!(results.iter().filter(|target| target["result"] == "accepted").count(), 500);
    let mut times: HashMap<String, usize> = HashMap::new();
    for request in receiver.requests() {
        assert_eq!(request.header("webhook-id"), Some(id));
        *times.entry(request.path).or_default() += 1;
    }
    assert_eq!(times.len(), 500, "every member was sent to");
    assert!(times.values().all(|times| *times <= 2));
    let repeats = times.values().filter(|times| **times > 1).count();
    assert!(repeats <= AT_ONCE, "{repeats} were repeated after {} requests", before.len());
}

/// SIGTERM ends with status 0: what is in flight is finished, nothing is half sent, the rest waits.
pub(crate) async fn a_soft_stop_finishes_what_is_in_flight(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let narrow = format!("{ON_LOOPBACK}max_parallel_per_receiver = 2\n");
    let mut server = on.started(&narrow).await;
    let names: Vec<String> = (0..10).map(|n| format!("alarm {n}")).collect();
    server.hand_in_all(names.iter().map(|name| to_with_id(&receiver.url("/hook"), name)).collect()).await;
    receiver.wait_for("/hook", 2).await;
    server.signal("TERM");
    within(async {
        while server.try_call(http::Method::GET, "/healthz", None).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    receiver.release();
    assert_eq!(server.ended().await.code(), Some(0));
    let sent = receiver.requests().len();
    assert_eq!(sent, receiver.effects("/hook").len(), "nothing was half sent");
    server.start().await;
    server.drained().await;
    assert_eq!(server.count("delivered").await, 10);
    assert_eq!(receiver.requests().len(), 10, "nothing was sent twice");
    assert!(sent < 10, "nothing new was claimed after the signal");
}

/// A second signal stops at once, SIGHUP like any other, and what hung is taken back at the next start.
pub(crate) async fn a_second_signal_stops_at_once(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::silence(), Reply::ok()]);
    let soon = format!("{ON_LOOPBACK}timeout = \"5s\"\n{}", on.lease("10s"));
    let mut server = on.started(&soon).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    receiver.wait_for("/hook", 1).await;
    server.signal("TERM");
    within(async {
        while !server.log().contains("stopping") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.signal("HUP");
    assert_eq!(server.ended().await.code(), Some(0));
    server.start().await;
    server.until(&id_of("alarm"), "delivered").await;
}

/// One file serves one process: a second one is refused with a clear message, and the first goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused() {
    let server = Installation::started(ON_LOOPBACK).await;
    let second = server.serve_command(&[]).stderr(std::process::Stdio::piped()).output().unwrap();
    let said = crate::support::text(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("pid {}", server.pid())) && said.contains("angarium.db"), "{said}");
    assert_eq!(server.hand_in(&json!({"list": "x", "subject": "s", "body": "b"})).await["duplicate"], false);
}
