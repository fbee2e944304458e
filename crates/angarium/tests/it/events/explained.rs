//! Why, and why not: each reason that there is.

use angarium_receivers::http::{Gate, Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, only, subscriber, subscription, word};
use crate::support::{Database, Installation, ON_LOOPBACK};

/// Beside the channel of every story: one that tries again an hour later, and one that is switched off.
const CHANNELS: &str = r#"
[channels.slow]
kind = "webhook"
retry = { policy = "fixed", interval = "1h", max_retries = 3 }

[channels.off]
kind = "webhook"
enabled = false

[feeds.closed]
event_types = ["NewOutage"]
enabled = false
"#;

const HERE: &str = r#"filter = { keywords = { area = ["Bakakeng"] } }"#;

/// The outcome, and the step and the reason that it rests on: the first that stopped, or the last.
fn verdict(explained: &Value) -> [String; 3] {
    let steps = explained["steps"].as_array().unwrap();
    let stop = steps.iter().find(|step| step["verdict"] == "stop" && step["reason"] != "does_not_hold");
    let step = stop.or(steps.last()).unwrap();
    assert!(!word(&step["detail"]).is_empty(), "{explained}");
    [word(&explained["outcome"]), word(&step["step"]), word(&step["reason"])]
}

async fn assert_explained(server: &Installation, told: &Value, table: &[(&str, [&str; 3])]) {
    for (subscription, expected) in table {
        let explained = server.explain(told, subscription).await;
        assert_eq!(verdict(&explained), *expected, "{subscription}: {explained}");
    }
}

