use std::sync::Arc;

use angarium_domain::limits::RESPONSE_READ_BYTES;
use angarium_egress::{Blocked, Client, FaultKind, Guard, Options, Trust};
use http::{HeaderValue, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use crate::receiver::{client, options, post, post_to, read_request, receiver};

const EMPTY_200: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A receiver that gives every request the same answer and tells the request and its connection's number.
async fn answering(answer: Vec<u8>) -> (std::net::SocketAddr, mpsc::UnboundedReceiver<(usize, String)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let address = receiver(move |number, mut stream| {
        let (answer, tell) = (answer.clone(), tell.clone());
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let _ = tell.send((number, request));
                let _ = stream.write_all(&answer).await;
            }
        }
    })
    .await;
    (address, told)
}

/// Byte for byte: no accept-encoding, no cookies, no connection header; what frames the body is ours alone.
#[tokio::test]
async fn what_arrives_on_the_wire() {
    let (address, mut told) = answering(EMPTY_200.to_vec()).await;
    let mut request = post(&format!("http://{address}/a%20b?q=1&r=%C3%A9#part"), "{\"x\":1}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("host", "elsewhere.example"),
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("x-mine", "ü"),
    ] {
        request.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    assert_eq!(client().send(request).await.unwrap().status, 200);
    let expected = format!(
        "POST /a%20b?q=1&r=%C3%A9 HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         x-mine: ü\r\ncontent-length: 7\r\n\r\n{{\"x\":1}}"
    );
    assert_eq!(told.recv().await.unwrap().1, expected);
}

#[tokio::test]
async fn an_empty_body_has_a_length_only_where_one_is_expected() {
    let (address, mut told) = answering(EMPTY_200.to_vec()).await;
    let client = client();
    post_to(&client, address, "").await.unwrap();
    let posted = format!("POST /hook HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(told.recv().await.unwrap().1, posted);
    let get = angarium_egress::Request { method: Method::GET, ..post(&format!("http://{address}"), "") };
    client.send(get).await.unwrap();
    assert_eq!(told.recv().await.unwrap().1, format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n"));
}

/// C111, WH6: a redirect is an answer like any other; nobody goes there.
#[tokio::test]
async fn c111_redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (elsewhere, mut visits) = answering(EMPTY_200.to_vec()).await;
        let answer =
            format!("HTTP/1.1 {status} Moved\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n");
        let (address, mut told) = answering(answer.into_bytes()).await;
        let response = post_to(&client(), address, "x").await.unwrap();
        assert_eq!(response.status, status);
        assert_eq!(response.headers["location"], format!("http://{elsewhere}/"));
        assert!(told.try_recv().is_ok() && told.try_recv().is_err(), "one request");
        assert!(visits.try_recv().is_err(), "none elsewhere");
    }
}

/// C117: nothing is unpacked, so a bomb has the size it has on the wire.
#[tokio::test]
async fn c117_a_compressed_answer_stays_compressed() {
    let packed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1];
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", packed.len())
            .into_bytes();
    answer.extend(packed);
    let (address, _told) = answering(answer).await;
    let response = post_to(&client(), address, "x").await.unwrap();
    assert_eq!((response.status, &response.body[..], response.truncated), (200, &packed[..], false));
}

/// C118: no body is no broken body.
#[tokio::test]
async fn c118_content_encoding_without_a_body() {
    for answer in [
        "HTTP/1.1 204 No Content\r\ncontent-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
    ] {
        let (address, _told) = answering(answer.as_bytes().to_vec()).await;
        let response = post_to(&client(), address, "x").await.unwrap();
        assert_eq!((response.body.len(), response.truncated), (0, false), "{answer}");
    }
}

/// C062: bytes that are no text arrive as they are.
#[tokio::test]
async fn c062_bad_bytes_in_the_answer() {
    let answer = b"HTTP/1.1 200 OK\r\nx-note: caf\xe9\r\ncontent-length: 3\r\n\r\n\x00\xff\xfe";
    let (address, _told) = answering(answer.to_vec()).await;
    let response = post_to(&client(), address, "x").await.unwrap();
    assert_eq!((response.status, &response.body[..]), (200, &b"\x00\xff\xfe"[..]));
    assert_eq!(response.headers["x-note"].as_bytes(), b"caf\xe9");
}

