//! What a message of an event brings besides its text, provider-neutral: each kind of channel shows of it what it can.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a message is shown, and what it is about. Kept with its text, so that every attempt sends the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presentation {
    /// The text as HTML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// What the provider knows the logical event by: the same for all messages about it (FP-11).
    pub sequence_id: String,
    /// Words that the provider shows or sorts by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The text was cut to what the provider takes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The template that the text came from, with its version; none for the text that there is without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What the subscription says about how its channel is to deliver: a JSON object as it may stand in the data of a
    /// notification that is handed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// The event.
    pub event: EventFacts,
}

/// The event that a message is about, as receivers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFacts {
    /// Our id of it.
    pub id: String,
    /// Its feed.
    pub feed: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is about.
    pub key: String,
    /// When that happened which the text tells of, RFC 3339.
    pub time: String,
    /// Its fields.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

impl Presentation {
    /// As it is stored.
    pub fn to_json(&self) -> String {
        // Texts and their collections can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From what was stored.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
