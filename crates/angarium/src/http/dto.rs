//! The JSON that goes in and out, for server, document and CLI. In answers, only problems omit members.

use std::collections::BTreeMap;

use angarium_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// One page of a listing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// The cursor of the next page; null on the last.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A listing that is complete.
    pub fn whole(items: Vec<T>) -> Self {
        Page { items, next: None }
    }
}

/// A notification as a producer hands it in: to a list or to one address, never both.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NewNotification {
    /// The producer's own UUID; made by the server if it is missing. A resend under the same id is stored once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Uuid)]
    pub id: Option<String>,
    /// The name of the list whose members are to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// One address on a configured channel, instead of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<To>,
    /// One line. May be empty if the body is not.
    pub subject: String,
    /// Plain text. May be empty if the subject is not.
    pub body: String,
    /// JSON of the producer's own, kept and passed on word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<Box<RawValue>>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// When the producer made it: RFC 3339 with an offset, in the years 1970 to 9999.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub enqueued_at: Option<String>,
}

/// One address on a configured channel.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct To {
    /// The channel's name.
    pub channel: String,
    /// What the channel's kind delivers to: an e-mail address, a URL, a number, a topic.
    pub address: String,
}

/// Where a notification comes from. Each part may be missing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The remote place.
    pub site: Option<String>,
    /// The instance of the producer at that place.
    pub instance: Option<String>,
    /// The script or program.
    pub script: Option<String>,
    /// The node of the site's own cluster.
    pub node: Option<String>,
}

/// Many notifications, each judged on its own, stored in one commit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewBatch {
    /// At least one.
    pub notifications: Vec<NewNotification>,
}

/// A notification is stored durably.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The id under which it can be asked for.
    pub id: String,
    /// Its present status: `pending` for a new one.
    pub status: String,
    /// The same id with the same content had been stored before.
    pub duplicate: bool,
}

/// What became of each item of a batch, in order.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BatchAnswer {
    /// One result for each item.
    pub results: Vec<BatchResult>,
}

/// What became of one item of a batch.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum BatchResult {
    /// It is stored.
    Accepted(Accepted),
    /// It is not.
    Refused {
        /// Why.
        problem: ProblemBody,
    },
}

/// A notification and its fate.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Notification {
    /// The producer's id.
    pub id: String,
    /// `pending`, `retrying`, `delivered`, `parked`, `discarded` or `skipped`.
    pub status: &'static str,
    /// The kind of channel: `email`, `sms`, `webhook`, `ntfy`, `slack`, `teams` or `in_app`.
    pub kind: &'static str,
    /// The channel's name; null for a list that was not known.
    pub channel: Option<String>,
    /// The list it is addressed to.
    pub list: Option<String>,
    /// The address it is addressed to.
    pub to: Option<To>,
    /// How it came to be: `direct`, handed in as it is, or `subscription`, of an event.
    pub route: String,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// Retries scheduled so far.
    pub retry_count: u32,
    /// The producer's JSON, word for word.
    #[schema(value_type = Option<serde_json::Value>)]
    pub data: Option<Box<RawValue>>,
    /// The last thing that went wrong.
    pub last_error: Option<LastError>,
    /// Who it really went to: the members of the list once they are known, a single address once it is delivered.
    pub resolved_targets: Vec<ResolvedTarget>,
    /// The receiver's own id for the message.
    pub provider_message_id: Option<String>,
    /// What the receiver answered last. Null in listings.
    pub provider_response: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// When the producer made it, if it said so.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub enqueued_at: Option<Timestamp>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last tried.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_attempt_at: Option<Timestamp>,
    /// When it will be tried next; null while it is being tried and once it has come to its end.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
    /// When the receiver took it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub delivered_at: Option<Timestamp>,
    /// When it came to its end.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
    /// The event it tells of.
    pub event_id: Option<String>,
    /// That event's type.
    pub event_type: Option<String>,
    /// The thing that people work on together which that event happened to.
    pub entity: Option<EntityOf>,
    /// The id of the subscription it stems from.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Why it was skipped: `cancelled`, `expired`, `superseded`, `unsubscribed` or `source_gone`.
    pub skip_reason: Option<String>,
    /// It is being tried right now.
    pub in_flight: bool,
    /// It has been pending or retrying for longer than the configured age.
    pub stuck: bool,
}

