//! What operators do.

use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Scope as Beyond;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::State;
use angarium_store::{ScopeChange, Settlement};
use serde_json::{Value, json};

use super::{Server, add_key, soon};

const ONE: &str = "/v1/notifications";

fn body() -> Value {
    json!({"list": "ops", "subject": "s", "body": "b"})
}

/// OB-16: a parked notification is tried again or given up, and the trail names who did it and why.
#[tokio::test]
async fn retry_and_discard() {
    let server = Server::start().await;
    let night = add_key(&server.app, "night-shift", "operate").await;
    let id = server.accept(&body()).await;
    soon(server.app.wake.wait()).await;
    server.attempt(Some(FailureClass::PermanentMessage)).await;
    let act = |action: &str| server.ask("POST", &format!("{ONE}/{id}/{action}")).key(&night);

    let retried = act("retry").json(&json!({"reason": "the relay is back"})).await_reply().await;
    assert_eq!(
        (retried.status, retried.json()),
        (200, json!({"id": id, "status": "pending", "in_flight": false}))
    );
    soon(server.app.wake.wait()).await;
    let shown = server.get(&format!("{ONE}/{id}")).await.json();
    assert_eq!(
        (&shown["status"], &shown["retry_count"], &shown["completed_at"]),
        (&json!("pending"), &json!(0), &Value::Null)
    );
    let again = act("retry").await_reply().await;
    assert_eq!((again.status, again.code().as_str()), (409, "not_parked"));
    assert!(again.body.contains("the notification is pending"), "{}", again.body);

    server.attempt(Some(FailureClass::PermanentMessage)).await;
    let discarded = act("discard").await_reply().await;
    assert_eq!(discarded.json(), json!({"id": id, "status": "discarded", "in_flight": false}));
    for action in ["discard", "retry"] {
        assert_eq!(act(action).await_reply().await.code(), "not_parked");
    }
    assert_eq!(act("cancel").await_reply().await.code(), "not_cancellable");
    let trail = server.get(&format!("{ONE}/{id}/audit")).await.json();
    let by_hand: Vec<_> = trail["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["actor"] == "key:night-shift")
        .collect();
    assert_eq!(by_hand.len(), 2, "{trail}");
    assert!(by_hand[0]["detail"].to_string().contains("the relay is back"), "{trail}");
    assert_eq!(by_hand[1]["kind"], "terminal");
}

/// A notification that waits, or is being tried, is cancelled; one that has ended is not.
#[tokio::test]
async fn cancel() {
    let server = Server::start().await;
    let id = server.accept(&body()).await;
    let cancel = || server.ask("POST", &format!("{ONE}/{id}/cancel"));
    assert_eq!(server.claim().await.len(), 1);
    let done = cancel().await_reply().await;
    assert_eq!((done.status, done.json()), (200, json!({"id": id, "status": "skipped", "in_flight": true})));
    let shown = server.get(&format!("{ONE}/{id}")).await.json();
    assert_eq!(
        (&shown["status"], &shown["skip_reason"], &shown["next_attempt_at"]),
        (&json!("skipped"), &json!("cancelled"), &Value::Null)
    );
    let again = cancel().await_reply().await;
    assert_eq!((again.status, again.code().as_str()), (409, "not_cancellable"));
}

/// OB-16: what has gone is not found, and a wrong body changes nothing.
#[tokio::test]
async fn nothing_to_act_on() {
    let server = Server::start().await;
    for action in ["retry", "discard", "cancel"] {
        for id in ["01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59", "42"] {
            let reply = server.ask("POST", &format!("{ONE}/{id}/{action}")).await_reply().await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (404, "notification_not_found"),
                "{id}/{action}"
            );
        }
    }
    let id = server.accept(&body()).await;
    let path = format!("{ONE}/{id}/cancel");
    for (given, fields) in [
        (json!({"reason": 7}), vec!["reason"]),
        (json!({"reason": ["why"]}), vec!["reason"]),
        (json!(["why"]), vec![]),
        (json!({"reason": "two\nlines"}), vec!["reason"]),
        (json!({"reason": "x".repeat(1001), "force": true}), vec!["reason", "force"]),
    ] {
        let reply = server.post(&path, &given).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, fields.iter().map(|f| f.to_string()).collect()),
            "{given}"
        );
    }
    let mut untyped = server.ask("POST", &path);
    untyped.body = b"{}".to_vec();
    assert_eq!(untyped.await_reply().await.status, 415);
    assert_eq!(server.get(&format!("{ONE}/{id}")).await.json()["status"], "pending");
    assert_eq!(server.post(&path, &json!({"reason": null})).await.status, 200);
}

/// A suppressed address is listed and lifted, in whichever spelling it is named.
#[tokio::test]
async fn suppressions() {
    let server = Server::start().await;
    let to =
        json!({"to": {"channel": "hooks", "address": "https://example.com/x"}, "subject": "s", "body": "b"});
    server.accept(&to).await;
    let claim = server.claim().await.remove(0);
    let now = server.app.clock.now();
    let error = LastError { class: FailureClass::PermanentRecipient, detail: "410".to_owned() };
    let suppressed = |address: &str| ScopeChange {
        scope: Beyond::SuppressAddress,
        lane: angarium_store::ScopedLane::Key(claim.lane),
        channel: claim.channel.clone(),
        address: Some(Address::parse(ChannelKind::Webhook, address).unwrap().as_str().to_owned()),
        reason: "410 Gone".to_owned(),
    };
    let settlement = Settlement {
        tells: claim.tells,
        at_most_once: claim.at_most_once,
        key: claim.key,
        id: claim.id,
        generation: claim.generation,
        lease_ended_by: None,
        attempt: None,
        state: State::Parked { at: now, error },
        progress: claim.progress,
        provider_message_id: None,
        scopes: vec![suppressed("https://example.com/z"), suppressed("https://example.com/x")],
    };
    server.app.store.settle(vec![settlement]).await.unwrap();
    server.clock.advance(Duration::from_secs(1));
    let path = "/v1/suppressions";
    let listed = server.get(path).await.json();
    let entry =
        |address: &str| json!({"channel": "hooks", "address": address, "reason": "410 Gone", "since": now});
    let (first, last) = (entry("https://example.com/x"), entry("https://example.com/z"));
    assert_eq!(listed, json!({"items": [first, last], "next": null}));
    let page = server.get(&format!("{path}?limit=1")).await.json();
    assert_eq!(page["items"], json!([first]));
    let rest = format!("{path}?limit=1&cursor={}", page["next"].as_str().unwrap());
    assert_eq!(server.get(&rest).await.json(), json!({"items": [last], "next": null}));
    assert_eq!(server.get(&format!("{path}?cursor=x")).await.code(), "cursor_invalid");
    for (query, status) in [
        ("", 422),
        ("?channel=hooks", 422),
        ("?channel=hooks&address=https://example.com/y", 404),
        ("?channel=mail&address=https://example.com/x", 404),
        ("?channel=hooks&address=HTTPS://EXAMPLE.com/x%23top", 204),
        ("?channel=hooks&address=https://example.com/x", 404),
    ] {
        assert_eq!(
            server.ask("DELETE", &format!("{path}{query}")).await_reply().await.status,
            status,
            "{query}"
        );
    }
    assert_eq!(server.get(path).await.json()["items"], json!([last]));
    for query in ["?channel=hooks&address=a%00b", "?channel=hooks&address=", "?channel=hooks"] {
        let reply = server.ask("DELETE", &format!("{path}{query}")).await_reply().await;
        assert_eq!((reply.status, reply.fields()), (422, vec!["address".to_owned()]), "{query}");
    }
}
