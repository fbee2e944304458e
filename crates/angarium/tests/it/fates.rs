//! What becomes of a notification, seen from outside.

use angarium_receivers::http::{Receiver, Reply};
use http::Method;
use serde_json::json;

use crate::support::{Database, ON_LOOPBACK, id_of, to, to_with_id};

/// OB-02, WH-02: a resend of an id is acknowledged as a duplicate and sends nothing.
pub(crate) async fn a_resend_is_acknowledged_and_sends_nothing(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let alarm = to_with_id(&receiver.url("/hook"), "alarm");
    assert_eq!(server.hand_in(&alarm).await["duplicate"], false);
    server.until(&id_of("alarm"), "delivered").await;
    let again = server.hand_in(&alarm).await;
    assert_eq!(
        (&again["duplicate"], &again["status"], &again["id"]),
        (&json!(true), &json!("delivered"), &json!(id_of("alarm")))
    );
    let marker = server.hand_in(&to(&receiver.url("/marker"), "marker")).await;
    server.until(marker["id"].as_str().unwrap(), "delivered").await;
    let requests = receiver.requests();
    assert_eq!(requests.iter().filter(|request| request.path == "/hook").count(), 1);
    let body: serde_json::Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(body["id"], json!(id_of("alarm")));
    assert_eq!(requests[0].header("webhook-id"), Some(id_of("alarm").as_str()));
}

/// OB-02: the same id with other content is refused and changes nothing.
pub(crate) async fn a_reused_id_is_refused(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let mut alarm = to_with_id(&receiver.url("/hook"), "alarm");
    server.hand_in(&alarm).await;
    alarm["body"] = json!("something else");
    let (status, problem) = server.call(Method::POST, "/v1/notifications", Some(alarm)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("id_reused")));
    assert_eq!(server.view(&id_of("alarm")).await["body"], "it happened");
}

/// OB-04: an unknown list is stamped email and parked with "list not found".
pub(crate) async fn an_unknown_list_is_parked(on: Database) {
    let server = on.started(ON_LOOPBACK).await;
    let accepted = server.hand_in(&json!({"list": "nobody", "subject": "s", "body": "b"})).await;
    let row = server.until(accepted["id"].as_str().unwrap(), "parked").await;
    assert_eq!(row["kind"], "email");
    assert!(row["last_error"]["detail"].as_str().unwrap().contains("list not found"), "{row}");
}

/// OB-10: 500 and then 200 is delivered, with one retry.
pub(crate) async fn a_hiccup_is_retried(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500), Reply::status(200)]);
    let server = on.started(ON_LOOPBACK).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    let row = server.until(&id_of("alarm"), "delivered").await;
    assert_eq!(row["retry_count"], 1);
    assert_eq!(row["resolved_targets"][0]["result"], "accepted");
    let attempts = server.get(&format!("/v1/notifications/{}/attempts", id_of("alarm"))).await;
    let results: Vec<_> =
        attempts["items"].as_array().unwrap().iter().map(|one| one["result"].clone()).collect();
    assert_eq!(results, ["failed", "delivered"]);
    assert_eq!(attempts["items"][0]["status_code"], 500);
}

/// OB-10, C129: what will never work is parked at once; only 2xx is success; redirects are not followed.
pub(crate) async fn c129_only_two_hundreds_are_success(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let elsewhere = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    for code in [300, 301, 304, 307, 400, 401, 403, 404, 409, 413, 422] {
        let path = format!("/{code}");
        receiver.script(&path, [Reply::redirect(code, &elsewhere.url("/internal"))]);
        server.hand_in(&to_with_id(&receiver.url(&path), &path)).await;
        let row = server.until(&id_of(&path), "parked").await;
        assert_eq!(row["last_error"]["class"], "permanent_message", "{code}");
    }
    assert_eq!(receiver.requests().len(), 11, "each was tried once");
    assert!(elsewhere.requests().is_empty());
}

/// OB-13: a receiver that is never well is tried once and then as often as the policy says.
pub(crate) async fn retries_come_to_an_end(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(503)]);
    let server = on.started(ON_LOOPBACK).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    let row = server.until(&id_of("alarm"), "parked").await;
    assert_eq!((&row["retry_count"], receiver.requests().len()), (&json!(3), 4), "one try and three retries");
    assert_eq!(row["last_error"]["class"], "transient");
    assert_eq!(row["next_attempt_at"], json!(null));
}

/// OB-07, OB-12: a list of three: one fine, one busy, one that refuses.
pub(crate) async fn a_list_of_three(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/busy", [Reply::status(503), Reply::status(200)]);
    receiver.script("/refuses", [Reply::status(400)]);
    let members: Vec<_> = ["/fine", "/busy", "/refuses"].iter().map(|path| receiver.url(path)).collect();
    let server = on
        .started(&format!("{ON_LOOPBACK}\n[lists.ops]\nchannel = \"hooks\"\nmembers = {members:?}\n"))
        .await;
    let accepted = server.hand_in(&json!({"list": "ops", "subject": "s", "body": "b"})).await;
    let row = server.until(accepted["id"].as_str().unwrap(), "delivered").await;
    let results: Vec<_> =
        row["resolved_targets"].as_array().unwrap().iter().map(|target| target["result"].clone()).collect();
    assert_eq!(results, ["accepted", "accepted", "refused"]);
    let error = row["last_error"]["detail"].as_str().unwrap();
    assert!(error.contains("/refuses") && !error.contains("/busy"), "{error}");
    let sent = |path: &str| receiver.requests().iter().filter(|request| request.path == path).count();
    assert_eq!((sent("/fine"), sent("/busy"), sent("/refuses")), (1, 2, 1));
}

/// C123: an address that may not be reached is parked, whatever it is called, and nothing is dialled.
pub(crate) async fn c123_a_private_address_is_parked(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let port = receiver.addr().port();
    let server = on.started("[channels.hooks]\nkind = \"webhook\"\n").await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0", "[::]"] {
        let url = format!("http://{host}:{port}/");
        server.hand_in(&to_with_id(&url, host)).await;
        let row = server.until(&id_of(host), "parked").await;
        assert_eq!(row["last_error"]["class"], "permanent_message", "{host}");
        assert!(row["last_error"]["detail"].as_str().unwrap().contains("blocked_address"), "{row}");
    }
    assert_eq!(receiver.connections(), 0);
}
