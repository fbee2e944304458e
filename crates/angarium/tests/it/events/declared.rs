//! What the configuration file declares.

use angarium_receivers::http::Receiver;
use http::Method;
use serde_json::{Value, json};

use super::{FEED, event, only, skipped, subscriber, subscription, with, word};
use crate::support::{Database, Installation, ON_LOOPBACK};

/// Stops the server, and starts it with another configuration.
async fn restart(server: &mut Installation, configuration: &str) {
    server.signal("TERM");
    assert!(server.ended().await.success());
    server.configure(configuration);
    server.start().await;
}

/// FP-03: what stands in the file is shown through the API, and changed in the file alone.
pub(crate) async fn what_the_file_declares_is_only_read(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let list = format!("[lists.ops]\nchannel = \"hooks\"\nmembers = [\"{}\"]\n", receiver.url("/ops"));
    let home = subscriber("Home", &receiver.url("/home"), "");
    let server = on.started(&format!("{ON_LOOPBACK}{FEED}{list}{home}")).await;
    let patches = [
        ("/v1/feeds/outages", json!({"name": "Mine"})),
        ("/v1/lists/ops", json!({"members": [receiver.url("/mine")]})),
        ("/v1/templates/NewOutage~hooks~en-US", json!({"body": "mine"})),
        ("/v1/subscriptions/home", json!({"name": "Mine"})),
    ];
    for (path, patch) in patches {
        let before = server.get(path).await;
        assert_eq!((&before["managed_by"], &before["active"]), (&json!("file"), &json!(true)), "{path}");
        let mut replacement = before.clone();
        for (member, value) in patch.as_object().unwrap() {
            replacement[member] = value.clone();
        }
        let changes =
            [(Method::PUT, Some(replacement)), (Method::PATCH, Some(patch)), (Method::DELETE, None)];
        for (method, body) in changes {
            let (status, problem) = server.call(method.clone(), path, body).await;
            assert_eq!((status, &problem["code"]), (409, &json!("managed_by_file")), "{method} {path}");
        }
        assert_eq!(server.get(path).await, before, "{path}");
    }
    let mut again = subscription("Mine", &receiver.url("/mine"));
    again["id"] = json!("home");
    let (status, problem) = server.call(Method::POST, "/v1/subscriptions", Some(again)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("already_exists")));
}

/// FP-03, FP-18: what vanished from the file is told nothing any more, and is kept; once it stands there again it is as it was,
/// and knows what it was told.
pub(crate) async fn what_vanished_from_the_file_no_longer_counts(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let both = with(&[
        subscriber("Home", &receiver.url("/home"), ""),
        subscriber("Work", &receiver.url("/work"), ""),
    ]);
    let one = with(&[subscriber("Work", &receiver.url("/work"), "")]);
    let mut server = on.started(&format!("config_epoch = 1\n{both}")).await;
    server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    server.drained().await;

    restart(&mut server, &format!("config_epoch = 2\n{one}")).await;
    let home = server.get("/v1/subscriptions/home").await;
    assert_eq!((&home["active"], &home["managed_by"]), (&json!(false), &json!("file")));
    let told = server.publish(&event("o-2", "NewOutage", "43", "Bakakeng")).await;
    assert_eq!(told["notifications"][0]["ref"], "work");
    server.until(&only(&told), "delivered").await;

    restart(&mut server, &format!("config_epoch = 3\n{both}")).await;
    assert_eq!(server.get("/v1/subscriptions/home").await["active"], true);
    let again = server.publish(&event("o-3", "NewOutage", "42", "Bakakeng")).await;
    let mut reasons = skipped(&again);
    reasons.sort_unstable();
    assert_eq!(reasons, [("home", "already_told"), ("work", "already_told")]);
    server.drained().await;
    assert_eq!((receiver.effects("/home").len(), receiver.effects("/work").len()), (1, 2));
}

/// FP-03: a file that is older than what was declared last changes nothing; the same file again changes nothing either.
pub(crate) async fn an_older_file_takes_nothing_back(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let declared = |epoch: u32, path: &str| {
        let home = subscriber("Home", &receiver.url(path), "");
        format!("config_epoch = {epoch}\n{}", with(&[home]))
    };
    let mut server = on.started(&declared(7, "/new")).await;
    let first = server.get("/v1/subscriptions/home").await;
    restart(&mut server, &declared(6, "/old")).await;
    let kept = server.get("/v1/subscriptions/home").await;
    assert_eq!((&kept["target"], &kept["version"]), (&first["target"], &first["version"]));
    restart(&mut server, &declared(7, "/new")).await;
    assert_eq!(server.get("/v1/subscriptions/home").await["version"], first["version"]);
    restart(&mut server, &declared(8, "/newer")).await;
    let now = server.get("/v1/subscriptions/home").await;
    assert_eq!(now["target"]["address"], receiver.url("/newer"));
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    server.until(&only(&told), "delivered").await;
    assert_eq!(receiver.requests()[0].path, "/newer");
}

/// FP-06: a subscription whose channel is in the file no more is not told, and says why.
pub(crate) async fn a_channel_that_vanished_tells_nobody(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let extra = "[channels.extra]\nkind = \"webhook\"\n";
    let mut server = on.started(&format!("{ON_LOOPBACK}{extra}{FEED}")).await;
    let mut home = subscription("Home", &receiver.url("/home"));
    home["target"]["channel"] = json!("extra");
    let id = server.subscribe(home).await;
    restart(&mut server, &format!("{ON_LOOPBACK}{FEED}")).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    assert_eq!((skipped(&told), &told["notifications"]), (vec![(&*id, "channel_unknown")], &json!([])));
    let explained = server.explain(&told, &id).await;
    assert_eq!(explained["outcome"], "suppressed");
    let stop = explained["steps"].as_array().unwrap().iter().find(|step| step["verdict"] == "stop");
    assert_eq!(
        stop.map(|step| (word(&step["step"]), word(&step["reason"]))),
        Some(("channel".into(), "channel_unknown".into()))
    );
    assert_eq!(told["duplicate"], Value::Bool(false));
}
