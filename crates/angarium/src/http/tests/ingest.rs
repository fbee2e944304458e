//! Handing notifications in.

use angarium_store::{Changed, Expect, ObjectKind};
use serde_json::{Value, json};

use super::super::dto;
use super::{Server, add_key, soon};

pub(super) const ONE: &str = "/v1/notifications";
pub(super) const BATCH: &str = "/v1/notifications/batch";
pub(super) const ID: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";

pub(super) fn plain() -> Value {
    json!({"list": "ops", "subject": "Pump 3", "body": "Pressure is low"})
}

pub(super) fn with(field: &str, value: Value) -> Value {
    let mut body = plain();
    body[field] = value;
    body
}

/// OB-02: what is acknowledged is stored, and a resend gets the same acknowledgement and no second row.
#[tokio::test]
async fn a_resend_is_stored_once() {
    let server = Server::start().await;
    let body = with("id", json!(ID));
    let first = server.post(ONE, &body).await;
    assert_eq!(
        (first.status, first.json()),
        (202, json!({"id": ID, "status": "pending", "duplicate": false}))
    );
    soon(server.app.wake.wait()).await;
    let again = server.post(ONE, &body).await;
    assert_eq!(
        (again.status, again.json()),
        (202, json!({"id": ID, "status": "pending", "duplicate": true}))
    );
    assert_eq!(again.header("idempotency-replayed"), None);
    assert_eq!(server.get(ONE).await.json()["items"].as_array().unwrap().len(), 1);
}

/// OB-02: where it came from and when is not part of what it is; who is told, and what, is.
#[tokio::test]
async fn an_id_stands_for_one_content() {
    let server = Server::start().await;
    server.accept(&with("id", json!(ID))).await;
    let mut through_another_node = with("id", json!(ID));
    through_another_node["source"] = json!({"node": "b"});
    through_another_node["enqueued_at"] = json!("2026-07-07T01:02:03Z");
    assert_eq!(server.post(ONE, &through_another_node).await.json()["duplicate"], true);
    for (field, value) in [
        ("list", json!("others")),
        ("subject", json!("Pump 4")),
        ("body", json!("")),
        ("data", json!({"a": 1})),
    ] {
        let mut other = with("id", json!(ID));
        other[field] = value;
        let reply = server.post(ONE, &other).await;
        assert_eq!((reply.status, reply.code().as_str()), (409, "id_reused"), "{field}");
    }
    assert_eq!(server.get(&format!("{ONE}/{ID}")).await.json()["subject"], "Pump 3");
}

