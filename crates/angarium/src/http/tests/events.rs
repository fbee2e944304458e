//! Events: handed in, in every form; tried; looked at and explained; announced and taken back.

use angarium_domain::text::SubscriptionId;
use angarium_store::{Changed, Expect, ObjectKind};
use serde_json::{Value, json};

use super::{Ask, Server, add_key};

const EVENTS: &str = "/v1/events";
const BATCH: &str = "/v1/events/batch";

impl Server {
    /// A server with a feed of outages, and a subscription to all of it.
    async fn with_outages() -> Server {
        let server = Server::start().await;
        let feed = json!({
            "event_types": ["NewOutage", "Restoration"],
            "fields": {"feeder": {"alias": "feeders"}, "area": {"match": "substring"}},
            "sources": ["https://beneco.example/"],
        });
        server.put_feed(&feed).await;
        server.subscribe("ns_all", json!({})).await;
        server
    }

    async fn put_feed(&self, feed: &Value) {
        let (store, now) = (&self.app.store, self.app.clock.now());
        let put =
            store.put_object(ObjectKind::Feed, "outages", feed.to_string(), Expect::Anything, now).await;
        assert!(matches!(put.unwrap(), Changed::Done { .. }));
    }

    async fn subscribe(&self, id: &str, more: Value) {
        let mut subscription = json!({
            "name": "Somebody",
            "feed": "outages",
            "target": {"channel": "hooks", "address": format!("https://example.com/{id}")},
        });
        subscription.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let kind_of = |name: &_| self.app.catalog.channels.get(name).map(|settings| settings.kind);
        let subscription =
            angarium_domain::subscription::Subscription::parse(&subscription.to_string(), &kind_of).unwrap();
        let (id, now) = (SubscriptionId::parse(id).unwrap(), self.app.clock.now());
        let put = self.app.store.put_subscription(id, subscription, Expect::Absent, now).await;
        assert!(matches!(put.unwrap(), Changed::Done { .. }));
    }

    fn cloud(&self, media: &str, body: &str) -> Ask {
        let ask = self.ask("POST", EVENTS).header("content-type", media);
        Ask { body: body.as_bytes().to_vec(), ..ask }
    }

    async fn explained(&self, event: &Value, subscription: Option<&str>) -> Value {
        let query = subscription.map(|id| format!("?subscription={id}")).unwrap_or_default();
        let path = format!("{EVENTS}/{}/explain{query}", event["id"].as_str().unwrap());
        let reply = self.get(&path).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }
}

fn outage(key: &str) -> Value {
    json!({"id": format!("new-{key}"), "feed": "outages", "type": "NewOutage", "key": key,
           "fields": {"feeder": "F14", "area": "Bakakeng Central"}})
}

fn code(reply: &super::Reply) -> (u16, String) {
    (reply.status, reply.code().to_owned())
}

/// FP-02: an event is stored once however often it is sent, and its id stands for one thing.
#[tokio::test]
async fn an_event_is_stored_once() {
    let server = Server::with_outages().await;
    let first = server.post(EVENTS, &outage("42")).await;
    assert_eq!(first.status, 202, "{}", first.body);
    let first = first.json();
    assert_eq!((&first["duplicate"], &first["planning"]), (&json!(false), &json!(false)));
    let told = &first["notifications"][0];
    assert_eq!(
        (&told["ref"], &told["channel"], &told["status"]),
        (&json!("ns_all"), &json!("hooks"), &json!("pending"))
    );
    let again = server.post(EVENTS, &outage("42")).await;
    assert_eq!(again.header("idempotency-replayed"), None);
    let again = again.json();
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    assert_eq!(again["notifications"], first["notifications"]);
    let mut other = outage("42");
    other["fields"]["feeder"] = json!("F15");
    assert_eq!(code(&server.post(EVENTS, &other).await), (409, "id_reused".to_owned()));
    // Another key is another source, whose ids are its own.
    let plant = add_key(&server.app, "plant", "publish").await;
    let theirs = server.ask("POST", EVENTS).key(&plant).json(&outage("42")).await_reply().await.json();
    assert_eq!(theirs["duplicate"], json!(false));
    assert_eq!(theirs["skipped"][0]["reason"], json!("already_told"));
}

