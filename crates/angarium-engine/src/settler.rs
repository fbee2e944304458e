//! Outcomes are written in batches: whatever is known now shares one commit. A claim's permit comes back only when
//! its outcome is durable, so that a database that takes no outcomes soon stops the sending as well.
//!
//! A batch that takes the database too long, or that has a row in it which somebody else holds, is halved and tried
//! again apart from what comes after it, until the one outcome is found that cannot be written. That one waits alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::disposition::Scope;
use angarium_store::{Claim, LaneKey, ScopeChange, Settled, Settlement, Store, StoreError};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};

use crate::leases::Leases;
use crate::permits::Permit;

/// Outcomes in one batch at most.
const BATCH: usize = 512;
/// The first and the longest wait after a batch that could not be written.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Batches that are tried again side by side: most of the database's connections are left to all other work, even if
/// each of these waits for somebody's lock.
const APART: usize = 2;

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
    let settler = Arc::new(Settler { store, leases, done, turns: Semaphore::new(APART) });
    // There cannot be more of them than there are permits.
    let mut held_up = JoinSet::new();
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            received = finished.recv_many(&mut batch, BATCH) => {
                if received == 0 {
                    break;
                }
                if let Err(rest) = settler.write(std::mem::take(&mut batch)).await {
                    held_up.spawn(Arc::clone(&settler).write_apart(rest));
                }
            }
            Some(ended) = held_up.join_next() => pass_on(ended),
        }
    }
    while let Some(ended) = held_up.join_next().await {
        pass_on(ended);
    }
}

/// Whoever panics in there panics here, where it is noticed.
fn pass_on(ended: Result<(), JoinError>) {
    if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
        std::panic::resume_unwind(panic);
    }
}

/// Whether it may help to write less at a time: what is left out may be all that is in the way.
pub(crate) fn calls_for_less(error: &StoreError) -> bool {
    matches!(error, StoreError::Contended(_) | StoreError::QueryTimeout)
}

struct Settler {
    store: Arc<Store>,
    leases: Arc<Leases>,
    done: mpsc::UnboundedSender<Done>,
    turns: Semaphore,
}

/// What could not be written, and should be tried again in smaller parts.
struct HeldUp {
    batch: Vec<Finished>,
    cause: StoreError,
}

impl Settler {
    /// Writes a batch, however often that has to be tried, unless less should be written at a time.
    async fn write(&self, batch: Vec<Finished>) -> Result<(), HeldUp> {
        let settlements: Vec<_> = batch.iter().filter_map(|one| one.settlement.clone()).collect();
        if !settlements.is_empty() {
            let settle = async || match self.store.settle(settlements.clone()).await {
                Err(cause) if calls_for_less(&cause) => Ok(Err(cause)),
                settled => settled.map(Ok),
            };
            match until_written(settle).await {
                Ok(settled) => settlements.iter().zip(settled).for_each(|(one, became)| tell(one, became)),
                Err(cause) => return Err(HeldUp { batch, cause }),
            }
        }
        batch.into_iter().for_each(|one| self.finish(one));
        Ok(())
    }

    /// Writes what is held up, in ever smaller parts. What cannot be made smaller keeps its permit and its claim until
    /// it is written.
    fn write_apart(self: Arc<Self>, held_up: HeldUp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let HeldUp { mut batch, cause } = held_up;
        tracing::warn!(
            outcomes = batch.len(),
            notification.id = %batch.first().map(|one| one.claim.id.to_string()).unwrap_or_default(),
            store.error = %cause,
            "outcomes are held up, of this notification first; they are tried again apart from all others"
        );
        Box::pin(async move {
            if batch.len() > 1 {
                let half = batch.split_off(batch.len() / 2);
                tokio::join!(Arc::clone(&self).write_half(batch), self.write_half(half));
                return;
            }
            let mut wait = BACKOFF.0;
            while let Err(held_up) = self.write_in_turn(batch).await {
                batch = held_up.batch;
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(BACKOFF.1);
            }
        })
    }

    async fn write_half(self: Arc<Self>, half: Vec<Finished>) {
        if let Err(held_up) = self.write_in_turn(half).await {
            self.write_apart(held_up).await;
        }
    }

    async fn write_in_turn(&self, batch: Vec<Finished>) -> Result<(), HeldUp> {
        let _turn = self.turns.acquire().await;
        self.write(batch).await
    }

    fn finish(&self, Finished { claim, permit, settlement }: Finished) {
        self.leases.forget(claim.key, claim.generation);
        drop(permit);
        let failed = settlement.as_ref().and_then(receiver_failed);
        let _the_dispatcher_is_gone = self.done.send(Done { lane: claim.lane, failed });
    }
}

/// Tells of what is out of the ordinary.
fn tell(settlement: &Settlement, became: Settled) {
    let id = settlement.id;
    match became {
        Settled::Applied => settlement.scopes.iter().for_each(tell_of_suspension),
        Settled::Superseded => {}
        Settled::Late => {
            tracing::info!(notification.id = %id, "an outcome came in after its claim had ended");
        }
        Settled::LateDelivered => {
            tracing::info!(notification.id = %id, "a success came in after its claim had ended, and counts");
        }
        // The store has said why.
        Settled::Gone | Settled::Failed => {}
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
