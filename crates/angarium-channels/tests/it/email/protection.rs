//! TLS: from the first byte, begun on the way, insisted on, and never given up for clear text.

use angarium_channels::email::{Credential, EmailAdapter, EmailChannel, Login, Relay, Security};
use angarium_domain::outcome::FailureClass;
use angarium_egress::roots_from_pem;
use angarium_receivers::identity::Identity;
use angarium_receivers::mail::{self, Phase, Receiver, Reply, Tls};
use url::Host;

use super::{adapter_with, channel, delivered, fail_one, options, send_one, without_sin};

const NAME: &str = "mx.example.com";

/// A server under `NAME`, and an adapter that trusts it.
async fn server(tls: fn(&Identity) -> Tls, security: Security) -> (Receiver, EmailAdapter) {
    server_with(mail::Options::default(), tls, |channel| channel.relay.security = security).await
}

async fn server_with(
    options: mail::Options,
    tls: fn(&Identity) -> Tls,
    settings: impl FnOnce(&mut EmailChannel),
) -> (Receiver, EmailAdapter) {
    let identity = Identity::of(NAME).unwrap();
    let receiver = Receiver::start(mail::Options { tls: tls(&identity), ..options }).await.unwrap();
    let mut channel = named(&receiver, NAME);
    settings(&mut channel);
    (receiver, adapter_with(channel, trusting(&identity.root_pem)))
}

fn named(receiver: &Receiver, name: &str) -> EmailChannel {
    let port = receiver.address().port();
    let relay = Relay { host: Host::parse(name).unwrap(), port, security: Security::Offered };
    EmailChannel { relay, ..channel(receiver.address()) }
}

fn trusting(root_pem: &str) -> angarium_egress::Options {
    let mut options = options();
    options.extra_roots = roots_from_pem(root_pem.as_bytes()).unwrap();
    for name in [NAME, "other.example.com"] {
        options.hosts.insert(name.to_owned(), vec!["127.0.0.1".parse().unwrap()]);
    }
    options
}

fn implicit(identity: &Identity) -> Tls {
    Tls::Implicit(identity.server.clone())
}

fn starttls(identity: &Identity) -> Tls {
    Tls::StartTls(identity.server.clone())
}

fn login() -> Option<Login> {
    let credential = Credential::Password("s3cret-passphrase".to_owned());
    Some(Login { user: "noc".to_owned(), credential, mechanism: None })
}

#[tokio::test]
async fn tls_from_the_first_byte_and_by_starttls() {
    for (tls, security) in [
        (implicit as fn(&Identity) -> Tls, Security::Implicit),
        (starttls, Security::Required),
        (starttls, Security::Offered),
    ] {
        let (receiver, adapter) = server(tls, security).await;
        delivered(send_one(&adapter).await);
        delivered(send_one(&adapter).await);
        let sessions = receiver.sessions();
        assert_eq!(sessions.len(), 1, "{security:?}");
        assert!(sessions[0].tls, "{security:?}");
        if security != Security::Implicit {
            let begun = ["EHLO node.example.com", "STARTTLS", "EHLO node.example.com"];
            assert_eq!(sessions[0].commands[..3], begun, "what was offered in clear counts no more");
        }
        without_sin(&receiver);
    }
}

/// Where TLS was never asked for, it is not begun.
#[tokio::test]
async fn never_means_never() {
    let (receiver, adapter) = server(starttls, Security::Never).await;
    delivered(send_one(&adapter).await);
    assert!(!receiver.sessions()[0].tls);
}

