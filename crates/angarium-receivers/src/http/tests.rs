//! The receiver as a client sees it, byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const POST: &str = "POST /hook HTTP/1.1\r\nhost: x\r\nwebhook-id: m1\r\ncontent-length: 4\r\n\r\nbody";

/// Sends `bytes` on a connection of its own, and closes its own side; returns all that comes back.
async fn talk(receiver: &Receiver, bytes: &str) -> String {
    let mut stream = TcpStream::connect(receiver.addr()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    read_all(&mut stream).await
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset ends an answer as much as a close does.
    while let Ok(1..) = stream.read_buf(&mut answer).await {}
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether anything has come, or the other side has closed. Ask after a full exchange on another connection,
/// so that the runtime has looked at the sockets since.
async fn stirs(stream: &TcpStream) -> bool {
    tokio::time::timeout(Duration::ZERO, stream.readable()).await.is_ok()
}

async fn read_some(stream: &mut TcpStream, length: usize) -> String {
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_path_without_a_script_answers_204_and_journals_the_request() {
    let receiver = Receiver::start().await.unwrap();
    assert_eq!(talk(&receiver, POST).await, "HTTP/1.1 204 \r\n\r\n");
    let [request] = receiver.requests().try_into().unwrap();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/hook"));
    assert_eq!(request.text(), "body");
    assert_eq!(request.header("webhook-id"), Some("m1"));
    assert!(request.head.starts_with("POST /hook HTTP/1.1\r\nhost: x\r\n"));
    assert!(request.complete && request.effect);
}

#[tokio::test]
async fn a_script_goes_step_by_step_and_its_last_step_repeats() {
    let receiver = Receiver::start().await.unwrap();
    let busy = Reply::status(503).header("retry-after", "7").reason("busy").body("later");
    receiver.script("/hook", [busy, Reply::ok()]);
    let first = talk(&receiver, POST).await;
    assert_eq!(first, "HTTP/1.1 503 busy\r\ncontent-length: 5\r\nretry-after: 7\r\n\r\nlater");
    for _ in 0..2 {
        assert_eq!(talk(&receiver, POST).await, "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n");
    }
    assert_eq!(receiver.requests().len(), 3);
    assert_eq!(receiver.effects("/hook").len(), 2);
    assert_eq!(receiver.effects_by_id("/hook"), BTreeMap::from([("m1".to_owned(), 2)]));
    assert!(receiver.effects("/other").is_empty());
}

#[tokio::test]
async fn a_connection_is_kept_alive_and_requests_name_it() {
    let receiver = Receiver::start().await.unwrap();
    let twice = talk(&receiver, &POST.repeat(2)).await;
    assert_eq!(twice, "HTTP/1.1 204 \r\n\r\n".repeat(2));
    talk(&receiver, POST).await;
    let connections: Vec<u64> = receiver.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
    assert_eq!(receiver.connections(), 2);
}

#[tokio::test]
async fn an_answer_that_closes_ends_the_connection() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().then_hang_up()]);
    let answer = talk(&receiver, &POST.repeat(2)).await;
    assert_eq!(answer, "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n");
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn lost_answers_are_effects_and_unread_bodies_are_not() {
    let receiver = Receiver::start().await.unwrap();
    let steps =
        [Reply::hang_up_after_head(), Reply::hang_up_after_body(), Reply::hang_up_after_body().effect(false)];
    receiver.script("/hook", steps);
    for _ in 0..3 {
        assert_eq!(talk(&receiver, POST).await, "");
    }
    let seen: Vec<(bool, bool)> = receiver.requests().iter().map(|r| (r.complete, r.effect)).collect();
    assert_eq!(seen, [(false, false), (true, true), (true, false)]);
}

#[tokio::test]
async fn a_body_that_the_client_breaks_off_is_no_effect() {
    let receiver = Receiver::start().await.unwrap();
    assert_eq!(talk(&receiver, &POST[..POST.len() - 1]).await, "");
    let [request] = receiver.requests().try_into().unwrap();
    assert_eq!((request.text().as_str(), request.complete, request.effect), ("bod", false, false));
}

#[tokio::test]
async fn hanging_up_on_accept_ends_after_so_many_connections() {
    let receiver = Receiver::start().await.unwrap();
    receiver.hang_up_on_accept(1);
    let mut refused = TcpStream::connect(receiver.addr()).await.unwrap();
    assert_eq!(read_all(&mut refused).await, "");
    assert_eq!(talk(&receiver, POST).await, "HTTP/1.1 204 \r\n\r\n");
    assert_eq!((receiver.connections(), receiver.requests().len()), (2, 1));
}

#[tokio::test]
async fn a_cut_answer_stops_in_the_middle() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().body("all of it").cut_after(39)]);
    assert_eq!(talk(&receiver, POST).await, "HTTP/1.1 200 \r\ncontent-length: 9\r\n\r\nall");
    assert_eq!(receiver.effects("/hook").len(), 1);
}

#[tokio::test]
async fn a_dripped_body_arrives_whole_and_keeps_the_connection() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().body("drop").drip(Duration::from_millis(1)), Reply::status(204)]);
    let answer = talk(&receiver, &POST.repeat(2)).await;
    assert_eq!(answer, "HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\ndropHTTP/1.1 204 \r\n\r\n");
}

