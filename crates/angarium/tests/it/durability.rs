//! What an acknowledgement is worth, read from the system calls of the unmodified binary.

use std::collections::HashMap;

use http::Method;

use crate::support::{Installation, ON_LOOPBACK, id_of, to_with_id, within};

/// OB-02: between the last write to the database's log before a 202 and the 202 itself lies a sync of that log.
/// Fails when an acknowledgement leaves before its commit, and when commits are not synced.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_follows_a_sync() {
    let mut server = Installation::new(ON_LOOPBACK);
    let trace = server.folder.path().join("trace");
    let trace_arg = trace.display().to_string();
    let calls = "trace=openat,close,pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync";
    let wrapper = ["strace", "-f", "-y", "-s", "64", "-o", &trace_arg, "-e", calls];
    let command = server.serve_command(&wrapper);
    server.start_with(command).await;
    for n in 0..40 {
        // Nobody listens there: what is measured is the acceptance alone.
        server.hand_in(&to_with_id("http://127.0.0.1:1/", &format!("alarm {n}"))).await;
    }
    let child = child_of(server.pid());
    crate::support::send_signal(child, "TERM");
    server.ended().await;
    let acknowledged = check_order(&std::fs::read_to_string(trace).unwrap());
    assert_eq!(acknowledged, 40);
}

fn child_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// Walks through the trace and counts acknowledgements. There is one producer and it waits for each answer, so
/// that between one 202 and the next the log must have been synced at least once. An acknowledgement counts from
/// the beginning of its call, a sync from the end of its own.
fn check_order(trace: &str) -> usize {
    let mut acknowledged = 0;
    let mut synced = false;
    let mut begun: HashMap<&str, &str> = HashMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.trim_start().split_once(char::is_whitespace) else { continue };
        let call = call.trim_start();
        let started_as =
            if call.starts_with("<... ") { begun.remove(thread).unwrap_or_default() } else { call };
        let is_over = !call.contains("<unfinished");
        if !is_over {
            begun.insert(thread, call);
        }
        let syncs = ["fdatasync(", "fsync("].iter().any(|name| started_as.starts_with(name));
        if is_over && syncs && call.ends_with("= 0") && started_as.contains("-wal>") {
            synced = true;
        }
        if call.contains("HTTP/1.1 202") {
            assert!(synced, "a 202 left before anything was synced:\n{line}");
            synced = false;
            acknowledged += 1;
        }
    }
    acknowledged
}

/// OB-01: killed in the middle of writing to the log, at the n-th write, whatever was acknowledged is there after
/// a restart.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_nothing_acknowledged_is_lost() {
    for nth in [20, 21, 22, 23, 24, 27, 33, 41, 58, 97] {
        let mut server = Installation::started(ON_LOOPBACK).await;
        server.signal("TERM");
        server.ended().await;
        let inject = format!("inject=pwrite64:signal=KILL:when={nth}");
        let command =
            server.serve_command(&["strace", "-f", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", &inject]);
        server.start_with(command).await;
        let mut acknowledged = Vec::new();
        for n in 0..200 {
            let name = format!("alarm {n}");
            let body = to_with_id("http://127.0.0.1:1/", &name);
            match server.try_call(Method::POST, "/v1/notifications", Some(body)).await {
                Ok((202, _)) => acknowledged.push(name),
                _ => break,
            }
        }
        assert!(acknowledged.len() < 200, "it was to be killed at write {nth}");
        within(server.ended()).await;
        server.start().await;
        for name in &acknowledged {
            assert_eq!(server.view(&id_of(name)).await["subject"], name.as_str(), "killed at write {nth}");
        }
    }
}
