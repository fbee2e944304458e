//! The room that all bodies share.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::wire::{ONE, head};
use super::{Reply, Server, read_to_end, soon};

/// All bodies together are bounded: what has no room is put off before it is read, and room comes back.
#[tokio::test]
async fn the_room_for_all_bodies() {
    let body = json!({"list": "ops", "subject": "s", "body": "b"}).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    for (announced, sent) in [
        (length.as_str(), body.clone()),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())),
    ] {
        let server = Server::start_with(|app| {
            app.limits.request_bytes = 2048;
            app.bounds.body_bytes = if announced.starts_with("content-length") { 1024 } else { 2048 };
        })
        .await;
        let mut slow = server.connect().await;
        let asked = head(&server, &format!("{announced}connection: close\r\nexpect: 100-continue\r\n"));
        slow.write_all(asked.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        slow.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        let post = || server.ask("POST", ONE).text(&body).await_reply();
        let put_off = post().await;
        assert_eq!((put_off.status, put_off.code().as_str()), (503, "overloaded"), "{announced}");
        assert_eq!(server.get("/v1/kpis").await.status, 200, "what has no body needs no room");
        slow.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(Reply::read(&soon(read_to_end(&mut slow)).await).status, 202, "{announced}");
        assert_eq!(post().await.status, 202, "{announced}");
    }
}

/// A body of unknown size takes room as it comes in, and is put off where there is no more.
#[tokio::test]
async fn room_for_chunks_as_they_come() {
    let server = Server::start_with(|app| {
        app.limits.request_bytes = 1024 * 1024;
        app.bounds.body_bytes = 192 * 1024;
    })
    .await;
    let asked = head(&server, "transfer-encoding: chunked\r\nconnection: close\r\nexpect: 100-continue\r\n");
    let mut chunked = [server.connect().await, server.connect().await];
    for stream in &mut chunked {
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n", "neither takes the whole limit");
    }
    let body = json!({"list": "ops", "subject": "s", "body": "x".repeat(100 * 1024)}).to_string();
    let whole = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    // One byte beyond the first step, and nothing behind it that would be left unread.
    let part = format!("{:x}\r\n{}\r\n1\r\nx", 64 * 1024, "x".repeat(64 * 1024));
    let [mut first, mut second] = chunked;
    first.write_all(part.as_bytes()).await.unwrap();
    second.write_all(part.as_bytes()).await.unwrap();
    // Each wants a second step, and there is one.
    let (mut start, mut other) = ([0; 12], [0; 12]);
    let (refused, mut other) = tokio::select! {
        read = first.read_exact(&mut start) => { read.unwrap(); (start, second) }
        read = second.read_exact(&mut other) => { read.unwrap(); (other, first) }
    };
    assert_eq!(&refused, b"HTTP/1.1 503");
    let reply =
        server.ask("POST", ONE).text(&json!({"list": "ops", "subject": "s", "body": "b"}).to_string());
    assert_eq!(reply.await_reply().await.status, 202, "the refused one gave its room back");
    other.write_all(b"\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(Reply::read(&soon(read_to_end(&mut other)).await).code(), "json_invalid");
    assert_eq!(
        Reply::read(
            &server.raw(format!("{asked}{whole}").replace("expect: 100-continue\r\n", "").as_bytes()).await
        )
        .status,
        202
    );
}