#[tokio::test]
async fn raw_bytes_go_out_as_they_are() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::raw("SSH-2.0-x\r\n")]);
    assert_eq!(talk(&receiver, POST).await, "SSH-2.0-x\r\n");
    assert!(receiver.effects("/hook").is_empty());
}

#[tokio::test]
async fn floods_go_on_until_the_client_leaves() {
    let receiver = Receiver::start().await.unwrap();
    let floods = [Reply::endless_body(200), Reply::endless_head(200), Reply::interim_flood()];
    receiver.script("/hook", floods);
    for start in ["HTTP/1.1 200 \r\ntransfer-encoding", "HTTP/1.1 200 \r\nx-filler", "HTTP/1.1 100 Continue"]
    {
        let mut stream = TcpStream::connect(receiver.addr()).await.unwrap();
        stream.write_all(POST.as_bytes()).await.unwrap();
        let megabyte = read_some(&mut stream, 1 << 20).await;
        assert!(megabyte.starts_with(start), "{start}");
    }
    assert_eq!(receiver.effects("/hook").len(), 2);
}

#[tokio::test]
async fn silence_takes_the_request_and_neither_answers_nor_closes() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::silence()]);
    let mut stream = TcpStream::connect(receiver.addr()).await.unwrap();
    stream.write_all(POST.as_bytes()).await.unwrap();
    assert!(receiver.wait_for("/hook", 1).await[0].effect);
    talk(&receiver, "GET /other HTTP/1.1\r\n\r\n").await;
    assert!(!stirs(&stream).await);
}

#[tokio::test]
async fn held_answers_wait_for_release_while_requests_arrive() {
    let receiver = Receiver::start().await.unwrap();
    receiver.hold();
    let mut first = TcpStream::connect(receiver.addr()).await.unwrap();
    first.write_all(POST.as_bytes()).await.unwrap();
    let mut second = TcpStream::connect(receiver.addr()).await.unwrap();
    second.write_all(POST.as_bytes()).await.unwrap();
    receiver.wait_for("/hook", 2).await;
    talk(&receiver, "not HTTP\r\n\r\n").await;
    assert!(!stirs(&first).await && !stirs(&second).await);
    receiver.release();
    for stream in [&mut first, &mut second] {
        assert_eq!(read_some(stream, 17).await, "HTTP/1.1 204 \r\n\r\n");
    }
}

#[tokio::test]
async fn a_reply_behind_its_own_gate_lets_others_pass() {
    let receiver = Receiver::start().await.unwrap();
    let gate = Gate::closed();
    receiver.script("/slow", [Reply::ok().gate(&gate)]);
    let mut slow = TcpStream::connect(receiver.addr()).await.unwrap();
    slow.write_all(b"GET /slow HTTP/1.1\r\n\r\n").await.unwrap();
    receiver.wait_for("/slow", 1).await;
    assert_eq!(talk(&receiver, POST).await, "HTTP/1.1 204 \r\n\r\n");
    assert!(!stirs(&slow).await);
    gate.open();
    assert_eq!(read_some(&mut slow, 14).await, "HTTP/1.1 200 \r");
}

#[tokio::test]
async fn waits_end_on_any_predicate() {
    let receiver = Receiver::start().await.unwrap();
    let two_bodies = |all: &[Received]| all.iter().map(|request| request.body.len()).sum::<usize>() == 8;
    let twice = POST.repeat(2);
    let (requests, _) = tokio::join!(receiver.wait_until(two_bodies), talk(&receiver, &twice));
    assert_eq!(requests.len(), 2);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited 60s for 1 requests on /never; arrived so far: []")]
async fn a_wait_that_nothing_ends_fails() {
    Receiver::start().await.unwrap().wait_for("/never", 1).await;
}

#[tokio::test]
async fn a_malformed_request_is_refused_and_not_journalled() {
    let receiver = Receiver::start().await.unwrap();
    let answer = talk(&receiver, "GET / HTTP/3\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("an unknown version"), "{answer}");
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_dropped_receiver_closes_its_connections_and_can_come_back() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::silence()]);
    let addr = receiver.addr();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(POST.as_bytes()).await.unwrap();
    receiver.wait_for("/hook", 1).await;
    drop(receiver);
    assert_eq!(read_all(&mut stream).await, "");
    assert!(TcpStream::connect(addr).await.is_err());
    let back = Receiver::start_at(addr).await.unwrap();
    assert_eq!(talk(&back, POST).await, "HTTP/1.1 204 \r\n\r\n");
}

#[tokio::test]
async fn headers_given_by_hand_may_be_any_bytes_and_may_lie() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script(
        "/hook",
        [Reply::ok().header("x-odd", b"caf\xe9").header("Content-Length", "9").body("abc").then_hang_up()],
    );
    assert_eq!(
        talk(&receiver, POST).await,
        "HTTP/1.1 200 \r\nx-odd: caf\u{fffd}\r\nContent-Length: 9\r\n\r\nabc"
    );
}
