//! Machines that do not agree on the time.

use std::path::Path;

use angarium_receivers::http::Receiver;
use angarium_testbed::postgres::{Server, Setup};
use angarium_testbed::programs;

use super::{SHORT, TELL, assert_delivered, configuration, fresh, node, tell};
use crate::support::{Database, Installation, id_of, to_with_id};

/// What makes a program believe in another time.
const PRELOAD: &str = "LD_PRELOAD";
const HONEST_MONOTONIC: (&str, &str) = ("FAKETIME_DONT_FAKE_MONOTONIC", "1");

/// A node on a machine whose clock is wrong by so much, as libfaketime spells it.
async fn node_at(offset: &str, name: &str, on: &Database) -> Installation {
    let mut node = on.installation(&configuration(name, SHORT, super::BRIEF));
    let mut command = node.serve_command(&[]);
    command.env(PRELOAD, programs::libfaketime().unwrap()).env("FAKETIME", offset);
    command.env(HONEST_MONOTONIC.0, HONEST_MONOTONIC.1);
    node.start_with(command).await;
    node
}

/// P4a: a clock that is ten minutes fast, or slow, makes nothing due sooner or later and ends no lease. Receivers would
/// refuse what such a node signs, so that it sends nothing, and says why; the others do.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_wrong_clocks() {
    let receiver = Receiver::start().await.unwrap();
    let (database, on) = fresh();
    let (right, fast, slow) = tokio::join!(
        node("right", &on, SHORT, super::BRIEF),
        node_at("+10m", "fast", &on),
        node_at("-10m", "slow", &on)
    );
    for node in [&fast, &slow] {
        let said = node.says_ready(false).await;
        assert!(said["detail"].as_str().unwrap().contains("clock"), "{said}");
    }
    let mut ids = Vec::new();
    for (n, node) in [&right, &fast, &slow].into_iter().cycle().take(60).enumerate() {
        let name = format!("alarm {n}");
        node.hand_in(&to_with_id(&receiver.url("/hook"), &name)).await;
        ids.push(id_of(&name));
    }
    right.drained().await;
    let rows = database.sql(TELL);
    assert_eq!(assert_delivered(&rows, &receiver, "/hook", &ids), 0);
    for (id, told) in tell(&rows) {
        assert_eq!((told.attempts, told.nodes), (1, ["right".to_owned()].into()), "{id}");
    }
    // Ten minutes are two orders of magnitude more than all of this may take.
    let apart = "SELECT max(created_at) - min(created_at) < 300000000
        AND abs(max(created_at) - extract(epoch FROM clock_timestamp()) * 1000000) < 300000000 FROM angarium.notifications";
    assert_eq!(database.sql(apart), "t");
    right.says_ready(true).await;
}

/// A node on a machine whose clock says what stands in a file.
async fn node_by(clock: &Path, name: &str, on: &Database) -> Installation {
    let slow = "timeout = \"20s\"\n";
    let mut node = on.installation(&configuration(name, "[outbox]\nlease = \"30s\"\n", slow));
    let mut command = node.serve_command(&[]);
    command.env(PRELOAD, programs::libfaketime().unwrap()).env("FAKETIME_TIMESTAMP_FILE", clock);
    command.env("FAKETIME_NO_CACHE", "1").env(HONEST_MONOTONIC.0, HONEST_MONOTONIC.1);
    node.start_with(command).await;
    node
}

/// P4b: everybody's clock is set an hour ahead while deliveries are under way, and later an hour back. Leases end early, or
/// late; no more is repeated than was under way, and what comes in afterwards is sent at once.
#[tokio::test(flavor = "multi_thread")]
async fn all_clocks_are_set() {
    let server = Server::start_with(&Setup { faketime: Some("+0s".to_owned()), ..Setup::default() });
    let url = server.create_database();
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    let set = |time: &str| {
        std::fs::write(&clock, time).unwrap();
        server.set_clock(time);
    };
    set("+0s");
    let receiver = Receiver::start().await.unwrap();
    let on = Database::at(&url);
    let (a, b) = tokio::join!(node_by(&clock, "a", &on), node_by(&clock, "b", &on));
    let mut ids = Vec::new();
    for (turn, time) in ["+1h", "+0s", "-1h"].into_iter().enumerate() {
        receiver.hold();
        for n in 0..6 {
            let name = format!("alarm {turn} {n}");
            [&a, &b][n % 2].hand_in(&to_with_id(&receiver.url("/hook"), &name)).await;
            ids.push(id_of(&name));
        }
        receiver.wait_until(|requests| requests.len() >= ids.len()).await;
        set(time);
        for node in [&a, &b] {
            node.logs("clock_jump", turn + 1).await;
        }
        receiver.release();
        for node in [&a, &b] {
            let name = format!("afterwards {turn} {}", node.address.unwrap());
            node.hand_in(&to_with_id(&receiver.url("/hook"), &name)).await;
            ids.push(id_of(&name));
        }
        a.drained().await;
    }
    let name = url.rsplit('/').next().unwrap();
    assert_delivered(&server.sql(name, TELL), &receiver, "/hook", &ids);
}
