//! STARTTLS and TLS from the first byte.

use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// The two ends' settings, with a certificate for `mail.test`.
fn tls() -> (Arc<ServerConfig>, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(vec!["mail.test".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}

async fn secured(connector: &TlsConnector, client: Client<TcpStream>) -> Client<TlsStream<TcpStream>> {
    assert_eq!(client.stream.buffer(), b"");
    let name = ServerName::try_from("mail.test").unwrap();
    Client::over(connector.connect(name, client.stream.into_inner()).await.unwrap())
}

fn with(tls: Tls) -> Options {
    Options { tls, auth: Some(Auth::password("u", "p")), ..Options::default() }
}

#[tokio::test]
async fn starttls_makes_secure_and_forgets_what_was_before() {
    let (server, connector) = tls();
    let receiver = Receiver::start(with(Tls::StartTls(server))).await.unwrap();
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    assert!(client.say("EHLO x").await.ends_with("\n250 STARTTLS"));
    assert_eq!(client.say("STARTTLS").await, "220 2.0.0 Ready to start TLS");
    let mut client = secured(&connector, client).await;
    client.expect("MAIL FROM:<a@b>", "503").await;
    let offer = client.say("EHLO x").await;
    assert!(offer.ends_with("\n250 AUTH PLAIN LOGIN") && !offer.contains("STARTTLS"), "{offer}");
    client.expect("STARTTLS", "502").await;
    client.expect("AUTH PLAIN AHUAcA==", "235").await;
    assert!(client.deliver("x\r\n").await.starts_with("250"));
    client.expect("QUIT", "221").await;
    assert!(client.is_closed().await);
    assert!(receiver.sessions()[0].tls);
    assert_eq!(receiver.sessions()[0].sins.len(), 2);
}

#[tokio::test]
async fn a_login_in_clear_does_not_outlive_starttls() {
    let (server, connector) = tls();
    let auth = Auth { before_tls: true, ..Auth::password("u", "p") };
    let options = Options { auth: Some(auth), ..with(Tls::StartTls(server)) };
    let receiver = Receiver::start(options).await.unwrap();
    let mut client = Client::greet(&receiver).await;
    client.expect("AUTH PLAIN AHUAcA==", "235").await;
    client.expect("STARTTLS", "220").await;
    let mut client = secured(&connector, client).await;
    client.expect("EHLO x", "250").await;
    client.expect("MAIL FROM:<a@b>", "530").await;
}

#[tokio::test]
async fn implicit_tls_greets_after_the_handshake() {
    let (server, connector) = tls();
    let receiver = Receiver::start(with(Tls::Implicit(server))).await.unwrap();
    let mut client = secured(&connector, Client::dial(receiver.address()).await).await;
    assert_eq!(client.reply().await, "220 mail.test ESMTP");
    assert!(client.say("EHLO x").await.ends_with("\n250 AUTH PLAIN LOGIN"));
    client.expect("AUTH PLAIN AHUAcA==", "235").await;
    assert!(client.deliver("x\r\n").await.starts_with("250"));
    let [session] = receiver.sessions().try_into().unwrap();
    assert_eq!((session.tls, session.sins), (true, Vec::new()));
}

#[tokio::test]
async fn scripts_hold_under_tls_too() {
    let (server, connector) = tls();
    let receiver = Receiver::start(with(Tls::Implicit(server))).await.unwrap();
    receiver.script(Phase::Greeting, [Reply::hang_up(), Reply::reset(), Reply::text("220 slowly").drip()]);
    let mut hung_up = secured(&connector, Client::dial(receiver.address()).await).await;
    assert!(hung_up.is_closed().await);
    let mut reset = secured(&connector, Client::dial(receiver.address()).await).await;
    assert!(reset.stream.read(&mut [0]).await.is_err());
    let mut dripped = secured(&connector, Client::dial(receiver.address()).await).await;
    assert_eq!(dripped.reply().await, "220 slowly");
}

#[tokio::test]
async fn bytes_can_be_injected_behind_the_220() {
    let (server, connector) = tls();
    let receiver = Receiver::start(with(Tls::StartTls(server))).await.unwrap();
    receiver.script(Phase::StartTls, [Reply::raw("220 go\r\n250-mail.test\r\n250 AUTH PLAIN\r\n")]);
    let mut client = Client::greet(&receiver).await;
    assert_eq!(client.say("STARTTLS").await, "220 go");
    assert_eq!(client.reply().await, "250-mail.test\n250 AUTH PLAIN");
    let mut client = secured(&connector, client).await;
    client.expect("EHLO x", "250").await;
    assert!(receiver.sessions()[0].tls);
}

#[tokio::test]
async fn starttls_can_be_refused_or_end_in_nothing() {
    let (server, _) = tls();
    let receiver = Receiver::start(with(Tls::StartTls(server))).await.unwrap();
    receiver
        .script(Phase::StartTls, [Reply::text("454 4.7.0 not now"), Reply::text("220 go").then_hang_up()]);
    let mut client = Client::greet(&receiver).await;
    client.expect("STARTTLS", "454").await;
    client.expect("STARTTLS", "220").await;
    assert!(client.is_closed().await);
    assert!(!receiver.sessions()[0].tls);
    Client::greet(&started().await).await.expect("STARTTLS", "502 5.5.1").await;
}

#[tokio::test]
async fn what_a_client_sends_in_clear_behind_starttls_is_a_sin_and_never_obeyed() {
    let (server, connector) = tls();
    let receiver = Receiver::start(with(Tls::StartTls(server))).await.unwrap();
    let mut client = Client::greet(&receiver).await;
    client.send("STARTTLS\r\nNOOP\r\n").await;
    client.reply().await;
    let mut client = secured(&connector, client).await;
    assert!(client.say("EHLO x").await.starts_with("250-mail.test"));
    let [session] = receiver.sessions().try_into().unwrap();
    assert_eq!(session.commands, ["EHLO client.test", "STARTTLS", "EHLO x"]);
    assert_eq!(session.sins, ["more sent before the answer to STARTTLS"]);
}

#[tokio::test]
async fn a_client_that_does_not_trust_us_ends_the_session() {
    let (server, _) = tls();
    let (_, stranger) = tls();
    let receiver = Receiver::start(with(Tls::Implicit(server))).await.unwrap();
    let stream = TcpStream::connect(receiver.address()).await.unwrap();
    assert!(stranger.connect(ServerName::try_from("mail.test").unwrap(), stream).await.is_err());
    let [session] =
        receiver.wait_until(|all| all.iter().any(|session| session.over)).await.try_into().unwrap();
    assert_eq!((session.tls, session.commands), (false, Vec::new()));
}
