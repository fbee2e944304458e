//! What becomes of an event: whom it is told to, in which words, how often, and why not.

mod declared;
mod explained;
mod fanout;
mod forms;
mod fresh;
mod ledger;
mod managed;
mod pairs;
mod skips;
mod telling;

use angarium_receivers::http::Received;
use http::Method;
use serde_json::{Value, json};

use crate::support::{Installation, ON_LOOPBACK, pause, within};

pub(crate) use declared::*;
pub(crate) use explained::*;
pub(crate) use fanout::*;
pub(crate) use forms::*;
pub(crate) use fresh::*;
pub(crate) use ledger::*;
pub(crate) use managed::*;
pub(crate) use skips::*;
pub(crate) use telling::*;

/// A feed with three types, and what people read of one of them.
const FEED: &str = r#"
[feeds.outages]
event_types = ["NewOutage", "Restoration", "Updated"]
sources = ["https://utility.example/"]
fields.feeder = { match = "exact", alias = "feeders" }
fields.area = { match = "substring" }
supersedes.Restoration = ["NewOutage"]

[[templates]]
event_type = "NewOutage"
channel = "hooks"
locale = "en-US"
subject = "Outage on {{ fields.feeder }}"
body = "{{ fields.area }} is dark"
"#;

/// A receiver that is down is tried again for longer than any story takes.
fn patient() -> String {
    ON_LOOPBACK.replace("\"50ms\", max_retries = 3", "\"200ms\", max_retries = 1000")
}

/// One of a feed's subscribers, as the configuration file says it; `more` has further members.
fn subscriber(name: &str, address: &str, more: &str) -> String {
    let target = format!("target = {{ channel = \"hooks\", address = \"{address}\" }}");
    format!("[[subscriptions]]\nname = \"{name}\"\nfeed = \"outages\"\n{target}\n{more}\n")
}

/// The same, as the API takes it.
fn subscription(name: &str, address: &str) -> Value {
    json!({"name": name, "feed": "outages", "target": {"channel": "hooks", "address": address}})
}

/// A configuration with the feed and these subscribers.
fn with(subscribers: &[String]) -> String {
    format!("{ON_LOOPBACK}{FEED}{}", subscribers.concat())
}

/// Something that happened to `key` in an area, under an id of the producer's.
fn event(id: &str, kind: &str, key: &str, area: &str) -> Value {
    let fields = json!({"feeder": "Feeder 14", "area": area});
    json!({"id": id, "feed": "outages", "type": kind, "key": key, "fields": fields})
}

/// The id of the only notification that an event led to.
fn only(told: &Value) -> String {
    let planned = told["notifications"].as_array().unwrap();
    assert_eq!(planned.len(), 1, "{told}");
    planned[0]["id"].as_str().unwrap().to_owned()
}

/// Who was not told although it concerned them, and why.
fn skipped(told: &Value) -> Vec<(&str, &str)> {
    told["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["ref"].as_str().unwrap(), one["reason"].as_str().unwrap()))
        .collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// What a receiver was sent.
fn sent(request: &Received) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

/// The texts that a receiver was sent, in order.
fn texts(requests: &[Received]) -> Vec<String> {
    requests.iter().map(|request| word(&sent(request)["data"]["body"])).collect()
}

impl Installation {
    /// Hands an event in and expects it to be accepted.
    async fn publish(&self, event: &Value) -> Value {
        let (status, answer) = self.call(Method::POST, "/v1/events", Some(event.clone())).await;
        assert_eq!(status, 202, "{answer}");
        answer
    }

    /// An event as it is shown.
    async fn event(&self, told: &Value) -> Value {
        self.get(&format!("/v1/events/{}", word(&told["id"]))).await
    }

    /// The event once no more is to be planned of it.
    async fn planned(&self, told: &Value) -> Value {
        within(async {
            loop {
                let shown = self.event(told).await;
                if shown["planning"] == false {
                    return shown;
                }
                pause().await;
            }
        })
        .await
    }

    /// The event once something that it was not told to at first is told after all: the notification's id.
    async fn told_after_all(&self, told: &Value) -> String {
        within(async {
            loop {
                let shown = self.event(told).await;
                if let Some(id) = shown["skipped"][0]["told_by"].as_str() {
                    return id.to_owned();
                }
                pause().await;
            }
        })
        .await
    }

    /// Why a subscription was told of an event, or was not.
    async fn explain(&self, told: &Value, subscription: &str) -> Value {
        let id = word(&told["id"]);
        self.get(&format!("/v1/events/{id}/explain?subscription={subscription}")).await
    }

    /// Makes something through the API and returns what was made.
    async fn make(&self, what: &str, body: Value) -> Value {
        let (status, made) = self.call(Method::POST, &format!("/v1/{what}"), Some(body)).await;
        assert_eq!(status, 201, "{made}");
        made
    }

    /// Subscribes somebody through the API; its id.
    async fn subscribe(&self, subscription: Value) -> String {
        word(&self.make("subscriptions", subscription).await["id"])
    }

    /// Changes something through the API and returns it as it is then.
    async fn change(&self, path: &str, change: Value) -> Value {
        let (status, now) = self.call(Method::PATCH, path, Some(change)).await;
        assert_eq!(status, 200, "{now}");
        now
    }
}
