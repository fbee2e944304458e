//! How channels are, what a test of one shows, and how one is let send again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use angarium_channels::email::message::Letterhead;
use angarium_channels::email::{Credential, EmailAdapter, EmailChannel, Login, Relay, Security};
use angarium_channels::webhook::{WebhookAdapter, WebhookChannel};
use angarium_domain::adapter::{Adapter, Delivery, Sending};
use angarium_domain::channel::ChannelKind;
use angarium_domain::disposition::Scope as Beyond;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;
use angarium_egress::{Client, Connector, Guard, Options};
use angarium_receivers::http::{Receiver, Reply};
use angarium_receivers::mail;
use angarium_store::{ScopeChange, ScopedLane, Settlement};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use url::Host;

use super::{App, Server, add_key, read_to_end, soon};

const CHANNELS: &str = "/v1/channels";
const TEST: &str = "/v1/channels/hooks/test";
const REOPEN: &str = "/v1/channels/hooks/reopen";
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn name(text: &str) -> ChannelName {
    ChannelName::parse(text).unwrap()
}

fn options() -> Options {
    Options::new(Guard::public_only().allowing(vec!["127.0.0.0/8".parse().unwrap()]))
}

/// Delivers on the channel `hooks`, and signs.
fn deliver_webhooks(app: &mut App) {
    let client = Arc::new(Client::new(options()).unwrap());
    let hooks = WebhookChannel { secrets: vec![SECRET.parse().unwrap()], timeout: Duration::from_secs(600) };
    app.adapters.register(Arc::new(WebhookAdapter::new(client, HashMap::from([(name("hooks"), hooks)]))));
}

/// Delivers on the channel `mail`, through this relay.
fn deliver_mail(app: &mut App, relay: &mail::Receiver) {
    let address = relay.address();
    let channel = EmailChannel {
        relay: Relay {
            host: Host::parse(&address.ip().to_string()).unwrap(),
            port: address.port(),
            security: Security::Never,
        },
        login: Some(Login {
            user: "alarms".to_owned(),
            credential: Credential::Password("pa55w0rd".to_owned()),
            mechanism: None,
        }),
        letterhead: Letterhead {
            from: "Alarms <alarms@example.com>".parse().unwrap(),
            id_domain: "example.com".to_owned(),
            reply_to: None,
            unsubscribe: None,
            signer: None,
        },
        return_path: None,
        hello: Some("angarium.example.com".to_owned()),
        timeout: Duration::from_secs(600),
        final_timeout: Duration::from_secs(600),
        greylist_wait: Duration::from_secs(300),
        max_idle: 1,
    };
    let connector = Arc::new(Connector::new(options()).unwrap());
    let client = Arc::new(Client::new(options()).unwrap());
    let channels = HashMap::from([(name("mail"), channel)]);
    app.adapters.register(Arc::new(EmailAdapter::new(connector, client, channels)));
}

/// Brings trouble over the channel `hooks`, as an attempt does that meets it.
async fn trouble(server: &Server, scope: Beyond) {
    let to =
        json!({"to": {"channel": "hooks", "address": "https://example.com/x"}, "subject": "s", "body": "b"});
    server.accept(&to).await;
    soon(server.app.wake.wait()).await;
    let claim = server.claim().await.remove(0);
    let change = ScopeChange {
        scope,
        lane: ScopedLane::Key(claim.lane),
        channel: claim.channel.clone(),
        address: None,
        reason: "535 bad password".to_owned(),
    };
    let progress = claim.progress;
    let settlement =
        Settlement { scopes: vec![change], ..Settlement::of(&claim, claim.state.clone(), progress) };
    server.app.store.settle(vec![settlement]).await.unwrap();
}

fn in_an_hour(server: &Server) -> Timestamp {
    server.app.clock.now().plus(Duration::from_secs(3600))
}

/// The lines of one speaker in a conversation.
fn said(answer: &Value, by: &str) -> Vec<String> {
    let turns = answer["transcript"].as_array().unwrap();
    let lines = turns.iter().filter(|turn| turn["from"] == by);
    lines.map(|turn| turn["text"].as_str().unwrap().to_owned()).collect()
}

