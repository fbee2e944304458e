//! What decides who is told, managed: made, shown, replaced, changed in part, deleted, listed; and what is refused.

use angarium_domain::feed::Feed;
use angarium_domain::subscription::Subscription;
use angarium_domain::text::{FeedId, SubscriptionId};
use angarium_store::{Declared, ObjectKind};
use serde_json::{Value, json};

use super::{Reply, Server, add_key};

const SUBSCRIPTIONS: &str = "/v1/subscriptions";

fn feed() -> Value {
    json!({"id": "outages", "event_types": ["NewOutage", "Restoration"],
           "fields": {"feeder": {"alias": "feeders"}, "area": {"match": "substring"}}})
}

fn list() -> Value {
    json!({"name": "on duty/é", "channel": "hooks", "members": ["https://example.com/a"]})
}

fn template() -> Value {
    json!({"event_type": "NewOutage", "channel": "hooks", "locale": "en-US", "body": "{{ fields.area }} is dark"})
}

fn home() -> Value {
    json!({"name": "Home", "feed": "outages", "target": {"channel": "hooks", "address": "https://example.com/home"},
           "filter": {"keywords": {"area": ["Irisan"]}}})
}

/// `value` with members changed; null removes one.
fn with(mut value: Value, change: Value) -> Value {
    for (name, member) in change.as_object().unwrap() {
        if member.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else {
            value[name] = member.clone();
        }
    }
    value
}

impl Server {
    /// A server with the feed of outages.
    async fn with_feed() -> Server {
        let server = Server::start().await;
        server.make("/v1/feeds", &feed()).await;
        server
    }

    /// Makes something; says what it is and where it stands.
    pub(super) async fn make(&self, path: &str, body: &Value) -> (Value, String) {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        let location = reply.header("location").unwrap().to_owned();
        assert!(location.starts_with(&format!("{path}/")), "{location}");
        let made = reply.json();
        assert_eq!(reply.header("etag"), Some(&*format!("\"{}\"", made["version"])));
        (made, location)
    }

    async fn send(&self, method: &str, path: &str, body: &Value, header: Option<(&str, &str)>) -> Reply {
        let ask = self.ask(method, path);
        let ask = if body.is_null() { ask } else { ask.json(body) };
        match header {
            Some((name, value)) => ask.header(name, value).await_reply().await,
            None => ask.await_reply().await,
        }
    }

    async fn refused(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let reply = self.send(method, path, body, None).await;
        (reply.status, reply.code())
    }

    /// The fields that are wrong with it, which is why it is not stored.
    async fn wrong(&self, path: &str, body: &Value) -> Vec<String> {
        let reply = self.post(path, body).await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"), "{}", reply.body);
        reply.fields()
    }
}

