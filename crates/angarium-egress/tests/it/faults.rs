use std::net::SocketAddr;
use std::sync::Arc;

use angarium_egress::{Blocked, Client, Fault, FaultKind, Guard, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::receiver::{client, client_knowing, large_body, options, post, post_to, read_request, receiver};

/// A receiver that reads a whole request, gives `answer` and closes.
async fn saying(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let answer = answer.into();
    receiver(move |_, mut stream| {
        let answer = answer.clone();
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(&answer).await;
        }
    })
    .await
}

fn told(fault: &Fault) -> (FaultKind, bool) {
    (fault.kind, fault.request_written)
}

/// C123, WH1, WH2, WH5: at dial, in every spelling, and nothing is connected.
#[tokio::test]
async fn c123_blocked_addresses_are_not_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Client::new(Options::new(Guard::public_only().plain_http(true))).unwrap();
    let hosts = "127.0.0.1 2130706433 0x7f.1 0177.0.0.1 127.1 0.0.0.0 localhost [::1] [::] \
        [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [64:ff9b::127.0.0.1]";
    for host in hosts.split_whitespace() {
        let fault = client.send(post(&format!("http://{host}:{port}/"), "x")).await.unwrap_err();
        assert_eq!(told(&fault), (FaultKind::Blocked(Blocked::NotPublic), false), "{host}");
        assert_eq!(fault.kind.as_str(), "blocked_address");
    }
    let accepted = tokio::select! {
        biased;
        _ = listener.accept() => true,
        () = std::future::ready(()) => false,
    };
    assert!(!accepted);
}

/// WH4: one bad address among good ones refuses the name.
#[tokio::test]
async fn c123_a_name_with_one_blocked_address_is_refused() {
    for addresses in
        [["1.1.1.1", "::1"], ["10.0.0.1", "2606:4700:4700::1111"], ["1.1.1.1", "::ffff:10.0.0.1"]]
    {
        let client = client_knowing(Options::new(Guard::public_only()), "mixed.example", &addresses);
        let fault = client.send(post("https://mixed.example/", "x")).await.unwrap_err();
        assert_eq!(told(&fault), (FaultKind::Blocked(Blocked::NotPublic), false), "{addresses:?}");
    }
}

/// WH3: metadata names are not even resolved, and a name that leads there is refused too.
#[tokio::test]
async fn metadata_is_refused_whatever_is_allowed() {
    let guard = Guard::public_only().allowing(vec!["0.0.0.0/0".parse().unwrap()]).plain_http(true);
    let client = client_knowing(Options::new(guard), "innocent.example", &["169.254.169.254"]);
    for host in ["metadata.google.internal", "innocent.example", "169.254.169.254", "[::ffff:a9fe:a9fe]"] {
        let fault = client.send(post(&format!("http://{host}/"), "x")).await.unwrap_err();
        assert_eq!(told(&fault), (FaultKind::Blocked(Blocked::Metadata), false), "{host}");
    }
}

/// WH9: decided when the address is known, before a connection is made.
#[tokio::test]
async fn plain_http_to_a_public_address_is_refused() {
    let client = client_knowing(options(), "public.example", &["1.1.1.1"]);
    let fault = client.send(post("http://public.example/", "x")).await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::Blocked(Blocked::PlainHttp), false));
    assert_eq!(fault.kind.as_str(), "plain_http");
}

/// C124: a name that does not resolve now may resolve later; that is no unsafe URL.
#[tokio::test]
async fn c124_a_name_without_address() {
    let client = client_knowing(options(), "gone.example", &[]);
    let fault = client.send(post("http://gone.example/", "x")).await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::NoSuchName, false));
    let label = "x".repeat(64);
    let fault = client.send(post(&format!("http://{label}.example/"), "x")).await.unwrap_err();
    assert_eq!((fault.kind.as_str(), fault.request_written), ("dns", false));
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let fault = post_to(&client(), address, "x").await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::Connect, false));
}

#[tokio::test]
async fn the_next_address_is_tried() {
    let address = saying("HTTP/1.1 204 No Content\r\n\r\n").await;
    let client = client_knowing(options(), "two.example", &["127.0.0.2", "127.0.0.1"]);
    let url = format!("http://two.example:{}/", address.port());
    assert_eq!(client.send(post(&url, "x")).await.unwrap().status, 204);
}

#[tokio::test]
async fn what_is_not_http_is_not_sent() {
    for url in ["ftp://127.0.0.1/", "file:///etc/passwd", "data:,x"] {
        let fault = client().send(post(url, "x")).await.unwrap_err();
        assert_eq!(told(&fault), (FaultKind::Request, false), "{url}");
    }
}

/// Closed right after the connection was taken: the request may or may not fit into a buffer, but a large one
/// cannot.
#[tokio::test]
async fn closed_before_anything_was_read() {
    let address = receiver(|_, stream| async move { drop(stream) }).await;
    let fault = post_to(&client(), address, large_body()).await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::Reset, false));
}

#[tokio::test]
async fn closed_after_the_headers() {
    let address = receiver(|_, mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    })
    .await;
    let fault = post_to(&client(), address, large_body()).await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::Reset, false));
}