/// Every channel is listed, with what stands in its way for as long as it does.
#[tokio::test]
async fn channels_are_listed() {
    let server = Server::start_with(deliver_webhooks).await;
    let reader = add_key(&server.app, "reader", "read").await;
    let listed = async || {
        let page = server.ask("GET", CHANNELS).key(&reader).await_reply().await.json();
        assert_eq!(page["next"], Value::Null);
        page["items"].clone()
    };
    let hooks = json!({"name": "hooks", "kind": "webhook", "enabled": true, "adapter": true, "max_parallel": 64,
        "waits_until": null, "suspended": null});
    let mut mail = hooks.clone();
    (mail["name"], mail["kind"]) = (json!("mail"), json!("email"));
    (mail["adapter"], mail["max_parallel"]) = (json!(false), json!(4));
    let mut off = hooks.clone();
    (off["name"], off["enabled"]) = (json!("off"), json!(false));
    assert_eq!(listed().await, json!([hooks, mail, off]));

    let until = in_an_hour(&server);
    trouble(&server, Beyond::ChannelWaits(until)).await;
    let mut waiting = hooks.clone();
    waiting["waits_until"] = json!(until);
    assert_eq!(listed().await[0], waiting);
    server.clock.advance(Duration::from_secs(3600));
    assert_eq!(listed().await[0], hooks, "a wait that has passed is none");

    let until = in_an_hour(&server);
    trouble(&server, Beyond::SuspendChannel(until)).await;
    let mut suspended = hooks.clone();
    suspended["waits_until"] = json!(until);
    suspended["suspended"] = json!({"reason": "535 bad password", "until": until});
    assert_eq!(listed().await[0], suspended);
    server.clock.advance(Duration::from_secs(3600));
    suspended["waits_until"] = Value::Null;
    assert_eq!(listed().await[0], suspended, "a suspension stays until the channel works");
}

/// A test message goes out once, past the outbox, and the conversation is shown without secrets.
#[tokio::test]
async fn a_test_shows_the_conversation() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().header("set-cookie", "sid=T0KEN").body("thank you")]);
    let server = Server::start_with(deliver_webhooks).await;
    let operator = add_key(&server.app, "night-shift", "operate").await;
    let test = json!({"address": receiver.url("/hook")});
    let reply = server.ask("POST", TEST).key(&operator).json(&test).await_reply().await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answer = reply.json();
    assert_eq!(
        (
            &answer["outcome"],
            &answer["status_code"],
            &answer["reopened"],
            &answer["class"],
            &answer["detail"]
        ),
        (&json!("delivered"), &json!(200), &json!(false), &Value::Null, &Value::Null)
    );
    let received = receiver.requests();
    let id = answer["id"].as_str().unwrap();
    assert_eq!((received.len(), received[0].header("webhook-id"), &id[14..15]), (1, Some(id), "7"));
    assert!(received[0].text().contains("Test from Angarium"), "{}", received[0].text());
    assert!(received[0].text().contains("night-shift"), "whoever gets it can ask: {}", received[0].text());
    let (us, them) = (said(&answer, "us"), said(&answer, "them"));
    assert_eq!((us[0].as_str(), them[0].as_str()), ("POST /hook HTTP/1.1", "HTTP/1.1 200 OK"));
    assert_eq!(us.last().unwrap(), &received[0].text());
    assert_eq!(them.last().unwrap(), "thank you");
    let signature = received[0].header("webhook-signature").unwrap().trim_start_matches("v1,");
    for secret in [signature.trim_end_matches('='), "T0KEN", &SECRET[6..SECRET.len() - 1]] {
        assert!(!reply.body.contains(secret), "{secret} in {}", reply.body);
    }
    assert_eq!(server.get("/v1/notifications").await.json()["items"], json!([]), "nothing is stored");
}

/// A test that fails says why, is not repeated, and opens nothing.
#[tokio::test]
async fn a_test_that_fails() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(503), Reply::ok()]);
    receiver.script("/gone", [Reply::hang_up_after_body()]);
    let server = Server::start_with(deliver_webhooks).await;
    trouble(&server, Beyond::SuspendChannel(in_an_hour(&server))).await;
    let busy = server.post(TEST, &json!({"address": receiver.url("/hook")})).await;
    let answer = busy.json();
    assert_eq!(
        (busy.status, &answer["outcome"], &answer["class"], &answer["status_code"], &answer["reopened"]),
        (200, &json!("failed"), &json!("transient"), &json!(503), &json!(false))
    );
    assert!(answer["detail"].as_str().unwrap().contains("503"), "{answer}");
    let broken = server.post(TEST, &json!({"address": receiver.url("/gone")})).await.json();
    assert_eq!((&broken["outcome"], &broken["status_code"]), (&json!("failed"), &Value::Null));
    assert_eq!(said(&broken, "remark"), [broken["detail"].as_str().unwrap()]);
    assert_eq!(receiver.requests().len(), 2);
    assert!(!server.get(CHANNELS).await.json()["items"][0]["suspended"].is_null());
}

