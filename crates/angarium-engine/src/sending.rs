//! One call of an adapter, kept within bounds: it cannot take the process down and cannot go on for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use angarium_domain::adapter::{Adapter, Delivery};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};

/// How much longer than it says an adapter may take before it is cut off.
const GRACE: Duration = Duration::from_secs(10);

/// Sends, and gives exactly one outcome for each address whatever the adapter does. `timeout` is the channel's. Can be
/// dropped at any point.
pub async fn send(adapter: &dyn Adapter, delivery: &Delivery, timeout: Duration) -> Vec<Outcome> {
    let expected = delivery.addresses.len();
    let longest = catch_unwind(AssertUnwindSafe(|| adapter.longest(delivery, timeout)));
    let reported = match longest {
        Ok(longest) => tokio::time::timeout(longest + GRACE, guarded(adapter, delivery)).await,
        Err(_) => Ok(None),
    };
    let failure = match reported {
        Ok(Some(outcomes)) if outcomes.len() == expected => return outcomes,
        Ok(Some(_)) => Failure::new(FailureClass::Internal, "the adapter did not report on every address"),
        Ok(None) => Failure::new(FailureClass::Internal, "adapter_threw: the adapter panicked"),
        Err(_) => {
            Failure::new(FailureClass::Transient, "the adapter took longer than the channel's timeout allows")
        }
    };
    tracing::error!(
        notification.id = %delivery.message.id,
        channel.name = %delivery.channel,
        failure.detail = failure.detail,
        "an adapter misbehaved"
    );
    // What was sent before it went wrong is not known.
    vec![Outcome::Failed(Failure { duplicate_risk: true, ..failure }); expected]
}

/// `None` if the adapter panicked.
async fn guarded(adapter: &dyn Adapter, delivery: &Delivery) -> Option<Vec<Outcome>> {
    let mut sending = catch_unwind(AssertUnwindSafe(|| adapter.send(delivery))).ok()?;
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| Pin::as_mut(&mut sending).poll(context))) {
            Ok(Poll::Ready(outcomes)) => Poll::Ready(Some(outcomes)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}
