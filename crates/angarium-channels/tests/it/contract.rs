//! What every adapter owes, in a form that each adapter's tests call.

use std::ops::RangeInclusive;

use angarium_domain::adapter::{Adapter, Delivery};
use angarium_domain::limits::{ERROR_CHARS, RESPONSE_KEPT_BYTES};
use angarium_domain::outcome::{FailureClass, Outcome};
use angarium_receivers::http::{Receiver, Reply};

/// Which statuses stand for which class; `None` is success.
pub(crate) type StatusTable<'a> = &'a [(RangeInclusive<u16>, Option<FailureClass>)];

/// Sends to one address and returns its one outcome.
pub(crate) async fn send_one(adapter: &dyn Adapter, delivery: &Delivery) -> Outcome {
    let mut outcomes = adapter.send(delivery).await;
    assert_eq!(outcomes.len(), delivery.addresses.len(), "one outcome for each address");
    outcomes.remove(0)
}

/// Every status from 200 to 599 has the class that `table` gives it, and is reported with it. The table must
/// name each status once.
pub(crate) async fn every_status(
    adapter: &dyn Adapter,
    delivery_to: impl Fn(&str) -> Delivery,
    table: StatusTable<'_>,
) {
    let receiver = Receiver::start().await.unwrap();
    let delivery = delivery_to(&receiver.url("/status"));
    for status in 200..=599 {
        let mut classes = table.iter().filter(|(range, _)| range.contains(&status));
        let expected = classes.next().unwrap_or_else(|| panic!("{status} is missing in the table")).1;
        assert!(classes.next().is_none(), "{status} stands twice in the table");

        receiver.script("/status", [Reply::status(status)]);
        let (class, code) = match send_one(adapter, &delivery).await {
            Outcome::Delivered(receipt) => (None, receipt.status_code),
            Outcome::Failed(failure) => {
                assert!(!failure.duplicate_risk, "{status}: an answer leaves no doubt");
                (Some(failure.class), failure.status_code)
            }
        };
        assert_eq!((class, code), (expected, Some(status)));
    }
    assert_eq!(receiver.requests().len(), 400, "one request for each");
}

/// What an outcome says can be shown: nothing of `secrets`, no control characters, and not too much.
pub(crate) fn leaks_nothing(outcome: &Outcome, secrets: &[&str]) {
    let (detail, excerpt) = match outcome {
        Outcome::Delivered(receipt) => ("", &receipt.response_excerpt),
        Outcome::Failed(failure) => (failure.detail.as_str(), &failure.response_excerpt),
    };
    let excerpt = excerpt.as_deref().unwrap_or_default();
    for secret in secrets {
        assert!(!detail.contains(secret), "a secret in the detail: {detail}");
        assert!(!excerpt.contains(secret), "a secret in the excerpt: {excerpt}");
    }
    assert!(!detail.chars().any(char::is_control), "{detail:?}");
    assert!(!excerpt.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{excerpt:?}");
    assert!(detail.chars().count() <= ERROR_CHARS + 1 && excerpt.len() <= RESPONSE_KEPT_BYTES);
}