/// A test that works opens a channel that was suspended, or that waits, and what waits for it is looked at.
#[tokio::test]
async fn a_test_that_works_opens_the_channel() {
    let receiver = Receiver::start().await.unwrap();
    let server = Server::start_with(deliver_webhooks).await;
    let until = in_an_hour(&server);
    for scope in [Beyond::SuspendChannel(until), Beyond::ChannelWaits(until)] {
        trouble(&server, scope).await;
        let answer = server.post(TEST, &json!({"address": receiver.url("/hook")})).await.json();
        assert_eq!(
            (&answer["outcome"], &answer["reopened"]),
            (&json!("delivered"), &json!(true)),
            "{scope:?}"
        );
        soon(server.app.wake.wait()).await;
        let shown = server.get(CHANNELS).await.json()["items"][0].clone();
        assert_eq!((&shown["waits_until"], &shown["suspended"]), (&Value::Null, &Value::Null), "{scope:?}");
    }
}

/// What an operator sees of a relay: who says what, the password left out.
#[tokio::test]
async fn a_test_by_mail() {
    let auth = mail::Auth { before_tls: true, ..mail::Auth::password("alarms", "pa55w0rd") };
    let relay = mail::Options { auth: Some(auth), ..mail::Options::default() };
    let relay = mail::Receiver::start(relay).await.unwrap();
    let server = Server::start_with(|app| deliver_mail(app, &relay)).await;
    let path = "/v1/channels/mail/test";
    let reply = server.post(path, &json!({"address": "a@example.com"})).await;
    let answer = reply.json();
    assert_eq!((&answer["outcome"], &answer["status_code"]), (&json!("delivered"), &json!(250)), "{answer}");
    assert_eq!(relay.mails().len(), 1);
    let (us, them) = (said(&answer, "us"), said(&answer, "them"));
    assert!(us.iter().any(|line| line == "EHLO angarium.example.com"), "{us:?}");
    assert!(us.iter().any(|line| line.starts_with("RCPT TO:<a@example.com>")), "{us:?}");
    assert!(them[0].starts_with("220") && them.iter().any(|line| line.starts_with("354")), "{them:?}");
    // What PLAIN sends: two names and the password.
    for secret in ["pa55w0rd", "AGFsYXJtcwBwYTU1dzByZA"] {
        assert!(!reply.body.contains(secret), "{}", reply.body);
    }

    relay.script(mail::Phase::Auth, [mail::Reply::text("535 5.7.8 no"), mail::Reply::text("535 5.7.8 no")]);
    let answer = server.post(path, &json!({"address": "a@example.com"})).await.json();
    assert_eq!(
        (&answer["class"], &answer["status_code"]),
        (&json!("permanent_config"), &json!(535)),
        "{answer}"
    );
    assert!(said(&answer, "them").iter().any(|line| line.starts_with("535")), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_tested() {
    let server = Server::start_with(deliver_webhooks).await;
    let to = json!({"address": "https://example.com/"});
    for (channel, status, code) in [
        ("pigeons", 404, "channel_not_found"),
        ("a%00b", 404, "channel_not_found"),
        ("off", 409, "channel_disabled"),
        ("mail", 409, "no_adapter"),
    ] {
        let reply = server.post(&format!("{CHANNELS}/{channel}/test"), &to).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{channel}");
    }
    for (given, fields) in [
        (json!({}), vec!["address"]),
        (json!({"address": null}), vec!["address"]),
        (json!({"address": 7}), vec!["address"]),
        (json!({"address": "a@example.com"}), vec!["address"]),
        (json!({"address": "https://u:p@example.com/"}), vec!["address"]),
        (json!({"address": "https://example.com/", "body": "b"}), vec!["body"]),
        (json!([]), vec![]),
    ] {
        let reply = server.post(TEST, &given).await;
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!((reply.status, reply.fields()), (422, fields), "{given}");
    }
    for key in ["publish", "read"] {
        let key = add_key(&server.app, key, key).await;
        for path in [TEST, REOPEN] {
            let reply = server.ask("POST", path).key(&key).json(&to).await_reply().await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "scope_denied"), "{path}");
        }
    }
}

