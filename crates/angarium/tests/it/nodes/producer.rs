//! A program that hands notifications in while things break, as one should: the same id again until it is told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use angarium_egress::Client;
use http::Method;
use tokio::task::JoinSet;

use crate::support::{KEY, ask, client, id_of, pause, to_with_id};

/// Notifications that are handed in at once.
const AT_ONCE: usize = 4;

/// Works until it is stopped.
pub(super) struct Producer {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

struct Shared {
    nodes: Mutex<Vec<SocketAddr>>,
    url: String,
    client: Client,
    acknowledged: Mutex<Vec<String>>,
    refusals: Mutex<Vec<u16>>,
    stopped: AtomicBool,
}

impl Producer {
    /// Hands in notifications to this address, in turn through these nodes.
    pub(super) fn start(nodes: &[SocketAddr], url: &str) -> Self {
        let shared = Arc::new(Shared {
            nodes: Mutex::new(nodes.to_vec()),
            url: url.to_owned(),
            client: client(),
            acknowledged: Mutex::default(),
            refusals: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let mut workers = JoinSet::new();
        for worker in 0..AT_ONCE {
            workers.spawn(work(Arc::clone(&shared), worker));
        }
        Producer { shared, workers }
    }

    /// The ids acknowledged so far, in order.
    pub(super) fn acknowledged(&self) -> Vec<String> {
        self.shared.acknowledged.lock().unwrap().clone()
    }

    /// Waits until so many more are acknowledged.
    pub(super) async fn goes_on(&self, more: usize) {
        let before = self.acknowledged().len();
        super::until(|| self.acknowledged().len() >= before + more).await;
    }

    /// The node with this number has another address by now.
    pub(super) fn finds(&self, number: usize, address: SocketAddr) {
        self.shared.nodes.lock().unwrap()[number] = address;
    }

    /// The statuses of answers that acknowledged nothing.
    pub(super) fn refusals(&self) -> Vec<u16> {
        self.shared.refusals.lock().unwrap().clone()
    }

    /// Stops it once everything that it began is acknowledged; all that was.
    pub(super) async fn stop(mut self) -> Vec<String> {
        self.shared.stopped.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
        self.acknowledged()
    }
}

async fn work(shared: Arc<Shared>, worker: usize) {
    let mut number = 0;
    while !shared.stopped.load(Ordering::SeqCst) {
        number += 1;
        let name = format!("alarm {worker} {number}");
        hand_in(&shared, &name, worker + number).await;
        shared.acknowledged.lock().unwrap().push(id_of(&name));
    }
}

/// Comes again with the same id, to one node after the other, until it is acknowledged.
async fn hand_in(shared: &Shared, name: &str, first: usize) {
    for turn in first.. {
        let nodes = shared.nodes.lock().unwrap().clone();
        let node = nodes[turn % nodes.len()];
        let body = to_with_id(&shared.url, name);
        match ask(&shared.client, node, KEY, Method::POST, "/v1/notifications", Some(body)).await {
            Ok(answer) if answer.status == 202 => return,
            Ok(answer) => shared.refusals.lock().unwrap().push(answer.status),
            Err(_) => {}
        }
        pause().await;
    }
}