/// FP-01, FP-03: each sort of object from its making to its end, and nobody overwrites what he has not seen.
#[tokio::test]
async fn from_its_making_to_its_end() {
    let server = Server::with_feed().await;
    let other = with(feed(), json!({"id": "water"}));
    for (path, object, change, not_found) in [
        ("/v1/feeds", other, json!({"enabled": false}), "feed_not_found"),
        ("/v1/lists", list(), json!({"members": ["https://example.com/b"]}), "list_not_found"),
        ("/v1/templates", template(), json!({"priority": 4}), "template_not_found"),
        (SUBSCRIPTIONS, home(), json!({"cooldown": "30m"}), "subscription_not_found"),
    ] {
        let (made, location) = server.make(path, &object).await;
        assert_eq!((&made["managed_by"], &made["active"]), (&json!("api"), &json!(true)), "{made}");
        assert!(made["id"].is_string() && made["created_at"].is_string() && made["updated_at"].is_string());
        let first = format!("\"{}\"", made["version"]);
        let shown = server.get(&location).await;
        assert_eq!((shown.header("etag"), shown.json()), (Some(&*first), made.clone()));
        let known = server.send("GET", &location, &Value::Null, Some(("if-none-match", &first))).await;
        assert_eq!((known.status, known.header("etag"), &*known.body), (304, Some(&*first), ""));

        let again = with(object.clone(), json!({"id": made["id"]}));
        assert_eq!(server.refused("POST", path, &again).await, (409, "already_exists".into()));
        let only_new = server.send("PUT", &location, &object, Some(("if-none-match", "*"))).await;
        assert_eq!((only_new.status, only_new.code().as_str()), (412, "precondition_failed"));
        let same = server.send("PUT", &location, &made, Some(("if-match", &first))).await;
        assert_eq!(
            (same.status, same.header("etag")),
            (200, Some(&*first)),
            "what is shown can be put: {}",
            same.body
        );

        let changed = server.send("PATCH", &location, &change, Some(("if-match", &first))).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        let second = changed.header("etag").unwrap().to_owned();
        assert_ne!(first, second);
        assert_eq!(with(changed.json(), change.clone()), changed.json(), "it is changed");
        for method in ["PUT", "PATCH", "DELETE"] {
            let body = if method == "DELETE" { &Value::Null } else { &object };
            let stale = server.send(method, &location, body, Some(("if-match", &first))).await;
            assert_eq!((stale.status, stale.code().as_str()), (412, "precondition_failed"), "{method}");
            assert!(stale.body.contains(&second.replace('"', "\\\"")), "it names the tag: {}", stale.body);
        }
        let put = server.send("PUT", &location, &object, Some(("if-match", &second))).await;
        assert_eq!(put.status, 200);
        let third = put.header("etag").unwrap().to_owned();
        for name in change.as_object().unwrap().keys() {
            assert_eq!(put.json()[name], made[name], "all of it is replaced");
        }

        let gone = server.send("DELETE", &location, &Value::Null, Some(("if-match", &third))).await;
        assert_eq!((gone.status, &*gone.body), (204, ""));
        for (method, body) in [("GET", &Value::Null), ("DELETE", &Value::Null), ("PATCH", &json!({}))] {
            assert_eq!(server.refused(method, &location, body).await, (404, not_found.into()));
        }
        let must_be = server.send("PUT", &location, &object, Some(("if-match", "*"))).await;
        assert_eq!((must_be.status, must_be.code().as_str()), (404, not_found));
        let gone = server.send("PUT", &location, &object, Some(("if-match", &third))).await;
        assert_eq!((gone.status, gone.code().as_str()), (412, "precondition_failed"));
        let anew = server.send("PUT", &location, &object, Some(("if-none-match", "*"))).await;
        assert_eq!((anew.status, anew.header("location")), (201, Some(&*location)), "{}", anew.body);
    }
}

#[tokio::test]
async fn what_cannot_be_a_name_names_nothing() {
    let server = Server::with_feed().await;
    for (path, words, not_found) in [
        ("/v1/feeds", ["%FF", "a%20b", "nothing"], "feed_not_found"),
        ("/v1/lists", ["%FF", "%20", "nothing"], "list_not_found"),
        ("/v1/templates", ["%FF", "NewOutage", "a~hooks~nl"], "template_not_found"),
        (SUBSCRIPTIONS, ["%FF", "a%2Fb", "ns_nothing"], "subscription_not_found"),
    ] {
        for word in words {
            let location = format!("{path}/{word}");
            for (method, body) in [("GET", &Value::Null), ("DELETE", &Value::Null), ("PATCH", &json!({}))] {
                assert_eq!(
                    server.refused(method, &location, body).await,
                    (404, not_found.into()),
                    "{method} {location}"
                );
            }
        }
        let unreadable = format!("{path}/%FF");
        assert_eq!(server.refused("PUT", &unreadable, &feed()).await, (404, not_found.into()));
        assert_eq!(server.refused("PUT", &format!("{path}/{}", words[2]), &json!([])).await.0, 422);
    }
}

