use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use angarium_channels::webhook::{SigningSecret, WebhookAdapter, WebhookChannel};
use angarium_domain::adapter::{Adapter, Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::limits::RESPONSE_KEPT_BYTES;
use angarium_domain::outcome::{Failure, FailureClass, Outcome, Receipt};
use angarium_domain::text::ChannelName;
use angarium_domain::transcript::{Speaker, Transcript, Turn};
use angarium_egress::{Client, Guard, Options};
use angarium_receivers::http::{Receiver, Reply};

use crate::contract::{StatusTable, every_status, leaks_nothing, send_one};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEXT_SECRET: &str = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
const ID: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";
const BODY: &str = concat!(
    r#"{"id":"01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59","type":"notification","timestamp":"2031-03-04T09:59:58.5Z","#,
    r#""data":{"subject":"Pump \"3\"","body":"é😀\nline","list":"ops","data":{ "b" : 2.50, "a": [1] }}}"#
);

fn options() -> Options {
    Options::new(Guard::public_only().allowing(vec!["127.0.0.0/8".parse().unwrap()]))
}

fn adapter_with(options: Options, secrets: &[&str]) -> WebhookAdapter {
    let secrets = secrets.iter().map(|secret| secret.parse().unwrap()).collect();
    let channel = WebhookChannel { secrets, timeout: Duration::from_secs(600) };
    let channels = HashMap::from([(ChannelName::parse("hooks").unwrap(), channel)]);
    WebhookAdapter::new(Arc::new(Client::new(options).unwrap()), channels)
}

fn adapter() -> WebhookAdapter {
    adapter_with(options(), &[SECRET])
}

fn delivery(url: &str) -> Delivery {
    let message = Message {
        id: ID.parse().unwrap(),
        subject: "Pump \"3\"".to_owned(),
        body: "é😀\nline".to_owned(),
        data: Some(r#"{ "b" : 2.50, "a": [1] }"#.to_owned()),
        list: Some("ops".to_owned()),
        presentation: None,
        at: "2031-03-04T09:59:58.5Z".parse().unwrap(),
    };
    Delivery {
        channel: ChannelName::parse("hooks").unwrap(),
        message: Arc::new(message),
        addresses: vec![Address::parse(ChannelKind::Webhook, url).unwrap()],
        attempted_at: "2031-03-04T10:00:00.9Z".parse().unwrap(),
        transcript: None,
    }
}

async fn deliver(url: &str) -> Outcome {
    send_one(&adapter(), &delivery(url)).await
}

fn failure_of(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Delivered(receipt) => panic!("delivered: {receipt:?}"),
    }
}

fn receipt_of(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Delivered(receipt) => receipt,
        Outcome::Failed(failure) => panic!("failed: {failure:?}"),
    }
}

/// What becomes of a delivery to a receiver that gives `reply`.
async fn answered(reply: Reply) -> Outcome {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [reply]);
    deliver(&receiver.url("/hook")).await
}

async fn refused(reply: Reply) -> Failure {
    failure_of(answered(reply).await)
}

/// The request, byte for byte.
#[tokio::test]
async fn what_arrives_on_the_wire() {
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/hook?key=1");
    let outcome = send_one(&adapter_with(options(), &[SECRET, NEXT_SECRET]), &delivery(&url)).await;
    assert_eq!(outcome, Outcome::Delivered(Receipt { status_code: Some(204), ..Receipt::default() }));
    let sign =
        |secret: &str| secret.parse::<SigningSecret>().unwrap().sign(ID, 1_930_384_800, BODY.as_bytes());
    let requests = receiver.requests();
    let expected = format!(
        "POST /hook?key=1 HTTP/1.1\r\n\
         host: {}\r\n\
         content-type: application/json\r\n\
         user-agent: angarium/0.1.0\r\n\
         webhook-id: {ID}\r\n\
         webhook-timestamp: 1930384800\r\n\
         webhook-signature: {} {}\r\n\
         content-length: {}\r\n\r\n",
        receiver.addr(),
        sign(SECRET),
        sign(NEXT_SECRET),
        BODY.len(),
    );
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].head, expected);
    assert_eq!(requests[0].text(), BODY);
}

