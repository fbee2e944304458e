//! Outcomes are written in batches: whatever is known now shares one commit. A claim's permit comes back only when
//! its outcome is durable, so that a database that takes no outcomes soon stops the sending as well.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::disposition::Scope;
use angarium_store::{Claim, LaneKey, ScopeChange, Settled, Settlement, Store, StoreError};
use tokio::sync::mpsc;

use crate::leases::Leases;
use crate::permits::Permit;

/// Outcomes in one batch at most.
const BATCH: usize = 512;
/// The first and the longest wait after a batch that could not be written.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A delivery that has come to its end.
pub(crate) struct Finished {
    pub(crate) claim: Claim,
    pub(crate) permit: Permit,
    /// What to write; nothing if the claim was lost before anything was sent.
    pub(crate) settlement: Option<Settlement>,
}

/// Told to the dispatcher once an outcome is durable.
pub(crate) struct Done {
    pub(crate) lane: LaneKey,
    /// How the receiver did, if it was asked.
    pub(crate) failed: Option<bool>,
}

/// Writes outcomes until there are no more deliveries.
pub(crate) async fn run(
    store: Arc<Store>,
    leases: Arc<Leases>,
    mut finished: mpsc::Receiver<Finished>,
    done: mpsc::UnboundedSender<Done>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while finished.recv_many(&mut batch, BATCH).await > 0 {
        let settlements: Vec<_> = batch.iter().filter_map(|one| one.settlement.clone()).collect();
        if !settlements.is_empty() {
            write(&store, settlements).await;
        }
        for Finished { claim, permit, settlement } in batch.drain(..) {
            leases.forget(claim.key, claim.generation);
            drop(permit);
            let failed = settlement.as_ref().and_then(receiver_failed);
            let _the_dispatcher_is_gone = done.send(Done { lane: claim.lane, failed });
        }
    }
}

/// Writes a batch, however often that has to be tried.
async fn write(store: &Store, settlements: Vec<Settlement>) {
    let settled = until_written(|| store.settle(settlements.clone())).await;
    for (settlement, became) in settlements.iter().zip(settled) {
        let id = settlement.id;
        match became {
            Settled::Applied => settlement.scopes.iter().for_each(tell_of_suspension),
            Settled::Superseded => {}
            Settled::Late => {
                tracing::info!(notification.id = %id, "an outcome came in after its claim had ended")
            }
            Settled::LateDelivered => {
                tracing::info!(notification.id = %id, "a success came in after its claim had ended, and counts");
            }
            // The store has said why.
            Settled::Gone | Settled::Failed => {}
        }
    }
}

fn tell_of_suspension(change: &ScopeChange) {
    if let (Scope::SuspendChannel(_), Some(channel)) = (change.scope, &change.channel) {
        tracing::warn!(channel.name = %channel, channel.reason = change.reason, "a channel is suspended");
    }
}

/// Tries until the database takes it: what is known about a send must not be forgotten while the process lives.
pub(crate) async fn until_written<T, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = BACKOFF.0;
    loop {
        match attempt().await {
            Ok(written) => return written,
            Err(error) => {
                tracing::error!(store.error = %error, "outcomes cannot be written; trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(BACKOFF.1);
            }
        }
    }
}

fn receiver_failed(settlement: &Settlement) -> Option<bool> {
    settlement.scopes.iter().find_map(|change| match change.scope {
        Scope::Healthy => Some(false),
        Scope::SlowLane => Some(true),
        _ => None,
    })
}