/// What stands in the configuration file is only read.
#[tokio::test]
async fn what_the_file_declares_is_only_read() {
    let server = Server::start().await;
    let members = with(feed(), json!({"id": null})).to_string();
    let spec = Feed::parse(FeedId::parse("outages").unwrap(), &members).unwrap().to_json();
    let kind_of = |name: &_| server.app.catalog.channels.get(name).map(|settings| settings.kind);
    let subscription = Subscription::parse(&home().to_string(), &kind_of).unwrap();
    let declared = Declared {
        epoch: 1,
        objects: vec![
            (ObjectKind::Feed, "outages".into(), spec),
            (ObjectKind::List, "crew".into(), with(list(), json!({"name": null})).to_string()),
            (ObjectKind::Template, "NewOutage/hooks/en-US".into(), template().to_string()),
        ],
        subscriptions: vec![(SubscriptionId::parse("home").unwrap(), subscription)],
        prune: false,
    };
    server.app.store.apply_declared(declared, server.app.clock.now()).await.unwrap();
    let named = with(list(), json!({"name": "crew"}));
    let with_id = with(home(), json!({"id": "home"}));
    for (path, word, object) in [
        ("/v1/feeds", "outages", feed()),
        ("/v1/lists", "crew", named),
        ("/v1/templates", "NewOutage~hooks~en-US", template()),
        (SUBSCRIPTIONS, "home", with_id),
    ] {
        let location = format!("{path}/{word}");
        assert_eq!(server.get(&location).await.json()["managed_by"], "file", "{location}");
        for (method, body) in [("PUT", &object), ("PATCH", &json!({})), ("DELETE", &Value::Null)] {
            let refused = server.refused(method, &location, body).await;
            assert_eq!(refused, (409, "managed_by_file".into()), "{method} {location}");
        }
        assert_eq!(server.refused("POST", path, &object).await, (409, "already_exists".into()));
    }
}

#[tokio::test]
async fn what_is_needed_is_not_deleted() {
    let server = Server::with_feed().await;
    server.make("/v1/lists", &with(list(), json!({"name": "crew"}))).await;
    let to_crew = with(home(), json!({"id": "crew-home", "target": {"list": "crew"}, "filter": null}));
    let (made, subscription) = server.make(SUBSCRIPTIONS, &to_crew).await;
    assert_eq!(made["warnings"].as_array().unwrap().len(), 1, "its list is known: {made}");
    let (_, template) = server.make("/v1/templates", &template()).await;
    for location in ["/v1/feeds/outages", "/v1/lists/crew"] {
        let refused = server.send("DELETE", location, &Value::Null, None).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "in_use"));
        assert!(refused.body.contains("crew-home"), "{}", refused.body);
    }
    let event = json!({"feed": "outages", "type": "NewOutage", "key": "42", "fields": {"area": "Irisan"}});
    let told = server.post("/v1/events", &event).await.json();
    assert_eq!(told["notifications"][0]["ref"], "crew-home", "{told}");
    assert_eq!(server.refused("DELETE", &template, &Value::Null).await, (409, "in_use".into()));
    assert_eq!(server.send("DELETE", &subscription, &Value::Null, None).await.status, 204);
    assert_eq!(server.send("DELETE", "/v1/feeds/outages", &Value::Null, None).await.status, 204);
}

