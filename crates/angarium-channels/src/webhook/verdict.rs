//! What an answer, or the lack of one, means.
//!
//! | answer | outcome |
//! | --- | --- |
//! | 2xx | delivered |
//! | 429 | rate limited, with the receiver's hint if it gave one |
//! | 503 with a readable `Retry-After` | rate limited until then |
//! | 408, 425, 5xx, and what is no status of HTTP | transient |
//! | 410 | permanent for the recipient, and the address is suppressed |
//! | 3xx (never followed), every other 4xx | permanent for the message |
//! | address blocked, plain http refused | permanent for the message |
//! | no answer for any other reason | transient; in doubt if the request had left in full |

use std::time::Duration;

use angarium_domain::adapter::Delivery;
use angarium_domain::address::Address;
use angarium_domain::outcome::{Failure, FailureClass, Outcome, Receipt};
use angarium_egress::{Fault, FaultKind, Response};
use http::StatusCode;
use http::header::LOCATION;
use url::Url;

use crate::mask::Mask;
use crate::retry_after::{Hint, hint};

/// What `response` to a delivery means.
pub(crate) fn of_answer(
    response: &Response,
    url: &Url,
    address: &Address,
    mask: &Mask,
    delivery: &Delivery,
) -> Outcome {
    let now = delivery.attempted_at;
    let status_code = Some(response.status);
    let response_excerpt = mask.excerpt(&response.body, &delivery.message);
    let hint = hint(&response.headers, now);
    let Some((class, retry_after)) = class_of(response.status, &hint) else {
        return Outcome::Delivered(Receipt { provider_message_id: None, status_code, response_excerpt });
    };
    let remark = match (response.status, hint) {
        (300..=399, _) => redirect(response, url),
        (429 | 503, Hint::Unreadable(value)) => format!("; its Retry-After {value:?} cannot be read"),
        _ => String::new(),
    };
    let answered = format!("{} answered {}{remark}", address.receiver(), named(response.status));
    Outcome::Failed(Failure {
        status_code,
        retry_after,
        suppress: response.status == 410,
        response_excerpt,
        ..Failure::new(class, mask.apply(&answered))
    })
}

/// What it means that no answer came.
pub(crate) fn of_fault(fault: &Fault, address: &Address) -> Failure {
    let class = match fault.kind {
        FaultKind::Blocked(_) | FaultKind::Request => FailureClass::PermanentMessage,
        FaultKind::Local => FailureClass::Internal,
        FaultKind::Dns
        | FaultKind::NoSuchName
        | FaultKind::Certificate
        | FaultKind::Connect
        | FaultKind::Tls
        | FaultKind::Timeout
        | FaultKind::Protocol
        | FaultKind::Reset => FailureClass::Transient,
    };
    Failure {
        duplicate_risk: fault.request_written,
        ..Failure::new(class, format!("{fault} ({})", address.receiver()))
    }
}

/// The class of failure that a status stands for, and how long to wait; `None` for success.
fn class_of(status: u16, hint: &Hint) -> Option<(FailureClass, Option<Duration>)> {
    match (status, hint) {
        (200..=299, _) => None,
        (429 | 503, &Hint::Wait(wait)) => Some((FailureClass::RateLimited, Some(wait))),
        (429, _) => Some((FailureClass::RateLimited, None)),
        (410, _) => Some((FailureClass::PermanentRecipient, None)),
        (408 | 425, _) => Some((FailureClass::Transient, None)),
        (300..=499, _) => Some((FailureClass::PermanentMessage, None)),
        _ => Some((FailureClass::Transient, None)),
    }
}

/// Where a redirect would have led, by host alone: the rest may be secret.
fn redirect(response: &Response, url: &Url) -> String {
    let location = response.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let target = location.and_then(|location| url.join(location).ok());
    match target.as_ref().and_then(Url::host_str) {
        Some(host) => format!("; its redirect to {host} is not followed"),
        None => "; redirects are not followed".to_owned(),
    }
}

/// A status with its name.
pub(super) fn named(status: u16) -> String {
    let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    name.map_or_else(|| status.to_string(), |name| format!("{status} {name}"))
}
