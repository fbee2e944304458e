//! The JSON of events. In answers, no member is omitted.

use std::collections::BTreeMap;

use angarium_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::dto::{EntityOf, ProblemBody};

/// An event as a producer hands it in: something happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NewEvent {
    /// The producer's own id of it, unique together with `source`; made by the server if it is missing. A resend under the
    /// same id is stored once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who says so; the name of the key if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The feed that it belongs to.
    pub feed: String,
    /// What sort of thing happened: one of the feed's types, or `ManualAnnouncement`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it happened to.
    pub key: String,
    /// When it happened: RFC 3339 with an offset, in the years 1970 to 9999; now if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub time: Option<String>,
    /// The language of whoever is told, where nothing else says: `nl-NL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// At most 64 texts, numbers and booleans, by which subscriptions are filtered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub fields: BTreeMap<String, Box<RawValue>>,
    /// JSON of the producer's own, kept word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<Box<RawValue>>,
    /// What it happened to, for whoever shares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityOf>,
    /// Ids of people whom it concerns, at most 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub recipients: Vec<String>,
    /// How long after it happened it is worth telling: `90s`, `2h`, `7d`. Not beside `expires_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// From when on it is no longer worth telling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// A later event of the feed with the same key replaces what of this one is not sent yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersede_key: Option<String>,
    /// It reaches test subscriptions, and no others.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub test: bool,
}

/// Many events, each judged on its own, stored in one commit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewEventBatch {
    /// At least one.
    pub events: Vec<NewEvent>,
}

/// A CloudEvent 1.0 in structured mode. Further attributes are taken too: those that the feed declares are fields.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CloudEvent {
    /// `1.0`
    pub specversion: String,
    /// The producer's own id of it, unique together with `source`.
    pub id: String,
    /// Who says so.
    pub source: String,
    /// What sort of thing happened: one of the feed's types.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it happened to; the id if it is missing.
    pub subject: Option<String>,
    /// When it happened; now if it is missing.
    #[schema(format = DateTime)]
    pub time: Option<String>,
    /// The feed; if it is missing, the one that the catalogue gives `source` to.
    pub feed: Option<String>,
    /// The language of whoever is told, where nothing else says.
    pub locale: Option<String>,
    /// A later event of the feed with the same key replaces what of this one is not sent yet.
    pub supersedekey: Option<String>,
    /// From when on it is no longer worth telling.
    #[schema(format = DateTime)]
    pub expirytime: Option<String>,
    /// What the data is: JSON if it is missing.
    pub datacontenttype: Option<String>,
    /// JSON of the producer's own, kept word for word. Scalars at its top that the feed declares are fields.
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<Box<RawValue>>,
    /// The data in Base64, instead of `data`.
    pub data_base64: Option<String>,
}

/// An announcement that an operator makes by hand.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NewAnnouncement {
    /// One line. May be empty if the body is not.
    pub subject: String,
    /// Plain text. May be empty if the subject is not.
    pub body: String,
    /// Fields of the feed, by which subscriptions are filtered.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub fields: BTreeMap<String, Box<RawValue>>,
    /// It reaches test subscriptions, and no others.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub test: bool,
}

/// An event is stored durably, with what is known by now of whom it concerns.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventAccepted {
    /// The server's id of it, under which it can be asked for.
    #[schema(format = Uuid)]
    pub id: String,
    /// The same source had handed it in before; what follows is as it is now.
    pub duplicate: bool,
    /// Not all whom it concerns have been looked at yet.
    pub planning: bool,
    /// What is sent, the first hundred at most.
    pub notifications: Vec<PlannedNotification>,
    /// Who is not told although it concerns them, the first hundred at most.
    pub skipped: Vec<SkippedMatch>,
}

/// A notification that an event leads to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PlannedNotification {
    /// Its id.
    #[schema(format = Uuid)]
    pub id: String,
    /// How it came to be: `subscription`.
    pub route: String,
    /// The channel that it goes out on; null if its list is not known.
    pub channel: Option<String>,
    /// The subscription that asked for it.
    #[serde(rename = "ref")]
    pub reference: String,
    /// `pending`, `retrying`, `delivered`, `parked`, `discarded` or `skipped`.
    pub status: String,
    /// Why it was skipped.
    pub skip_reason: Option<String>,
}

/// A match of which nobody is told.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SkippedMatch {
    /// How it would have come to be: `subscription`.
    pub route: String,
    /// The subscription that matched.
    #[serde(rename = "ref")]
    pub reference: String,
    /// `cooldown`, `already_told`, `daily_cap`, `same_target`, `channel_disabled`, `channel_unknown`,
    /// `subscription_expired`, `expired`, `superseded` or `feed_disabled`.
    pub reason: String,
    /// The notification that stands in the way, where one does.
    #[schema(format = Uuid)]
    pub by: Option<String>,
    /// The notification that it was planned as later, once the way was free.
    #[schema(format = Uuid)]
    pub told_by: Option<String>,
    /// When this was decided last.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// What became of each event of a batch, in order.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventBatchAnswer {
    /// One result for each event.
    pub results: Vec<EventBatchResult>,
}