/// Everything that is wrong is told at once, by member.
#[tokio::test]
async fn what_is_wrong_is_told_by_member() {
    let server = Server::with_feed().await;
    let wrong = |path, object, change| {
        let body = with(object, change);
        let server = &server;
        async move { server.wrong(path, &body).await }
    };
    for (path, object, change, fields) in [
        ("/v1/feeds", feed(), json!({"id": null}), &["id"][..]),
        ("/v1/feeds", feed(), json!({"id": "a b"}), &["id"]),
        ("/v1/feeds", feed(), json!({"id": 7}), &["id"]),
        ("/v1/feeds", feed(), json!({"id": "b", "ttl": "soon", "enabeld": true}), &["ttl", "enabeld"]),
        ("/v1/lists", list(), json!({"name": null}), &["name"]),
        ("/v1/lists", list(), json!({"id": "another"}), &["id"]),
        ("/v1/lists", list(), json!({"channel": "pigeons"}), &["channel"]),
        ("/v1/lists", list(), json!({"members": []}), &["members"]),
        ("/v1/lists", list(), json!({"members": ["http://10.0.0.1/", "https://x.example/"]}), &["members"]),
        ("/v1/templates", template(), json!({"channel": "pigeons"}), &["channel"]),
        ("/v1/templates", template(), json!({"locale": null, "bodi": "x"}), &["locale", "bodi"]),
        ("/v1/templates", template(), json!({"id": "a~b~c"}), &["id"]),
        (
            SUBSCRIPTIONS,
            home(),
            json!({"name": null, "daily_cap": 0, "cap": 1}),
            &["name", "daily_cap", "cap"],
        ),
        (SUBSCRIPTIONS, home(), json!({"id": "a b"}), &["id"]),
        (SUBSCRIPTIONS, home(), json!({"feed": "water"}), &["feed"]),
        (SUBSCRIPTIONS, home(), json!({"filter": {"keywords": {"area": []}}}), &["filter.keywords.area"]),
        (SUBSCRIPTIONS, home(), json!({"filter": {"fields": {"depth": ["2 m"]}}}), &["filter.fields.depth"]),
        (SUBSCRIPTIONS, home(), json!({"target": {"channel": "hooks"}}), &["target.address"]),
    ] {
        assert_eq!(wrong(path, object, change.clone()).await, fields, "{path} {change}");
    }
    for path in ["/v1/lists", "/v1/templates", SUBSCRIPTIONS] {
        assert_eq!(server.get(path).await.json()["items"], json!([]), "nothing is stored");
    }
    let (_, location) = server.make(SUBSCRIPTIONS, &home()).await;
    server.make("/v1/feeds", &with(feed(), json!({"id": "water"}))).await;
    for (change, field) in [(json!({"feed": "water"}), "feed"), (json!({"id": "b"}), "id")] {
        let reply = server.send("PATCH", &location, &change, None).await;
        assert_eq!((reply.status, reply.fields()), (422, vec![field.to_owned()]));
    }
    for (change, field) in [(json!({"id": "fire"}), "id"), (json!({"event_types": null}), "event_types")] {
        let reply = server.send("PATCH", "/v1/feeds/outages", &change, None).await;
        assert_eq!((reply.status, reply.fields()), (422, vec![field.to_owned()]));
    }
    let (_, template) = server.make("/v1/templates", &template()).await;
    assert_eq!(
        server.refused("PATCH", &template, &json!({"locale": "nl"})).await,
        (422, "invalid_request".into())
    );
    let array = server.ask("PATCH", &location).header("content-type", "text/plain");
    let array = super::Ask { body: b"{}".to_vec(), ..array }.await_reply().await;
    assert_eq!(array.code(), "content_type_unsupported");
    let merge = server.ask("PATCH", &location).header("content-type", "application/merge-patch+json");
    let merge = super::Ask { body: b"{\"cooldown\": \"1h\"}".to_vec(), ..merge }.await_reply().await;
    assert_eq!((merge.status, &merge.json()["cooldown"]), (200, &json!("1h")));
}

/// A literal address that no delivery may reach is refused; names are judged when they are dialled.
#[tokio::test]
async fn an_address_that_nothing_is_sent_to_is_refused() {
    let server = Server::with_feed().await;
    let to = |address: &str| with(home(), json!({"target": {"channel": "hooks", "address": address}}));
    for private in ["https://10.0.0.1/", "https://[::1]/", "http://169.254.169.254/", "http://93.184.216.34/"]
    {
        let reply = server.post(SUBSCRIPTIONS, &to(private)).await;
        assert_eq!((reply.status, reply.fields()), (422, vec!["target.address".to_owned()]), "{private}");
    }
    for fine in ["https://intranet.example/", "https://93.184.216.34/"] {
        assert_eq!(server.post(SUBSCRIPTIONS, &to(fine)).await.status, 201, "{fine}");
    }
    let allowing =
        Server::start_with(|app| app.guard = app.guard.clone().allowing(vec!["10.0.0.0/8".parse().unwrap()]))
            .await;
    allowing.make("/v1/feeds", &feed()).await;
    assert_eq!(allowing.post(SUBSCRIPTIONS, &to("http://10.0.0.1/")).await.status, 201);
}

