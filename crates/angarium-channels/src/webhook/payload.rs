//! The body of a webhook. What it holds is written once and read by machines for years: members are only ever
//! added, and nothing in it depends on the attempt.

use angarium_domain::adapter::Message;
use angarium_domain::id::NotificationId;
use angarium_domain::outcome::{Failure, FailureClass};
use angarium_domain::presentation::EventFacts;
use angarium_domain::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Serialize)]
struct Payload<'a> {
    id: NotificationId,
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    subject: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a EventFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

/// The body for `message`, the same bytes whenever it is asked for. The producer's data stands in it word for
/// word.
pub(crate) fn bytes(message: &Message) -> Result<Vec<u8>, Failure> {
    let refuse = |_| Failure::new(FailureClass::Internal, "the message cannot be written as JSON");
    let data = message.data.as_deref().map(serde_json::from_str).transpose().map_err(refuse)?;
    let Message { subject, body, .. } = message;
    let event = message.presentation.as_ref().map(|presentation| &presentation.event);
    serde_json::to_vec(&Payload {
        id: message.id,
        // What happened, where something did.
        kind: event.map_or("notification", |event| &event.kind),
        timestamp: message.at,
        data: Data { subject, body, event, list: message.list.as_deref(), data },
    })
    .map_err(refuse)
}
