//! What reached a receiver, in the order of arrival.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::WAIT_LIMIT;

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The method, as sent.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// What follows the question mark; empty when there is none.
    pub query: String,
    /// The head byte for byte, request line to empty line; bytes that are not UTF-8 show as U+FFFD.
    pub head: String,
    /// Lower-case name to value; the values of a repeated header are joined by a comma and a space.
    pub headers: BTreeMap<String, String>,
    /// The body without its framing; what had come of it when `complete` is false.
    pub body: Vec<u8>,
    /// Whether the body was read to its end.
    pub complete: bool,
    /// Which connection it came on; the first one accepted is 1.
    pub connection: u64,
    /// Whether a real receiver would have acted upon it.
    pub effect: bool,
}

impl Received {
    /// The value of the header `name` (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body as text; bytes that are not UTF-8 show as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Debug)]
pub(super) struct Journal {
    requests: Mutex<Vec<Received>>,
    /// Touched after each entry; carries nothing, whoever wakes looks for itself.
    arrivals: watch::Sender<()>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal { requests: Mutex::default(), arrivals: watch::Sender::new(()) }
    }
}

impl Journal {
    pub(super) fn record(&self, request: Received) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.arrivals.send_replace(());
    }

    pub(super) fn all(&self) -> Vec<Received> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn on(&self, path: &str) -> Vec<Received> {
        self.all().into_iter().filter(|request| request.path == path).collect()
    }

    #[expect(clippy::panic, reason = "a wait that nothing ends must fail its test, with what had arrived")]
    pub(super) async fn wait_until(&self, what: &str, enough: impl Fn(&[Received]) -> bool) {
        let mut arrivals = self.arrivals.subscribe();
        let arrived = async {
            // The sender lives in `self`, so `changed` cannot fail.
            while !enough(&self.all()) && arrivals.changed().await.is_ok() {}
        };
        if tokio::time::timeout(WAIT_LIMIT, arrived).await.is_err() {
            let seen: Vec<String> = self.all().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
            panic!("waited {WAIT_LIMIT:?} for {what}; arrived so far: {seen:?}");
        }
    }
}