/// OB-03, OB-04: everything that was handed in is kept as it was handed in, and the kind is stamped.
#[tokio::test]
async fn everything_is_kept_and_stamped() {
    let server = Server::start().await;
    let text = r#"{"list":"ops","subject":"Ü","body":"a\r\nb","data":{ "b": 1.50, "a": [12345678901234567890123] },
        "source":{"site":"plant-7","instance":"line-2","script":"alarm.py","node":null},"enqueued_at":"2026-07-07T03:02:03+02:00","id":null}"#;
    let reply = server.ask("POST", ONE).text(text).await_reply().await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(&id[14..15], "7", "a version 7 UUID");
    let shown = server.get(&format!("{ONE}/{id}")).await;
    assert!(shown.body.contains(r#""data":{ "b": 1.50, "a": [12345678901234567890123] }"#), "{}", shown.body);
    let shown = shown.json();
    assert_eq!(
        (&shown["kind"], &shown["channel"], &shown["list"]),
        (&json!("email"), &json!("mail"), &json!("ops"))
    );
    assert_eq!(
        shown["source"],
        json!({"site": "plant-7", "instance": "line-2", "script": "alarm.py", "node": null})
    );
    assert_eq!(shown["enqueued_at"], "2026-07-07T01:02:03Z");
    assert_eq!((&shown["subject"], &shown["body"]), (&json!("Ü"), &json!("a\r\nb")));

    let unknown = server.accept(&with("list", json!("nobody knows it"))).await;
    let shown = server.get(&format!("{ONE}/{unknown}")).await.json();
    assert_eq!(
        (&shown["kind"], &shown["channel"], &shown["status"]),
        (&json!("email"), &Value::Null, &json!("pending"))
    );

    for channel in ["hooks", "off"] {
        let to = json!({"to": {"channel": channel, "address": "HTTPS://Example.com/x#y"}, "subject": "", "body": "b"});
        let id = server.accept(&to).await;
        let shown = server.get(&format!("{ONE}/{id}")).await.json();
        assert_eq!(shown["to"], json!({"channel": channel, "address": "https://example.com/x"}));
        assert_eq!((&shown["kind"], &shown["list"]), (&json!("webhook"), &Value::Null));
    }
}

/// IN4 to IN9, C007: what two parsers could read differently, or what could exhaust one, is refused.
#[tokio::test]
async fn c007_in4_to_in9_ambiguous_json() {
    let server = Server::start().await;
    let deep = |depth: usize| {
        format!(
            r#"{{"list":"ops","subject":"s","body":"b","data":{}1{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let table: Vec<(String, &str)> = vec![
        ("".into(), "json_invalid"),
        ("{".into(), "json_invalid"),
        ("{} x".into(), "json_invalid"),
        ("\u{FEFF}{}".into(), "json_invalid"),
        ("// c\n{}".into(), "json_invalid"),
        (r#"{"a":NaN}"#.into(), "json_invalid"),
        (r#"{"subject":"\ud83d"}"#.into(), "json_invalid"),
        (r#"{"list":"ops","list":"ops"}"#.into(), "json_duplicate_key"),
        (r#"{"data":{"a":1,"\u0061":2}}"#.into(), "json_duplicate_key"),
        ("[".repeat(100_000), "json_too_deep"),
        (deep(64), "json_too_deep"),
        (r#"{"data":1e999}"#.into(), "number_out_of_range"),
        (r#"{"body":"\u0000"}"#.into(), "control_character"),
    ];
    for (text, code) in table {
        let reply = server.ask("POST", ONE).text(&text).await_reply().await;
        let start: String = text.chars().take(30).collect();
        assert_eq!((reply.status, reply.code().as_str()), (400, code), "{start}");
    }
    let told = server.ask("POST", ONE).text(&deep(64)).await_reply().await.json();
    assert_eq!(told["detail"], "nested more than 64 deep");
    let reply = server.ask("POST", ONE).text(&deep(63)).await_reply().await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let mut not_utf8 = server.ask("POST", ONE).text("{}");
    not_utf8.body = b"{\"subject\":\"\xff\"}".to_vec();
    assert_eq!(not_utf8.await_reply().await.code(), "json_invalid");
    assert_eq!(server.get(ONE).await.json()["items"].as_array().unwrap().len(), 1);
}

/// Every field that is wrong is named at once, and nothing is stored.
#[tokio::test]
async fn every_wrong_field_is_named() {
    let server = Server::start().await;
    let wrong = json!({
        "id": "42", "list": " ops", "to": {"channel": "mail", "address": "a b", "name": "A"}, "subject": "a\nb",
        "body": 7, "source": {"site": "", "city": "X"}, "enqueued_at": "yesterday", "priority": 1,
    });
    let reply = server.post(ONE, &wrong).await;
    assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"), "{}", reply.body);
    let mut fields = reply.fields();
    fields.sort();
    let expected = [
        "body",
        "enqueued_at",
        "id",
        "list",
        "priority",
        "source.city",
        "source.site",
        "subject",
        "to",
        "to.address",
        "to.name",
    ];
    assert_eq!(fields, expected, "{}", reply.body);

    let table = [
        (json!({}), vec!["list", "subject", "body"]),
        (json!({"list": "ops", "subject": "", "body": ""}), vec!["body"]),
        (json!({"to": {}, "subject": "s", "body": "b"}), vec!["to.channel", "to.address"]),
        (json!({"to": {"channel": "fax", "address": "1"}, "subject": "s", "body": "b"}), vec!["to.channel"]),
        (
            json!({"to": {"channel": "hooks", "address": "ftp://x/"}, "subject": "s", "body": "b"}),
            vec!["to.address"],
        ),
        (json!({"to": "mail", "subject": "s", "body": "b"}), vec!["to"]),
        (with("subject", json!("x".repeat(999))), vec!["subject"]),
        (with("body", json!("x".repeat(262_145))), vec!["body"]),
        (with("list", json!("ops\u{202E}")), vec!["list"]),
        (with("source", json!(["plant-7", null, null, null])), vec!["source"]),
        (json!({"to": ["hooks", "https://example.com/"], "subject": "s", "body": "b"}), vec!["to"]),
        (json!([]), vec![]),
        (json!([plain()]), vec![]),
        (json!([null, "ops", null, "s", "b"]), vec![]),
        (json!("text"), vec![]),
    ];
    for (body, fields) in table {
        let reply = server.post(ONE, &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"), "{}", reply.body);
        assert_eq!(reply.fields(), fields, "{}", reply.body);
    }
    assert_eq!(server.get(ONE).await.json()["items"], json!([]));
}

/// C012, C013, IN29: leap seconds keep their place, and what lies outside 1970 to 9999 is refused.
#[tokio::test]
async fn c012_c013_times() {
    let server = Server::start().await;
    let table = [
        ("2016-12-31T23:59:60Z", Some("2016-12-31T23:59:59.999999Z")),
        ("2016-12-31T23:59:60.5Z", Some("2016-12-31T23:59:59.999999Z")),
        ("9999-12-31T23:59:59.999999999Z", Some("9999-12-31T23:59:59.999999Z")),
        ("2031-05-05T12:30:60Z", None),
        ("10000-01-01T00:00:00Z", None),
        ("+262142-12-31T23:59:60Z", None),
        ("-0001-01-01T00:00:00Z", None),
        ("1969-12-31T23:59:59Z", None),
        ("2026-07-07T01:02:03", None),
    ];
    for (given, kept) in table {
        let reply = server.post(ONE, &with("enqueued_at", json!(given))).await;
        match kept {
            Some(kept) => {
                let id = reply.json()["id"].as_str().unwrap().to_owned();
                assert_eq!(server.get(&format!("{ONE}/{id}")).await.json()["enqueued_at"], kept, "{given}");
            }
            None => {
                assert_eq!((reply.status, reply.fields()), (422, vec!["enqueued_at".to_owned()]), "{given}")
            }
        }
    }
}

/// IN10, IN13: JSON in UTF-8, as it is, or nothing.
#[tokio::test]
async fn in10_in13_content_types() {
    let server = Server::start().await;
    let text = plain().to_string();
    let table = [
        (Some("application/json"), None, 202),
        (Some("Application/JSON; charset=UTF-8"), None, 202),
        (Some("application/json;charset=\"utf-8\""), Some("identity"), 202),
        (Some("application/json; charset=utf-16"), None, 415),
        (Some("application/json"), Some("gzip"), 415),
        (Some("text/plain"), None, 415),
        (Some("application/jsonx"), None, 415),
        (Some("application/x-www-form-urlencoded"), None, 415),
        (None, None, 415),
    ];
    for (media, encoding, status) in table {
        for path in [ONE, BATCH] {
            let mut ask = server.ask("POST", path);
            ask.body = if path == ONE { text.clone() } else { format!("{{\"notifications\":[{text}]}}") }
                .into_bytes();
            ask = media.into_iter().fold(ask, |ask, media| ask.header("content-type", media));
            ask = encoding.into_iter().fold(ask, |ask, encoding| ask.header("content-encoding", encoding));
            let reply = ask.await_reply().await;
            assert_eq!(reply.status, status, "{media:?} {encoding:?} {}", reply.body);
        }
    }
}

/// IN10: one content type and no coding, however many header lines there are.
#[tokio::test]
async fn in10_content_types_that_contradict_each_other() {
    let server = Server::start().await;
    for second in
        [("content-type", "application/json"), ("content-type", "text/plain"), ("content-encoding", "gzip")]
    {
        let ask = server.ask("POST", ONE).json(&plain()).header("content-encoding", "identity");
        let reply = ask.header(second.0, second.1).await_reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (415, "content_type_unsupported"), "{second:?}");
    }
}

/// IN20, IN21, IN24, C002: an idempotency key stands for one notification of one API key at one endpoint.
#[tokio::test]
async fn c002_in20_in21_in24_idempotency_keys() {
    let server = Server::start().await;
    let other = add_key(&server.app, "other", "publish").await;
    let ask = || server.ask("POST", ONE).json(&plain()).header("idempotency-key", "42");
    let first = ask().await_reply().await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (202, None));
    let again = ask().await_reply().await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (202, Some("true")));
    assert_eq!(again.json()["id"], first.json()["id"]);
    let changed = with("body", json!("something else"));
    let reused = server.ask("POST", ONE).json(&changed).header("idempotency-key", "42").await_reply().await;
    assert_eq!((reused.status, reused.code().as_str()), (409, "id_reused"));
    let elsewhere = ask().key(&other).await_reply().await;
    assert_eq!(elsewhere.json()["duplicate"], false);
    let batch = json!({"notifications": [plain(), plain()]});
    let batch = || server.ask("POST", BATCH).json(&batch).header("idempotency-key", "42");
    let results = batch().await_reply().await.json()["results"].clone();
    assert_eq!((&results[0]["duplicate"], &results[1]["duplicate"]), (&json!(false), &json!(false)));
    let replay = batch().await_reply().await;
    assert_eq!(replay.header("idempotency-replayed"), Some("true"));
    assert_eq!(replay.json()["results"][1]["id"], results[1]["id"]);
    // The id in the body decides where there is one.
    let own = server
        .ask("POST", ONE)
        .json(&with("id", json!(ID)))
        .header("idempotency-key", "42")
        .await_reply()
        .await;
    assert_eq!((&own.json()["id"], own.header("idempotency-replayed")), (&json!(ID), None));

    for bad in ["", &"k".repeat(256), "a b", "ключ", "a\tb"] {
        let reply = server.ask("POST", ONE).json(&plain()).header("idempotency-key", bad).await_reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "idempotency_key_invalid"), "{bad:?}");
    }
    let twice = ask().header("idempotency-key", "43").await_reply().await;
    assert_eq!(twice.code(), "idempotency_key_invalid");
}

/// IN23: the same key a hundred times at once is one notification.
#[tokio::test]
async fn in23_the_same_key_at_once() {
    let server = Server::start().await;
    let mut asks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        asks.spawn(server.ask("POST", ONE).json(&plain()).header("idempotency-key", "once").await_reply());
    }
    let replies = asks.join_all().await;
    let new = replies.iter().filter(|reply| reply.json()["duplicate"] == false).count();
    assert_eq!((replies.iter().all(|reply| reply.status == 202), new), (true, 1));
    assert_eq!(server.get(ONE).await.json()["items"].as_array().unwrap().len(), 1);
}

/// A request in the documented shapes is taken: what they name is what is read.
#[tokio::test]
async fn the_documented_shapes_are_read() {
    let server = Server::start().await;
    let source = || dto::Source {
        site: Some("s".into()),
        instance: Some("i".into()),
        script: Some("c".into()),
        node: Some("n".into()),
    };
    let to_list = dto::NewNotification {
        id: Some(ID.into()),
        list: Some("ops".into()),
        to: None,
        subject: "s".into(),
        body: "b".into(),
        data: Some(serde_json::value::RawValue::from_string("[1]".into()).unwrap()),
        source: Some(source()),
        enqueued_at: Some("2026-07-07T01:02:03Z".into()),
    };
    let to = dto::To { channel: "mail".into(), address: "a@example.com".into() };
    let to_address = dto::NewNotification { id: None, list: None, to: Some(to), ..to_list.clone() };
    let batch = dto::NewBatch { notifications: vec![to_list, to_address] };
    let reply = server.post(BATCH, &serde_json::to_value(&batch).unwrap()).await;
    let results = reply.json()["results"].clone();
    assert_eq!((&results[0]["id"], &results[1]["status"]), (&json!(ID), &json!("pending")), "{}", reply.body);
}

/// What is repeated in an answer is cut: a refusal costs no more than what was sent.
#[tokio::test]
async fn a_refusal_repeats_little() {
    let server = Server::start().await;
    let name = "n".repeat(100_000);
    for text in [
        format!(r#"{{"{name}":1,"{name}":2}}"#),
        format!(r#"{{"{name}":1}}"#),
        format!("{{{}}}", (0..50_000).map(|i| format!("\"{i}\":1")).collect::<Vec<_>>().join(",")),
    ] {
        for path in [ONE, BATCH] {
            let reply = server.ask("POST", path).text(&text).await_reply().await;
            assert!(
                matches!(reply.status, 400 | 422) && reply.body.len() < 20_000,
                "{} bytes",
                reply.body.len()
            );
        }
    }
}

/// What a producer asks of its mails is judged while it listens, wherever the kind that is stamped is e-mail: to an
/// address, to a list, and to a list that is not known yet.
#[tokio::test]
async fn options_of_a_mail_are_judged_when_it_is_accepted() {
    let server = Server::start().await;
    let good = json!({"email": {"html": "<p>low</p>", "reply_to": "ops@example.com"}, "n": 1});
    let wrong = [
        (json!({"email": {"htm": "x"}}), "data.email.htm"),
        (json!({"email": {"html": 7}}), "data.email.html"),
        (json!({"email": {"reply_to": "nobody"}}), "data.email.reply_to"),
        (json!({"email": null}), "data.email"),
    ];
    let mail = json!({"to": {"channel": "mail", "address": "a@example.com"}, "subject": "s", "body": "b"});
    let unknown = with("list", json!("nobody-knows"));
    for message in [plain(), mail, unknown] {
        let with_data = |data: &Value| {
            let mut message = message.clone();
            message["data"] = data.clone();
            message
        };
        server.accept(&with_data(&good)).await;
        for (data, field) in &wrong {
            let reply = server.post(ONE, &with_data(data)).await;
            assert_eq!((reply.status, reply.fields()), (422, vec![(*field).to_owned()]), "{data}");
        }
        let mut batch: Vec<Value> = wrong.iter().map(|(data, _)| with_data(data)).collect();
        batch.push(with_data(&good));
        let results = server.post(BATCH, &json!({"notifications": batch})).await.json()["results"].clone();
        for (place, (_, field)) in wrong.iter().enumerate() {
            assert_eq!(results[place]["problem"]["errors"][0]["field"], *field, "{results}");
        }
        assert_eq!(results[wrong.len()]["status"], "pending", "{results}");
    }
    let hook = json!({"to": {"channel": "hooks", "address": "https://example.com/"}, "subject": "s", "body": "b",
        "data": wrong[0].0});
    server.accept(&hook).await;
}

/// OB-04: a list that was made while the server runs is stamped as it is stored, over one of the same name that is
/// configured; a wish about mail means nothing on another channel.
#[tokio::test]
async fn a_stored_list_is_stamped() {
    let server = Server::start().await;
    let hooks = r#"{"channel":"hooks","members":["https://example.com/"]}"#;
    for list in ["pagers", "ops"] {
        let made = server.app.store.put_object(
            ObjectKind::List,
            list,
            hooks.to_owned(),
            Expect::Absent,
            server.app.clock.now(),
        );
        assert!(matches!(made.await.unwrap(), Changed::Done { created: true, .. }), "{list}");
        let mut wish = with("list", json!(list));
        wish["data"] = json!({"email": "none"});
        for body in [wish, with("list", json!(list))] {
            let id = server.accept(&body).await;
            let shown = server.get(&format!("{ONE}/{id}")).await.json();
            assert_eq!((&shown["kind"], &shown["channel"]), (&json!("webhook"), &json!("hooks")), "{list}");
        }
    }
    let unknown = server.accept(&with("list", json!("nobody"))).await;
    let shown = server.get(&format!("{ONE}/{unknown}")).await.json();
    assert_eq!((&shown["kind"], &shown["channel"]), (&json!("email"), &Value::Null));
}
