//! The command line against a running server.

use std::io::Read;
use std::process::Stdio;

use angarium_receivers::http::{Receiver, Reply};
use serde_json::Value;

use crate::support::{Database, Installation, KEY, ON_LOOPBACK, id_of, text, to, to_with_id};

fn code(output: &std::process::Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub(crate) async fn an_operators_day(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(400), Reply::status(200)]);
    let server = on.started(ON_LOOPBACK).await;
    let url = receiver.url("/hook");
    let sent = server.angarium(&[
        "send",
        "--channel",
        "hooks",
        "--to",
        &url,
        "--subject",
        "s",
        "--body",
        "b",
        "-o",
        "ids",
    ]);
    assert_eq!(code(&sent), 0, "{}", text(&sent.stderr));
    let id = text(&sent.stdout).trim().to_owned();
    server.until(&id, "parked").await;

    let listed = server.angarium(&["notification", "list", "--status", "parked", "-o", "json"]);
    let items: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(items["items"][0]["id"], id.as_str());
    let shown = text(&server.angarium(&["notification", "show", &id]).stdout);
    assert!(shown.contains(&id) && shown.contains("answered 400"), "{shown}");

    assert_eq!(code(&server.angarium(&["notification", "cancel", &id])), 1, "it is parked");
    assert_eq!(code(&server.angarium(&["notification", "retry", &id])), 0);
    server.until(&id, "delivered").await;
    assert_eq!(code(&server.angarium(&["notification", "discard", &id])), 1, "it is delivered");
    let nobody = id_of("nobody");
    assert_eq!(code(&server.angarium(&["notification", "retry", &nobody])), 3);
    let kpi = server.angarium(&["kpi", "-o", "json"]);
    let figures: Value = serde_json::from_slice(&kpi.stdout).unwrap();
    assert_eq!(figures["global"]["queue_depth"], 0);
    let empty = server.angarium(&["notification", "list", "--status", "parked"]);
    assert_eq!(code(&empty), 0, "an empty listing is fine");
}

/// The exit code says what happened; with `-o json` the error is a problem object.
pub(crate) async fn exit_codes(on: Database) {
    let server = on.started(ON_LOOPBACK).await;
    assert_eq!(code(&server.angarium(&["notification", "frobnicate"])), 2);
    let unreachable =
        server.command(&["kpi", "-o", "json"]).env("ANGARIUM_SERVER", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(code(&unreachable), 4);
    let problem: Value = serde_json::from_slice(&unreachable.stderr).unwrap();
    assert!(problem["code"].is_string(), "{problem}");
    let wrong_key =
        server.command(&["kpi"]).env("ANGARIUM_KEY", "ang_wrong_wrongwrongwrong").output().unwrap();
    assert_eq!(code(&wrong_key), 1);
    let on_the_machine = server.command(&["kpi"]).env_remove("ANGARIUM_KEY").output().unwrap();
    assert_eq!(
        code(&on_the_machine),
        0,
        "the key file is found where the first start left it: {}",
        text(&on_the_machine.stderr)
    );
}

/// OB-23: settings are checked at start, every problem at once, each with its line.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_configuration_stops_the_start() {
    let server = Installation::new("");
    server.write_config(
        "[server]\nlisten = \"127.0.0.1:0\"\n[outbox]\nlease = \"1s\"\nmax_parallel_deliveries = 0\n[chanels.x]\nkind = \"webhook\"\n",
    );
    let check = server.angarium(&["config", "check"]);
    let said = text(&check.stdout) + &text(&check.stderr);
    assert_eq!(code(&check), 2, "{said}");
    for (line, about) in [(5, "max_parallel_deliveries"), (6, "chanels")] {
        let place = format!("angarium.toml:{line}:");
        assert!(
            said.lines().any(|one| one.contains(&place) && one.contains(about)),
            "{place} {about} in\n{said}"
        );
    }
    let start = server.serve_command(&[]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(start.status.code(), Some(2));
    assert!(!server.file().exists(), "nothing was started");
}

/// C198: a listing whose reader goes away ends quietly.
pub(crate) async fn c198_output_piped_into_head(on: Database) {
    let server = on.started(&ON_LOOPBACK.replace("50ms", "1h")).await;
    let many = (0..3000).map(|n| to("http://127.0.0.1:1/", &format!("{n} {}", "long ".repeat(20)))).collect();
    server.hand_in_all(many).await;
    let mut listing = server
        .command(&["notification", "list", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 64];
    listing.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = listing.wait_with_output().unwrap();
    assert!(matches!(ended.status.code(), Some(0 | 141)), "{:?}", ended.status);
    assert!(ended.stderr.is_empty(), "{}", text(&ended.stderr));
}

/// CL3: a key on the command line would be seen by every process on the machine.
pub(crate) async fn a_key_is_no_argument(on: Database) {
    let server = on.started(ON_LOOPBACK).await;
    assert_eq!(code(&server.angarium(&["kpi", "--key", KEY])), 2);
}

/// What a producer resends through the command line is the same notification.
pub(crate) async fn a_send_can_be_repeated(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let (id, url) = (id_of("alarm"), receiver.url("/hook"));
    let send = ["send", "--channel", "hooks", "--to", &url, "--subject", "s", "--body", "b", "--id", &id];
    for _ in 0..3 {
        let sent = server.angarium(&send);
        assert_eq!(code(&sent), 0, "{}", text(&sent.stderr));
    }
    server.until(&id, "delivered").await;
    server.hand_in(&to_with_id(&receiver.url("/marker"), "marker")).await;
    server.until(&id_of("marker"), "delivered").await;
    assert_eq!(receiver.effects("/hook").len(), 1);
}

/// The newcomer's first minute ends with status 0 and says why.
#[test]
fn the_demo_comes_out_as_it_must() {
    let demo =
        std::process::Command::new(env!("CARGO_BIN_EXE_angarium")).args(["demo", "--exit"]).output().unwrap();
    let said = text(&demo.stdout);
    assert_eq!(code(&demo), 0, "{said}\n{}", text(&demo.stderr));
    assert!(said.contains("Everything came out as it must."), "{said}");
}
