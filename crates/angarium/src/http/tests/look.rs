//! Looking at notifications, attempts, trails and figures.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use angarium_domain::outcome::FailureClass;
use angarium_domain::time::{Clock, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{NOW, Server};

const ONE: &str = "/v1/notifications";

fn body(subject: &str) -> Value {
    json!({"list": "ops", "subject": subject, "body": "b"})
}

fn subjects(page: &Value) -> Vec<String> {
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["subject"].as_str().unwrap().to_owned())
        .collect()
}

/// OB-03: the shape of a notification is pinned, with every member present, nulls included.
#[tokio::test]
async fn the_shape_of_a_notification() {
    let server = Server::start().await;
    let id = server.accept(&body("s")).await;
    let expected = json!({
        "id": id, "status": "pending", "kind": "email", "channel": "mail", "list": "ops", "to": null,
        "route": "direct", "subject": "s", "body": "b", "retry_count": 0, "data": null, "last_error": null,
        "resolved_targets": [], "provider_message_id": null, "provider_response": null,
        "source": {"site": null, "instance": null, "script": null, "node": null},
        "enqueued_at": null, "created_at": NOW, "last_attempt_at": null, "next_attempt_at": NOW,
        "delivered_at": null, "completed_at": null, "event_id": null, "event_type": null, "entity": null,
        "ref": null, "skip_reason": null, "in_flight": false, "stuck": false,
    });
    assert_eq!(server.get(&format!("{ONE}/{id}")).await.json(), expected);
    let page = server.get(ONE).await.json();
    assert_eq!(page, json!({"items": [expected], "next": null}));
}

/// OB-05: what is shown follows the notification through its life.
#[tokio::test]
async fn the_life_of_a_notification() {
    let server = Server::start().await;
    let to = json!({"to": {"channel": "mail", "address": "a@example.com"}, "subject": "s", "body": "b"});
    let id = server.accept(&to).await;
    let path = format!("{ONE}/{id}");
    let of = |shown: &Value| {
        let member = |name: &str| shown[name].to_string().trim_matches('"').to_owned();
        ["status", "retry_count", "next_attempt_at", "in_flight", "completed_at"].map(member).join(" ")
    };
    server.attempt(Some(FailureClass::Transient)).await;
    let shown = server.get(&path).await.json();
    assert_eq!(of(&shown), "retrying 1 2026-07-07T12:01:00Z false null");
    assert_eq!(shown["last_error"], json!({"class": "transient", "detail": "550 no such user"}));
    assert_eq!((&shown["resolved_targets"], &shown["last_attempt_at"]), (&json!([]), &json!(NOW)));
    server.clock.advance(Duration::from_secs(60));
    let claims = server.claim().await;
    assert_eq!(of(&server.get(&path).await.json()), "retrying 1 null true null");
    for claim in &claims {
        server.app.store.release(claim, server.app.clock.now()).await.unwrap();
    }
    server.attempt(None).await;
    let shown = server.get(&path).await.json();
    assert_eq!(of(&shown), "delivered 1 null false 2026-07-07T12:01:00Z");
    assert_eq!(
        shown["resolved_targets"],
        json!([{"address": "a@example.com", "result": "accepted", "detail": null}])
    );
    assert_eq!(
        (&shown["delivered_at"], &shown["provider_response"]),
        (&json!("2026-07-07T12:01:00Z"), &json!("a reply"))
    );

    let attempts = server.get(&format!("{path}/attempts")).await.json();
    let first = json!({
        "number": 1, "started_at": NOW, "duration_ms": 12, "node": "test-node", "result": "failed",
        "class": "transient", "detail": "550 no such user", "status_code": 550, "duplicate_risk": false,
        "retry_after_s": null, "response_excerpt": "a reply", "targets": [], "led_to": "retrying", "late": false, "template": null,
    });
    assert_eq!((&attempts["items"][0], &attempts["items"][1]["result"]), (&first, &json!("delivered")));
    assert_eq!(attempts["items"].as_array().unwrap().len(), 2);
    let audit = server.get(&format!("{path}/audit")).await.json();
    let kinds: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["accepted", "attempt", "attempt", "terminal"]);
    let members: Vec<_> = audit["items"][0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["actor", "at", "detail", "event_id", "kind"]);
    assert_eq!((&audit["items"][0]["actor"], &audit["items"][0]["detail"]), (&json!("key:root"), &json!({})));
}

