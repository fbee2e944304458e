//! The e-mail adapter against a scripted mail server: what is said in every phase, and what it leads to.

mod login;
mod phases;
mod protection;
mod recipients;
mod sessions;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use angarium_channels::email::{EmailAdapter, EmailChannel, Relay, Security};
use angarium_domain::adapter::{Adapter, Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::{Failure, Outcome, Receipt};
use angarium_domain::text::ChannelName;
use angarium_egress::{Client, Connector, Guard, Options};
use angarium_receivers::mail;
use url::Host;

use crate::message::letterhead;

pub(crate) const ID: &str = "0190163d-8694-739b-aea5-966c26f8ad90";

pub(crate) fn address(text: &str) -> Address {
    Address::parse(ChannelKind::Email, text).unwrap()
}

/// A channel that leads to `relay`, without TLS, with limits that no test runs into unless it wants to.
pub(crate) fn channel(relay: SocketAddr) -> EmailChannel {
    EmailChannel {
        relay: Relay { host: host(relay), port: relay.port(), security: Security::Offered },
        login: None,
        letterhead: letterhead(),
        return_path: Some(address("alerts@example.com")),
        hello: Some("node.example.com".to_owned()),
        timeout: Duration::from_secs(60),
        final_timeout: Duration::from_secs(600),
        greylist_wait: Duration::from_secs(300),
        max_idle: 4,
    }
}

fn host(relay: SocketAddr) -> Host<String> {
    Host::parse(&relay.ip().to_string()).unwrap()
}

pub(crate) fn options() -> Options {
    Options::new(Guard::public_only())
}

/// An adapter that knows this channel under the name `mail`.
pub(crate) fn adapter(channel: EmailChannel) -> EmailAdapter {
    adapter_with(channel, options())
}

pub(crate) fn adapter_with(channel: EmailChannel, options: Options) -> EmailAdapter {
    let client = Arc::new(Client::new(options.clone()).unwrap());
    let connector = Arc::new(Connector::new(options).unwrap());
    let channels = HashMap::from([(ChannelName::parse("mail").unwrap(), channel)]);
    EmailAdapter::new(connector, client, channels)
}

pub(crate) fn message() -> Message {
    Message {
        id: ID.parse().unwrap(),
        subject: "Pump 3 has stopped".to_owned(),
        body: "Level is high.\n.\nPlease look.".to_owned(),
        data: None,
        list: Some("ops".to_owned()),
        presentation: None,
        at: "2031-03-04T10:00:00Z".parse().unwrap(),
    }
}

pub(crate) fn delivery(addresses: &[&str]) -> Delivery {
    Delivery {
        channel: ChannelName::parse("mail").unwrap(),
        message: Arc::new(message()),
        addresses: addresses.iter().map(|text| address(text)).collect(),
        attempted_at: "2031-03-04T10:00:01Z".parse().unwrap(),
        transcript: None,
    }
}

/// What became of each address.
pub(crate) async fn send(adapter: &EmailAdapter, addresses: &[&str]) -> Vec<Outcome> {
    let outcomes = adapter.send(&delivery(addresses)).await;
    assert_eq!(outcomes.len(), addresses.len(), "one outcome for each address");
    outcomes
}

pub(crate) async fn send_one(adapter: &EmailAdapter) -> Outcome {
    send(adapter, &["a@example.com"]).await.remove(0)
}

pub(crate) async fn fail_one(adapter: &EmailAdapter) -> Failure {
    failed(send_one(adapter).await)
}

pub(crate) fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Delivered(_) => panic!("delivered"),
    }
}

pub(crate) fn delivered(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Delivered(receipt) => receipt,
        Outcome::Failed(failure) => panic!("{failure:?}"),
    }
}

/// A server, and an adapter that uses it.
pub(crate) async fn world() -> (mail::Receiver, EmailAdapter) {
    world_with(mail::Options::default()).await
}

pub(crate) async fn world_with(options: mail::Options) -> (mail::Receiver, EmailAdapter) {
    let receiver = mail::Receiver::start(options).await.unwrap();
    let adapter = adapter(channel(receiver.address()));
    (receiver, adapter)
}

/// A server that offers none of these keywords.
pub(crate) fn without(keywords: &[&str]) -> mail::Options {
    let mut options = mail::Options::default();
    options.keywords.retain(|offered| !keywords.iter().any(|keyword| offered.starts_with(keyword)));
    options
}

/// No session of this server did what a careful client never does.
pub(crate) fn without_sin(receiver: &mail::Receiver) {
    for session in receiver.sessions() {
        assert!(session.sins.is_empty(), "{:?} in {:?}", session.sins, session.commands);
    }
}
