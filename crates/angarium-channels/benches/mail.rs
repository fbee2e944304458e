//! Mails per second over sixteen connections, one recipient each, as a ratio to the bare protocol in the same run.
//!
//! `cargo bench -p angarium-channels --bench mail`. The ceiling writes bytes made beforehand and reads answers by
//! their length; the adapter composes each mail, takes a session, reads answers and keeps them. Both talk to the
//! same sink on this machine, in turns, and the medians are compared.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, prints what it saw, and ends where something is wrong"
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use angarium_channels::email::message::Letterhead;
use angarium_channels::email::{EmailAdapter, EmailChannel, Relay, Security};
use angarium_domain::adapter::{Adapter, Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::Outcome;
use angarium_domain::text::ChannelName;
use angarium_egress::{Client, Connector, Guard, Options};
use angarium_receivers::mail::Sink;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use url::Host;

const CONNECTIONS: usize = 16;
const MAILS: usize = 2000;
const ROUNDS: usize = 5;

#[tokio::main]
async fn main() {
    let sink = Sink::start().await.unwrap();
    let adapter = Arc::new(adapter(sink.address()));
    through_the_adapter(&adapter, 100).await;
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(by_hand(sink.address(), MAILS).await);
        whole.push(through_the_adapter(&adapter, MAILS).await);
    }
    let (bare, whole) = (median(bare), median(whole));
    println!("bare protocol  {bare:>8.0} mails/s");
    println!("e-mail adapter {whole:>8.0} mails/s");
    println!("ratio          {:>8.2}", whole / bare);
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn rate(mails: usize, took: Duration) -> f64 {
    (CONNECTIONS * mails) as f64 / took.as_secs_f64()
}

/// The ceiling: the same bytes in the same number of round trips, made beforehand.
async fn by_hand(sink: SocketAddr, mails: usize) -> f64 {
    let composed = angarium_channels::email::message::compose(&letterhead(), &message()).unwrap();
    let mut mail = composed.bytes;
    mail.extend_from_slice(b".\r\n");
    let mail = Arc::new(mail);
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..CONNECTIONS {
        let mail = Arc::clone(&mail);
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(sink).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut answer = vec![0; 4096];
            hear(&mut stream, &mut answer, b"\n").await;
            stream.write_all(b"EHLO node.example.com\r\n").await.unwrap();
            hear(&mut stream, &mut answer, b"250 ENHANCEDSTATUSCODES\r\n").await;
            for _ in 0..mails {
                let commands =
                    b"MAIL FROM:<alerts@example.com> SIZE=700\r\nRCPT TO:<a@example.com>\r\nDATA\r\n";
                stream.write_all(commands).await.unwrap();
                hear(&mut stream, &mut answer, b"354 Go ahead\r\n").await;
                stream.write_all(&mail).await.unwrap();
                hear(&mut stream, &mut answer, b"queued\r\n").await;
            }
        });
    }
    tasks.join_all().await;
    rate(mails, begun.elapsed())
}

async fn hear(stream: &mut TcpStream, answer: &mut [u8], end: &[u8]) {
    let mut filled = 0;
    while !answer[..filled].ends_with(end) {
        let read = stream.read(&mut answer[filled..]).await.unwrap();
        assert!(read > 0, "the sink has gone");
        filled += read;
    }
}

async fn through_the_adapter(adapter: &Arc<EmailAdapter>, mails: usize) -> f64 {
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..CONNECTIONS {
        let adapter = Arc::clone(adapter);
        tasks.spawn(async move {
            let delivery = delivery();
            for _ in 0..mails {
                let outcome = adapter.send(&delivery).await.remove(0);
                assert!(matches!(outcome, Outcome::Delivered(_)), "{outcome:?}");
            }
        });
    }
    tasks.join_all().await;
    rate(mails, begun.elapsed())
}

fn address(text: &str) -> Address {
    Address::parse(ChannelKind::Email, text).unwrap()
}

fn letterhead() -> Letterhead {
    Letterhead {
        from: "Alerts <alerts@example.com>".parse().unwrap(),
        id_domain: "example.com".to_owned(),
        reply_to: None,
        unsubscribe: None,
        signer: None,
    }
}

fn message() -> Message {
    Message {
        id: "0190163d-8694-739b-aea5-966c26f8ad90".parse().unwrap(),
        subject: "Pump 3 has stopped".to_owned(),
        body: "The level in the well is above the mark. ".repeat(11),
        data: None,
        list: None,
        presentation: None,
        at: "2031-03-04T10:00:00Z".parse().unwrap(),
    }
}

fn delivery() -> Delivery {
    Delivery {
        channel: ChannelName::parse("mail").unwrap(),
        message: Arc::new(message()),
        addresses: vec![address("a@example.com")],
        attempted_at: "2031-03-04T10:00:01Z".parse().unwrap(),
        transcript: None,
    }
}

fn adapter(sink: SocketAddr) -> EmailAdapter {
    let options = Options::new(Guard::public_only());
    let host = Host::parse(&sink.ip().to_string()).unwrap();
    let channel = EmailChannel {
        relay: Relay { host, port: sink.port(), security: Security::Offered },
        login: None,
        letterhead: letterhead(),
        return_path: Some(address("alerts@example.com")),
        hello: Some("node.example.com".to_owned()),
        timeout: Duration::from_secs(60),
        final_timeout: Duration::from_secs(600),
        greylist_wait: Duration::from_secs(300),
        max_idle: CONNECTIONS,
    };
    let channels = HashMap::from([(ChannelName::parse("mail").unwrap(), channel)]);
    let client = Arc::new(Client::new(options.clone()).unwrap());
    EmailAdapter::new(Arc::new(Connector::new(options).unwrap()), client, channels)
}
