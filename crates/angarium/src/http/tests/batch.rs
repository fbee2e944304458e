//! Handing many notifications in at once.

use serde_json::json;

use super::ingest::{BATCH, ID, ONE, plain, with};
use super::{Server, soon};

/// C009, IN27: in a batch each item is judged on its own, in order; good ones are stored.
#[tokio::test]
async fn c009_in27_a_batch_with_bad_items() {
    let server = Server::start().await;
    let item = plain().to_string();
    let with_id = with("id", json!(ID)).to_string();
    let reused = json!({"id": ID, "list": "ops", "subject": "else", "body": "b"}).to_string();
    let lone = r#"{"list":"ops","subject":"overflow \ud83d","body":"b"}"#;
    let pair = r#"{"list":"ops","subject":"overflow \ud83d\udea8","body":"b"}"#;
    let twice = r#"{"list":"ops","subject":"a","subject":"b","body":"b"}"#;
    let large = format!(r#"{{"list":"ops","subject":"s","body":"b","data":"{}"}}"#, "x".repeat(1024 * 1024));
    let items = [&item, lone, &with_id, &reused, pair, &with_id, "7", twice, &large, "{}"].join(",");
    let reply =
        server.ask("POST", BATCH).text(&format!("{{\"notifications\":[{items}]}}")).await_reply().await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let results = reply.json()["results"].as_array().unwrap().clone();
    let told: Vec<String> = results
        .iter()
        .map(|result| match result["problem"]["code"].as_str() {
            Some(code) => format!("{} {code}", result["problem"]["status"]),
            None => format!("{} {}", result["status"].as_str().unwrap(), result["duplicate"]),
        })
        .collect();
    let expected = [
        "pending false",
        "400 json_invalid",
        "pending false",
        "409 id_reused",
        "pending false",
        "pending true",
        "422 invalid_request",
        "400 json_duplicate_key",
        "413 body_too_large",
        "422 invalid_request",
    ];
    assert_eq!(told, expected);
    assert_eq!(results[9]["problem"]["errors"].as_array().unwrap().len(), 3);
    let stored = server.get(ONE).await.json()["items"].clone();
    let subjects: Vec<_> =
        stored.as_array().unwrap().iter().map(|item| item["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["overflow 🚨", "Pump 3", "Pump 3"]);
    soon(server.app.wake.wait()).await;
}

/// IN28: a batch is bounded, and never empty.
#[tokio::test]
async fn in28_the_size_of_a_batch() {
    let server = Server::start_with(|app| app.limits.batch_items = 3).await;
    let batch = |count: usize| json!({"notifications": vec![plain(); count]});
    assert_eq!(server.post(BATCH, &batch(3)).await.status, 202);
    for (body, status, code) in [
        (batch(4), 413, "batch_too_large"),
        (batch(0), 422, "invalid_request"),
        (json!({}), 422, "invalid_request"),
        (json!({"notifications": {}}), 422, "invalid_request"),
        (json!({"notifications": [plain()], "partial": true}), 422, "invalid_request"),
        (json!([plain()]), 422, "invalid_request"),
        (json!([[plain()]]), 422, "invalid_request"),
        (json!([[]]), 422, "invalid_request"),
    ] {
        let reply = server.post(BATCH, &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{}", reply.body);
    }
    for (text, code) in [
        (r#"{"notifications":[],"notifications":[]}"#, "json_duplicate_key"),
        (r#"{"notifications":[}"#, "json_invalid"),
        (r#"{"notifications":[]} x"#, "json_invalid"),
    ] {
        let reply = server.ask("POST", BATCH).text(text).await_reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (400, code), "{text}");
    }
    let commas = format!("{{\"notifications\":[1{}]}}", ",1".repeat(200_000));
    assert_eq!(server.ask("POST", BATCH).text(&commas).await_reply().await.code(), "batch_too_large");
    assert_eq!(server.get(ONE).await.json()["items"].as_array().unwrap().len(), 3);
}