#[tokio::test]
async fn what_is_not_there_is_not_sent() {
    let receiver = Receiver::start().await.unwrap();
    let mut bare = delivery(&receiver.url("/hook"));
    bare.message =
        Arc::new(Message { list: None, data: None, subject: String::new(), ..(*bare.message).clone() });
    send_one(&adapter_with(options(), &[]), &bare).await;
    let request = &receiver.requests()[0];
    assert_eq!(request.header("webhook-signature"), None);
    assert!(request.text().ends_with(r#""data":{"subject":"","body":"é😀\nline"}}"#), "{}", request.text());
}

/// WH-02, OB-10: each status has one meaning.
#[tokio::test]
async fn every_status_has_its_class() {
    use FailureClass::{PermanentMessage, PermanentRecipient, RateLimited, Transient};
    let table: StatusTable<'_> = &[
        (200..=299, None),
        (300..=399, Some(PermanentMessage)),
        (400..=407, Some(PermanentMessage)),
        (408..=408, Some(Transient)),
        (409..=409, Some(PermanentMessage)),
        (410..=410, Some(PermanentRecipient)),
        (411..=424, Some(PermanentMessage)),
        (425..=425, Some(Transient)),
        (426..=428, Some(PermanentMessage)),
        (429..=429, Some(RateLimited)),
        (430..=499, Some(PermanentMessage)),
        (500..=599, Some(Transient)),
    ];
    every_status(&adapter(), delivery, table).await;
}

/// C111: a redirect is not followed, and no more than its host is told.
#[tokio::test]
async fn c111_a_redirect_is_not_followed() {
    let receiver = Receiver::start().await.unwrap();
    let elsewhere = Receiver::start().await.unwrap();
    for status in [301, 302, 303, 307, 308] {
        receiver.script("/hook", [Reply::redirect(status, &elsewhere.url("/T0KEN?sig=T0KEN"))]);
        let failure = failure_of(deliver(&receiver.url("/hook")).await);
        assert_eq!((failure.class, failure.status_code), (FailureClass::PermanentMessage, Some(status)));
        assert!(
            failure.detail.ends_with("; its redirect to 127.0.0.1 is not followed"),
            "{}",
            failure.detail
        );
    }
    assert_eq!((receiver.requests().len(), elsewhere.requests().len()), (5, 0));
}

/// C129: no exception is no success.
#[tokio::test]
async fn c129_3xx_without_a_place_to_go() {
    for status in [300, 301, 304] {
        let failure = refused(Reply::status(status)).await;
        assert_eq!((failure.class, failure.status_code), (FailureClass::PermanentMessage, Some(status)));
        assert!(failure.detail.ends_with("; redirects are not followed"), "{}", failure.detail);
    }
}

/// C114: nobody is there any more, and that holds for the address.
#[tokio::test]
async fn c114_gone() {
    let failure = refused(Reply::status(410)).await;
    assert_eq!((failure.class, failure.suppress), (FailureClass::PermanentRecipient, true));
    let failure = refused(Reply::status(404)).await;
    assert_eq!((failure.class, failure.suppress), (FailureClass::PermanentMessage, false));
}

/// C117: what would unpack to 64 MiB stays packed, and the status decides.
#[tokio::test]
async fn c117_a_compressed_bomb() {
    let receipt = receipt_of(answered(Reply::gzip_bomb(200, 64 * 1024 * 1024)).await);
    assert!(receipt.response_excerpt.unwrap().len() <= RESPONSE_KEPT_BYTES);
    let receipt = receipt_of(answered(Reply::gzip_bomb(200, 3000)).await);
    let shown = receipt.response_excerpt.unwrap().chars().count();
    assert!(shown < 300, "{shown} characters of what came packed in a few dozen bytes");
}

/// C118: a content-encoding without content is no failure.
#[tokio::test]
async fn c118_an_empty_answer_said_to_be_gzip() {
    for status in [204, 200] {
        let receipt = Receipt { status_code: Some(status), ..Receipt::default() };
        let reply = Reply::status(status).header("content-encoding", "gzip");
        assert_eq!(answered(reply).await, Outcome::Delivered(receipt));
    }
}

/// C062: the answer's bytes never stand in the way of recording that it was delivered.
#[tokio::test]
async fn c062_bad_bytes_in_the_answer() {
    let reply = Reply::ok().header("x-note", b"caf\xe9").body(b"a\x00\xff\xfe\\ud83d");
    let receipt = receipt_of(answered(reply).await);
    assert_eq!(receipt.response_excerpt.unwrap(), "a\u{FFFD}\u{FFFD}\u{FFFD}\\ud83d");
}

/// C122: each attempt has its own time and signature over the same id and the same bytes.
#[tokio::test]
async fn c122_a_retry_is_signed_anew() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500), Reply::ok()]);
    let adapter = adapter();
    let first = delivery(&receiver.url("/hook"));
    let second =
        Delivery { attempted_at: first.attempted_at.plus(Duration::from_secs(600)), ..first.clone() };
    for delivery in [&first, &second] {
        send_one(&adapter, delivery).await;
    }
    let requests = receiver.requests();
    let secret: SigningSecret = SECRET.parse().unwrap();
    for (request, timestamp) in requests.iter().zip([1_930_384_800, 1_930_385_400]) {
        assert_eq!(request.header("webhook-id"), Some(ID));
        assert_eq!(request.header("webhook-timestamp"), Some(timestamp.to_string().as_str()));
        let signature = secret.sign(ID, timestamp, &request.body);
        assert_eq!(request.header("webhook-signature"), Some(signature.as_str()));
    }
    assert_eq!((requests.len(), &requests[0].body), (2, &requests[1].body));
}

