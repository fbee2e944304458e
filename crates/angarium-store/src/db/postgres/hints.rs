//! Hints between nodes: "there may be work". A NOTIFY inside the transaction that brings the work would put all
//! commits in a row, so that it goes out after it, on its own, and many hints are one. Nothing rests on them: whoever
//! is told nothing polls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::connection::{Connection, OnHint};
use super::url::PostgresUrl;
use crate::error::{Result, StoreError};

const CHANNEL: &str = "angarium";
/// No more than one hint in this time.
const PACE: Duration = Duration::from_millis(100);
/// The first and the longest pause before listening is tried again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How often a connection that only listens is asked whether it still lives.
const ALIVE: Duration = Duration::from_secs(20);
/// The longest that a statement here may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Gives hints and takes them, for ever. `from` tells our own from those of others.
pub(super) async fn exchange(
    url: &PostgresUrl,
    from: &str,
    given: &Notify,
    on_hint: impl Fn() + Send + Sync + 'static,
) {
    let own = from.to_owned();
    let on_hint: OnHint = Arc::new(move |payload: &str| {
        if payload != own {
            on_hint();
        }
    });
    let mut pause = PAUSE.0;
    loop {
        match listen(url, from, given, &on_hint).await {
            Ok(()) => pause = PAUSE.0,
            Err(error) => {
                tracing::info!(store.error = %error, "no hints from other nodes for now; polling goes on");
                pause = (pause * 2).min(PAUSE.1);
            }
        }
        tokio::time::sleep(pause).await;
        // What was missed meanwhile is found at once.
        on_hint("");
    }
}

/// Ends when the connection does. An error if a hint could not be given, or the connection did not come about.
async fn listen(url: &PostgresUrl, from: &str, given: &Notify, on_hint: &OnHint) -> Result<()> {
    let connection = Connection::open(url, LIMIT, Some(Arc::clone(on_hint))).await?;
    connection.say(&format!("LISTEN {CHANNEL}")).await?;
    on_hint("");
    let mut worked = false;
    let mut newest = url.timeline.subscribe();
    loop {
        let word = tokio::select! {
            () = given.notified() => format!("NOTIFY {CHANNEL}, '{from}'"),
            () = tokio::time::sleep(ALIVE) => String::new(),
            _ = newest.wait_for(|newest| *newest != connection.timeline) => return Ok(()),
        };
        let said = tokio::time::timeout(LIMIT, connection.say(&word)).await;
        match said {
            Ok(Ok(())) => worked = true,
            _ if worked => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(StoreError::QueryTimeout),
        }
        tokio::time::sleep(PACE).await;
    }
}
