//! The loop that accepts connections, with the bounds that `axum::serve` does not have: a time limit for the
//! head of a request and for an answer that nobody takes, a cap on connections, room for all bodies together,
//! and an end that waits for what is in progress, but not for ever.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::auth::Peer;
use super::stall::Stall;
use super::{App, routes};

/// Bytes of a request's head. More is answered with 431.
const HEAD_BYTES: usize = 32 * 1024;
/// Header lines of a request. More are answered with 431.
const HEADER_LINES: usize = 100;
/// How long no connection is accepted after accepting failed (for want of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much of time, memory and connections clients may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For the head of a request, counted from the connection's start or from the answer before. An idle
    /// connection is closed after as long.
    pub header_timeout: Duration,
    /// For the whole body of a request.
    pub body_timeout: Duration,
    /// For a part of an answer to be taken. A connection on which nothing was taken for as long is closed.
    pub write_timeout: Duration,
    /// For requests in progress when the server stops.
    pub shutdown_grace: Duration,
    /// Connections at once. Further ones wait in the system's queue until one ends.
    pub max_connections: usize,
    /// Bytes of all bodies that are being read or worked on at once. A request for whose body there is no room
    /// is answered with 503.
    pub body_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(20),
            shutdown_grace: Duration::from_secs(30),
            max_connections: 4096,
            body_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Serves until `shutdown` is done. Then no connection is accepted any more, idle ones are closed, requests
/// in progress are finished within the grace and the rest are cut off; says how many connections those were.
pub async fn serve(listener: TcpListener, app: App, shutdown: impl Future<Output = ()>) -> usize {
    let bounds = app.bounds.clone();
    let router = routes::router(Arc::new(app));
    let (stop, stopping) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => note(ended),
            accepted = listener.accept(), if connections.len() < bounds.max_connections => match accepted {
                Ok((stream, peer)) => {
                    let connection = Connection { stream, peer, bounds: bounds.clone() };
                    connections.spawn(connection.serve(router.clone(), stopping.clone()));
                }
                Err(error) => {
                    tracing::warn!(cause = %error, "no connection could be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _nobody_left_to_tell = stop.send(());
    let finish = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
    };
    let _grace_is_over = tokio::time::timeout(bounds.shutdown_grace, finish).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    cut_off
}

/// A connection that ended takes nothing with it, not even by a panic.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(cause = %error, "a connection ended by a fault in the server");
    }
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    bounds: Bounds,
}

impl Connection {
    async fn serve(self, router: Router, mut stopping: watch::Receiver<()>) {
        let Connection { stream, peer, bounds } = self;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(cause = %error, "a connection ended before it was served");
            return;
        }
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            router.call(request)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_header_size(HEAD_BYTES)
            .max_headers(HEADER_LINES);
        let io = TokioIo::new(Stall::new(stream, bounds.write_timeout));
        let mut connection = std::pin::pin!(http.serve_connection(io, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            _ = stopping.changed() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(cause = %error, "a connection ended early");
        }
    }
}