/// The options of a subscription are judged by the kind of channel that its messages take.
#[tokio::test]
async fn options_are_judged_by_the_kind_of_channel() {
    let server = Server::with_feed().await;
    server.make("/v1/lists", &json!({"name": "crew", "channel": "mail", "members": ["a@example.com"]})).await;
    server.make("/v1/lists", &with(list(), json!({"name": "hooked"}))).await;
    let bad = json!({"email": {"reply_to": "nobody"}});
    let mail = json!({"channel": "mail", "address": "a@example.com"});
    for (target, options, wrong) in [
        (mail.clone(), bad.clone(), true),
        (mail.clone(), json!({"email": {"replyto": "a@example.com"}}), true),
        (mail, json!({"email": {"reply_to": "a@example.com"}}), false),
        (json!({"list": "crew"}), bad.clone(), true),
        (json!({"list": "hooked"}), bad.clone(), false),
        (home()["target"].clone(), bad, false),
    ] {
        let reply =
            server.post(SUBSCRIPTIONS, &with(home(), json!({"target": target, "options": options}))).await;
        match wrong {
            false => assert_eq!(reply.status, 201, "{}", reply.body),
            true => {
                assert_eq!(reply.status, 422, "{target} {options}");
                assert!(reply.fields()[0].starts_with("options.email.reply"), "{}", reply.body);
            }
        }
    }
}

#[tokio::test]
async fn what_may_not_be_meant_is_said() {
    let server = Server::with_feed().await;
    let (made, location) = server.make(SUBSCRIPTIONS, &with(home(), json!({"filter": null}))).await;
    assert!(made["id"].as_str().is_some_and(|id| id.len() == 15 && id.starts_with("ns_")), "{made}");
    assert!(made["warnings"][0].as_str().unwrap().contains("no conditions"), "{made}");
    assert_eq!(made["last_sent_at"], Value::Null);
    let shown = server.get(&location).await.json();
    assert_eq!(shown.get("warnings"), None, "it is said once");
    let narrow =
        server.send("PATCH", &location, &json!({"filter": {"event_types": ["NewOutage"]}}), None).await;
    assert_eq!(narrow.status, 200);
    let nowhere = with(home(), json!({"target": {"list": "nobody"}}));
    let (nowhere, _) = server.make(SUBSCRIPTIONS, &nowhere).await;
    assert!(nowhere["warnings"][0].as_str().unwrap().contains("list is not known"), "{nowhere}");
}

/// FP-12, TP1, TP3: a template that does not work is refused with part and line, and the old one stays; what may not work is
/// said.
#[tokio::test]
async fn a_template_is_tried_before_it_is_stored() {
    let server = Server::with_feed().await;
    let (made, location) = server.make("/v1/templates", &template()).await;
    assert_eq!((&made["id"], made.get("warnings")), (&json!("NewOutage~hooks~en-US"), None), "{made}");
    let sample = json!({"fields": {"feeder": "F14"}});
    for (change, field, said) in [
        (json!({"body": "one\ntwo {{ fields.area"}), "body", "line 2"),
        (json!({"subject": "{{ fields.area | frobnicate }}"}), "subject", "line 1"),
        (json!({"tags": ["x", "{% if %}"]}), "tags[1]", "line 1"),
        (json!({"sample": sample}), "body", "line 1"),
        (json!({"sample": {"fields": 7}}), "sample.fields", ""),
    ] {
        let reply = server.send("PATCH", &location, &change, None).await;
        assert_eq!((reply.status, reply.code().as_str()), (422, "template_invalid"), "{change}");
        assert_eq!(reply.fields(), [field], "{change}");
        assert!(reply.body.contains(said), "{}", reply.body);
    }
    assert_eq!(server.get(&location).await.json(), made, "the old one stays");
    let odd =
        server.send("PATCH", &location, &json!({"body": "{{ fields.depth | default('') }}"}), None).await;
    assert!(odd.json()["warnings"][0].as_str().unwrap().contains("depth"), "{}", odd.body);
    let by_alias = json!({"sample": {"fields": {"feeders": "F14"}}, "body": "{{ fields.feeder }}"});
    assert_eq!(server.send("PATCH", &location, &by_alias, None).await.status, 200);
    let nobody = with(template(), json!({"event_type": "Flood", "body": "x"}));
    let (nobody, _) = server.make("/v1/templates", &nobody).await;
    assert!(nobody["warnings"][0].as_str().unwrap().contains("Flood"), "{nobody}");
}

