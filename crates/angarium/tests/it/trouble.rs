//! A full disk, a receiver that comes late, secrets that must not get out.

use std::net::SocketAddr;

use angarium_receivers::http::{Receiver, Reply};
use http::Method;
use serde_json::json;

use crate::support::{Database, KEY, ON_LOOPBACK, files, id_of, text, to, to_with_id, within};

/// C005, C055: with the disk full nothing is acknowledged, nothing is sent whose outcome could not be kept
/// beyond what was in flight, and all goes on by itself once there is space.
#[tokio::test(flavor = "multi_thread")]
async fn c005_c055_a_full_disk_stops_acknowledgements_and_heals() {
    let receiver = Receiver::start().await.unwrap();
    let mut server = Database::at("sqlite:disk/angarium.db").installation(ON_LOOPBACK);
    let disk = server.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // A small disk of its own, seen by the server alone; the test reaches it through the server's own root.
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {} && exec \"$@\"", disk.display());
    let command = server.serve_command(&["unshare", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"]);
    server.start_with(command).await;
    let inside = std::path::PathBuf::from(format!("/proc/{}/root{}", server.pid(), disk.display()));
    std::fs::write(inside.join("ballast"), vec![7; 256 * 1024]).unwrap();
    let mut accepted = Vec::new();
    let refused = within(async {
        for n in 0.. {
            let mut alarm = to_with_id(&receiver.url("/hook"), &format!("alarm {n}"));
            alarm["body"] = json!("x".repeat(20_000));
            match server.call(Method::POST, "/v1/notifications", Some(alarm)).await {
                (202, _) => accepted.push(format!("alarm {n}")),
                other => return other,
            }
        }
        unreachable!()
    })
    .await;
    assert_eq!((refused.0, &refused.1["code"]), (503, &json!("storage_full")));
    assert_eq!(refused.1["retryable"], true);
    let server = &server;
    let readiness = |status: u16| {
        within(async move {
            while server.call(Method::GET, "/readyz", None).await.0 != status {
                tokio::task::yield_now().await;
            }
        })
    };
    readiness(503).await;
    std::fs::remove_file(inside.join("ballast")).unwrap();
    readiness(200).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "afterwards")).await;
    accepted.push("afterwards".into());
    for name in &accepted {
        server.until(&id_of(name), "delivered").await;
    }
    for (id, times) in receiver.effects_by_id("/hook") {
        assert!(times <= 2, "{id} was sent {times} times");
    }
    assert_eq!(
        server.count("delivered").await,
        accepted.len(),
        "nothing was stored that was not acknowledged"
    );
}

/// C200: a receiver that is down when the server starts gets everything once it is up.
pub(crate) async fn c200_a_receiver_that_comes_late(on: Database) {
    // Bound, so that nobody else gets the port, but not listening: connections are refused.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let place = held.local_addr().unwrap();
    let patient = ON_LOOPBACK.replace("50ms", "100ms").replace("max_retries = 3", "max_retries = 1000");
    let server = on.started(&patient).await;
    for n in 0..5 {
        let name = format!("alarm {n}");
        server.hand_in(&to_with_id(&format!("http://{place}/hook"), &name)).await;
        let row = server.until(&id_of(&name), "retrying").await;
        assert_eq!(row["last_error"]["class"], "transient");
    }
    let receiver = Receiver::start_on(held).unwrap();
    server.drained().await;
    assert_eq!(server.count("delivered").await, 5);
    assert_eq!(receiver.effects("/hook").len(), 5);
}

/// C062: whatever bytes a receiver answers with, its success is a success, and its words can be shown.
pub(crate) async fn c062_bad_bytes_in_an_answer(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let bytes = b"\x00\xff\xfe \\ud83d \x1b[2J ok";
    receiver.script("/hook", [Reply::status(200).header("x-odd", b"caf\xe9").body(bytes)]);
    let server = on.started(ON_LOOPBACK).await;
    server.hand_in(&to_with_id(&receiver.url("/hook"), "alarm")).await;
    let row = server.until(&id_of("alarm"), "delivered").await;
    let shown = row["provider_response"].as_str().unwrap();
    assert!(shown.contains('\u{FFFD}') && shown.ends_with("ok"), "{shown:?}");
    assert!(!shown.contains(['\0', '\x1b']), "{shown:?}");
    assert_eq!(receiver.requests().len(), 1);
}

/// Secrets are in no log line, no answer, and not in the clear in the database.
pub(crate) async fn secrets_stay_secret(on: Database) {
    let secret = "whsec_Y2FuYXJ5LXNpZ25pbmctc2VjcmV0LTAwMDE=";
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/ok", [Reply::status(200).body(format!("you sent {secret}"))]);
    receiver.script("/bad", [Reply::status(400).body(format!("bad signature for {secret}"))]);
    let mut server = on.started(&format!("{ON_LOOPBACK}secret = \"{secret}\"\n")).await;
    let mut seen = String::new();
    for path in ["/ok", "/bad"] {
        server.hand_in(&to_with_id(&format!("{}?token=canary-in-the-query", receiver.url(path)), path)).await;
        let row = server.until(&id_of(path), if path == "/ok" { "delivered" } else { "parked" }).await;
        seen.push_str(&format!("{}{}", row["last_error"], row["provider_response"]));
        let attempts = server.get(&format!("/v1/notifications/{}/attempts", id_of(path))).await;
        seen.push_str(&attempts.to_string());
    }
    assert!(receiver.requests()[0].header("webhook-signature").is_some());
    let (_, created) =
        server.call(Method::POST, "/v1/keys", Some(json!({"name": "erp", "scopes": ["publish"]}))).await;
    let key = created["key"].as_str().unwrap().to_owned();
    server.signal("TERM");
    server.ended().await;
    let log = server.log();
    let signature = receiver.requests()[0].header("webhook-signature").unwrap().to_owned();
    for canary in [secret, "canary-in-the-query", &signature, &key] {
        assert!(!log.contains(canary), "the log tells {canary}");
        assert!(!seen.contains(canary), "an answer tells {canary}");
    }
    assert!(!log.contains(KEY));
    let stored = on.dump().into_iter().map(|dump| ("the database".into(), dump));
    for (path, bytes) in files(server.folder.path()).into_iter().chain(stored) {
        if path.extension().is_some_and(|end| end == "admin-key" || end == "toml") {
            continue;
        }
        for canary in [secret, KEY, &key] {
            assert!(!text(&bytes).contains(canary), "{} holds {canary}", path.display());
        }
    }
}

/// A message that the server cannot reach anybody with is still there, and shown.
pub(crate) async fn figures_count_what_waits(on: Database) {
    let server = on.started(&ON_LOOPBACK.replace("50ms", "1h")).await;
    let mut alarm = to("http://127.0.0.1:1/", "alarm");
    alarm["source"] = json!({"site": "plant-7", "node": "node-a"});
    let accepted = server.hand_in(&alarm).await;
    server.until(accepted["id"].as_str().unwrap(), "retrying").await;
    let kpis = server.get("/v1/kpis").await;
    for figures in [&kpis["global"], &kpis["sites"]["plant-7"], &kpis["nodes"]["plant-7/node-a"]] {
        assert_eq!((&figures["queue_depth"], &figures["parked_count"]), (&json!(1), &json!(0)));
    }
}