/// What became of one event of a batch.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventBatchResult {
    /// It is stored.
    Accepted(EventAccepted),
    /// It is not.
    Refused {
        /// Why.
        problem: ProblemBody,
    },
}

/// What an event would lead to. Nothing was stored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventTrial {
    /// How many subscriptions match.
    pub matched: usize,
    /// What would be answered.
    pub would: EventAccepted,
    /// What would be sent, the first hundred at most.
    pub texts: Vec<TrialText>,
}

/// What one subscription would be told.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialText {
    /// The subscription.
    pub subscription: String,
    /// The channel; null if its list is not known.
    pub channel: Option<String>,
    /// The address, or the list.
    pub target: String,
    /// The template that it is made with; null if there is none for this type on this channel.
    pub template: Option<String>,
    /// One line; null if it could not be made.
    pub title: Option<String>,
    /// Plain text; null if it could not be made.
    pub body: Option<String>,
    /// The same as HTML.
    pub html: Option<String>,
    /// What the provider knows the logical event by.
    pub sequence_id: Option<String>,
    /// Words that the provider shows or sorts by.
    pub tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    pub priority: Option<u8>,
    /// Something is missing because the provider takes no more.
    pub cut: bool,
    /// Why it could not be made.
    pub fault: Option<String>,
}

/// An event as it is stored.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Event {
    /// The server's id.
    #[schema(format = Uuid)]
    pub id: String,
    /// Who said so.
    pub source: String,
    /// The source's own id.
    pub external_id: String,
    /// The feed that it belongs to.
    pub feed: String,
    /// What sort of thing happened.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it happened to.
    pub key: String,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// The language of whoever is told.
    pub locale: Option<String>,
    /// Its fields.
    pub fields: BTreeMap<String, String>,
    /// The producer's JSON, word for word.
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<Box<RawValue>>,
    /// What it happened to, for whoever shares it.
    pub entity: Option<EntityOf>,
    /// People whom it concerns.
    pub recipients: Vec<String>,
    /// From when on it is no longer worth telling.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// A later event of the feed with the same key replaces it.
    pub supersede_key: Option<String>,
    /// It reaches test subscriptions, and no others.
    pub test: bool,
    /// Who handed it in: `key:<name>`.
    pub accepted_by: String,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Not all whom it concerns have been looked at yet.
    pub planning: bool,
    /// How many subscriptions matched, so far if it is still being planned.
    pub matched: u32,
}

/// An event with what it led to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventDetail {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// How many notifications it led to.
    pub notification_count: u32,
    /// What it led to, the first hundred at most.
    pub notifications: Vec<PlannedNotification>,
    /// How many matches were suppressed.
    pub skipped_count: u32,
    /// Who was not told although it concerned them, the first hundred at most.
    pub skipped: Vec<SkippedMatch>,
    /// What it told of is gone.
    pub source_gone: bool,
    /// The later event that made it untrue, if one did.
    #[schema(format = Uuid)]
    pub superseded_by: Option<String>,
}

/// Why somebody was told of an event, or was not.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventExplanation {
    /// The event.
    #[schema(format = Uuid)]
    pub event_id: String,
    /// The subscription that was asked about; null for the event as a whole.
    pub subscription: Option<String>,
    /// For a subscription `delivered`, `pending`, `retrying`, `parked`, `discarded`, `skipped`, `suppressed`, `told`,
    /// `not_matched`, `planning` or `unknown`; as a whole `delivered`, `planned`, `suppressed`, `planning` or `nobody`.
    pub outcome: String,
    /// How many subscriptions matched.
    pub matched: u32,
    /// How many notifications it led to.
    pub notification_count: u32,
    /// How many matches were suppressed.
    pub skipped_count: u32,
    /// From the event on, in order. The first stop gives the outcome.
    pub steps: Vec<ExplainedStep>,
}

/// One question on the way from an event to a delivery, and its answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExplainedStep {
    /// What was asked: `event`, `feed`, `subscription`, `active`, `expiry`, `event_type`, `filter`, `superseded`, `channel`,
    /// `cooldown`, `ledger`, `daily_cap`, `same_target`, `planned`, `judged` or `delivery`.
    pub step: String,
    /// `pass`, `stop` or `unknown`.
    pub verdict: String,
    /// Why, as a word for programs.
    pub reason: String,
    /// Why, as a sentence.
    pub detail: String,
}