#[tokio::test]
async fn a_template_is_shown_on_an_event() {
    const PREVIEW: &str = "/v1/templates/preview";
    let server = Server::with_feed().await;
    let (made, _) = server.make("/v1/templates", &template()).await;
    let event = json!({"fields": {"area": "Irisan", "feeders": "F14"}, "key": "42"});
    let shown = |template: &Value, event: &Value| {
        let body = json!({"template": template, "event": event});
        let server = &server;
        async move { server.post(PREVIEW, &body).await }
    };
    let reply = shown(&made["id"], &event).await;
    let expected = json!({"title": "", "body": "Irisan is dark", "html": null, "sequence_id": "outages-newoutage-42",
                          "tags": [], "priority": null, "cut": false});
    assert_eq!((reply.status, reply.json()), (200, expected));
    assert_eq!(shown(&made, &event).await.json()["body"], "Irisan is dark", "one that was shown");
    let given = with(
        template(),
        json!({"subject": "{{ fields.feeder }}", "priority": 5, "tags": ["{{ event.type }}"]}),
    );
    let text = shown(&given, &event).await.json();
    assert_eq!(
        (&text["title"], &text["priority"], &text["tags"]),
        (&json!("F14"), &json!(5), &json!(["NewOutage"]))
    );
    assert_eq!(shown(&given, &Value::Null).await.json()["body"], "area is dark", "what its feed declares");
    let sampled = with(given, json!({"sample": event}));
    assert_eq!(shown(&sampled, &Value::Null).await.json()["body"], "Irisan is dark", "its own sample");

    let undefined = shown(&made["id"], &json!({"fields": {}})).await;
    assert_eq!(
        (undefined.code().as_str(), undefined.fields()),
        ("template_invalid", vec!["body".to_owned()])
    );
    let no_event = shown(&made["id"], &json!({"fields": 7})).await;
    assert_eq!(
        (no_event.code().as_str(), no_event.fields()),
        ("invalid_request", vec!["event.fields".to_owned()])
    );
    for (template, code, fields) in [
        (json!("NewOutage~hooks~nl"), "template_not_found", vec![]),
        (json!("nothing"), "template_not_found", vec![]),
        (json!(7), "invalid_request", vec!["template"]),
        (Value::Null, "invalid_request", vec!["template"]),
        (with(sampled.clone(), json!({"body": null})), "invalid_request", vec!["template.body"]),
        (with(sampled.clone(), json!({"channel": "pigeons"})), "invalid_request", vec!["template.channel"]),
        (with(sampled.clone(), json!({"body": "{{"})), "template_invalid", vec!["body"]),
    ] {
        let reply = shown(&template, &Value::Null).await;
        assert_eq!(
            (reply.code().as_str(), reply.fields()),
            (code, fields.iter().map(|f| (*f).to_owned()).collect()),
            "{template}"
        );
    }
    let items = server.get("/v1/templates").await.json()["items"].clone();
    assert_eq!(items, json!([made]), "nothing is stored");
}