#[tokio::test]
async fn an_idempotency_key_stands_for_an_id() {
    let server = Server::with_outages().await;
    let mut event = outage("42");
    event.as_object_mut().unwrap().remove("id");
    let ask = || server.ask("POST", EVENTS).header("idempotency-key", "k-1").json(&event);
    let (first, second) = (ask().await_reply().await, ask().await_reply().await);
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!((&first.json()["id"], &second.json()["duplicate"]), (&second.json()["id"], &json!(true)));
    let fresh = server.post(EVENTS, &event).await.json();
    assert_ne!(fresh["id"], first.json()["id"]);
    let bad = server.ask("POST", EVENTS).header("idempotency-key", "two words").json(&event);
    assert_eq!(code(&bad.await_reply().await), (400, "idempotency_key_invalid".to_owned()));
}

#[tokio::test]
async fn what_is_wrong_with_an_event_is_told() {
    let server = Server::with_outages().await;
    let with = |name: &str, value: Value| {
        let mut event = outage("42");
        event[name] = value;
        event
    };
    let empty = server.post(EVENTS, &json!({})).await;
    let fields: Vec<Value> =
        empty.json()["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert_eq!(fields, ["feed", "type", "key"].map(|name| json!(name)));
    let table = [
        (with("feed", json!("other")), 422, "unknown_feed"),
        (with("type", json!("Other")), 422, "unknown_event_type"),
        (with("kye", json!("x")), 422, "invalid_request"),
    ];
    for (event, status, word) in table {
        assert_eq!(code(&server.post(EVENTS, &event).await), (status, word.to_owned()), "{event}");
    }
    let told = server.post(EVENTS, &with("type", json!("Other"))).await;
    assert!(told.body.contains("NewOutage, Restoration, ManualAnnouncement"), "{}", told.body);
    let large = with("data", json!("x".repeat(1024 * 1024)));
    assert_eq!(code(&server.post(EVENTS, &large).await), (413, "body_too_large".to_owned()));
    assert_eq!(
        code(&server.cloud("text/plain", "x").await_reply().await),
        (415, "content_type_unsupported".to_owned())
    );
    assert_eq!(server.get(EVENTS).await.json()["items"], json!([]));
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("angarium_events_refused_total{code=\"unknown_feed\"} 1"), "{metrics}");
}