/// What an adapter does with a test.
enum Manner {
    Panics,
    /// Says when it was begun, and when it was broken off.
    Hangs(Arc<Notify>, Arc<Notify>),
}

struct Scripted(Manner);

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Adapter for Scripted {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Webhook
    }

    fn send<'a>(&'a self, _: &'a Delivery) -> Sending<'a> {
        Box::pin(async move {
            let Manner::Hangs(begun, broken_off) = &self.0 else { panic!("by script") };
            let _until_dropped = OnDrop(Arc::clone(broken_off));
            begun.notify_one();
            std::future::pending().await
        })
    }
}

/// An adapter that panics fails the test, not the server.
#[tokio::test]
async fn an_adapter_that_panics() {
    let panics = Arc::new(Scripted(Manner::Panics));
    let server = Server::start_with(|app| app.adapters.register(panics)).await;
    let answer = server.post(TEST, &json!({"address": "https://example.com/"})).await.json();
    assert_eq!((&answer["outcome"], &answer["class"]), (&json!("failed"), &json!("internal")), "{answer}");
    assert_eq!(server.get(CHANNELS).await.status, 200);
}

/// Whoever asked and went away holds nothing up any more.
#[tokio::test]
async fn a_test_ends_with_whoever_asked() {
    let (begun, broken_off) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let hangs = Arc::new(Scripted(Manner::Hangs(Arc::clone(&begun), Arc::clone(&broken_off))));
    let server = Server::start_with(|app| app.adapters.register(hangs)).await;
    let test = server.ask("POST", TEST).json(&json!({"address": "https://example.com/"}));
    let asking = tokio::spawn(test.await_reply());
    soon(begun.notified()).await;
    asking.abort();
    soon(broken_off.notified()).await;
}

/// None of the limits on what clients take their time over ends a test whose receiver takes its own.
#[tokio::test]
async fn a_slow_receiver_is_waited_for() {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let server = Server::start_with(|app| {
        deliver_webhooks(app);
        app.bounds.header_timeout = Duration::from_secs(2);
        app.bounds.write_timeout = Duration::from_millis(100);
    })
    .await;
    let test = server.ask("POST", TEST).json(&json!({"address": receiver.url("/hook")}));
    let asking = tokio::spawn(test.await_reply());
    receiver.wait_for("/hook", 1).await;
    // A connection that says nothing is closed once the limits have passed.
    let mut idle = server.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    soon(read_to_end(&mut idle)).await;
    assert!(!asking.is_finished());
    receiver.release();
    assert_eq!(soon(asking).await.unwrap().json()["outcome"], "delivered");
}

/// Only so many tests go on at once; when one of them ends, the next may begin.
#[tokio::test]
async fn tests_are_bounded() {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let server = Server::start_with(deliver_webhooks).await;
    let test = || server.ask("POST", TEST).json(&json!({"address": receiver.url("/hook")}));
    let asking: Vec<_> = (0..4).map(|_| tokio::spawn(test().await_reply())).collect();
    receiver.wait_for("/hook", 4).await;
    let refused = test().await_reply().await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "tests_busy"));
    receiver.release();
    for one in asking {
        assert_eq!(soon(one).await.unwrap().json()["outcome"], "delivered");
    }
    assert_eq!(test().await_reply().await.json()["outcome"], "delivered");
}

/// A channel that is suspended or waits is let send again; one that is neither says so.
#[tokio::test]
async fn a_channel_is_reopened() {
    let server = Server::start().await;
    let until = in_an_hour(&server);
    let reopened = |reopened: bool| (200, json!({"channel": "hooks", "reopened": reopened}));
    let reopen = async || {
        let reply = server.ask("POST", REOPEN).await_reply().await;
        (reply.status, reply.json())
    };
    assert_eq!(reopen().await, reopened(false));
    for scope in [Beyond::SuspendChannel(until), Beyond::ChannelWaits(until)] {
        trouble(&server, scope).await;
        assert_eq!(reopen().await, reopened(true), "{scope:?}");
        soon(server.app.wake.wait()).await;
        assert_eq!(reopen().await, reopened(false), "{scope:?}");
    }
    let unknown = server.ask("POST", "/v1/channels/pigeons/reopen").await_reply().await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "channel_not_found"));
}
