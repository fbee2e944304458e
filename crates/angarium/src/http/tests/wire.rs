//! Hostile and broken clients, the bounds, health, metrics, and the end of the server.

use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::FailureClass;
use angarium_store::StoreError;
use axum::http::HeaderMap;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::problem::{Code, Problem};
use super::{Reply, Server, read_to_end, soon};

pub(super) const ONE: &str = "/v1/notifications";
const SHORT: Duration = Duration::from_millis(50);

pub(super) fn head(server: &Server, headers: &str) -> String {
    format!(
        "POST {ONE} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{headers}\r\n",
        server.root
    )
}

/// IN1, IN11: who has no key, or announces too much, is answered without a byte of the body.
#[tokio::test]
async fn in1_in11_refused_before_the_body() {
    let server = Server::start().await;
    let open = format!("POST {ONE} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
    let mut stream = server.connect().await;
    stream.write_all(open.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&read_to_end(&mut stream).await).code(), "auth_missing");
    for path_and_limit in [(ONE, 1024 * 1024), ("/v1/notifications/batch", 16 * 1024 * 1024)] {
        let (path, limit) = path_and_limit;
        let head = head(&server, &format!("content-length: {}\r\n", limit + 1)).replace(ONE, path);
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let reply = Reply::read(&read_to_end(&mut stream).await);
        assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
        assert!(reply.body.contains(&limit.to_string()) && reply.header("connection") == Some("close"));
    }
}

/// IN12: a body of unknown length is cut off at the limit.
#[tokio::test]
async fn in12_chunks_without_end() {
    let server = Server::start_with(|app| app.limits.request_bytes = 1000).await;
    let mut stream = server.connect().await;
    stream.write_all(head(&server, "transfer-encoding: chunked\r\n").as_bytes()).await.unwrap();
    let chunk = format!("64\r\n{}\r\n", "x".repeat(100));
    // Without end: the server must stop reading by itself.
    let (mut read, mut write) = stream.into_split();
    let writing = tokio::spawn(async move { while write.write_all(chunk.as_bytes()).await.is_ok() {} });
    let mut answer = Vec::new();
    let _reset = read.read_to_end(&mut answer).await;
    writing.await.unwrap();
    let reply = Reply::read(&String::from_utf8(answer).unwrap());
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
}