/// C103: no STARTTLS where TLS is required: no AUTH, no MAIL, and the channel is to blame. Nor after 454.
#[tokio::test]
async fn c103_starttls_missing_although_tls_is_required() {
    let auth = || mail::Auth { before_tls: true, ..mail::Auth::password("noc", "s3cret-passphrase") };
    let with_auth = || mail::Options { auth: Some(auth()), ..mail::Options::default() };
    let required = |channel: &mut EmailChannel| {
        channel.relay.security = Security::Required;
        channel.login = login();
    };
    let (receiver, adapter) = server_with(with_auth(), |_| Tls::None, required).await;
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::PermanentConfig);
    assert!(failure.detail.contains("tls_required"), "{}", failure.detail);
    assert_eq!(receiver.sessions()[0].commands, ["EHLO node.example.com"]);

    for (answer, class) in [
        ("454 4.7.0 not now", FailureClass::Transient),
        ("501 5.5.4 what", FailureClass::PermanentConfig),
        ("502 5.5.1 what", FailureClass::PermanentConfig),
    ] {
        let (receiver, adapter) = server_with(with_auth(), starttls, required).await;
        receiver.script(Phase::StartTls, [Reply::text(answer)]);
        let failure = fail_one(&adapter).await;
        assert_eq!(failure.class, class, "{answer}");
        assert_eq!(failure.whole_channel, class == FailureClass::Transient);
        assert_eq!(receiver.sessions()[0].commands, ["EHLO node.example.com", "STARTTLS"], "{answer}");
    }
}

/// C104: what was injected before the handshake is not taken for an answer under TLS: the connection is dropped.
#[tokio::test]
async fn c104_data_injected_after_the_starttls_reply() {
    let (receiver, adapter) = server(starttls, Security::Required).await;
    let injected = "220 ready\r\n250-mx.example.com\r\n250 AUTH PLAIN\r\n";
    receiver.script(Phase::StartTls, [Reply::raw(injected)]);
    let failure = fail_one(&adapter).await;
    assert_eq!(failure.class, FailureClass::Transient);
    assert!(failure.detail.contains("more than its answer"), "{}", failure.detail);
    assert!(!receiver.sessions()[0].tls);
    delivered(send_one(&adapter).await);
}

/// A connection lost or a failed handshake is an outage, and never a reason to go on in clear text.
#[tokio::test]
async fn a_handshake_that_fails() {
    for (reply, security) in [
        (Reply::text("220 ready").then_hang_up(), Security::Offered),
        (Reply::hang_up(), Security::Required),
        (Reply::reset(), Security::Offered),
    ] {
        let (receiver, adapter) = server(starttls, security).await;
        receiver.script(Phase::StartTls, [reply]);
        let failure = fail_one(&adapter).await;
        assert_eq!((failure.class, failure.whole_channel), (FailureClass::Transient, true), "{failure:?}");
        assert!(receiver.mails().is_empty());
        assert_eq!(receiver.sessions().len(), 1, "no second try in clear text");
    }
}

/// A certificate that proves nothing, or another name, is the channel's fault; nothing is said to such a server.
#[tokio::test]
async fn a_certificate_that_proves_nothing() {
    for (tls, security) in
        [(implicit as fn(&Identity) -> Tls, Security::Implicit), (starttls, Security::Offered)]
    {
        let identity = Identity::of(NAME).unwrap();
        let stranger = Identity::of(NAME).unwrap();
        let options = mail::Options { tls: tls(&identity), ..mail::Options::default() };
        let receiver = Receiver::start(options).await.unwrap();
        for (name, root) in [(NAME, &stranger.root_pem), ("other.example.com", &identity.root_pem)] {
            let mut channel = named(&receiver, name);
            channel.relay.security = security;
            let failure = fail_one(&adapter_with(channel, trusting(root))).await;
            assert_eq!(failure.class, FailureClass::PermanentConfig, "{name}: {failure:?}");
            assert!(failure.detail.contains("certificate"), "{}", failure.detail);
        }
        assert!(receiver.mails().is_empty());
    }
}

/// This machine's own relay gets credentials without TLS where the operator wants that.
#[tokio::test]
async fn a_relay_next_door_needs_no_tls() {
    let auth = mail::Auth { before_tls: true, ..mail::Auth::password("noc", "s3cret-passphrase") };
    let options = mail::Options { auth: Some(auth), ..mail::Options::default() };
    let (receiver, adapter) = server_with(
        options,
        |_| Tls::None,
        |channel| {
            channel.relay.security = Security::Never;
            channel.login = login();
        },
    )
    .await;
    delivered(send_one(&adapter).await);
    assert!(receiver.sessions()[0].commands.iter().any(|command| command.starts_with("AUTH")));
}
