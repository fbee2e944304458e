//! What is not worth sending any more when its turn comes (FP-22).

use angarium_receivers::http::{Receiver, Reply};
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, only, patient, skipped, subscriber, subscription, word};
use crate::support::{Database, Installation};

/// A receiver that is down, and one subscriber who waits for it.
async fn waiting(on: &Database) -> (Receiver, Installation) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(503)]);
    let home = subscriber("Home", &receiver.url("/home"), "");
    let server = on.started(&format!("{}{FEED}{home}", patient())).await;
    (receiver, server)
}

impl Installation {
    /// The notification once it was skipped for this reason, and what the event's explanation then is.
    async fn skips(&self, told: &Value, reason: &str) -> Value {
        let row = self.until(&only(told), "skipped").await;
        assert_eq!((&row["skip_reason"], &row["delivered_at"]), (&json!(reason), &Value::Null));
        let explained = self.explain(told, &word(&told["notifications"][0]["ref"])).await;
        assert_eq!(explained["outcome"], "skipped", "{explained}");
        let last = explained["steps"].as_array().unwrap().last().unwrap();
        let stop = (&last["step"], &last["verdict"], &last["reason"]);
        assert_eq!(stop, (&json!("judged"), &json!("stop"), &json!(reason)));
        self.event(told).await
    }
}

/// FP-22: power is back before the outage could be told: only that it is back is told.
pub(crate) async fn what_later_news_made_untrue_is_skipped(on: Database) {
    let (receiver, server) = waiting(&on).await;
    let outage = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    let other = server.publish(&event("o-2", "NewOutage", "43", "Irisan")).await;
    receiver.wait_for("/home", 1).await;
    let restored = server.publish(&event("o-3", "Restoration", "42", "Bakakeng")).await;
    let shown = server.skips(&outage, "superseded").await;
    assert_eq!(shown["superseded_by"], restored["id"]);
    receiver.script("/home", [Reply::ok()]);
    for told in [&restored, &other] {
        server.until(&only(told), "delivered").await;
    }
    let taken = receiver.effects_by_id("/home");
    assert_eq!(taken, [(only(&restored), 1), (only(&other), 1)].into());
    // An outage that comes in after that, and happened before, is not told either.
    let mut late = event("o-4", "NewOutage", "42", "Bakakeng");
    late["time"] = json!("2020-01-01T00:00:00Z");
    assert_eq!(skipped(&server.publish(&late).await), [("home", "superseded")]);
}

/// FP-22: what an event told of is gone. Once it is back, that is told.
pub(crate) async fn what_is_gone_is_not_told(on: Database) {
    let (receiver, server) = waiting(&on).await;
    let outage = server.publish(&event("o-1", "NewOutage", "a/b c", "Bakakeng")).await;
    receiver.wait_for("/home", 1).await;
    let gone = |key: &'static str| server.call(Method::DELETE, key, None);
    let (status, problem) = gone("/v1/feeds/outages/rows/other").await;
    assert_eq!((status, &problem["code"]), (404, &json!("row_not_found")));
    assert_eq!(gone("/v1/feeds/outages/rows/a%2Fb%20c").await.0, 204);
    assert_eq!(server.skips(&outage, "source_gone").await["source_gone"], true);
    receiver.script("/home", [Reply::ok()]);
    let back = server.publish(&event("o-2", "NewOutage", "a/b c", "Bakakeng")).await;
    server.until(&only(&back), "delivered").await;
    assert_eq!(receiver.effects_by_id("/home"), [(only(&back), 1)].into());
}

/// FP-22: an event that was worth telling for a while is not told after it.
pub(crate) async fn what_has_ended_is_not_told(on: Database) {
    let (_receiver, server) = waiting(&on).await;
    // It must not have ended before it was accepted, however slow the machine.
    for (attempt, seconds) in [2u64, 4, 8, 16, 32].into_iter().enumerate() {
        let mut outage = event(&format!("o-{attempt}"), "NewOutage", &format!("{attempt}"), "Bakakeng");
        outage["ttl"] = json!(format!("{seconds}s"));
        let told = server.publish(&outage).await;
        if !told["notifications"].as_array().unwrap().is_empty() {
            server.skips(&told, "expired").await;
            return;
        }
        assert_eq!(skipped(&told), [("home", "expired")]);
    }
    panic!("no event was accepted within half a minute");
}

/// FP-22, FP-03: whoever has switched a subscription off, or deleted it, is not told of what still waited.
pub(crate) async fn a_notification_that_nobody_wants_any_more_is_skipped(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(503)]);
    receiver.script("/work", [Reply::status(503)]);
    let server = on.started(&format!("{}{FEED}", patient())).await;
    let home = server.subscribe(subscription("Home", &receiver.url("/home"))).await;
    let work = server.subscribe(subscription("Work", &receiver.url("/work"))).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    let planned = told["notifications"].as_array().unwrap();
    let of = |subscription: &str| {
        let one = planned.iter().find(|one| one["ref"] == subscription).unwrap();
        word(&one["id"])
    };
    receiver.wait_for("/home", 1).await;
    receiver.wait_for("/work", 1).await;
    server.change(&format!("/v1/subscriptions/{home}"), json!({"active": false})).await;
    let (status, _) = server.call(Method::DELETE, &format!("/v1/subscriptions/{work}"), None).await;
    assert_eq!(status, 204);
    for subscription in [&home, &work] {
        let row = server.until(&of(subscription), "skipped").await;
        assert_eq!(row["skip_reason"], "unsubscribed");
        let explained = server.explain(&told, subscription).await;
        let last = explained["steps"].as_array().unwrap().last().unwrap();
        assert_eq!((&explained["outcome"], &last["reason"]), (&json!("skipped"), &json!("unsubscribed")));
    }
    let later = server.publish(&event("o-2", "NewOutage", "43", "Bakakeng")).await;
    assert_eq!((&later["notifications"], &later["skipped"]), (&json!([]), &json!([])));
    assert!(receiver.effects("/home").is_empty() && receiver.effects("/work").is_empty());
}