/// C038, C040: a wish to wait, on the two statuses that carry one.
#[tokio::test]
async fn c038_c040_retry_after() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for status in [429, 503] {
        for (value, wait) in [
            ("7", seconds(7)),
            ("0", seconds(1)),
            ("1.5", seconds(2)),
            ("99999999999999999999", seconds(86_400)),
            ("Tue, 04 Mar 2031 10:02:00 GMT", Some(Duration::from_millis(119_100))),
        ] {
            let failure = refused(Reply::status(status).header("retry-after", value)).await;
            assert_eq!((failure.class, failure.retry_after), (FailureClass::RateLimited, wait), "{value}");
        }
    }
    for status in [408, 500, 502, 504] {
        let failure = refused(Reply::status(status).header("retry-after", "7")).await;
        assert_eq!((failure.class, failure.retry_after), (FailureClass::Transient, None), "{status}");
    }
}

/// C039, C041: what is no wish changes nothing, and what cannot be read is kept to be looked at.
#[tokio::test]
async fn c039_c041_unusable_retry_after() {
    for (status, class) in [(429, FailureClass::RateLimited), (503, FailureClass::Transient)] {
        for value in ["soon", "", "12 s", "Tue, 99 Foo 2031", "-5", "-0"] {
            let failure = refused(Reply::status(status).header("retry-after", value)).await;
            assert_eq!((failure.class, failure.retry_after), (class, None), "{value}");
            assert!(failure.detail.contains(&format!("Retry-After {value:?}")), "{}", failure.detail);
        }
        let past = Reply::status(status).header("retry-after", "Tue, 04 Mar 2031 09:00:00 GMT");
        let failure = refused(past).await;
        assert_eq!((failure.class, failure.retry_after), (class, None));
    }
}

/// C123: blocked is for good, and not the channel's fault.
#[tokio::test]
async fn c123_blocked_address() {
    for (url, word) in [
        ("http://10.0.0.1/", "blocked_address"),
        ("https://[::ffff:7f00:1]/", "blocked_address"),
        ("http://169.254.169.254/latest/", "blocked_address"),
        ("http://1.1.1.1/", "plain_http"),
    ] {
        let adapter = adapter_with(Options::new(Guard::public_only()), &[]);
        let failure = failure_of(send_one(&adapter, &delivery(url)).await);
        assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::PermanentMessage, false), "{url}");
        assert!(failure.detail.starts_with(word), "{}", failure.detail);
    }
}

/// C124: a name that does not resolve is tried again.
#[tokio::test]
async fn c124_short_dns_failure() {
    let mut options = options();
    options.hosts.insert("gone.example".to_owned(), Vec::new());
    let adapter = adapter_with(options, &[]);
    let failure = failure_of(send_one(&adapter, &delivery("https://gone.example/hook")).await);
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, false));
    assert!(failure.detail.starts_with("dns: "), "{}", failure.detail);
}

/// WH22: in doubt if and only if the whole request left and no status came back.
#[tokio::test]
async fn doubt_begins_with_the_last_byte_of_the_request() {
    for (reply, word) in [
        (Reply::hang_up_after_body(), "reset"),
        (Reply::raw("what?\r\n\r\n"), "protocol"),
        (Reply::interim_flood(), "protocol"),
        (Reply::endless_head(200), "protocol"),
        (Reply::status(101).header("connection", "upgrade").header("upgrade", "x"), "protocol"),
    ] {
        let failure = refused(reply).await;
        assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, true), "{word}");
        assert!(failure.detail.starts_with(word), "{}", failure.detail);
    }
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/hook");
    drop(receiver);
    let failure = failure_of(deliver(&url).await);
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, false));
    assert!(failure.detail.starts_with("connect: "), "{}", failure.detail);
}

/// WH14: a receiver that took the message and says nothing.
#[tokio::test]
async fn silence_is_doubt() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::silence()]);
    let url = receiver.url("/hook");
    let (outcome, ()) = tokio::join!(deliver(&url), async {
        receiver.wait_until(|requests| requests.iter().any(|request| request.complete)).await;
        tokio::time::pause();
    });
    let failure = failure_of(outcome);
    assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Transient, true));
    assert!(failure.detail.starts_with("timeout: "), "{}", failure.detail);
}

