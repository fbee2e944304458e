//! Takes back what a node held that let its lease end: the lost attempt is written down as interrupted, and the row
//! goes on as the disposition table says. Whether that node died, was held up or only got no answer is not known here.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::channel::OnAmbiguous;
use angarium_domain::disposition::{Next, decide};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::time::Timestamp;
use angarium_store::{Abandoned, AttemptRecord, Settled, Settlement, StoreError};

use crate::delivery::Context;
use crate::settler::calls_for_less;

/// Takes back what others lost, three times a lease.
pub(crate) async fn keep_looking(context: Arc<Context>, lease: Duration) {
    loop {
        tokio::time::sleep(lease / 3).await;
        if let Err(error) = take_back(&context, context.clock.now()).await {
            tracing::warn!(store.error = %error, "claims whose leases have ended could not be taken back; it is tried again");
        }
    }
}

/// Takes back every lease that ended by `ended_by`. Returns how many rows were taken back.
pub(crate) async fn take_back(context: &Arc<Context>, ended_by: Timestamp) -> Result<usize, StoreError> {
    let mut taken_back = 0;
    loop {
        let mut abandoned = context.store.abandoned(ended_by).await?;
        abandoned.retain(|lost| !context.leases.holds(lost.claim.key, lost.claim.generation));
        let now = context.clock.now();
        let settlements: Vec<_> =
            abandoned.into_iter().filter_map(|lost| interrupted(context, lost, ended_by, now)).collect();
        if settlements.is_empty() {
            return Ok(taken_back);
        }
        let applied = settle(context, settlements).await?;
        taken_back += applied;
        if applied == 0 {
            return Ok(taken_back);
        }
    }
}

/// Settles all but what somebody else holds, which keeps nothing else from being taken back. Returns how many rows
/// were.
async fn settle(context: &Context, settlements: Vec<Settlement>) -> Result<usize, StoreError> {
    let mut applied = 0;
    let mut parts = vec![settlements];
    while let Some(mut part) = parts.pop() {
        match context.store.settle(part.clone()).await {
            Ok(settled) => applied += settled.iter().filter(|one| **one == Settled::Applied).count(),
            Err(error) if !calls_for_less(&error) => return Err(error),
            Err(_) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                parts.extend([half, part]);
            }
            Err(error) => {
                let id = part.first().map(|one| one.id.to_string()).unwrap_or_default();
                tracing::warn!(notification.id = id, store.error = %error, "a claim is left for later");
            }
        }
    }
    Ok(applied)
}

fn interrupted(
    context: &Context,
    lost: Abandoned,
    ended_by: Timestamp,
    now: Timestamp,
) -> Option<Settlement> {
    let Abandoned { claim, node, on_wire, claimed_at } = lost;
    let mut rules = context.catalog.rules(claim.channel.as_ref(), claim.kind);
    if claim.at_most_once {
        rules.on_ambiguous = OnAmbiguous::Park;
    }
    let detail = format!(
        "node {node} let its lease end while it held this notification; whether it was sent is not known"
    );
    let failure = Failure { duplicate_risk: true, ..Failure::new(FailureClass::Interrupted, detail) };
    // Whether a second send is allowed depends on what was committed before the first byte, not on the guess
    // that the attempt record makes.
    let judged = Outcome::Failed(Failure { duplicate_risk: on_wire, ..failure.clone() });
    let next = decide(&judged, claim.progress, &rules, now, context.chance.as_ref()).next;
    let error = (next == Next::Park).then(|| failure.as_last_error());
    let progress = claim.progress.after(&next, Some(FailureClass::Interrupted));
    let state = claim.state.clone().after(&next, error, now).ok()?;
    Some(Settlement {
        lease_ended_by: Some(ended_by),
        attempt: Some(AttemptRecord {
            started_at: claimed_at,
            ended_at: now,
            node,
            class: Some(failure.class),
            detail: Some(failure.detail),
            status_code: None,
            duplicate_risk: true,
            retry_after_s: None,
            response_excerpt: None,
            targets: None,
            template: None,
        }),
        ..Settlement::of(&claim, state, progress)
    })
}
