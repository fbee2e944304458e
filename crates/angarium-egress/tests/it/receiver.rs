//! A receiver of a few lines: each connection it takes is handed, with its number, to the test's own function.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use angarium_egress::{Client, Fault, Guard, Options, Request, Response, Trust};
use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// Far longer than any test may take: what must not end by itself is given this long.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Listens on loopback and serves each connection by `serve`, all at once.
pub(crate) async fn receiver<F, S>(serve: F) -> SocketAddr
where
    F: Fn(usize, TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(number, stream));
        }
    });
    address
}

/// Reads one request, head and body. `None` if the connection ends before one begins.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.ok()?;
        request.push(byte);
    }
    let head = String::from_utf8(request.clone()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    request.extend(body);
    Some(String::from_utf8(request).unwrap())
}

/// Options behind a guard that lets data lead to loopback.
pub(crate) fn options() -> Options {
    let guard = Guard::public_only().allowing(vec!["127.0.0.0/8".parse().unwrap()]);
    Options::new(guard)
}

/// A client that may reach loopback.
pub(crate) fn client() -> Client {
    Client::new(options()).unwrap()
}

/// A client for which `name` has the addresses `addresses`.
pub(crate) fn client_knowing(mut options: Options, name: &str, addresses: &[&str]) -> Client {
    let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
    options.hosts.insert(name.to_owned(), addresses);
    Client::new(options).unwrap()
}

/// A POST of `body` that has all the time in the world.
pub(crate) fn post(url: &str, body: impl Into<Bytes>) -> Request {
    Request {
        method: Method::POST,
        url: Url::parse(url).unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
        timeout: LONG,
        trust: Trust::Data,
    }
}

/// Posts `body` to the path /hook of whoever listens at `address`.
pub(crate) async fn post_to(
    client: &Client,
    address: SocketAddr,
    body: impl Into<Bytes>,
) -> Result<Response, Fault> {
    client.send(post(&format!("http://{address}/hook"), body)).await
}

/// More than all buffers between two sockets on one machine can hold.
pub(crate) fn large_body() -> Bytes {
    Bytes::from(vec![b'x'; 64 * 1024 * 1024])
}