#[tokio::test]
async fn listings_go_page_by_page() {
    let server = Server::with_feed().await;
    for n in 0..5 {
        server.make("/v1/feeds", &with(feed(), json!({"id": format!("f{n}")}))).await;
        server.make("/v1/lists", &with(list(), json!({"name": format!("l{n}")}))).await;
        server.make("/v1/templates", &with(template(), json!({"locale": format!("x-{n}")}))).await;
        let odd = json!({"id": format!("s{n}"), "name": format!("Home_{n}"), "owner": format!("o{}", n % 2),
                         "active": n % 2 == 0, "feed": if n < 3 { "outages" } else { "f0" }});
        server.make(SUBSCRIPTIONS, &with(home(), odd)).await;
    }
    for (path, ids) in [
        ("/v1/feeds", ["f0", "f1", "f2", "f3", "f4", "outages"].map(str::to_owned).to_vec()),
        ("/v1/lists", (0..5).map(|n| format!("l{n}")).collect()),
        ("/v1/templates", (0..5).map(|n| format!("NewOutage~hooks~x-{n}")).collect()),
        (SUBSCRIPTIONS, (0..5).map(|n| format!("s{n}")).collect()),
    ] {
        let (mut found, mut query) = (Vec::new(), "?limit=2".to_owned());
        loop {
            let page = server.get(&format!("{path}{query}")).await.json();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { break };
            query = format!("?limit=2&cursor={next}");
        }
        assert_eq!(found, ids);
        for (query, code) in
            [("?cursor=x", "cursor_invalid"), ("?limit=501", "invalid_request"), ("?a=b", "invalid_request")]
        {
            assert_eq!(server.get(&format!("{path}{query}")).await.code(), code);
        }
    }
    for (query, ids) in [
        ("feed=f0", &["s3", "s4"][..]),
        ("owner=o1", &["s1", "s3"]),
        ("active=false&feed=outages", &["s1"]),
        ("q=HOME_2", &["s2"]),
        ("channel=mail", &[]),
        ("channel=hooks&active=true", &["s0", "s2", "s4"]),
    ] {
        let items = server.get(&format!("{SUBSCRIPTIONS}?{query}")).await.json()["items"].clone();
        let found: Vec<&str> =
            items.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(found, ids, "{query}");
    }
}

/// Whoever may read sees everything and changes nothing.
#[tokio::test]
async fn changes_need_a_key_of_their_own() {
    let server = Server::with_feed().await;
    let (reader, publisher) = (
        add_key(&server.app, "reader", "read").await,
        add_key(&server.app, "plant", "publish operate").await,
    );
    for (path, one) in
        [("/v1/feeds", "outages"), ("/v1/lists", "x"), ("/v1/templates", "a~b~c"), (SUBSCRIPTIONS, "x")]
    {
        let location = format!("{path}/{one}");
        let status = |method, path: &str, key: &str| {
            let ask = server.ask(method, path).key(key).json(&json!({}));
            async move { ask.await_reply().await.status }
        };
        assert_eq!(status("GET", path, &reader).await, 200);
        assert_ne!(status("GET", &location, &reader).await, 403);
        for (method, path) in
            [("POST", path), ("PUT", &location), ("PATCH", &location), ("DELETE", &location)]
        {
            assert_eq!(status(method, path, &reader).await, 403, "{method} {path}");
            assert_eq!(status(method, path, &publisher).await, 403, "{method} {path}");
        }
        assert_eq!(status("GET", path, &publisher).await, 403);
    }
    let preview =
        server.ask("POST", "/v1/templates/preview").key(&reader).json(&json!({"template": template()}));
    assert_eq!(preview.await_reply().await.status, 200);
}

/// Whatever was changed here counts here from then on: what a list leads to when a notification is stamped, and who
/// subscribes.
#[tokio::test]
async fn a_change_is_known_at_once() {
    let server = Server::with_feed().await;
    let notification = json!({"list": "crew", "subject": "s", "body": "b"});
    let channel = async || {
        let id = server.accept(&notification).await;
        server.get(&format!("/v1/notifications/{id}")).await.json()["channel"].clone()
    };
    assert_eq!(channel().await, Value::Null);
    let (_, location) = server.make("/v1/lists", &with(list(), json!({"name": "crew"}))).await;
    assert_eq!(channel().await, "hooks");
    let mail = json!({"channel": "mail", "members": ["a@example.com"]});
    assert_eq!(server.send("PUT", &location, &mail, None).await.status, 200);
    assert_eq!(channel().await, "mail");
}

/// Numbers that no floating point can hold stay as they were written.
#[tokio::test]
async fn what_is_stored_is_shown_word_for_word() {
    let server = Server::with_feed().await;
    let (_, location) = server.make("/v1/templates", &template()).await;
    let body =
        "{\"sample\": {\"fields\": {\"area\": \"A\"}, \"data\": {\"n\": 9007199254740993, \"m\": 1.50}}}";
    let reply = server.ask("PATCH", &location).text(body).await_reply().await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    for shown in [reply.body, server.get(&location).await.body] {
        assert!(shown.contains("9007199254740993") && shown.contains("1.50"), "{shown}");
    }
}