/// What is not there is not found, whatever its id looks like.
#[tokio::test]
async fn nothing_there() {
    let server = Server::start().await;
    for id in ["01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59", "42", "%ff", "a%2fb"] {
        for rest in ["", "/attempts", "/audit"] {
            let reply = server.get(&format!("{ONE}/{id}{rest}")).await;
            assert_eq!((reply.status, reply.code().as_str()), (404, "notification_not_found"), "{id}{rest}");
        }
    }
}

/// Each filter leaves what it says, and a wrong one is named and not ignored.
#[tokio::test]
async fn filters() {
    let server = Server::start().await;
    server.accept(&json!({"list": "ops", "subject": "Old 100%", "body": "b", "source": {"site": "plant-7", "node": "a"}})).await;
    server.clock.advance(Duration::from_secs(300));
    server
        .accept(&json!({"list": "others", "subject": "Lost", "body": "b", "source": {"site": "plant-8"}}))
        .await;
    server.clock.advance(Duration::from_secs(301));
    server.accept(&json!({"to": {"channel": "hooks", "address": "https://example.com"}, "subject": "New", "body": "b"})).await;
    let table: [(&str, &[&str]); 16] = [
        ("", &["New", "Lost", "Old 100%"]),
        ("status=pending", &["New", "Lost", "Old 100%"]),
        ("status=parked", &[]),
        ("kind=email", &["Lost", "Old 100%"]),
        ("channel=mail", &["Old 100%"]),
        ("list=others", &["Lost"]),
        ("site=plant-7", &["Old 100%"]),
        ("node=a&site=plant-7", &["Old 100%"]),
        ("node=a&site=plant-8", &[]),
        ("q=OLD", &["Old 100%"]),
        ("q=0%25", &["Old 100%"]),
        ("q=_", &[]),
        ("since=2026-07-07T12:05:00Z", &["New", "Lost"]),
        ("until=2026-07-07T14:05:00%2B02:00", &["Old 100%"]),
        ("stuck=true", &["Old 100%"]),
        ("stuck=false&limit=1", &["New"]),
    ];
    for (query, expected) in table {
        let page = server.get(&format!("{ONE}?{query}")).await;
        assert_eq!(subjects(&page.json()), expected, "{query}");
    }
    for (query, field) in [
        ("status=lost", "status"),
        ("status=", "status"),
        ("status=parked&status=pending", "status"),
        ("kind=fax", "kind"),
        ("since=yesterday", "since"),
        ("stuck=1", "stuck"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=1e9", "limit"),
        ("limit=-1", "limit"),
        ("order=id;drop", "order"),
        ("q=a%00b", "q"),
        ("q=%0A", "q"),
        ("q=%C2%9B", "q"),
        ("channel=%00", "channel"),
        ("list=%7F", "list"),
        ("site=a%1B", "site"),
        ("node=%00", "node"),
    ] {
        let reply = server.get(&format!("{ONE}?{query}")).await;
        assert_eq!((reply.status, reply.fields()), (422, vec![field.to_owned()]), "{query} {}", reply.body);
    }
    let long = server.get(&format!("{ONE}?q={}", "x".repeat(201))).await;
    assert_eq!(long.fields(), ["q"]);
    let kpis = server.get("/v1/kpis?site=x").await;
    assert_eq!((kpis.status, kpis.fields()), (422, vec!["site".to_owned()]));
}

/// Pages follow one another without a gap or a repeat, while new rows come in; a made-up cursor is refused.
#[tokio::test]
async fn paging() {
    let server = Server::start().await;
    for number in 0..7 {
        server.accept(&body(&number.to_string())).await;
    }
    let mut seen = Vec::new();
    let mut path = format!("{ONE}?limit=3");
    let mut pages = 0;
    let last_cursor = loop {
        let page = server.get(&path).await.json();
        seen.extend(subjects(&page));
        pages += 1;
        server.accept(&body("newer")).await;
        match page["next"].as_str() {
            Some(next) => path = format!("{ONE}?limit=3&cursor={next}"),
            None => break path,
        }
    };
    assert_eq!((seen.join(""), pages), ("6543210".to_owned(), 3));
    let cursor = last_cursor.split("cursor=").nth(1).unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(cursor).unwrap();
    let mut forged =
        vec!["x".to_owned(), cursor[1..].to_owned(), format!("{cursor}A"), "AQAAAAAAAAAAAAAAAA".to_owned()];
    for i in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[i] ^= 1;
        forged.push(URL_SAFE_NO_PAD.encode(changed));
    }
    for cursor in forged {
        let reply = server.get(&format!("{ONE}?cursor={cursor}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "cursor_invalid"), "{cursor}");
    }
}

/// Attempts are paged in order; the cursor of another listing is refused.
#[tokio::test]
async fn pages_of_attempts() {
    let server = Server::start().await;
    let id = server.accept(&body("s")).await;
    server.accept(&body("other")).await;
    for _ in 0..5 {
        server.attempt(Some(FailureClass::Transient)).await;
        server.clock.advance(Duration::from_secs(60));
    }
    let path = format!("{ONE}/{id}/attempts");
    let (mut numbers, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = server.get(&format!("{path}?limit=2{cursor}")).await.json();
        let items = page["items"].as_array().unwrap();
        numbers.extend(items.iter().map(|item| item["number"].as_i64().unwrap()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((numbers, pages), (vec![1, 2, 3, 4, 5], 3));
    assert_eq!(server.get(&format!("{path}?limit=5")).await.json()["next"], Value::Null);
    let foreign = server.get(&format!("{ONE}?limit=1")).await.json()["next"].as_str().unwrap().to_owned();
    for cursor in [foreign.as_str(), "x"] {
        let reply = server.get(&format!("{path}?cursor={cursor}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "cursor_invalid"), "{cursor}");
    }
    assert_eq!(server.get(&format!("{path}?limit=501")).await.fields(), ["limit"]);
}

/// OB-18, OB-19: the figures, of everything, of each site and of each node.
#[tokio::test]
async fn figures() {
    let server = Server::start().await;
    let from = |site: &str, node: Option<&str>| json!({"list": "ops", "subject": "s", "body": "b", "source": {"site": site, "node": node}});
    server.accept(&from("plant-7", Some("node-a"))).await;
    server.attempt(None).await;
    server.accept(&from("plant-7", Some("node-a"))).await;
    server.attempt(Some(FailureClass::PermanentMessage)).await;
    server.accept(&from("plant-7", None)).await;
    server.clock.advance(Duration::from_secs(30));
    let kpis = server.get("/v1/kpis").await.json();
    let node = json!({"queue_depth": 0, "stuck_count": 0, "parked_count": 1, "delivered_last_interval": 1,
        "oldest_pending_age_seconds": null, "in_flight": 0});
    let all = json!({"queue_depth": 1, "stuck_count": 0, "parked_count": 1, "delivered_last_interval": 1,
        "oldest_pending_age_seconds": 30, "in_flight": 0});
    assert_eq!(kpis, json!({"global": all, "sites": {"plant-7": all}, "nodes": {"plant-7/node-a": node}}));
    server.accept(&from("a/b%", Some("c"))).await;
    server.clock.advance(Duration::from_secs(600));
    let kpis = server.get("/v1/kpis").await.json();
    assert_eq!(
        (&kpis["global"]["stuck_count"], &kpis["global"]["delivered_last_interval"]),
        (&json!(1), &json!(0))
    );
    assert!(kpis["nodes"].get("a%2Fb%25/c").is_some() && kpis["sites"].get("a/b%").is_some(), "{kpis}");
    let newest = server.get(ONE).await.json()["items"].clone();
    assert_eq!((&newest[0]["stuck"], &newest[1]["stuck"]), (&json!(false), &json!(true)));
}

/// A clock on which midnight passes right after it was looked at.
struct Midnight(Mutex<u32>);

impl Clock for Midnight {
    fn now(&self) -> Timestamp {
        let mut looked = self.0.lock().unwrap();
        *looked += 1;
        let text = if *looked == 1 { "2026-07-07T23:59:59.9Z" } else { "2026-07-08T00:00:00.1Z" };
        text.parse().unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// C206: however much a request does, it looks at the clock once.
#[tokio::test]
async fn c206_midnight_passes_during_one_request() {
    let midnight = Arc::new(Midnight(Mutex::new(0)));
    let clock = Arc::clone(&midnight);
    let server = Server::start_with(|app| app.clock = clock).await;
    let asks = [
        server.ask("GET", "/v1/kpis"),
        server.ask("GET", ONE),
        server.ask("GET", "/metrics"),
        server.ask("POST", ONE).json(&body("s")),
        server.ask("POST", "/v1/notifications/batch").json(&json!({"notifications": [body("a"), body("b")]})),
        server.ask("POST", "/v1/keys").json(&json!({"name": "k", "scopes": ["read"]})),
        server.ask("DELETE", "/v1/keys/nobody"),
    ];
    for ask in asks {
        *midnight.0.lock().unwrap() = 0;
        let path = ask.path.clone();
        ask.await_reply().await;
        assert_eq!(*midnight.0.lock().unwrap(), 1, "{path}");
    }
    for item in server.get(ONE).await.json()["items"].as_array().unwrap() {
        assert_eq!(item["created_at"], "2026-07-07T23:59:59.9Z");
    }
}
