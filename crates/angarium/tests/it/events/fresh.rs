//! Which text is sent when time has passed (FP-07).

use angarium_receivers::http::{Gate, Receiver, Reply};
use serde_json::json;

use super::{FEED, event, only, patient, sent, skipped, subscriber, texts, word};
use crate::support::Database;

/// FP-07: what waits for its receiver tells what is so when it is sent, whether or not the news is itself told to anybody.
pub(crate) async fn c073_what_waits_tells_the_newest(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(503)]);
    let outages = r#"filter = { event_types = ["NewOutage"] }"#;
    let home = subscriber("Home", &receiver.url("/home"), outages);
    let server = on.started(&format!("{}{FEED}{home}", patient())).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Old")).await;
    receiver.wait_for("/home", 1).await;
    assert_eq!(texts(&receiver.requests())[0], "Old is dark");

    let unwanted = server.publish(&event("o-2", "Updated", "42", "New")).await;
    assert_eq!(unwanted["notifications"], json!([]));
    receiver.wait_until(|all| texts(all).contains(&"New is dark".to_owned())).await;
    let repeated = server.publish(&event("o-3", "NewOutage", "42", "Newest")).await;
    assert_eq!(skipped(&repeated), [("home", "already_told")]);
    receiver.wait_until(|all| texts(all).contains(&"Newest is dark".to_owned())).await;
    // What happened before is no news, however late it comes.
    let mut late = event("o-4", "Updated", "42", "Past");
    late["time"] = json!("2020-01-01T00:00:00Z");
    server.publish(&late).await;
    let other = server.publish(&event("o-5", "Updated", "43", "Other")).await;
    assert_eq!(other["notifications"], json!([]));

    receiver.script("/home", [Reply::ok()]);
    let row = server.until(&only(&told), "delivered").await;
    assert_eq!(row["body"], "Newest is dark");
    let effects = receiver.effects("/home");
    assert_eq!(texts(&effects), ["Newest is dark"]);
    assert!(!texts(&receiver.requests()).iter().any(|text| text.contains("Past") || text.contains("Other")));
    let facts = &sent(&effects[0])["data"]["event"];
    assert_eq!(
        (&facts["id"], &facts["type"]),
        (&told["id"], &json!("NewOutage")),
        "it is the event that is told"
    );
    let ids: Vec<_> =
        receiver.requests().iter().map(|request| word(&json!(request.header("webhook-id")))).collect();
    assert!(ids.iter().all(|id| *id == only(&told)));
}

/// FP-07, FP-11: once a receiver may have the text, it gets the same bytes again, although there is news meanwhile.
pub(crate) async fn after_an_attempt_in_doubt_the_same_bytes_go_out(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let gate = Gate::closed();
    let steps = [Reply::hang_up_after_body().gate(&gate), Reply::status(503), Reply::ok()];
    receiver.script("/home", steps);
    let subscribers = [
        subscriber("Home", &receiver.url("/home"), r#"filter = { event_types = ["NewOutage"] }"#),
        subscriber("Press", &receiver.url("/press"), r#"filter = { event_types = ["Updated"] }"#),
    ];
    let server = on.started(&format!("{}{FEED}{}", patient(), subscribers.concat())).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Old")).await;
    receiver.wait_for("/home", 1).await;
    let news = server.publish(&event("o-2", "Updated", "42", "New")).await;
    server.until(&only(&news), "delivered").await;
    gate.open();
    let row = server.until(&only(&told), "delivered").await;
    assert_eq!(row["body"], "Old is dark");
    let requests = receiver.wait_for("/home", 3).await;
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.body, requests[0].body);
        assert_eq!(request.header("webhook-id"), requests[0].header("webhook-id"));
    }
    assert_eq!(texts(&requests)[0], "Old is dark");
}
