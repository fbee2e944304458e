//! Templates: what people read of an event on one kind of way, in one language. Here they are texts; the engine
//! compiles and renders them.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::complaints::{Complaint, Members, word_for_word};
use crate::text::{ChannelName, EventType, Locale, TextError};

/// The source of a message, unique by event type, channel and locale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Events of which type.
    pub event_type: EventType,
    /// On which channel.
    pub channel: ChannelName,
    /// In which language.
    pub locale: Locale,
    /// The title.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The same text as HTML, for channels that show it; its variables are escaped.
    pub html: Option<String>,
    /// What the receiver's provider knows the logical event by: the same for all messages that replace each other (FP-11).
    pub sequence_id: Option<String>,
    /// Words that the provider shows or sorts by.
    pub tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    pub priority: Option<u8>,
    /// An event on which it is rendered when it is stored: the members of an event, as JSON.
    pub sample: Option<String>,
}

/// Bytes of all texts of a template together, as UTF-8.
pub const TEXT_BYTES: usize = 64 * 1024;
/// Bytes of a sample, as JSON.
const SAMPLE_BYTES: usize = 64 * 1024;
/// Tags of a template, at most.
pub const MOST_TAGS: usize = 10;

impl Template {
    /// Reads a template from a JSON object: `event_type`, `channel`, `locale` and `body` are needed. Whether its texts
    /// compile is not judged here, nor whether the channel is configured.
    pub fn parse(json: &str) -> Result<Template, Vec<Complaint>> {
        let mut members = Members::read(json)?;
        let template = read(&mut members);
        members.finish_with(template)
    }

    /// Its JSON object, as [`Self::parse`] reads it.
    pub fn to_json(&self) -> String {
        let written = Written {
            event_type: self.event_type.as_str(),
            channel: self.channel.as_str(),
            locale: self.locale.as_str(),
            subject: &self.subject,
            body: &self.body,
            html: self.html.as_deref(),
            sequence_id: self.sequence_id.as_deref(),
            tags: &self.tags,
            priority: self.priority,
            sample: self.sample.as_deref().and_then(word_for_word),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The one name that stands for its event type, channel and locale.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.event_type, self.channel, self.locale)
    }
}

fn read(members: &mut Members<'_>) -> Option<Template> {
    let event_type = members.required("event_type", EventType::parse);
    let channel = members.required("channel", ChannelName::parse);
    let locale = members.required("locale", Locale::parse);
    let subject = members.text("subject", any);
    let body = members.required("body", any);
    let html = members.text("html", any);
    let sequence_id = members.text("sequence_id", some);
    let tags = members.texts("tags", 0..=MOST_TAGS, some);
    let priority = members.number("priority", 1..=5);
    let sample = members.json_object("sample", SAMPLE_BYTES);
    let template = Template {
        event_type: event_type?,
        channel: channel?,
        locale: locale?,
        subject: subject.unwrap_or_default(),
        body: body?,
        html,
        sequence_id,
        tags: tags.unwrap_or_default(),
        priority,
        sample,
    };
    let length = text_bytes(&template);
    if length > TEXT_BYTES {
        let limit = TEXT_BYTES;
        members.refuse(
            "body",
            format_args!("and the other texts have {length} bytes together, at most {limit} are allowed"),
        );
    }
    Some(template)
}

fn any(text: &str) -> Result<String, TextError> {
    Ok(text.to_owned())
}

fn some(text: &str) -> Result<String, TextError> {
    if text.is_empty() { Err(TextError::Empty) } else { Ok(text.to_owned()) }
}

fn text_bytes(template: &Template) -> usize {
    let texts = [
        Some(&template.subject),
        Some(&template.body),
        template.html.as_ref(),
        template.sequence_id.as_ref(),
    ];
    texts.into_iter().flatten().chain(&template.tags).map(String::len).sum()
}

/// A template as it is written: what is at its default is left out.
#[derive(Serialize)]
struct Written<'a> {
    event_type: &'a str,
    channel: &'a str,
    locale: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subject: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
