//! What is told of an event, made right before it is sent: is it still to be told (FP-22), and in which words (FP-07).
//!
//! The text comes from the newest source row, and is kept before the first byte leaves. Once an attempt has ended in doubt the
//! receiver may have it, and from then on the text that was kept is sent again, to the letter.

use std::sync::{Arc, PoisonError};

use angarium_domain::content::ContentHash;
use angarium_domain::outcome::FailureClass;
use angarium_domain::presentation::{EventFacts, Presentation};
use angarium_domain::state::SkipReason;
use angarium_domain::time::Timestamp;
use angarium_store::{Claim, Payload, RenderedText, Signal, StoredEvent};

use crate::delivery::{Context, Stop, park};
use crate::render::{Facts, Fault, Rendered, RowVersion, choose, without_template};

/// The text to send under this claim, kept; or why nothing is sent.
pub(crate) async fn prepare(context: &Context, claim: &Claim, payload: Payload) -> Result<Payload, Stop> {
    let signal = context.store.signal(claim, context.clock.now()).await?.ok_or(Stop::Lost)?;
    let row = judge(&signal, context.clock.now()).map_err(Stop::Skip)?;
    if signal.in_doubt && signal.pinned.is_some() {
        return Ok(payload);
    }
    let (text, template) = render(context, claim, &signal, row)
        .map_err(|fault| park(FailureClass::PermanentMessage, format!("{}: {fault}", fault.kind.code())))?;
    let text = Text::of(&signal, row, &text, template);
    if signal.pinned != Some(text.hash) {
        let kept = RenderedText {
            subject: text.subject.clone(),
            body: text.body.clone(),
            data: row.event.data.clone(),
            presentation: text.presentation.clone(),
        };
        if !context.store.pin(claim, kept, text.hash, context.clock.now()).await? {
            return Err(Stop::Lost);
        }
    }
    Ok(Payload {
        subject: text.subject,
        body: text.body,
        data: row.event.data.clone(),
        presentation: Some(text.presentation),
        ..payload
    })
}

/// The source row to tell of, if it is still to be told.
fn judge(signal: &Signal, now: Timestamp) -> Result<&StoredEvent, SkipReason> {
    if signal.unsubscribed {
        return Err(SkipReason::Unsubscribed);
    }
    if signal.event.event.expires_at.is_some_and(|end| end <= now) {
        return Err(SkipReason::Expired);
    }
    if signal.superseded {
        return Err(SkipReason::Superseded);
    }
    signal.row.as_ref().ok_or(SkipReason::SourceGone)
}

/// The text in the language of the event, and the template that it came from; without one, a plain text of its fields.
fn render(
    context: &Context,
    claim: &Claim,
    signal: &Signal,
    row: &StoredEvent,
) -> Result<(Arc<Rendered>, Option<String>), Fault> {
    let event = &signal.event.event;
    let channel = claim.channel.as_ref().map_or("", |name| name.as_str());
    let facts = Facts {
        signal: event,
        event_id: signal.event.id,
        row: &row.event,
        subscription: signal.subscription.as_deref(),
        locale: event.locale.as_ref(),
    };
    let templates = context.store.templates(&event.kind, channel);
    let (rendered, template) = match choose(&templates, event.locale.as_ref(), &context.default_locale) {
        Some((_, (template, version))) => {
            let version_of_row = RowVersion { row: row.id, version: 0 };
            let rendered = context.renderings.render(template, *version, version_of_row, &facts)?;
            (rendered, Some(format!("{}@{version}", template.name())))
        }
        None => {
            warn_once(context, event.kind.as_str(), channel);
            (Arc::new(without_template(&facts)), None)
        }
    };
    let trimmed = rendered.as_ref().clone().trimmed(claim.kind);
    Ok((Arc::new(trimmed), template))
}

/// Pairs of event type and channel that are remembered, so that each is warned of once.
const WARNED: usize = 1000;

fn warn_once(context: &Context, kind: &str, channel: &str) {
    let mut warned = context.untemplated.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.len() < WARNED && warned.insert((kind.to_owned(), channel.to_owned())) {
        tracing::warn!(
            event.kind = kind,
            channel.name = channel,
            "there is no template for these events on this channel; a plain text of their fields is sent"
        );
    }
}

/// A text as it is kept, and what tells it from others.
struct Text {
    subject: String,
    body: String,
    presentation: String,
    hash: [u8; 32],
}

impl Text {
    fn of(signal: &Signal, row: &StoredEvent, text: &Rendered, template: Option<String>) -> Text {
        let (signal, options) = (&signal.event, signal.options.as_deref());
        let fields = row.event.fields.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone()));
        let presentation = Presentation {
            html: text.html.clone(),
            sequence_id: text.sequence_id.clone(),
            tags: text.tags.clone(),
            priority: text.priority,
            cut: text.cut,
            template,
            options: options.map(str::to_owned),
            event: EventFacts {
                id: signal.id.to_string(),
                feed: signal.event.feed.as_str().to_owned(),
                kind: signal.event.kind.as_str().to_owned(),
                key: signal.event.key.as_str().to_owned(),
                time: row.event.at.to_string(),
                fields: fields.collect(),
            },
        };
        let presentation = presentation.to_json();
        let data = row.event.data.as_deref().unwrap_or_default();
        let hash = ContentHash::of_parts([&*text.title, &*text.body, data, &*presentation]);
        let (subject, body) = (text.title.clone(), text.body.clone());
        Text { subject, body, presentation, hash: *hash.as_bytes() }
    }
}