#[tokio::test]
async fn closed_in_the_middle_of_the_body() {
    let address = receiver(|_, mut stream| async move {
        stream.read_exact(&mut vec![0; 1024 * 1024]).await.unwrap();
    })
    .await;
    let fault = post_to(&client(), address, large_body()).await.unwrap_err();
    assert_eq!(told(&fault), (FaultKind::Reset, false));
}

/// WH22: the receiver had it all and said nothing.
#[tokio::test]
async fn closed_after_the_whole_body() {
    let address = saying("").await;
    for body in ["x".into(), "".into(), large_body()] {
        let fault = post_to(&client(), address, body).await.unwrap_err();
        assert_eq!(told(&fault), (FaultKind::Reset, true));
    }
}

/// An answer counts even when the receiver did not want to read the whole request. What is left of the request
/// must not be taken for the next one, so the connection is not used again.
#[tokio::test]
async fn an_early_answer_is_an_answer() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let address = receiver(move |number, mut stream| {
        let tell = tell.clone();
        async move {
            stream.read_exact(&mut [0; 16]).await.unwrap();
            let answer = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            tell.send(number).unwrap();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let client = client();
    for number in 0..2 {
        assert_eq!(post_to(&client, address, large_body()).await.unwrap().status, 413);
        assert_eq!(told.recv().await, Some(number));
    }
}

/// Sends `body` to a receiver that reads `all` of it or none and never answers; once it got that far, time is
/// made to run out.
async fn run_out_of_time(body: bytes::Bytes, all: bool) -> Fault {
    let got_there = Arc::new(Notify::new());
    let signal = Arc::clone(&got_there);
    let address = receiver(move |_, mut stream| {
        let signal = Arc::clone(&signal);
        async move {
            if all {
                read_request(&mut stream).await;
            }
            signal.notify_one();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let client = client();
    let (answer, ()) = tokio::join!(post_to(&client, address, body), async {
        got_there.notified().await;
        tokio::time::pause();
    });
    answer.unwrap_err()
}

/// WH14: never answers.
#[tokio::test]
async fn time_runs_out_before_and_after_the_request_was_written() {
    assert_eq!(told(&run_out_of_time(large_body(), false).await), (FaultKind::Timeout, false));
    tokio::time::resume();
    assert_eq!(told(&run_out_of_time("x".into(), true).await), (FaultKind::Timeout, true));
}

/// WH14: a body that drips is cut when the time is up; the status came, so the status decides.
#[tokio::test]
async fn a_dripping_body_is_cut() {
    let dripped = Arc::new(Notify::new());
    let signal = Arc::clone(&dripped);
    let address = receiver(move |_, mut stream| {
        let signal = Arc::clone(&signal);
        async move {
            read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
            signal.notify_one();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let client = client();
    let (answer, ()) = tokio::join!(post_to(&client, address, "x"), async {
        dripped.notified().await;
        tokio::task::yield_now().await;
        tokio::time::pause();
    });
    let answer = answer.unwrap();
    assert_eq!((answer.status, &answer.body[..], answer.truncated), (200, &b"abc"[..], true));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_cut() {
    for body in ["content-length: 10\r\n\r\nabc", "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"] {
        let address = saying(format!("HTTP/1.1 500 Oops\r\n{body}")).await;
        let answer = post_to(&client(), address, "x").await.unwrap();
        assert_eq!((answer.status, &answer.body[..], answer.truncated), (500, &b"abc"[..], true), "{body}");
    }
}

/// WH16: what is not an answer, or too much of one.
#[tokio::test]
async fn wh16_answers_that_are_none() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let many: String = (0..101).map(|i| format!("x-{i}: 1\r\n")).collect();
    let answers = [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(),
        "HTTP/1.1 abc\r\n\r\n".to_owned(),
        "HTTP/2 200\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n".to_owned(),
        interim.repeat(1000) + ok,
        interim.repeat(9) + ok,
        format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(65536)),
        format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(10 * 1024 * 1024)),
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
    ];
    for answer in answers {
        let address = saying(answer.as_bytes()).await;
        let fault = post_to(&client(), address, "x").await.unwrap_err();
        let shown: String = answer.chars().take(60).collect();
        assert_eq!(told(&fault), (FaultKind::Protocol, true), "{shown} {fault}");
    }
    let address = saying(interim.repeat(8) + ok).await;
    assert_eq!(post_to(&client(), address, "x").await.unwrap().status, 200);
}

/// A fault can be shown to anyone: it names neither URL nor headers nor body.
#[tokio::test]
async fn faults_hold_no_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let client = client_knowing(options(), "gone.example", &[]);
    let hosts =
        [closed.to_string(), saying("").await.to_string(), saying("garbage\r\n\r\n").await.to_string()];
    for host in hosts.iter().map(String::as_str).chain(["gone.example", "10.0.0.1", "1.1.1.1"]) {
        let mut request = post(&format!("http://{host}/T0KEN/path?sig=T0KEN"), "T0KEN");
        request.headers.insert("authorization", http::HeaderValue::from_static("Bearer T0KEN"));
        let fault = client.send(request).await.unwrap_err();
        assert!(!format!("{fault} {fault:?}").contains("T0KEN"), "{fault}");
    }
}