/// A thing that people work on together.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityOf {
    /// `PurchaseOrder`
    #[serde(rename = "type")]
    pub kind: String,
    /// `po-1`
    pub id: String,
}

/// The last thing that went wrong with a notification.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LastError {
    /// `transient`, `rate_limited`, `permanent_recipient`, `_message` or `_config`, `interrupted`, `internal`.
    pub class: String,
    /// One line for an operator.
    pub detail: String,
}

/// One address and how it fared.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ResolvedTarget {
    /// Where it went.
    pub address: String,
    /// `accepted`, `refused`, `waiting`, or `bounced`: accepted at first, and then it came back.
    pub result: String,
    /// Why it was refused or came back, or what went wrong last.
    pub detail: Option<String>,
}

/// One try at delivering.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Attempt {
    /// Counted from 1, never reset.
    pub number: i64,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The node that made it.
    pub node: String,
    /// `delivered` or `failed`.
    pub result: &'static str,
    /// The class of the failure.
    pub class: Option<&'static str>,
    /// One line about the failure.
    pub detail: Option<String>,
    /// The receiver's status code.
    pub status_code: Option<u16>,
    /// The receiver may have the message although no answer came.
    pub duplicate_risk: bool,
    /// The wait that the receiver asked for, in seconds.
    pub retry_after_s: Option<i64>,
    /// What the receiver answered.
    pub response_excerpt: Option<String>,
    /// For a list, how each address that was tried fared.
    #[schema(value_type = Vec<Object>)]
    pub targets: Box<RawValue>,
    /// The template that its text came from, with its version after `@`; null for a text that was handed in, or made without
    /// one.
    pub template: Option<String>,
    /// The status after it.
    pub led_to: &'static str,
    /// It came in after its claim had ended.
    pub late: bool,
}

/// One entry of a notification's trail.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditEntry {
    /// The entry's own id.
    #[schema(format = Uuid)]
    pub event_id: String,
    /// `enqueued`, `accepted`, `attempt`, `submitted`, `terminal` or `bounced`.
    pub kind: String,
    /// Who did it: `key:<name>`, `person:<name>`, `site:<name>` or `system`.
    pub actor: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// More about it.
    #[schema(value_type = Object)]
    pub detail: Box<RawValue>,
}

/// Why an operator acts. The whole body may be left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ActionReason {
    /// One line of at most 1,000 characters; it is kept in the trail.
    pub reason: Option<String>,
}

/// An operator's action is done and recorded.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActionDone {
    /// The notification's id.
    pub id: String,
    /// Its status now.
    pub status: String,
    /// An attempt was under way: it may still reach the receiver, but will not change the row.
    pub in_flight: bool,
}

/// The figures of one moment.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Kpis {
    /// Of everything.
    pub global: Kpi,
    /// Of each site.
    pub sites: BTreeMap<String, Kpi>,
    /// Of each node of a site, as `site/node`. A `/` or `%` in a site's name is percent-encoded here.
    pub nodes: BTreeMap<String, Kpi>,
}

/// The figures of one scope.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Kpi {
    /// Pending and retrying.
    pub queue_depth: i64,
    /// Of these, waiting for longer than the configured age.
    pub stuck_count: i64,
    /// Parked.
    pub parked_count: i64,
    /// Delivered during the last 60 seconds.
    pub delivered_last_interval: i64,
    /// Age of the oldest that is pending or retrying, in whole seconds; null if there is none.
    pub oldest_pending_age_seconds: Option<u64>,
    /// Being tried right now.
    pub in_flight: i64,
}

