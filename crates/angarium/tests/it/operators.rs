//! What an operator does, seen from outside (OB-16).

use angarium_receivers::http::{Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use crate::support::{Database, Installation, ON_LOOPBACK, id_of, to_with_id};

async fn parked(server: &Installation, receiver: &Receiver, name: &str) -> String {
    let path = format!("/{name}");
    receiver.script(&path, [Reply::status(400), Reply::status(503), Reply::status(200)]);
    server.hand_in(&to_with_id(&receiver.url(&path), name)).await;
    server.until(&id_of(name), "parked").await;
    id_of(name)
}

/// OB-16: Retry starts a fresh budget; the trail names the operator.
pub(crate) async fn retry_starts_a_fresh_budget(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let id = parked(&server, &receiver, "alarm").await;
    let (status, answer) = server.act("retry", &id).await;
    assert_eq!((status, &answer["status"], &answer["in_flight"]), (200, &json!("pending"), &json!(false)));
    let row = server.until(&id, "delivered").await;
    assert_eq!(row["retry_count"], 1, "counted from the operator's retry");
    let trail = server.get(&format!("/v1/notifications/{id}/audit")).await;
    let told: Vec<(&str, &str)> = trail["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["kind"].as_str().unwrap(), entry["actor"].as_str().unwrap()))
        .collect();
    let expected = [
        ("accepted", "key:admin"),
        ("attempt", "system"),
        ("terminal", "system"),
        ("submitted", "key:admin"),
        ("attempt", "system"),
        ("attempt", "system"),
        ("terminal", "system"),
    ];
    assert_eq!(told, expected);
}

/// OB-05, OB-16: Discard keeps the row.
pub(crate) async fn discard_keeps_the_row(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let id = parked(&server, &receiver, "alarm").await;
    let reason = Some(json!({"reason": "fixed by hand"}));
    let (status, _) = server.call(Method::POST, &format!("/v1/notifications/{id}/discard"), reason).await;
    assert_eq!(status, 200);
    let row = server.view(&id).await;
    assert_eq!((&row["status"], &row["subject"]), (&json!("discarded"), &json!("alarm")));
    let trail = server.get(&format!("/v1/notifications/{id}/audit")).await;
    let last = trail["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["kind"], &last["actor"]), (&json!("terminal"), &json!("key:admin")));
    assert_eq!(last["detail"]["reason"], "fixed by hand");
}

/// Cancel stops what has not been sent.
pub(crate) async fn cancel_stops_what_has_not_been_sent(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(503)]);
    let slow = ON_LOOPBACK.replace("50ms", "1h");
    let server = on.started(&slow).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    server.until(&id_of("alarm"), "retrying").await;
    let (status, answer) = server.act("cancel", &id_of("alarm")).await;
    assert_eq!((status, &answer["status"]), (200, &json!("skipped")));
    let row = server.view(&id_of("alarm")).await;
    assert_eq!((&row["status"], &row["skip_reason"]), (&json!("skipped"), &json!("cancelled")));
    assert_eq!(receiver.requests().len(), 1);
}

/// OB-16: on the wrong state 409, on a missing row 404, and never a success.
pub(crate) async fn wrong_states_and_missing_rows(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    server.hand_in(&to_with_id(&receiver.url("/fine"), "delivered")).await;
    server.until(&id_of("delivered"), "delivered").await;
    let discarded = parked(&server, &receiver, "discarded").await;
    server.act("discard", &discarded).await;
    let answered =
        |(status, problem): (u16, Value)| (status, problem["code"].as_str().unwrap_or("").to_owned());
    for id in [id_of("delivered"), discarded] {
        for (action, code) in
            [("retry", "not_parked"), ("discard", "not_parked"), ("cancel", "not_cancellable")]
        {
            assert_eq!(answered(server.act(action, &id).await), (409, code.to_owned()), "{action} {id}");
        }
    }
    let waiting = parked(&server, &receiver, "waiting").await;
    assert_eq!(answered(server.act("cancel", &waiting).await), (409, "not_cancellable".to_owned()));
    for action in ["retry", "discard", "cancel"] {
        let missing = answered(server.act(action, &id_of("nobody")).await);
        assert_eq!(missing, (404, "notification_not_found".to_owned()));
    }
}
