//! The shapes of what decides who is told, as the API takes and gives them.

use std::collections::BTreeMap;

use angarium_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a template makes of an event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TemplatePreview {
    /// One line.
    pub(crate) title: String,
    /// Plain text.
    pub(crate) body: String,
    /// The same as HTML.
    pub(crate) html: Option<String>,
    /// What the receiver's provider knows the logical event by.
    pub(crate) sequence_id: String,
    /// Words that the provider shows or sorts by.
    pub(crate) tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    pub(crate) priority: Option<u8>,
    /// Something was cut because the channel takes no more.
    pub(crate) cut: bool,
}

/// What is to be rendered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NewTemplatePreview {
    /// The id of a template that is stored, or a template as it would be stored.
    #[schema(value_type = Object)]
    pub(crate) template: serde_json::Value,
    /// The members of an event; without it the template's sample, or what its feed declares.
    #[schema(value_type = Option<Object>)]
    pub(crate) event: Option<serde_json::Value>,
}

/// An entry of the feed catalogue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Feed {
    /// Stable: letters, digits, dot, hyphen and underscore. May be left out where the path names it.
    pub(crate) id: Option<String>,
    /// For people.
    pub(crate) name: Option<String>,
    /// The types that its events have.
    pub(crate) event_types: Vec<String>,
    /// The fields by which its events can be filtered.
    pub(crate) fields: Option<BTreeMap<String, FeedField>>,
    /// Whether users may subscribe, and not only operators.
    pub(crate) user_subscriptions: Option<bool>,
    /// Beginnings of `source` by which CloudEvents without a feed belong here.
    pub(crate) sources: Option<Vec<String>>,
    /// Types whose events make queued ones of other types about the same subject untrue.
    pub(crate) supersedes: Option<BTreeMap<String, Vec<String>>>,
    /// How long an event is worth telling, such as `2h`.
    pub(crate) ttl: Option<String>,
    /// While it is false, events are stored and nobody is told.
    pub(crate) enabled: Option<bool>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

/// A field by which events can be filtered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedField {
    /// How a keyword is looked for: `exact`, `word` or `substring`.
    #[serde(rename = "match")]
    pub(crate) matching: Option<String>,
    /// Another name for it.
    pub(crate) alias: Option<String>,
}

/// What the server adds to what it shows. It is passed over in what is taken.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Standing {
    /// `file`: it stands in the configuration file and is only read here. `api`: it is changed here.
    pub(crate) managed_by: Option<String>,
    /// Whether it counts: what vanished from the file does not.
    pub(crate) active: Option<bool>,
    /// The number of its last change; in quotes, its entity tag.
    pub(crate) version: Option<i64>,
    /// When it was made.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) created_at: Option<Timestamp>,
    /// When it was last changed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) updated_at: Option<Timestamp>,
    /// What whoever changed it may not have meant. Shown after a change, if there is something to say.
    pub(crate) warnings: Option<Vec<String>>,
}

/// Addresses on one channel that belong together.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct List {
    /// Its name. May be left out where the path names it.
    pub(crate) name: Option<String>,
    /// The same.
    pub(crate) id: Option<String>,
    /// The channel that leads to all of them.
    pub(crate) channel: String,
    /// Addresses, or objects with `address` and `name`.
    #[schema(value_type = Vec<Object>)]
    pub(crate) members: Vec<serde_json::Value>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

/// What people read of events of one type, on one channel, in one language.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Template {
    /// `event_type~channel~locale`, as it stands in paths.
    pub(crate) id: Option<String>,
    /// Of which events.
    pub(crate) event_type: String,
    /// On which channel.
    pub(crate) channel: String,
    /// In which language.
    pub(crate) locale: String,
    /// The title.
    pub(crate) subject: Option<String>,
    /// The text.
    pub(crate) body: String,
    /// The text as HTML.
    pub(crate) html: Option<String>,
    /// What the receiver's provider knows the logical event by.
    pub(crate) sequence_id: Option<String>,
    /// Words that the provider shows or sorts by.
    pub(crate) tags: Option<Vec<String>>,
    /// From 1, least, to 5, most urgent.
    pub(crate) priority: Option<u8>,
    /// The members of an event on which it is tried when it is stored.
    #[schema(value_type = Option<Object>)]
    pub(crate) sample: Option<serde_json::Value>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

/// A stored rule: who is told of which events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Subscription {
    /// Its public id; made up if none is given.
    pub(crate) id: Option<String>,
    /// For people.
    pub(crate) name: String,
    /// Which events. It cannot be changed.
    pub(crate) feed: String,
    /// Which of them; all if it says nothing.
    pub(crate) filter: Option<SubscriptionFilter>,
    /// Who is told.
    pub(crate) target: SubscriptionTarget,
    /// Options of the channel's provider, by kind of channel: `{"email": {"reply_to": …}}`.
    #[schema(value_type = Option<Object>)]
    pub(crate) options: Option<serde_json::Value>,
    /// How long after a delivery further events are kept back, such as `30m`.
    pub(crate) cooldown: Option<String>,
    /// How many recipients may be told in 24 hours.
    pub(crate) daily_cap: Option<u32>,
    /// `at_least_once` or `at_most_once`.
    pub(crate) delivery: Option<String>,
    /// `system` or `user`.
    pub(crate) scope: Option<String>,
    /// Whose it is.
    pub(crate) owner: Option<String>,
    /// From when on it no longer counts.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) expires_at: Option<Timestamp>,
    /// It is told test events, and no others.
    pub(crate) test: Option<bool>,
    /// When something was last delivered for it. Only shown.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) last_sent_at: Option<Timestamp>,
    /// Who changes it, and what is known of it.
    #[serde(flatten)]
    pub(crate) standing: Standing,
}

/// Which events of a feed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SubscriptionFilter {
    /// Only of these types.
    pub(crate) event_types: Option<Vec<String>>,
    /// By field: it is one of these values.
    #[schema(value_type = Option<Object>)]
    pub(crate) fields: Option<serde_json::Value>,
    /// By field, or `*` for any: it holds each of these keywords.
    pub(crate) keywords: Option<BTreeMap<String, Vec<String>>>,
    /// `any` or `all` of these conditions hold.
    #[serde(rename = "match")]
    pub(crate) mode: Option<String>,
    /// Conditions in the dialects of CloudEvents, all of which hold besides: `exact`, `prefix`, `suffix`, `all`, `any`, `not`.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) filters: Option<Vec<serde_json::Value>>,
}

/// Who is told: an address on a channel, or a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SubscriptionTarget {
    /// The channel that delivers.
    pub(crate) channel: Option<String>,
    /// What that channel delivers to.
    pub(crate) address: Option<String>,
    /// The list, instead of both.
    pub(crate) list: Option<String>,
}