/// A key to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// Its holder: letters, digits, dot, hyphen and underscore. A name is never used twice.
    pub name: String,
    /// At least one of `publish`, `read`, `operate`, `admin` (which implies all) and `site`.
    pub scopes: Vec<String>,
    /// When it ends by itself: RFC 3339 with an offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
}

/// A key that was made.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeKey {
    /// The part that is no secret.
    pub id: String,
    /// The whole key. It is shown this once and stored nowhere.
    pub key: String,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// The part that is no secret.
    pub id: String,
    /// Its holder.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it ends by itself.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

/// An address that wants no more messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Suppression {
    /// The channel.
    pub channel: String,
    /// The address.
    pub address: String,
    /// Why.
    pub reason: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
}

/// A configured channel.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Its kind: `email`, `sms`, `webhook`, `ntfy`, `slack`, `teams` or `in_app`.
    pub kind: &'static str,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Whether this server can deliver on channels of its kind.
    pub adapter: bool,
    /// Deliveries at once.
    pub max_parallel: usize,
    /// Until when nothing is sent on it; null if nothing is in its way.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub waits_until: Option<Timestamp>,
    /// What is wrong with the channel as a whole, if anything is.
    pub suspended: Option<Suspension>,
}

/// Why a channel is suspended.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Suspension {
    /// One line for an operator.
    pub reason: String,
    /// From then on one delivery at a time finds out whether the channel works again.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
}

/// A test of a channel to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewChannelTest {
    /// Whom to send the test message to: what the channel's kind delivers to.
    pub address: String,
}

/// What came of a test message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChannelTest {
    /// The id that the message had.
    #[schema(format = Uuid)]
    pub id: String,
    /// `delivered` or `failed`.
    pub outcome: &'static str,
    /// The class of the failure.
    pub class: Option<&'static str>,
    /// One line about the failure.
    pub detail: Option<String>,
    /// The receiver's status code.
    pub status_code: Option<u16>,
    /// The receiver's own id for the message.
    pub provider_message_id: Option<String>,
    /// The channel was suspended or waited; now it sends again.
    pub reopened: bool,
    /// The conversation, without secrets.
    pub transcript: Vec<Turn>,
}

/// One line of a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Turn {
    /// Who says it: `us`, `them`, or nobody: `remark`.
    pub from: &'static str,
    /// What is said.
    pub text: String,
}

/// A channel sends again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChannelReopened {
    /// The channel's name.
    pub channel: String,
    /// Whether it was suspended or waited until now.
    pub reopened: bool,
}

/// A mail server's report was looked through, address by address.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BouncesRecorded {
    /// The notification that it is about.
    #[schema(format = Uuid)]
    pub notification: String,
    /// What was written down.
    pub recorded: usize,
    /// What had been reported before.
    pub known: usize,
    /// Addresses that the notification never went to; nothing was written of them.
    pub strangers: usize,
    /// Addresses that get no more messages from now on.
    pub suppressed: usize,
}

/// A server that works on the database.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its number, another one after each start.
    pub instance: i64,
    /// By what name attempts know it.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// The address that it listens on.
    pub address: String,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it last gave a sign of life.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// Whether that was too long ago: what it held goes to others when its leases end.
    pub lost: bool,
    /// Whether it does what only one of them must do.
    pub leads: bool,
}

/// How the server is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthAnswer {
    /// `alive` or `ready`; after a failover that lost something, `ready` and how much.
    pub status: String,
}

/// What is answered when something is refused or fails (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:angarium:problem:` and the code.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// The code in a sentence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The word for programs.
    pub code: String,
    /// More about this case.
    pub detail: String,
    /// The request's id, under which the log has more. Missing inside the results of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Whether the same request may work later.
    pub retryable: bool,
    /// Every field that is not as it must be. Left out when there is none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<FieldError>,
}

/// One field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The field's path, `source.site`, or the query parameter's name.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}
