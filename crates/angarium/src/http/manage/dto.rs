//! The shapes of what decides who is told, as the API takes and gives them.

use std::collections::BTreeMap;

use angarium_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a template makes of an event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TemplatePreview {
    /// One line.
    pub title: String,
    /// Plain text.
    pub body: String,
    /// The same as HTML.
    pub html: Option<String>,
    /// What the receiver's provider knows the logical event by.
    pub sequence_id: String,
    /// Words that the provider shows or sorts by.
    pub tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    pub priority: Option<u8>,
    /// Something was cut because the channel takes no more.
    pub cut: bool,
}

/// What is to be rendered.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct NewTemplatePreview {
    /// The id of a template that is stored, or a template as it would be stored.
    #[schema(value_type = Object)]
    pub template: serde_json::Value,
    /// The members of an event; without it the template's sample, or what its feed declares.
    #[schema(value_type = Option<Object>)]
    pub event: Option<serde_json::Value>,
}

/// An entry of the feed catalogue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Feed {
    /// Stable: letters, digits, dot, hyphen and underscore.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// The types that its events have.
    pub event_types: Vec<String>,
    /// The fields by which its events can be filtered.
    pub fields: Option<BTreeMap<String, FeedField>>,
    /// Whether users may subscribe, and not only operators.
    pub user_subscriptions: Option<bool>,
    /// Beginnings of `source` by which CloudEvents without a feed belong here.
    pub sources: Option<Vec<String>>,
    /// Types whose events make queued ones of other types about the same subject untrue.
    pub supersedes: Option<BTreeMap<String, Vec<String>>>,
    /// How long an event is worth telling, such as `2h`.
    pub ttl: Option<String>,
    /// While it is false, events are stored and nobody is told.
    pub enabled: Option<bool>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub standing: Standing,
}

/// A field by which events can be filtered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FeedField {
    /// How a keyword is looked for: `exact`, `word` or `substring`.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// Another name for it.
    pub alias: Option<String>,
}

/// What the server adds to what it shows. It is passed over in what is taken.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// `file`: it stands in the configuration file and is only read here. `api`: it is changed here.
    pub managed_by: Option<String>,
    /// Whether it counts: what vanished from the file does not.
    pub active: Option<bool>,
    /// The number of its last change; in quotes, its entity tag.
    pub version: Option<i64>,
    /// When it was made.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub updated_at: Option<Timestamp>,
}

/// Addresses on one channel that belong together.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct List {
    /// Its name.
    pub name: String,
    /// The channel that leads to all of them.
    pub channel: String,
    /// Addresses, or objects with `address` and `name`.
    #[schema(value_type = Vec<Object>)]
    pub members: Vec<serde_json::Value>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub standing: Standing,
}

/// What people read of events of one type, on one channel, in one language.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// `event_type~channel~locale`, as it stands in paths.
    pub id: Option<String>,
    /// Of which events.
    pub event_type: String,
    /// On which channel.
    pub channel: String,
    /// In which language.
    pub locale: String,
    /// The title.
    pub subject: Option<String>,
    /// The text.
    pub body: String,
    /// The text as HTML.
    pub html: Option<String>,
    /// What the receiver's provider knows the logical event by.
    pub sequence_id: Option<String>,
    /// Words that the provider shows or sorts by.
    pub tags: Option<Vec<String>>,
    /// From 1, least, to 5, most urgent.
    pub priority: Option<u8>,
    /// The members of an event on which it is tried when it is stored.
    #[schema(value_type = Option<Object>)]
    pub sample: Option<serde_json::Value>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub standing: Standing,
}

/// A stored rule: who is told of which events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// Its public id; made up if none is given.
    pub id: Option<String>,
    /// For people.
    pub name: String,
    /// Which events. It cannot be changed.
    pub feed: String,
    /// Which of them; all if it says nothing.
    pub filter: Option<SubscriptionFilter>,
    /// Who is told.
    pub target: SubscriptionTarget,
    /// Options of the channel's provider.
    #[schema(value_type = Option<Object>)]
    pub options: Option<serde_json::Value>,
    /// How long after a delivery further events are kept back, such as `30m`.
    pub cooldown: Option<String>,
    /// How many recipients may be told in 24 hours.
    pub daily_cap: Option<u32>,
    /// `at_least_once` or `at_most_once`.
    pub delivery: Option<String>,
    /// `system` or `user`.
    pub scope: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// From when on it no longer counts.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// It is told test events, and no others.
    pub test: Option<bool>,
    /// When something was last delivered for it. Only shown.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_sent_at: Option<Timestamp>,
    /// What whoever made it may not have meant. Only shown, after a change.
    pub warnings: Option<Vec<String>>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Which events of a feed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionFilter {
    /// Only of these types.
    pub event_types: Option<Vec<String>>,
    /// By field: it is one of these values.
    #[schema(value_type = Option<Object>)]
    pub fields: Option<serde_json::Value>,
    /// By field, or `*` for any: it holds each of these keywords.
    pub keywords: Option<BTreeMap<String, Vec<String>>>,
    /// `any` or `all` of these conditions hold.
    #[serde(rename = "match")]
    pub mode: Option<String>,
    /// Conditions in the dialects of CloudEvents, all of which hold besides: `exact`, `prefix`, `suffix`, `all`, `any`, `not`.
    #[schema(value_type = Option<Vec<Object>>)]
    pub filters: Option<Vec<serde_json::Value>>,
}

/// Who is told: an address on a channel, or a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionTarget {
    /// The channel that delivers.
    pub channel: Option<String>,
    /// What that channel delivers to.
    pub address: Option<String>,
    /// The list, instead of both.
    pub list: Option<String>,
}
