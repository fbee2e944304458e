//! The forms in which an event can come: tried, as CloudEvents, as a test, by hand.

use angarium_receivers::http::Receiver;
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, only, sent, skipped, subscriber, with, word};
use crate::support::{Database, ON_LOOPBACK, text};

/// FP-06, FP-12: a trial says who would be told, in which words, and who would not. Nothing is stored, nobody is told, and
/// nothing is used up.
pub(crate) async fn a_trial_leaves_no_trace(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let subscribers = [
        subscriber("Home", &receiver.url("/home"), "cooldown = \"1h\""),
        subscriber("Twin", &receiver.url("/home"), ""),
        subscriber("Work", &receiver.url("/work"), r#"filter = { keywords = { area = ["Irisan"] } }"#),
    ];
    let server = on.started(&with(&subscribers)).await;
    let outage = event("o-1", "NewOutage", "42", "Bakakeng");
    for _ in 0..2 {
        let (status, trial) =
            server.call(Method::POST, "/v1/events?dry_run=true", Some(outage.clone())).await;
        assert_eq!(status, 200, "{trial}");
        assert_eq!((&trial["matched"], &trial["would"]["duplicate"]), (&json!(2), &json!(false)));
        only(&trial["would"]);
        assert_eq!(skipped(&trial["would"])[0].1, "same_target");
        let told = trial["texts"].as_array().unwrap();
        assert_eq!(told.len(), 1, "{trial}");
        let words = ["title", "body", "target", "template"].map(|part| word(&told[0][part]));
        let address = receiver.url("/home");
        assert_eq!(words, ["Outage on Feeder 14", "Bakakeng is dark", &*address, "NewOutage/hooks/en-US"]);
    }
    for what in ["events", "notifications"] {
        assert_eq!(server.get(&format!("/v1/{what}")).await["items"], json!([]));
    }
    let told = server.publish(&outage).await;
    assert_eq!(told["duplicate"], false);
    server.until(&only(&told), "delivered").await;
    assert_eq!(receiver.requests().len(), 1);
    let after = event("o-2", "NewOutage", "43", "Bakakeng");
    let (_, trial) = server.call(Method::POST, "/v1/events?dry_run=true", Some(after)).await;
    assert_eq!(
        skipped(&trial["would"]),
        [("home", "cooldown")],
        "what was told counts, what was tried does not"
    );
    assert_eq!(trial["texts"][0]["subscription"], "twin");
}

/// An event as a CloudEvent in structured mode.
fn cloud(id: &str, key: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "https://utility.example/north", "type": "NewOutage", "subject": key,
        "datacontenttype": "application/json", "data": {"feeder": "Feeder 14", "area": "Bakakeng €"}})
}

/// WH-08, FP-02: CloudEvents are told in all three modes, on the feed that their source belongs to; the same event in another
/// mode is the same event.
pub(crate) async fn cloudevents_are_told_in_every_mode(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let post = async |headers: &[(&'static str, &str)], body: String| {
        let answer = server.send(Method::POST, "/v1/events", headers, body).await;
        assert_eq!(answer.status, 202, "{}", text(&answer.body));
        serde_json::from_slice::<Value>(&answer.body).unwrap()
    };
    let structured =
        post(&[("content-type", "application/cloudevents+json")], cloud("c-1", "1").to_string()).await;
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "c-2"),
        ("ce-source", "https://utility.example/north"),
        ("ce-type", "NewOutage"),
        ("ce-subject", "2"),
        ("ce-area", "Bakakeng%20%E2%82%AC"),
    ];
    let in_headers = post(&binary, json!({"feeder": "Feeder 14"}).to_string()).await;
    let batch =
        json!([cloud("c-3", "3"), {"specversion": "1.0", "id": "c-4"}, cloud("c-1", "1"), cloud("c-5", "5")]);
    let batched = post(&[("content-type", "application/cloudevents-batch+json")], batch.to_string()).await;
    let results = batched["results"].as_array().unwrap();
    assert_eq!(results[1]["problem"]["code"], "invalid_request", "{batched}");
    assert_eq!((&results[2]["duplicate"], &results[2]["id"]), (&json!(true), &structured["id"]));
    for told in [&structured, &in_headers, &results[0], &results[3]] {
        assert_eq!(told["duplicate"], false);
        let row = server.until(&only(told), "delivered").await;
        assert_eq!(
            (&row["subject"], &row["body"]),
            (&json!("Outage on Feeder 14"), &json!("Bakakeng € is dark"))
        );
        let shown = server.event(told).await;
        assert_eq!(
            (&shown["feed"], &shown["source"]),
            (&json!("outages"), &json!("https://utility.example/north"))
        );
    }
    assert_eq!(receiver.requests().len(), 4);
    let mut elsewhere = cloud("c-6", "6");
    elsewhere["source"] = json!("https://elsewhere.example/");
    let structured = [("content-type", "application/cloudevents+json")];
    let refused = server.send(Method::POST, "/v1/events", &structured, elsewhere.to_string()).await;
    let problem: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.status, &problem["code"]), (422, &json!("unknown_feed")));
}