/// WH15: an endless body is read up to the limit; then the connection is dropped and the status decides.
#[tokio::test]
async fn wh15_an_endless_body_is_cut() {
    let gone = Arc::new(Notify::new());
    let signal = Arc::clone(&gone);
    let address = receiver(move |_, mut stream| {
        let signal = Arc::clone(&signal);
        async move {
            read_request(&mut stream).await;
            let head = "HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            while stream.write_all(b"5\r\nabcde\r\n").await.is_ok() {}
            signal.notify_one();
        }
    })
    .await;
    let client = client();
    let response = post_to(&client, address, "x").await.unwrap();
    assert_eq!((response.status, response.body.len(), response.truncated), (202, RESPONSE_READ_BYTES, true));
    gone.notified().await;
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    for (extra, truncated) in [(0, false), (1, true)] {
        let length = RESPONSE_READ_BYTES + extra;
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + length, b'x');
        let (address, _told) = answering(answer).await;
        let response = post_to(&client(), address, "x").await.unwrap();
        assert_eq!((response.body.len(), response.truncated), (RESPONSE_READ_BYTES, truncated));
    }
}

#[tokio::test]
async fn connections_are_used_again_unless_too_old() {
    let (address, mut told) = answering(EMPTY_200.to_vec()).await;
    let keeping = client();
    for _ in 0..3 {
        post_to(&keeping, address, "x").await.unwrap();
        assert_eq!(told.recv().await.unwrap().0, 0);
    }
    let forgetful = Options { idle_timeout: std::time::Duration::ZERO, ..options() };
    let solitary = Options { max_idle_per_host: 0, ..options() };
    let mut connection = 0;
    for options in [forgetful, solitary] {
        let client = Client::new(options).unwrap();
        for _ in 0..2 {
            connection += 1;
            post_to(&client, address, "x").await.unwrap();
            assert_eq!(told.recv().await.unwrap().0, connection);
        }
    }
}

/// What an operator's word opened is not open to data.
#[tokio::test]
async fn a_pooled_connection_serves_only_the_trust_it_was_dialled_with() {
    let (address, mut told) = answering(EMPTY_200.to_vec()).await;
    let client = Client::new(Options::new(Guard::public_only())).unwrap();
    let url = format!("http://{address}/");
    let meant = angarium_egress::Request { trust: Trust::Operator, ..post(&url, "x") };
    client.send(meant).await.unwrap();
    assert!(told.recv().await.is_some());
    let fault = client.send(post(&url, "x")).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Blocked(Blocked::NotPublic));
    assert!(told.try_recv().is_err());
}

/// C119: a connection that the receiver closed while it was idle costs nobody a message.
#[tokio::test]
async fn c119_a_connection_closed_while_idle_is_passed_over() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let close = Arc::new(Notify::new());
    let signal = Arc::clone(&close);
    let address = receiver(move |number, mut stream| {
        let (tell, signal) = (tell.clone(), Arc::clone(&signal));
        async move {
            read_request(&mut stream).await;
            stream.write_all(EMPTY_200).await.unwrap();
            signal.notified().await;
            drop(stream);
            tell.send(number).unwrap();
        }
    })
    .await;
    let client = client();
    for number in 0..50 {
        assert_eq!(post_to(&client, address, "x").await.unwrap().status, 200);
        close.notify_one();
        assert_eq!(told.recv().await, Some(number));
        // The socket is closed by now; let the runtime hear of it.
        tokio::task::yield_now().await;
    }
}

/// C119: once a byte has left, a request is not sent again unasked, on a pooled connection either.
#[tokio::test]
async fn c119_a_request_that_left_is_not_repeated() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let address = receiver(move |number, mut stream| {
        let tell = tell.clone();
        async move {
            read_request(&mut stream).await;
            stream.write_all(EMPTY_200).await.unwrap();
            read_request(&mut stream).await;
            tell.send(number).unwrap();
        }
    })
    .await;
    let client = client();
    assert_eq!(post_to(&client, address, "x").await.unwrap().status, 200);
    let fault = post_to(&client, address, "x").await.unwrap_err();
    assert_eq!((fault.kind, fault.request_written), (FaultKind::Reset, true));
    assert_eq!(told.recv().await, Some(0));
    assert_eq!(post_to(&client, address, "x").await.unwrap().status, 200);
}

/// Dropping the future closes the connection; the next request gets another one.
#[tokio::test]
async fn a_dropped_request_leaves_nothing_behind() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let address = receiver(move |number, mut stream| {
        let tell = tell.clone();
        async move {
            read_request(&mut stream).await;
            tell.send((number, "asked")).unwrap();
            if number == 0 {
                assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
                tell.send((number, "gone")).unwrap();
            } else {
                stream.write_all(EMPTY_200).await.unwrap();
            }
        }
    })
    .await;
    let client = client();
    tokio::select! {
        biased;
        _ = post_to(&client, address, "x") => unreachable!("the receiver does not answer"),
        asked = told.recv() => assert_eq!(asked, Some((0, "asked"))),
    }
    assert_eq!(told.recv().await, Some((0, "gone")));
    assert_eq!(post_to(&client, address, "x").await.unwrap().status, 200);
    assert_eq!(told.recv().await, Some((1, "asked")));
}
