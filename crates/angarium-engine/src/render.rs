//! From an event to what people read of it.
//!
//! A template ([`angarium_domain::template`]) is compiled once and rendered when a message is about to be sent (FP-07),
//! from the event that was planned and the newest source row. Everything a message says is made before anything is
//! sent: one part that cannot be made is a fault of the whole.
//!
//! Templates come from people, and are bounded like anything else from outside: fuel bounds how long they work and how much
//! they make; `survey` bounds how deep they nest, because the engine below recurses over its syntax tree and over nested
//! values, and a process that runs out of stack is gone. What an event brings is data: it is never compiled, and it is
//! escaped in HTML and nowhere else. A template sees the facts below and nothing besides: no file, no environment, no clock, no
//! other template.
//!
//! Deliberately absent: which provider shows what (the adapters know), the store, and any clock.

mod compiled;
mod fault;
mod identity;
mod renderings;
mod seen;
mod survey;
#[cfg(test)]
mod tests;

use angarium_domain::channel::ChannelKind;
use angarium_domain::event::Event;
use angarium_domain::id::EventId;
use angarium_domain::text::Locale;
use angarium_domain::trim::{bounds, trim};

pub use compiled::Compiled;
pub use fault::{Fault, FaultKind};
pub use renderings::{Renderings, RowVersion};

/// What a message is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The event that was planned: its id, feed, type and key, its source and its entity are what the message is about.
    pub signal: &'a Event,
    /// Our id of it.
    pub event_id: EventId,
    /// The newest source row: time, fields and data are its. The signal itself where there is no newer one.
    pub row: &'a Event,
    /// The name of the subscription that it is for.
    pub subscription: Option<&'a str>,
    /// The language that it is for.
    pub locale: Option<&'a Locale>,
}

/// What is told, before a channel gives it its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// One line without control characters.
    pub title: String,
    /// Plain text.
    pub body: String,
    /// The same as HTML.
    pub html: Option<String>,
    /// What the logical event is called towards the provider: 1 to 64 ASCII letters, digits, `-` and `_`; the same for every
    /// message about it (FP-11).
    pub sequence_id: String,
    /// Words, each one line and not empty.
    pub tags: Vec<String>,
    /// From 1, least, to 5, most urgent.
    pub priority: Option<u8>,
    /// Something of title or body is missing because the provider takes no more.
    pub cut: bool,
}

impl Rendered {
    /// The same in what a channel of this kind takes (FP-12). HTML is never cut: half a table is worse than none, and so it
    /// goes where the body is cut.
    #[must_use]
    pub fn trimmed(self, kind: ChannelKind) -> Rendered {
        let bounds = bounds(kind);
        let title = trim(&self.title, bounds.title);
        let body = trim(&self.body, bounds.body);
        let html = self.html.filter(|_| !body.cut);
        Rendered { title: title.text, cut: self.cut || title.cut || body.cut, body: body.text, html, ..self }
    }

    /// Bytes of the texts.
    fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        self.title.len() + self.body.len() + self.html.as_ref().map_or(0, String::len) + tags
    }
}

/// What is told of an event for which there is no template on its channel: its type, its key and its fields.
pub fn without_template(facts: &Facts<'_>) -> Rendered {
    let fields: Vec<String> =
        facts.row.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    Rendered {
        title: one_line(&format!("{}: {}", facts.signal.kind, facts.signal.key)),
        body: fields.join("\n"),
        html: None,
        sequence_id: identity::of(facts.signal),
        tags: Vec::new(),
        priority: None,
        cut: false,
    }
}

/// The template that serves: the one in the language that was asked for, else the one in the server's default language.
/// One hop and never a chain: `nl-BE` does not fall back on `nl`. Case does not matter.
pub fn choose<'t, T>(
    candidates: &'t [(Locale, T)],
    asked: Option<&Locale>,
    default: &Locale,
) -> Option<&'t (Locale, T)> {
    let written_in = |locale: &Locale| {
        candidates.iter().find(|(own, _)| own.as_str().eq_ignore_ascii_case(locale.as_str()))
    };
    asked.and_then(written_in).or_else(|| written_in(default))
}

/// The text as one line: what would break it, or control whatever shows it, becomes a space; none at the ends.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = text.trim().chars().map(|c| if breaks(c) { ' ' } else { c }).collect();
    line.trim().to_owned()
}