/// IN14: what a proxy could frame differently is refused, or ends the connection with its answer.
#[tokio::test]
async fn in14_ambiguous_framing() {
    let server = Server::start().await;
    let body = json!({"list": "ops", "subject": "s", "body": "b"}).to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let both = head(&server, "content-length: 3\r\ntransfer-encoding: chunked\r\n");
    let smuggled = format!("{both}{chunked}GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    let answers = server.raw(smuggled.as_bytes()).await;
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
    for headers in [
        "content-length : 3\r\n",
        "content-length: 3\r\ncontent-length: 4\r\n",
        "content-length: -1\r\n",
        "x: a\r\n b\r\n",
        "transfer-encoding: chunked, gzip\r\n",
    ] {
        let answer = server.raw(format!("{}{body}", head(&server, headers)).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers:?}: {answer}");
    }
    for coding in
        ["gzip, chunked", "chunked, chunked", "identity, chunked", "gzip\r\ntransfer-encoding: chunked"]
    {
        for path in [ONE, "/v1/kpis", "/healthz"] {
            let method = if path == ONE { "POST" } else { "GET" };
            let head = head(&server, &format!("transfer-encoding: {coding}\r\n"));
            let head = head.replace(&format!("POST {ONE}"), &format!("{method} {path}"));
            let head = head.replace("host: x", "host: x\r\nconnection: close");
            let reply = Reply::read(&server.raw(format!("{head}{chunked}").as_bytes()).await);
            assert_eq!((reply.status, reply.code().as_str()), (400, "body_incomplete"), "{coding} {path}");
        }
    }
    let bad_chunk = format!("{}zz\r\n{body}\r\n", head(&server, "transfer-encoding: chunked\r\n"));
    let reply = Reply::read(&server.raw(bad_chunk.as_bytes()).await);
    assert_eq!((reply.status, reply.code().as_str()), (400, "body_incomplete"));
}

/// IN15: a head that does not come to its end, and a connection that asks for nothing, are closed.
#[tokio::test]
async fn in15_a_slow_head() {
    let server = Server::start_with(|app| app.bounds.header_timeout = SHORT).await;
    for sent in ["", "GET /healthz HTTP/1.1\r\nhost: "] {
        let mut stream = server.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let answer = soon(read_to_end(&mut stream)).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
}

/// IN16, C011: a slow body ends with 408 and a closed connection, stores nothing, and holds nobody else up.
#[tokio::test]
async fn c011_in16_a_slow_body() {
    let server = Server::start_with(|app| app.bounds.body_timeout = SHORT).await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = server.connect().await;
        stream.write_all(head(&server, "content-length: 1000\r\n").as_bytes()).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        slow.push(stream);
    }
    server.accept(&json!({"list": "ops", "subject": "meanwhile", "body": "b"})).await;
    for mut stream in slow {
        let reply = Reply::read(&read_to_end(&mut stream).await);
        assert_eq!((reply.status, reply.code().as_str()), (408, "body_timeout"));
        assert_eq!(reply.json()["retryable"], true);
    }
    assert_eq!(server.get(ONE).await.json()["items"].as_array().unwrap().len(), 1);
}

/// IN17: heads, addresses and header lines are bounded.
#[tokio::test]
async fn in17_large_heads() {
    let server = Server::start().await;
    let long = server.get(&format!("{ONE}?q={}", "x".repeat(20_000))).await;
    assert_eq!((long.status, long.code().as_str()), (414, "uri_too_long"));
    let large = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(500));
    for request in [large, many] {
        let answer = server.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

/// IN18: beyond the cap a connection waits until another ends, and is then served.
#[tokio::test]
async fn in18_the_cap_on_connections() {
    let server = Server::start_with(|app| app.bounds.max_connections = 1).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    second.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    for _ in 0..20 {
        first.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(br#"{"status":"alive"}"#) {
            answer.push(first.read_u8().await.unwrap());
        }
    }
    drop(first);
    let metrics = soon(read_to_end(&mut second)).await;
    let line = r#"angarium_http_requests_total{method="GET",route="/healthz",status="200"} 20"#;
    assert!(metrics.contains(line), "served before the first had ended: {metrics}");
}

/// Whoever asks and never reads loses the connection, and the next is served in its place.
#[tokio::test]
async fn a_client_that_does_not_read() {
    let server = Server::start_with(|app| {
        app.bounds.write_timeout = SHORT;
        app.bounds.max_connections = 1;
    })
    .await;
    let mut deaf = server.connect().await;
    let asking =
        async { while deaf.write_all(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {} };
    soon(asking).await;
    let next = soon(server.ask_openly("GET", "/openapi.json").await_reply()).await;
    assert_eq!(next.status, 200);
    let Server { stop, ended, .. } = server;
    stop.send(()).unwrap();
    assert_eq!(soon(ended).await.unwrap(), 0);
}

/// IN36: wrong methods and paths that lead nowhere.
#[tokio::test]
async fn in36_nowhere() {
    let server = Server::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/kpis",
        "/v1//kpis",
        "/v1/..%2fadmin",
        "/v1/../v1/kpis",
        "/v1/kpis/",
        "/etc/passwd",
    ] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
    }
    for (method, path, allowed) in [
        ("PUT", ONE, "GET,HEAD,POST"),
        ("GET", "/v1/notifications/batch", "POST"),
        ("TRACE", "/v1/kpis", "GET,HEAD"),
        ("BREW", "/v1/suppressions", "DELETE,GET,HEAD"),
    ] {
        let reply = server.ask(method, path).await_reply().await;
        assert_eq!((reply.status, reply.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        let mut allow: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{method} {path}");
    }
    let head = server.ask("HEAD", "/v1/kpis").await_reply().await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

/// C005, IN33, IN34: what the store cannot do is never a success, may be tried again, and tells no more than
/// whoever asks may know.
#[test]
fn c005_in33_in34_faults_of_the_store() {
    let secret = "/var/lib/secret.db".to_owned();
    let table = [
        (StoreError::Full, Code::StorageFull),
        (StoreError::Overloaded, Code::Overloaded),
        (StoreError::Contended(secret.clone()), Code::Overloaded),
        (StoreError::Unavailable(secret.clone()), Code::StorageUnavailable),
        (StoreError::Disk(secret.clone()), Code::StorageUnavailable),
        (StoreError::Refused(secret.clone()), Code::StorageUnavailable),
        (StoreError::Locked(secret.clone()), Code::StorageUnavailable),
        (StoreError::NotOurs(secret.clone()), Code::StorageUnavailable),
        (StoreError::NewerSchema { found: 9, known: 1 }, Code::StorageUnavailable),
        (StoreError::QueryTimeout, Code::QueryTimeout),
        (StoreError::OutcomeUnknown, Code::OutcomeUnknown),
        (StoreError::Corrupt(secret.clone()), Code::Internal),
        (StoreError::Statement(secret.clone()), Code::Internal),
    ];
    for (error, code) in table {
        let problem = Problem::from(error.clone());
        let body = serde_json::to_string(&problem.body(Some("id"))).unwrap();
        assert_eq!((problem.code, problem.cause.as_deref()), (code, Some(error.to_string().as_str())));
        assert!(!body.contains("secret"), "{body}");
        let mut headers = HeaderMap::new();
        problem.add_headers(&mut headers);
        assert_eq!(headers.contains_key("retry-after"), code.status() == 503);
        assert_eq!(code.retryable(), code.status() == 503);
    }
}

/// The process lives from the start, and is ready when the lifecycle and the database say so.
#[tokio::test]
async fn health() {
    let server = Server::start().await;
    let ready = || server.ask_openly("GET", "/readyz").await_reply();
    let alive = server.ask_openly("GET", "/healthz").await_reply().await;
    assert_eq!((alive.status, alive.json()), (200, json!({"status": "alive"})));
    let starting = ready().await;
    assert_eq!((starting.status, starting.code().as_str()), (503, "not_ready"));
    assert_eq!(starting.json()["detail"], "the server is starting");
    server.app.health.set_ready();
    assert_eq!((ready().await.status, ready().await.json()), (200, json!({"status": "ready"})));
    server.app.health.set_fault("dispatcher", Some("stands still".to_owned()));
    assert_eq!(ready().await.json()["detail"], "dispatcher: stands still");
    server.app.health.set_fault("dispatcher", None);
    assert_eq!(ready().await.status, 200);
    server.app.health.set_stopping();
    assert_eq!(ready().await.json()["detail"], "the server is stopping");
    assert_eq!(server.ask_openly("GET", "/healthz").await_reply().await.status, 200);
}

/// What is counted, and what is measured at the scrape.
#[tokio::test]
async fn metrics() {
    let server = Server::start().await;
    let body =
        json!({"id": "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59", "list": "ops", "subject": "s", "body": "b"});
    server.accept(&body).await;
    server.accept(&body).await;
    server.post("/v1/notifications/batch", &json!({"notifications": [{}]})).await;
    server.post(ONE, &json!({})).await;
    server.get("/nowhere/at-all").await;
    server.app.metrics.attempt(ChannelKind::Email, Some(FailureClass::Transient));
    server.app.metrics.attempt(ChannelKind::Email, None);
    server.clock.advance(Duration::from_secs(601));
    let reply = server.ask_openly("GET", "/metrics").await_reply().await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        "angarium_notifications_accepted_total 1",
        "angarium_notifications_duplicate_total 1",
        r#"angarium_notifications_refused_total{code="invalid_request"} 2"#,
        r#"angarium_http_requests_total{method="POST",route="/v1/notifications",status="202"} 2"#,
        r#"angarium_http_requests_total{method="GET",route="none",status="404"} 1"#,
        r#"angarium_http_request_seconds_count{method="POST",route="/v1/notifications"} 3"#,
        r#"angarium_attempts_total{kind="email",class="transient"} 1"#,
        r#"angarium_attempts_total{kind="email",class="delivered"} 1"#,
        "angarium_keys_refused_total 0",
        "angarium_audit_writes_failed_total 0",
        "angarium_queue_depth 1",
        "angarium_stuck 1",
        "angarium_parked 0",
        "angarium_in_flight 0",
        "angarium_oldest_pending_seconds 601.0",
        "angarium_store_up 1",
        "# EOF",
    ] {
        assert!(reply.body.lines().any(|known| known == line), "{line} in\n{}", reply.body);
    }
}

/// The end: nothing new is accepted, idle connections are closed, and what is in progress is finished.
#[tokio::test]
async fn a_soft_stop_finishes_what_is_in_progress() {
    let server = Server::start().await;
    let body = json!({"list": "ops", "subject": "s", "body": "b"}).to_string();
    let mut idle = server.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut start = [0; 12];
    idle.read_exact(&mut start).await.unwrap();
    let mut busy = server.connect().await;
    let asked = head(&server, &format!("content-length: {}\r\nexpect: 100-continue\r\n", body.len()));
    busy.write_all(asked.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    busy.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let Server { stop, ended, address, .. } = server;
    stop.send(()).unwrap();
    read_to_end(&mut idle).await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the listener is closed");
    busy.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(Reply::read(&read_to_end(&mut busy).await).status, 202);
    assert_eq!(ended.await.unwrap(), 0);
}

/// What does not come to its end within the grace is cut off, and counted.
#[tokio::test]
async fn a_hard_stop_cuts_off_what_hangs() {
    let server = Server::start_with(|app| app.bounds.shutdown_grace = SHORT).await;
    let mut hanging = server.connect().await;
    let asked = head(&server, "content-length: 9\r\nexpect: 100-continue\r\n");
    hanging.write_all(asked.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    hanging.read_exact(&mut go_on).await.unwrap();
    let Server { stop, ended, .. } = server;
    stop.send(()).unwrap();
    assert_eq!(ended.await.unwrap(), 1);
    assert_eq!(read_to_end(&mut hanging).await, "");
}