/// FP-02, FP-05: of many events in one request each is judged by itself, in order: a wrong one harms no other, and a signal that
/// stands in it twice is told once.
pub(crate) async fn many_events_in_one_request(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let mut elsewhere = event("o-2", "NewOutage", "42", "Bakakeng");
    elsewhere["feed"] = json!("water");
    let events = json!({"events": [
        event("o-1", "NewOutage", "42", "Bakakeng"),
        elsewhere,
        event("o-3", "NewOutage", "42", "Bakakeng"),
        event("o-1", "NewOutage", "42", "Bakakeng"),
        event("o-1", "NewOutage", "42", "Irisan"),
        event("o-4", "NewOutage", "43", "Bakakeng"),
    ]});
    let (status, answer) = server.call(Method::POST, "/v1/events/batch", Some(events)).await;
    assert_eq!(status, 202, "{answer}");
    let results = answer["results"].as_array().unwrap();
    let code = |at: usize| &results[at]["problem"]["code"];
    assert_eq!((code(1), code(4)), (&json!("unknown_feed"), &json!("id_reused")), "{answer}");
    assert_eq!(skipped(&results[2]), [("home", "already_told")]);
    assert_eq!(results[2]["skipped"][0]["by"], only(&results[0]));
    assert_eq!((&results[3]["duplicate"], &results[3]["id"]), (&json!(true), &results[0]["id"]));
    for told in [&results[0], &results[5]] {
        server.until(&only(told), "delivered").await;
    }
    assert_eq!(receiver.requests().len(), 2);
}

/// FP-17: a test reaches the test subscription and nobody else; it is no news, and uses nothing up.
pub(crate) async fn a_test_reaches_the_test_subscription_alone(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let subscribers = [
        subscriber("Live", &receiver.url("/live"), ""),
        subscriber("Trial", &receiver.url("/trial"), "test = true"),
    ];
    let server = on.started(&with(&subscribers)).await;
    for n in 0..2 {
        let mut test = event(&format!("t-{n}"), "NewOutage", "42", "Test");
        test["test"] = json!(true);
        let told = server.publish(&test).await;
        assert_eq!(told["notifications"][0]["ref"], "trial");
        server.until(&only(&told), "delivered").await;
    }
    let live = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    assert_eq!(live["notifications"][0]["ref"], "live");
    assert_eq!(server.until(&only(&live), "delivered").await["body"], "Bakakeng is dark");
    assert_eq!((receiver.effects("/trial").len(), receiver.effects("/live").len()), (2, 1));
}

/// FP-17: what an operator announces by hand takes the ordinary path, filters and all; as a test it reaches the test
/// subscription alone. Whoever repeats it under one idempotency key has announced it once.
pub(crate) async fn an_announcement_takes_the_ordinary_path(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let template = "[[templates]]\nevent_type = \"ManualAnnouncement\"\nchannel = \"hooks\"\nlocale = \"en-US\"\n\
        subject = \"{{ data.subject }}\"\nbody = \"{{ data.body }}\"\n\
        sample = { data = { subject = \"s\", body = \"b\" } }\n";
    let subscribers = [
        subscriber("Here", &receiver.url("/here"), r#"filter = { keywords = { area = ["Bakakeng"] } }"#),
        subscriber("There", &receiver.url("/there"), r#"filter = { keywords = { area = ["Irisan"] } }"#),
        subscriber("Trial", &receiver.url("/trial"), "test = true"),
    ];
    let server = on.started(&format!("{ON_LOOPBACK}{FEED}{template}{}", subscribers.concat())).await;
    let said = json!({"subject": "Storm tonight", "body": "Stay in.", "fields": {"area": "Bakakeng"}});
    let headers = [("content-type", "application/json"), ("idempotency-key", "storm")];
    let mut answers = Vec::new();
    for _ in 0..2 {
        let path = "/v1/feeds/outages/announcements";
        let answer = server.send(Method::POST, path, &headers, said.to_string()).await;
        assert_eq!(answer.status, 202, "{}", text(&answer.body));
        answers.push(serde_json::from_slice::<Value>(&answer.body).unwrap());
    }
    assert_eq!((&answers[1]["duplicate"], &answers[1]["id"]), (&json!(true), &answers[0]["id"]));
    server.until(&only(&answers[0]), "delivered").await;
    let message = sent(&receiver.effects("/here")[0]);
    assert_eq!(message["type"], "ManualAnnouncement");
    assert_eq!(
        (&message["data"]["subject"], &message["data"]["body"]),
        (&json!("Storm tonight"), &json!("Stay in."))
    );
    let test = json!({"subject": "Test", "body": "", "test": true});
    let (status, told) = server.call(Method::POST, "/v1/feeds/outages/announcements", Some(test)).await;
    assert_eq!((status, &told["notifications"][0]["ref"]), (202, &json!("trial")));
    server.until(&only(&told), "delivered").await;
    assert_eq!(receiver.requests().len(), 2);
}