/// WH17: a receiver that echoes everything it got, in failure and in success.
#[tokio::test]
async fn echoed_secrets_are_masked() {
    let signature = SECRET.parse::<SigningSecret>().unwrap().sign(ID, 1_930_384_800, BODY.as_bytes());
    let (_, signature) = signature.split_once(',').unwrap();
    let bare = SECRET.strip_prefix("whsec_").unwrap();
    let secrets = [SECRET, bare, signature, bare.trim_end_matches('='), "T0KEN"];
    let echo = format!("\x1b[31m{SECRET} {bare} v1,{signature}\0 {}", signature.replace('/', "\\/"));
    for status in [200, 302, 400, 410, 429, 503] {
        let receiver = Receiver::start().await.unwrap();
        let reply = Reply::status(status)
            .header("location", format!("https://{}/T0KEN?T0KEN", bare.trim_end_matches('=')))
            .header("retry-after", bare)
            .body(&echo);
        receiver.script("/T0KEN", [reply]);
        let outcome = deliver(&receiver.url("/T0KEN?sig=T0KEN")).await;
        leaks_nothing(&outcome, &secrets);
    }
    for url in ["http://10.0.0.1/T0KEN", "http://1.1.1.1/T0KEN?T0KEN", "http://127.0.0.1:1/T0KEN"] {
        leaks_nothing(&deliver(url).await, &secrets);
    }
}

/// A channel that nobody configured suspends itself; it never panics.
#[tokio::test]
async fn a_channel_that_is_not_there() {
    let adapter = WebhookAdapter::new(Arc::new(Client::new(options()).unwrap()), HashMap::new());
    assert_eq!((adapter.kind(), adapter.addresses_per_send()), (ChannelKind::Webhook, 1));
    let failure = failure_of(send_one(&adapter, &delivery("http://127.0.0.1:1/")).await);
    assert_eq!(failure.class, FailureClass::PermanentConfig);
}

/// The conversation of a delivery, a mark before each line that says whose it is.
async fn conversation(delivery: &mut Delivery) -> String {
    let transcript = Arc::new(Transcript::default());
    delivery.transcript = Some(Arc::clone(&transcript));
    send_one(&adapter_with(options(), &[SECRET, NEXT_SECRET]), delivery).await;
    let line = |turn: Turn| {
        let mark = match turn.speaker {
            Speaker::Us => '>',
            Speaker::Them => '<',
            Speaker::Remark => '*',
        };
        format!("{mark} {}\n", turn.text)
    };
    transcript.turns().into_iter().map(line).collect()
}

/// Whoever tests a channel sees what went over the wire, but no secret, neither ours nor the receiver's own.
#[tokio::test]
async fn a_conversation_is_written_down() {
    let receiver = Receiver::start().await.unwrap();
    let signature = SECRET.parse::<SigningSecret>().unwrap().sign(ID, 1_930_384_800, BODY.as_bytes());
    let echo = format!("key {SECRET} is good\nline two; got: {signature}");
    let length = echo.len();
    let reply = Reply::ok()
        .header("content-type", "text/plain")
        .header("Set-Cookie", "sid=T0KEN")
        .header("x-auth-token", "T0KEN")
        .header("x-echo", &signature)
        .body(echo);
    receiver.script("/hook", [reply]);
    let shown = conversation(&mut delivery(&receiver.url("/hook?key=1"))).await;
    let masked = SECRET.replace("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "[masked]");
    let expected = format!(
        "> POST /hook?key=1 HTTP/1.1\n> host: {}\n> content-type: application/json\n> user-agent: angarium/0.1.0\n\
         > webhook-id: {ID}\n> webhook-timestamp: 1930384800\n> webhook-signature: v1,[masked]= v1,[masked]=\n\
         > content-length: {}\n> \n> {BODY}\n\
         < HTTP/1.1 200 OK\n< content-length: {}\n< content-type: text/plain\n< set-cookie: [masked]\n\
         < x-auth-token: [masked]\n< x-echo: v1,[masked]=\n< \n< key {masked} is good\n< line two; got: v1,[masked]=\n",
        receiver.addr(),
        BODY.len(),
        length,
    );
    assert_eq!(shown, expected);
}

/// That no answer came is a remark.
#[tokio::test]
async fn a_conversation_that_breaks_off() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::hang_up_after_body()]);
    let shown = conversation(&mut delivery(&receiver.url("/hook"))).await;
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("* reset: ") || last.starts_with("* protocol: "), "{shown}");
    assert!(shown.starts_with("> POST /hook HTTP/1.1\n"), "{shown}");
    let blocked = conversation(&mut delivery("http://10.0.0.1/hook")).await;
    assert!(blocked.lines().last().unwrap().starts_with("* blocked_address: "), "{blocked}");
}