fn subscribers(receiver: &Receiver) -> String {
    let on_channel = |name: &str, channel: &str| {
        subscriber(name, &receiver.url(&format!("/{name}")), HERE)
            .replace("channel = \"hooks\"", &format!("channel = \"{channel}\""))
    };
    let here = |name: &str| on_channel(name, "hooks");
    let with = |name: &str, more: &str| subscriber(name, &receiver.url(&format!("/{name}")), more);
    let of_closed = with("closed", "").replace("feed = \"outages\"", "feed = \"closed\"");
    [
        here("delivered"),
        here("parked"),
        here("held"),
        on_channel("retrying", "slow"),
        on_channel("cancelled", "slow"),
        on_channel("disabled", "off"),
        subscriber("twin", &receiver.url("/delivered"), HERE),
        with("type", r#"filter = { event_types = ["Restoration"] }"#),
        with("field", r#"filter = { fields = { feeder = ["Feeder 9"] } }"#),
        with("keyword", r#"filter = { keywords = { area = ["Irisan"] } }"#),
        with("inactive", &format!("active = false\n{HERE}")),
        with("ended", &format!("expires_at = \"2020-01-01T00:00:00Z\"\n{HERE}")),
        with("test", &format!("test = true\n{HERE}")),
        with("told", ""),
        with("calm", "cooldown = \"1h\""),
        with("capped", "daily_cap = 1\nfilter = { fields = { feeder = [\"Feeder cap\", \"Feeder 14\"] } }"),
        of_closed,
    ]
    .concat()
}

/// FP-06, FP-04, FP-21, FP-22: for every subscription there is, why it was told of an event, or why it was not.
pub(crate) async fn every_reason_is_told(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let gate = Gate::closed();
    receiver.script("/parked", [Reply::status(400)]);
    receiver.script("/held", [Reply::ok().gate(&gate)]);
    receiver.script("/retrying", [Reply::status(503)]);
    receiver.script("/cancelled", [Reply::status(503)]);
    let server = on.started(&format!("{ON_LOOPBACK}{CHANNELS}{FEED}{}", subscribers(&receiver))).await;

    // What was told before: of the same thing, and of something else to whoever has a cap.
    let mut before = event("o-1", "NewOutage", "42", "Elsewhere");
    before["fields"]["feeder"] = json!("Feeder 1");
    let before = server.publish(&before).await;
    let mut for_the_cap = event("o-2", "NewOutage", "43", "Elsewhere");
    for_the_cap["fields"]["feeder"] = json!("Feeder cap");
    let for_the_cap = server.publish(&for_the_cap).await;
    server.drained().await;
    let told = server.publish(&event("o-3", "NewOutage", "42", "Bakakeng")).await;
    let planned = told["notifications"].as_array().unwrap();
    let id_for = |name: &str| {
        let one = planned.iter().find(|one| one["ref"] == name).unwrap_or_else(|| panic!("{name}: {told}"));
        word(&one["id"])
    };
    receiver.wait_for("/held", 1).await;
    server.until(&id_for("delivered"), "delivered").await;
    server.until(&id_for("parked"), "parked").await;
    server.until(&id_for("retrying"), "retrying").await;
    server.until(&id_for("cancelled"), "retrying").await;
    assert_eq!(server.act("cancel", &id_for("cancelled")).await.0, 200);
    let late = server.subscribe(subscription("Late", &receiver.url("/late"))).await;

    let table = [
        ("delivered", ["delivered", "delivery", "delivered"]),
        ("parked", ["parked", "delivery", "parked"]),
        ("held", ["pending", "delivery", "pending"]),
        ("retrying", ["retrying", "delivery", "retrying"]),
        ("cancelled", ["skipped", "judged", "cancelled"]),
        ("disabled", ["suppressed", "channel", "channel_disabled"]),
        ("twin", ["told", "same_target", "same_target"]),
        ("type", ["not_matched", "event_type", "other_type"]),
        ("field", ["not_matched", "filter", "not_matched"]),
        ("keyword", ["not_matched", "filter", "not_matched"]),
        ("inactive", ["not_matched", "active", "inactive"]),
        ("ended", ["suppressed", "expiry", "subscription_expired"]),
        ("test", ["not_matched", "subscription", "test"]),
        ("told", ["told", "ledger", "already_told"]),
        ("calm", ["suppressed", "cooldown", "cooldown"]),
        ("capped", ["suppressed", "daily_cap", "daily_cap"]),
        ("closed", ["not_matched", "subscription", "other_feed"]),
        (&*late, ["not_matched", "subscription", "not_there"]),
    ];
    assert_explained(&server, &told, &table).await;
    assert_eq!(server.act("discard", &id_for("parked")).await.0, 200);
    assert_explained(&server, &told, &[("parked", ["discarded", "delivery", "discarded"])]).await;
    let unknown = format!("/v1/events/{}/explain?subscription=nobody", word(&told["id"]));
    let (status, problem) = server.call(Method::GET, &unknown, None).await;
    assert_eq!((status, &problem["code"]), (404, &json!("subscription_not_found")));

    // As a whole: some of it is still on its way, while what was told before is delivered.
    for (event, outcome) in [(&told, "planned"), (&before, "delivered"), (&for_the_cap, "delivered")] {
        let whole = server.get(&format!("/v1/events/{}/explain", word(&event["id"]))).await;
        assert_eq!(whole["outcome"], outcome, "{whole}");
    }
    gate.open();
    server.until(&id_for("held"), "delivered").await;
    assert_explained(&server, &told, &[("held", ["delivered", "delivery", "delivered"])]).await;
}

/// FP-21, FP-22: what is suppressed for reasons of the event alone says so to everybody whom it would have concerned.
pub(crate) async fn reasons_of_the_event_are_told(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let home = subscriber("home", &receiver.url("/home"), "");
    let closed = subscriber("closed", &receiver.url("/closed"), "").replace("\"outages\"", "\"closed\"");
    let server = on.started(&format!("{ON_LOOPBACK}{CHANNELS}{FEED}{home}{closed}")).await;

    let mut switched_off = event("o-1", "NewOutage", "42", "Bakakeng");
    switched_off["feed"] = json!("closed");
    let told = server.publish(&switched_off).await;
    assert_eq!(told["notifications"], json!([]));
    assert_explained(&server, &told, &[("closed", ["suppressed", "feed", "feed_disabled"])]).await;
    assert_eq!(server.event(&told).await["external_id"], "o-1", "it is kept");

    let mut ended = event("o-2", "NewOutage", "42", "Bakakeng");
    ended["expires_at"] = json!("2020-01-01T00:00:00Z");
    let told = server.publish(&ended).await;
    assert_explained(&server, &told, &[("home", ["suppressed", "expiry", "expired"])]).await;

    let restored = server.publish(&event("o-3", "Restoration", "42", "Bakakeng")).await;
    server.until(&only(&restored), "delivered").await;
    let mut untrue = event("o-4", "NewOutage", "42", "Bakakeng");
    untrue["time"] = json!("2020-01-01T00:00:00Z");
    let told = server.publish(&untrue).await;
    assert_explained(&server, &told, &[("home", ["suppressed", "superseded", "superseded"])]).await;

    let whole = server.get(&format!("/v1/events/{}/explain", word(&told["id"]))).await;
    assert_eq!((&whole["outcome"], &whole["skipped_count"]), (&json!("suppressed"), &json!(1)));
    let missing = "/v1/events/00000000-0000-7000-8000-000000000000/explain";
    let (status, problem) = server.call(Method::GET, missing, None).await;
    assert_eq!((status, &problem["code"]), (404, &json!("event_not_found")));
    assert_eq!(receiver.requests().len(), 1, "what is restored, and nothing else");
}
