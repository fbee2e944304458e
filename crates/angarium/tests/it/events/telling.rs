//! From an event to whoever is told of it.

use angarium_receivers::http::{Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use super::{event, only, sent, subscriber, with, word};
use crate::support::Database;

/// FP-01, FP-02, FP-04, FP-07, FP-11: an event that says what happened is told to whom it concerns, in the words of its
/// type's template, under one identity however often it is sent.
pub(crate) async fn an_event_is_told(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(503), Reply::ok()]);
    let here = r#"filter = { event_types = ["NewOutage"], keywords = { area = ["bakakeng"] } }"#;
    let elsewhere = r#"filter = { event_types = ["NewOutage"], keywords = { area = ["Irisan"] } }"#;
    let subscribers = [
        subscriber("Home", &receiver.url("/home"), here),
        subscriber("Work", &receiver.url("/work"), elsewhere),
        subscriber("Press", &receiver.url("/press"), r#"filter = { event_types = ["Restoration"] }"#),
    ];
    let server = on.started(&with(&subscribers)).await;
    let mut outage = event("o-1", "NewOutage", "42", "Bakakeng Central");
    outage["time"] = json!("2026-07-07T03:02:03+02:00");
    outage["data"] = json!({"households": 1200});
    let told = server.publish(&outage).await;
    assert_eq!((&told["duplicate"], &told["planning"]), (&json!(false), &json!(false)));
    let planned = &told["notifications"][0];
    assert_eq!(
        (&planned["route"], &planned["channel"], &planned["ref"]),
        (&json!("subscription"), &json!("hooks"), &json!("home"))
    );
    let row = server.until(&only(&told), "delivered").await;
    assert_eq!((&row["subject"], &row["retry_count"]), (&json!("Outage on Feeder 14"), &json!(1)));
    assert_eq!((&row["event_id"], &row["event_type"]), (&told["id"], &json!("NewOutage")));

    let requests = receiver.requests();
    assert_eq!(requests.len(), 2, "nobody else was told");
    for request in &requests {
        assert_eq!((request.path.as_str(), request.header("webhook-id")), ("/home", Some(&*only(&told))));
    }
    assert_eq!(requests[0].body, requests[1].body);
    let message = sent(&requests[0]);
    assert_eq!((&message["type"], &message["id"]), (&json!("NewOutage"), &json!(only(&told))));
    let data = &message["data"];
    assert_eq!(
        (&data["subject"], &data["body"]),
        (&json!("Outage on Feeder 14"), &json!("Bakakeng Central is dark"))
    );
    assert_eq!(data["data"], json!({"households": 1200}));
    let facts = json!({"id": told["id"], "feed": "outages", "type": "NewOutage", "key": "42",
        "time": data["event"]["time"], "fields": {"feeder": "Feeder 14", "area": "Bakakeng Central"}});
    assert_eq!(data["event"], facts);
    assert!(word(&data["event"]["time"]).starts_with("2026-07-07T01:02:03"), "{message}");
}

/// FP-02, OB-02: the same event again is answered as before and told to nobody; its id for something else is refused.
pub(crate) async fn an_event_sent_twice_is_told_once(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let outage = event("o-1", "NewOutage", "42", "Bakakeng");
    let told = server.publish(&outage).await;
    server.until(&only(&told), "delivered").await;
    let again = server.publish(&outage).await;
    assert_eq!((&again["duplicate"], &again["id"]), (&json!(true), &told["id"]));
    assert_eq!((only(&again), &again["notifications"][0]["status"]), (only(&told), &json!("delivered")));
    let (status, problem) =
        server.call(Method::POST, "/v1/events", Some(event("o-1", "NewOutage", "42", "Irisan"))).await;
    assert_eq!((status, &problem["code"]), (409, &json!("id_reused")));
    let marker = server.publish(&event("o-2", "NewOutage", "43", "Irisan")).await;
    server.until(&only(&marker), "delivered").await;
    assert_eq!(receiver.requests().len(), 2, "the event once, and the marker");
    assert_eq!(server.get("/v1/events").await["items"].as_array().unwrap().len(), 2);
}

/// FP-01: what the catalogue does not know is refused, and says what it does know; nothing is stored.
pub(crate) async fn what_the_catalogue_does_not_know_is_refused(on: Database) {
    let server = on.started(&with(&[])).await;
    let mut elsewhere = event("o-1", "NewOutage", "42", "Bakakeng");
    elsewhere["feed"] = json!("water");
    let other_type = event("o-2", "Flood", "42", "Bakakeng");
    let mut wrong = event("o-3", "NewOutage", "", "Bakakeng");
    wrong["time"] = json!("yesterday");
    let refused = |event: Value| {
        let server = &server;
        async move {
            let (status, problem) = server.call(Method::POST, "/v1/events", Some(event)).await;
            assert_eq!(status, 422, "{problem}");
            problem
        }
    };
    let problem = refused(elsewhere).await;
    assert_eq!(problem["code"], "unknown_feed");
    assert!(word(&problem["detail"]).contains("water"), "{problem}");
    let problem = refused(other_type).await;
    assert_eq!(problem["code"], "unknown_event_type");
    for kind in ["NewOutage", "Restoration", "Updated", "ManualAnnouncement"] {
        assert!(word(&problem["detail"]).contains(kind), "{problem}");
    }
    let problem = refused(wrong).await;
    let fields: Vec<&Value> = problem["errors"].as_array().unwrap().iter().map(|one| &one["field"]).collect();
    assert!(fields.contains(&&json!("key")) && fields.contains(&&json!("time")), "{problem}");
    assert_eq!(server.get("/v1/events").await["items"], json!([]));
}

/// FP-02: an event that nobody wants is kept, and says so.
pub(crate) async fn an_event_that_nobody_wants_is_kept(on: Database) {
    let server = on.started(&with(&[])).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    assert_eq!((&told["notifications"], &told["skipped"]), (&json!([]), &json!([])));
    let shown = server.event(&told).await;
    assert_eq!((&shown["external_id"], &shown["matched"]), (&json!("o-1"), &json!(0)));
    let explained = server.get(&format!("/v1/events/{}/explain", word(&told["id"]))).await;
    assert_eq!(explained["outcome"], "nobody", "{explained}");
}
