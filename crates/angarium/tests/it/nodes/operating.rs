//! What an operator does at one node holds for all.

use angarium_receivers::http::{Receiver, Reply};
use angarium_receivers::mail::{self, Phase};
use http::Method;
use serde_json::{Value, json};

use super::{fresh, pair};
use crate::support::{Installation, KEY, id_of, pause, text, to, to_with_id, within};

/// The status with which a node answers this key.
async fn answers(node: &Installation, key: &str) -> u16 {
    node.ask(key, Method::GET, "/v1/kpis", None).await.unwrap().status
}

/// A key that was made at one node is good at the other, and ends there soon after it was revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_revoked_at_the_other_node() {
    let (_database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    let made = a.call(Method::POST, "/v1/keys", Some(json!({"name": "erp", "scopes": ["read"]}))).await;
    let (id, key) = (made.1["id"].as_str().unwrap(), made.1["key"].as_str().unwrap());
    assert_eq!(answers(&b, key).await, 200);
    let (status, said) = a.call(Method::DELETE, &format!("/v1/keys/{id}"), None).await;
    assert!(status < 300, "{status} {said}");
    assert_eq!(answers(&a, key).await, 401);
    within(async {
        while answers(&b, key).await != 401 {
            pause().await;
        }
    })
    .await;
    assert_eq!(answers(&b, KEY).await, 200);
}

/// OB-16: what one node is about to try again is cancelled at the other, and what it gave up is retried there.
#[tokio::test(flavor = "multi_thread")]
async fn actions_at_the_other_node() {
    let busy = Receiver::start().await.unwrap();
    busy.script("/hook", [Reply::status(503).header("retry-after", "3600")]);
    let picky = Receiver::start().await.unwrap();
    picky.script("/hook", [Reply::status(400), Reply::ok()]);
    let (_database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    for (receiver, status) in [(&busy, "retrying"), (&picky, "parked")] {
        a.hand_in(&to_with_id(&receiver.url("/hook"), status)).await;
        b.until(&id_of(status), status).await;
    }
    assert_eq!(b.act("cancel", &id_of("retrying")).await.0, 200);
    assert_eq!(a.view(&id_of("retrying")).await["status"], "skipped");
    assert_eq!(b.act("retry", &id_of("parked")).await.0, 200);
    a.until(&id_of("parked"), "delivered").await;
    assert_eq!(a.act("cancel", &id_of("retrying")).await.0, 409);
    assert_eq!((busy.requests().len(), picky.requests().len()), (1, 2));
}

/// C105: a channel that one node found suspended is left alone by both, and reopened for both at either.
#[tokio::test(flavor = "multi_thread")]
async fn c105_a_channel_is_suspended_for_all() {
    let relay = mail::Receiver::start(mail::Options::default()).await.unwrap();
    relay.script(Phase::Greeting, [mail::Reply::text("554 5.7.1 your address is blocked")]);
    let channel = format!(
        "\n[channels.mail]\nkind = \"email\"\nurl = \"smtp://{}?starttls=never\"\nfrom = \"alerts@example.com\"\n",
        relay.address()
    );
    let (_database, on) = fresh();
    let [a, b] = pair(&on, "", &channel).await;
    let mail = |subject: &str| {
        let to = json!({"channel": "mail", "address": "ann@example.com"});
        json!({"id": id_of(subject), "to": to, "subject": subject, "body": "b"})
    };
    a.hand_in(&mail("first")).await;
    let suspended = |channels: &Value| {
        let mut channels = channels["items"].as_array().unwrap().iter();
        channels.any(|channel| channel["name"] == "mail" && !channel["suspended"].is_null())
    };
    let is_suspended = async |node: &Installation| suspended(&node.get("/v1/channels").await);
    within(async { while !is_suspended(&a).await {} }).await;
    assert!(is_suspended(&b).await);
    // The relay is well again, which nobody knows.
    for (n, node) in [&a, &b].into_iter().cycle().take(20).enumerate() {
        node.hand_in(&mail(&format!("mail {n}"))).await;
    }
    let others = Receiver::start().await.unwrap();
    for (n, node) in [&a, &b].into_iter().cycle().take(50).enumerate() {
        let accepted = node.hand_in(&to(&others.url("/hook"), &format!("alarm {n}"))).await;
        node.until(accepted["id"].as_str().unwrap(), "delivered").await;
    }
    assert_eq!(relay.sessions().len(), 1, "nobody asked the relay again");
    let reopened = b.angarium(&["channel", "reopen", "mail"]);
    assert!(reopened.status.success(), "{}", text(&reopened.stderr));
    a.drained().await;
    assert_eq!(relay.mails().len(), 21);
    assert!(!is_suspended(&a).await && !is_suspended(&b).await);
}

/// OB-24: the list of nodes, as an operator sees it.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed() {
    let (_database, on) = fresh();
    let [a, b] = pair(&on, "", "").await;
    let leader = b.leader().await;
    let listed = a.angarium(&["node", "list"]);
    let shown = text(&listed.stdout);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    for (node, name) in [(&a, "a"), (&b, "b")] {
        let state = if name == leader { "leads" } else { "works" };
        let address = node.address.unwrap().to_string();
        let is_its = |line: &&str| line.contains(&address) && line.contains(state);
        assert_eq!(shown.lines().filter(is_its).count(), 1, "{shown}");
    }
}
