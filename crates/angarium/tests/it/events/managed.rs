//! Feeds, templates, lists and subscriptions, managed while the server runs (FP-01, FP-03).

use angarium_receivers::http::{Gate, Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, only, sent, skipped, subscription, texts, word};
use crate::support::{Database, Installation, ON_LOOPBACK, text};

/// One request with these headers: status, entity tag, and body.
async fn tagged(
    server: &Installation,
    (method, path): (Method, &str),
    headers: &[(&'static str, &str)],
    body: &Value,
) -> (u16, String, Value) {
    let json = [("content-type", "application/json")];
    let all: Vec<_> = json.iter().chain(headers).copied().collect();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.send(method, path, &all, body).await;
    let tag = answer.headers.get("etag").map(|tag| tag.to_str().unwrap().to_owned()).unwrap_or_default();
    (answer.status, tag, serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// FP-03: a subscription is made, changed, replaced and deleted, and whoever has not seen the last change overwrites nothing.
pub(crate) async fn a_subscription_is_managed(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&format!("{ON_LOOPBACK}{FEED}")).await;
    let home = subscription("Home", &receiver.url("/home"));
    let (status, first, made) = tagged(&server, (Method::POST, "/v1/subscriptions"), &[], &home).await;
    assert_eq!((status, &made["managed_by"], &made["active"]), (201, &json!("api"), &json!(true)));
    assert_eq!(made["warnings"].as_array().unwrap().len(), 1, "it has no conditions: {made}");
    assert!(word(&made["id"]).starts_with("ns_"), "{made}");
    let path = format!("/v1/subscriptions/{}", word(&made["id"]));

    let narrow = json!({"filter": {"keywords": {"area": ["Bakakeng"]}}, "cooldown": "30m"});
    let (status, second, now) =
        tagged(&server, (Method::PATCH, &path), &[("if-match", &first)], &narrow).await;
    assert_eq!((status, &now["cooldown"], &now["name"]), (200, &json!("30m"), &json!("Home")));
    assert_ne!(first, second);
    let rename = json!({"name": "Elsewhere"});
    let (status, _, problem) =
        tagged(&server, (Method::PATCH, &path), &[("if-match", &first)], &rename).await;
    assert_eq!((status, &problem["code"]), (412, &json!("precondition_failed")));
    assert!(word(&problem["detail"]).contains(&second), "{problem}");
    let (status, tag, _) =
        tagged(&server, (Method::GET, &path), &[("if-none-match", &second)], &Value::Null).await;
    assert_eq!((status, &tag), (304, &second));

    let (status, third, now) = tagged(&server, (Method::PUT, &path), &[("if-match", &second)], &home).await;
    assert_eq!((status, &now["cooldown"], &now["filter"]), (200, &Value::Null, &Value::Null));
    let told = server.publish(&event("o-1", "NewOutage", "42", "Irisan")).await;
    server.until(&only(&told), "delivered").await;
    assert!(server.get(&path).await["last_sent_at"].is_string());
    let (status, _, problem) =
        tagged(&server, (Method::DELETE, &path), &[("if-match", &second)], &Value::Null).await;
    assert_eq!((status, &problem["code"]), (412, &json!("precondition_failed")));
    let (status, _, _) =
        tagged(&server, (Method::DELETE, &path), &[("if-match", &third)], &Value::Null).await;
    assert_eq!(status, 204);
    for method in [Method::GET, Method::DELETE] {
        let (status, _, problem) = tagged(&server, (method, &path), &[], &Value::Null).await;
        assert_eq!((status, &problem["code"]), (404, &json!("subscription_not_found")));
    }
    let after = server.publish(&event("o-2", "NewOutage", "43", "Irisan")).await;
    assert_eq!(after["notifications"], json!([]));
}

/// FP-03, FP-04: everything that is wrong with a subscription is told at once, by member, and nothing is stored.
pub(crate) async fn a_wrong_subscription_is_refused(on: Database) {
    let server = on.started(&format!("{ON_LOOPBACK}{FEED}")).await;
    let refused = |subscription: Value| {
        let server = &server;
        async move {
            let (status, problem) = server.call(Method::POST, "/v1/subscriptions", Some(subscription)).await;
            assert_eq!((status, &problem["code"]), (422, &json!("invalid_request")), "{problem}");
            let errors = problem["errors"].as_array().unwrap();
            errors.iter().map(|error| word(&error["field"])).collect::<Vec<_>>()
        }
    };
    let mut wrong = subscription("", "http://127.0.0.1:1/");
    wrong["cooldown"] = json!("soon");
    wrong["target"]["channel"] = json!("pigeons");
    wrong["filter"] = json!({"keywords": {"area": []}});
    let fields = refused(wrong).await;
    for field in ["name", "cooldown", "target.channel", "filter.keywords.area"] {
        assert!(fields.iter().any(|told| told == field), "{field} is missing among {fields:?}");
    }
    let mut unknown = subscription("Home", "http://127.0.0.1:1/");
    unknown["filter"] = json!({"event_types": ["Flood"], "fields": {"depth": ["2 m"]}});
    let fields = refused(unknown).await;
    assert!(fields.iter().all(|field| field.starts_with("filter.")) && fields.len() >= 2, "{fields:?}");
    let mut elsewhere = subscription("Home", "http://127.0.0.1:1/");
    elsewhere["feed"] = json!("water");
    assert_eq!(refused(elsewhere).await, ["feed"]);
    assert_eq!(server.get("/v1/subscriptions").await["items"], json!([]));
}

/// FP-12: a template that is wrong is refused with the place; the old one stays, and what waits is told in its words. A better
/// one counts from the next attempt on.
pub(crate) async fn a_wrong_template_is_refused_and_the_old_one_stays(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&format!("{ON_LOOPBACK}{}", FEED.split("[[templates]]").next().unwrap())).await;
    server.subscribe(subscription("Home", &receiver.url("/home"))).await;
    let template =
        |body: &str| json!({"event_type": "NewOutage", "channel": "hooks", "locale": "en-US", "body": body});
    let made = server.make("templates", template("Dark: {{ fields.area }}")).await;
    let path = format!("/v1/templates/{}", word(&made["id"]));
    let (status, problem) = server.call(Method::POST, "/v1/templates", Some(template("x"))).await;
    assert_eq!((status, &problem["code"]), (409, &json!("already_exists")));
    for (body, place) in
        [("one\ntwo {{ fields.area", "line 2"), ("one\n{{ fields.area | frobnicate }}", "line 2")]
    {
        let (status, problem) = server.call(Method::PUT, &path, Some(template(body))).await;
        assert_eq!((status, &problem["code"]), (422, &json!("template_invalid")), "{problem}");
        let error = &problem["errors"][0];
        assert_eq!(error["field"], "body");
        assert!(word(&error["message"]).contains(place), "{problem}");
    }
    let stands = server.get(&path).await;
    assert_eq!((&stands["body"], &stands["version"]), (&made["body"], &made["version"]));
    let gate = Gate::closed();
    receiver.script("/home", [Reply::status(503).gate(&gate), Reply::ok()]);
    let told = server.publish(&event("o-1", "NewOutage", "42", "Irisan")).await;
    receiver.wait_for("/home", 1).await;
    server.change(&path, json!({"body": "No power: {{ fields.area }}"})).await;
    gate.open();
    server.until(&only(&told), "delivered").await;
    assert_eq!(texts(&receiver.requests()), ["Dark: Irisan", "No power: Irisan"]);
    let preview = json!({"template": made["id"], "event": event("o", "NewOutage", "1", "Loakan")});
    let (status, shown) = server.call(Method::POST, "/v1/templates/preview", Some(preview)).await;
    assert_eq!((status, &shown["body"]), (200, &json!("No power: Loakan")), "{shown}");
}

/// FP-01, FP-21: another feed needs nothing but its entry; switched off it stores and tells nobody; it cannot be deleted while
/// somebody subscribes to it.
pub(crate) async fn a_feed_is_managed(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    server
        .make(
            "feeds",
            json!({"id": "water", "event_types": ["Burst"], "fields": {"area": {"match": "word"}}}),
        )
        .await;
    server
        .make(
            "lists",
            json!({"name": "ops", "channel": "hooks", "members": [receiver.url("/a"), receiver.url("/b")]}),
        )
        .await;
    let to_ops = json!({"id": "ops-water", "name": "Ops", "feed": "water", "target": {"list": "ops"}});
    assert_eq!(server.subscribe(to_ops).await, "ops-water");
    let burst = |n: u32| json!({"id": format!("b-{n}"), "feed": "water", "type": "Burst", "key": format!("{n}"), "fields": {"area": "Loakan"}});
    let told = server.publish(&burst(1)).await;
    server.until(&only(&told), "delivered").await;
    for path in ["/a", "/b"] {
        let message = sent(&receiver.effects(path)[0]);
        assert_eq!((&message["type"], &message["data"]["list"]), (&json!("Burst"), &json!("ops")));
        assert!(word(&message["data"]["body"]).contains("Loakan"), "a plain text of its fields: {message}");
    }
    for in_use in ["/v1/feeds/water", "/v1/lists/ops"] {
        let (status, problem) = server.call(Method::DELETE, in_use, None).await;
        assert_eq!((status, &problem["code"]), (409, &json!("in_use")));
        assert!(word(&problem["detail"]).contains("ops-water"), "{problem}");
    }
    server.change("/v1/feeds/water", json!({"enabled": false})).await;
    let kept = server.publish(&burst(2)).await;
    assert_eq!(kept["notifications"], json!([]));
    server.change("/v1/feeds/water", json!({"enabled": true})).await;
    let again = server.publish(&burst(2)).await;
    assert_eq!((&again["duplicate"], &again["notifications"]), (&json!(true), &json!([])));
    server.until(&only(&server.publish(&burst(3)).await), "delivered").await;
    assert_eq!(server.call(Method::DELETE, "/v1/subscriptions/ops-water", None).await.0, 204);
    for path in ["/v1/feeds/water", "/v1/lists/ops"] {
        assert_eq!(server.call(Method::DELETE, path, None).await.0, 204);
        assert_eq!(server.call(Method::GET, path, None).await.0, 404);
    }
    let (status, problem) = server.call(Method::POST, "/v1/events", Some(burst(4))).await;
    assert_eq!((status, &problem["code"]), (422, &json!("unknown_feed")));
    assert_eq!(receiver.requests().len(), 4);
}

/// FP-03: five thousand subscriptions in one request, of which one line is wrong: it is named, and harms no other. The same
/// again changes nothing.
pub(crate) async fn one_bad_line_harms_no_other(on: Database) {
    const LINES: usize = 5000;
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&format!("{ON_LOOPBACK}{FEED}")).await;
    let line = |n: usize| {
        let mut one = subscription(&format!("Subscriber {n}"), &receiver.url(&format!("/many/{n}")));
        one["id"] = json!(format!("many-{n}"));
        one["filter"] = json!({"keywords": {"area": [format!("Area {n}.")]}});
        if n == 2718 {
            one["cooldown"] = json!("soon");
        }
        format!("{one}\n")
    };
    let lines: String = (1..=LINES).map(line).collect();
    let media = [("content-type", "application/x-ndjson")];
    for _ in 0..2 {
        let answer = server.send(Method::POST, "/v1/subscriptions/import", &media, lines.clone()).await;
        assert_eq!(answer.status, 200);
        let said = text(&answer.body);
        let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let refused: Vec<&Value> = said.iter().filter(|line| !line["problem"].is_null()).collect();
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(
            (&refused[0]["line"], &refused[0]["problem"]["errors"][0]["field"]),
            (&json!(2718), &json!("cooldown"))
        );
        let last = said.last().unwrap();
        assert_eq!(*last, json!({"done": true, "stored": LINES - 1, "refused": 1}));
    }
    let mut ids = Vec::new();
    let mut path = "/v1/subscriptions?limit=500".to_owned();
    loop {
        let page = server.get(&path).await;
        ids.extend(page["items"].as_array().unwrap().iter().map(|one| word(&one["id"])));
        let Some(cursor) = page["next"].as_str() else { break };
        path = format!("/v1/subscriptions?limit=500&cursor={cursor}");
    }
    let expected: Vec<String> = (1..=LINES).filter(|n| *n != 2718).map(|n| format!("many-{n}")).collect();
    assert_eq!(ids, expected, "in the order in which they were made");
    let told = server.publish(&event("o-1", "NewOutage", "42", "Area 4999.")).await;
    assert_eq!((&told["notifications"][0]["ref"], skipped(&told)), (&json!("many-4999"), vec![]));
    server.until(&only(&told), "delivered").await;
    assert_eq!(receiver.requests()[0].path, "/many/4999");
}

/// FP-01, FP-03: the same at the command line: a feed, a template and a subscriber are made, an event is tried, published and
/// explained, and the subscriber is deleted.
pub(crate) async fn events_at_the_command_line(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let run = |arguments: &[&str]| {
        let output = server.angarium(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout).trim().to_owned()
    };
    let file = |name: &str, content: Value| {
        let path = server.folder.path().join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path.display().to_string()
    };
    let feed =
        json!({"id": "outages", "event_types": ["NewOutage"], "fields": {"area": {"match": "substring"}}});
    let template = json!({"event_type": "NewOutage", "channel": "hooks", "locale": "en-US", "body": "{{ fields.area }} is dark"});
    run(&["feed", "create", "--file", &file("feed.json", feed)]);
    run(&["template", "create", "--file", &file("template.json", template)]);
    let (address, keyword) = (receiver.url("/home"), "area=Bakakeng");
    let subscribe =
        ["subscription", "create", "--name", "Home", "--feed", "outages", "--channel", "hooks", "--address"];
    let id = run(&[&subscribe[..], &[&address, "--keyword", keyword, "-o", "ids"]].concat());
    let about =
        ["--feed", "outages", "--type", "NewOutage", "--key", "42", "--field", "area=Bakakeng Central"];
    let tried = run(&[&["event", "try"][..], &about].concat());
    assert!(tried.contains("Bakakeng Central is dark"), "{tried}");
    let published = run(&[&["event", "publish", "-o", "json"][..], &about].concat());
    let told: Value = serde_json::from_str(&published).unwrap();
    server.until(&only(&told), "delivered").await;
    let event_id = word(&told["id"]);
    assert_eq!(run(&["event", "list", "-o", "ids"]), event_id);
    let explained = run(&["event", "explain", &event_id, "--subscription", &id]);
    assert!(explained.contains("delivered"), "{explained}");
    run(&["subscription", "delete", &id]);
    assert_eq!(run(&["subscription", "list", "-o", "ids"]), "");
    let bad = server.angarium(&["subscription", "show", &id]);
    assert_ne!(bad.status.code(), Some(0));
    assert_eq!(texts(&receiver.requests()), ["Bakakeng Central is dark"]);
}