/// WH-08: structured, binary and batched; one event is the same in each.
#[tokio::test]
async fn cloud_events_come_in_every_mode() {
    let server = Server::with_outages().await;
    let structured = r#"{"specversion": "1.0", "id": "1", "source": "https://beneco.example/a", "type": "NewOutage",
        "subject": "42", "area": "Euro € 😀", "data": {"feeders": "F14", "n": 1.0}}"#;
    let first = server.cloud("application/cloudevents+json; charset=utf-8", structured).await_reply().await;
    assert_eq!(first.status, 202, "{}", first.body);
    assert_eq!(first.json()["duplicate"], json!(false));
    let binary = server
        .cloud("application/json", r#"{"feeders": "F14", "n": 1.0}"#)
        .header("ce-specversion", "1.0")
        .header("ce-id", "1")
        .header("ce-source", "https://beneco.example/a")
        .header("ce-type", "NewOutage")
        .header("ce-subject", "42")
        .header("ce-area", "Euro%20%E2%82%AC%20%F0%9F%98%80");
    let second = binary.await_reply().await.json();
    assert_eq!((&second["id"], &second["duplicate"]), (&first.json()["id"], &json!(true)));
    let other = structured.replace("\"1\"", "\"2\"").replace("https://beneco.example/a", "elsewhere");
    let batch = server.cloud("application/cloudevents-batch+json", &format!("[{structured}, {other}, 7]"));
    let results = batch.await_reply().await.json()["results"].clone();
    assert_eq!((&results[0]["id"], &results[0]["duplicate"]), (&first.json()["id"], &json!(true)));
    assert_eq!(results[1]["problem"]["code"], json!("unknown_feed"));
    assert_eq!(results[2]["problem"]["code"], json!("invalid_request"));
    let shown = server.get(&format!("{EVENTS}/{}", first.json()["id"].as_str().unwrap())).await;
    assert!(shown.body.contains(r#""data":{"feeders": "F14", "n": 1.0}"#), "{}", shown.body);
    let shown = shown.json();
    assert_eq!(shown["fields"], json!({"area": "Euro € 😀", "feeder": "F14"}));
    assert_eq!(
        (&shown["feed"], &shown["external_id"], &shown["key"]),
        (&json!("outages"), &json!("1"), &json!("42"))
    );
    let no_batch = server.ask("POST", BATCH).header("content-type", "application/cloudevents+json");
    let no_batch = Ask { body: structured.as_bytes().to_vec(), ..no_batch };
    assert_eq!(code(&no_batch.await_reply().await), (415, "content_type_unsupported".to_owned()));
}

#[tokio::test]
async fn in_a_batch_each_event_is_judged_on_its_own() {
    let server = Server::with_outages().await;
    let reused = json!({"id": "new-1", "feed": "outages", "type": "NewOutage", "key": "else"});
    let unknown = json!({"feed": "outages", "type": "Other", "key": "3"});
    let events =
        json!({"events": [outage("1"), {"feed": "outages"}, outage("1"), reused, unknown, outage("2")]});
    let reply = server.post(BATCH, &events).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let results = reply.json()["results"].as_array().unwrap().clone();
    let told: Vec<String> = results
        .iter()
        .map(|result| match result["problem"]["code"].as_str() {
            Some(code) => code.to_owned(),
            None => format!("duplicate {}", result["duplicate"]),
        })
        .collect();
    let expected = [
        "duplicate false",
        "invalid_request",
        "duplicate true",
        "id_reused",
        "unknown_event_type",
        "duplicate false",
    ];
    assert_eq!(told, expected);
    assert_eq!(server.get(EVENTS).await.json()["items"].as_array().unwrap().len(), 2);
    for (body, word) in
        [("[]", "invalid_request"), ("{\"events\": []}", "invalid_request"), ("{", "json_invalid")]
    {
        assert_eq!(server.ask("POST", BATCH).text(body).await_reply().await.code(), word, "{body}");
    }
    // A whole batch that is sent again under one key is a replay.
    let anonymous = json!({"events": [{"feed": "outages", "type": "NewOutage", "key": "8"}]});
    let ask = || server.ask("POST", BATCH).header("idempotency-key", "k").json(&anonymous);
    assert_eq!(ask().await_reply().await.header("idempotency-replayed"), None);
    assert_eq!(ask().await_reply().await.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn trying_an_event_stores_nothing() {
    let server = Server::with_outages().await;
    server.subscribe("ns_other", json!({"filter": {"fields": {"feeder": ["F15"]}}})).await;
    let path = format!("{EVENTS}?dry_run=true");
    let reply = server.post(&path, &outage("42")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let trial = reply.json();
    assert_eq!((&trial["matched"], &trial["would"]["duplicate"]), (&json!(1), &json!(false)));
    let text = &trial["texts"][0];
    assert_eq!(
        (&text["subscription"], &text["target"]),
        (&json!("ns_all"), &json!("https://example.com/ns_all"))
    );
    assert_eq!((&text["title"], &text["fault"]), (&json!("NewOutage: 42"), &Value::Null));
    assert_eq!(text["body"], json!("area: Bakakeng Central\nfeeder: F14"));
    assert_eq!(server.get(EVENTS).await.json()["items"], json!([]));
    assert_eq!(server.get("/v1/notifications").await.json()["items"], json!([]));
    let plant = add_key(&server.app, "plant", "publish").await;
    let blind = server.ask("POST", &path).key(&plant).json(&outage("42")).await_reply().await;
    assert_eq!(code(&blind), (403, "scope_denied".to_owned()));
    let batch = server.ask("POST", &path).header("content-type", "application/cloudevents-batch+json");
    assert_eq!(batch.await_reply().await.code(), "invalid_request");
    let unsure = server.post(&format!("{EVENTS}?dry_run=maybe"), &outage("42")).await;
    assert_eq!(unsure.code(), "invalid_request");
}

#[tokio::test]
async fn events_are_listed_page_by_page() {
    let server = Server::with_outages().await;
    let mut ids = Vec::new();
    for key in ["1", "2", "3"] {
        server.clock.advance(std::time::Duration::from_secs(1));
        ids.push(server.post(EVENTS, &outage(key)).await.json()["id"].clone());
    }
    let first = server.get(&format!("{EVENTS}?limit=2")).await.json();
    assert_eq!((&first["items"][0]["id"], &first["items"][1]["id"]), (&ids[2], &ids[1]));
    let next = format!("{EVENTS}?limit=2&cursor={}", first["next"].as_str().unwrap());
    let second = server.get(&next).await.json();
    assert_eq!((&second["items"][0]["id"], &second["next"]), (&ids[0], &Value::Null));
    for (query, count) in
        [("key=2", 1), ("type=NewOutage&feed=outages&source=root", 3), ("type=Restoration", 0)]
    {
        let found = server.get(&format!("{EVENTS}?{query}")).await.json();
        assert_eq!(found["items"].as_array().unwrap().len(), count, "{query}");
    }
    assert_eq!(
        server.get(&format!("{EVENTS}?since=2026-07-07T12:00:03Z")).await.json()["items"][0]["id"],
        ids[2]
    );
    assert_eq!(server.get(&format!("{EVENTS}?cursor=x")).await.code(), "cursor_invalid");
    assert_eq!(server.get(&format!("{EVENTS}?keys=1")).await.code(), "invalid_request");
    for path in ["/v1/events/x", "/v1/events/01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59"] {
        assert_eq!(code(&server.get(path).await), (404, "event_not_found".to_owned()));
        assert_eq!(code(&server.get(&format!("{path}/explain")).await), (404, "event_not_found".to_owned()));
    }
}

/// FP-06: why somebody was told, and why somebody was not, has an answer.
#[tokio::test]
async fn every_fate_has_its_reason() {
    let server = Server::with_outages().await;
    server.subscribe("ns_other", json!({"filter": {"fields": {"feeder": ["F15"]}}})).await;
    server.subscribe("ns_off", json!({"active": false})).await;
    server.subscribe("ns_slow", json!({"cooldown": "30m"})).await;
    let first = server.post(EVENTS, &outage("42")).await.json();
    server.subscribe("ns_late", json!({})).await;
    server.attempt(None).await;
    let second = server.post(EVENTS, &outage("43")).await.json();
    let table = [
        (&first, "ns_all", "delivered", "delivery"),
        (&first, "ns_other", "not_matched", "filter"),
        (&first, "ns_off", "not_matched", "active"),
        (&first, "ns_late", "not_matched", "subscription"),
        (&second, "ns_slow", "suppressed", "cooldown"),
        (&second, "ns_all", "pending", "delivery"),
    ];
    for (event, subscription, outcome, last) in table {
        let explained = server.explained(event, Some(subscription)).await;
        let step = explained["steps"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&explained["outcome"], &step["step"]), (&json!(outcome), &json!(last)), "{explained}");
    }
    let path = format!("{EVENTS}/{}/explain?subscription=ns_none", first["id"].as_str().unwrap());
    assert_eq!(code(&server.get(&path).await), (404, "subscription_not_found".to_owned()));
    let all = server.explained(&first, None).await;
    assert_eq!(
        (&all["outcome"], &all["matched"], &all["notification_count"]),
        (&json!("delivered"), &json!(2), &json!(2))
    );
    let all = server.explained(&second, None).await;
    assert_eq!((&all["outcome"], &all["skipped_count"]), (&json!("planned"), &json!(1)), "{all}");
}

/// FP-21: what came while the feed was off says so, and so does what nobody wants.
#[tokio::test]
async fn what_nobody_was_told_of_is_kept() {
    let server = Server::with_outages().await;
    server.put_feed(&json!({"event_types": ["NewOutage"], "enabled": false})).await;
    let event = server.post(EVENTS, &outage("42")).await.json();
    assert_eq!((&event["notifications"], &event["skipped"]), (&json!([]), &json!([])));
    let one = server.explained(&event, Some("ns_all")).await;
    assert_eq!(
        (&one["outcome"], &one["steps"][1]["reason"]),
        (&json!("suppressed"), &json!("feed_disabled")),
        "{one}"
    );
    let all = server.explained(&event, None).await;
    assert_eq!(
        (&all["outcome"], &all["steps"][1]["reason"]),
        (&json!("nobody"), &json!("feed_disabled")),
        "{all}"
    );
    server.put_feed(&json!({"event_types": ["NewOutage"]})).await;
    let mut test = outage("43");
    test["test"] = json!(true);
    let event = server.post(EVENTS, &test).await.json();
    let all = server.explained(&event, None).await;
    assert_eq!(all["outcome"], json!("nobody"));
    assert!(all.to_string().contains("kept, nobody wants it"), "{all}");
}

/// FP-17: an announcement takes the ordinary path, and is fresh each time.
#[tokio::test]
async fn an_announcement_takes_the_ordinary_path() {
    let server = Server::with_outages().await;
    let path = "/v1/feeds/outages/announcements";
    let storm = json!({"subject": "Storm tonight", "body": "Charge your phones."});
    let first = server.post(path, &storm).await;
    assert_eq!(first.status, 202, "{}", first.body);
    let second = server.post(path, &storm).await.json();
    assert_eq!((&second["duplicate"], second["notifications"].as_array().unwrap().len()), (&json!(false), 1));
    let shown = server.get(&format!("{EVENTS}/{}", second["id"].as_str().unwrap())).await.json();
    assert_eq!((&shown["type"], &shown["data"]), (&json!("ManualAnnouncement"), &storm));
    let ask = || server.ask("POST", path).header("idempotency-key", "k").json(&storm);
    assert_eq!(ask().await_reply().await.json()["duplicate"], json!(false));
    assert_eq!(ask().await_reply().await.header("idempotency-replayed"), Some("true"));
    assert_eq!(
        code(&server.post("/v1/feeds/other/announcements", &storm).await),
        (404, "feed_not_found".to_owned())
    );
    assert_eq!(server.post(path, &json!({"subject": "x"})).await.code(), "invalid_request");
}

#[tokio::test]
async fn what_an_event_told_of_can_be_gone() {
    let server = Server::with_outages().await;
    let mut event = outage("42");
    event["key"] = json!("line 42/a");
    let event = server.post(EVENTS, &event).await.json();
    let gone = server.ask("DELETE", "/v1/feeds/outages/rows/line%2042%2Fa").await_reply().await;
    assert_eq!(gone.status, 204, "{}", gone.body);
    let shown = server.get(&format!("{EVENTS}/{}", event["id"].as_str().unwrap())).await.json();
    assert_eq!(shown["source_gone"], json!(true));
    for path in [
        "/v1/feeds/outages/rows/43",
        "/v1/feeds/other/rows/42",
        "/v1/feeds/%20/rows/42",
        "/v1/feeds/outages/rows/%ff",
    ] {
        assert_eq!(
            code(&server.ask("DELETE", path).await_reply().await),
            (404, "row_not_found".to_owned()),
            "{path}"
        );
    }
}
