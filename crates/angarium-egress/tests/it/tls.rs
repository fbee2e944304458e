use std::net::SocketAddr;
use std::sync::Arc;

use angarium_egress::{Client, FaultKind, Options, roots_from_pem};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::receiver::{client, client_knowing, large_body, options, post, read_request, receiver};

/// A certificate authority and what it takes to serve as `name`.
struct Identity {
    root_pem: String,
    acceptor: TlsAcceptor,
}

fn identity(name: &str) -> Identity {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &root).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Identity { root_pem: root.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) }
}

impl Identity {
    fn trusted(&self) -> Options {
        Options { extra_roots: roots_from_pem(self.root_pem.as_bytes()).unwrap(), ..options() }
    }

    /// A receiver with this identity; a handshake that fails is over.
    async fn serving<F, S>(&self, serve: F) -> SocketAddr
    where
        F: Fn(TlsStream<TcpStream>) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let acceptor = self.acceptor.clone();
        receiver(move |_, stream| {
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            }
        })
        .await
    }
}

async fn answer_all(mut stream: TlsStream<TcpStream>) {
    while read_request(&mut stream).await.is_some() {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    }
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority() {
    let identity = identity("hooks.example");
    let address = identity.serving(answer_all).await;
    let client = client_knowing(identity.trusted(), "hooks.example", &["127.0.0.1"]);
    for host in ["hooks.example", "HOOKS.example"] {
        let url = format!("https://{host}:{}/hook", address.port());
        let answer = client.send(post(&url, "x")).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
    }
}

/// WH18: another name, and an authority that nobody trusts.
#[tokio::test]
async fn certificates_that_prove_nothing() {
    let identity = identity("hooks.example");
    let address = identity.serving(answer_all).await;
    let other_name = client_knowing(identity.trusted(), "other.example", &["127.0.0.1"]);
    let untrusting = client_knowing(options(), "hooks.example", &["127.0.0.1"]);
    for (client, host) in
        [(&other_name, "other.example"), (&other_name, "127.0.0.1"), (&untrusting, "hooks.example")]
    {
        let url = format!("https://{host}:{}/hook", address.port());
        let fault = client.send(post(&url, "x")).await.unwrap_err();
        assert_eq!((fault.kind, fault.request_written), (FaultKind::Certificate, false), "{host}");
        assert!(fault.detail.contains("certificate"), "{fault}");
    }
}

#[tokio::test]
async fn a_receiver_that_speaks_no_tls() {
    let address = receiver(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let fault = client().send(post(&format!("https://{address}/"), "x")).await.unwrap_err();
    assert_eq!((fault.kind, fault.request_written), (FaultKind::Tls, false));
}

/// Under TLS too, a request is written when its last encrypted byte reached the socket, and not when it was
/// merely taken for encryption.
#[tokio::test]
async fn closed_before_and_after_the_whole_body() {
    let identity = identity("hooks.example");
    let client = client_knowing(identity.trusted(), "hooks.example", &["127.0.0.1"]);
    let early = identity.serving(|mut stream| async move {
        stream.read_exact(&mut vec![0; 1024 * 1024]).await.unwrap();
    });
    let late = identity.serving(|mut stream| async move {
        read_request(&mut stream).await.unwrap();
    });
    for (address, body, written) in [(early.await, large_body(), false), (late.await, "x".into(), true)] {
        let url = format!("https://hooks.example:{}/", address.port());
        let fault = client.send(post(&url, body)).await.unwrap_err();
        assert_eq!((fault.kind, fault.request_written), (FaultKind::Reset, written), "{fault}");
    }
}

#[tokio::test]
async fn time_runs_out_while_the_last_bytes_are_still_buffered() {
    let identity = identity("hooks.example");
    let client = client_knowing(identity.trusted(), "hooks.example", &["127.0.0.1"]);
    let shaken = Arc::new(Notify::new());
    let signal = Arc::clone(&shaken);
    let address = identity
        .serving(move |stream| {
            let signal = Arc::clone(&signal);
            async move {
                signal.notify_one();
                std::future::pending::<()>().await;
                drop(stream);
            }
        })
        .await;
    let url = format!("https://hooks.example:{}/", address.port());
    let (answer, ()) = tokio::join!(client.send(post(&url, large_body())), async {
        shaken.notified().await;
        tokio::time::pause();
    });
    let fault = answer.unwrap_err();
    assert_eq!((fault.kind, fault.request_written), (FaultKind::Timeout, false));
}

#[test]
fn roots_must_be_certificates() {
    assert!(roots_from_pem(b"").is_err());
    assert!(roots_from_pem(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    let garbage = CertificateDer::from(vec![1, 2, 3]);
    assert!(Client::new(Options { extra_roots: vec![garbage], ..options() }).is_err());
}
