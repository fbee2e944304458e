//! What an event would lead to, and what would be read of it. Nothing is stored.

use std::sync::Arc;

use angarium_domain::channel::ChannelKind;
use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::id::EventId;
use angarium_domain::subscription::{Subscription, Target};
use angarium_domain::template::Template;
use angarium_domain::text::{ChannelName, SubscriptionId};
use angarium_engine::render::{Facts, Rendered, choose, without_template};
use angarium_store::NewEvent;
use axum::Json;
use axum::response::{IntoResponse, Response};

use super::super::body::Bytes;
use super::super::exchange::Asked;
use super::super::problem::Problem;
use super::super::{App, Shared, ingest};
use super::answered;
use super::dto::{EventTrial, TrialText};

/// Texts that are made at most.
const MOST_TEXTS: usize = 100;

/// 200 with what would become of the event. The room that its body takes is held until then.
pub(super) async fn answer(
    app: &Shared,
    asked: &Asked,
    held: Bytes,
    event: NewEvent,
    feed: &Feed,
) -> Result<Response, Problem> {
    let trial = app.store.try_event(event.clone(), Arc::clone(&app.channels), asked.now).await?;
    let would = answered(trial.acceptance, feed)?;
    let mut told = Vec::new();
    for (id, subscription) in trial.told.into_iter().take(MOST_TEXTS) {
        told.push(Told::of(app, &event.event, id, subscription).await?);
    }
    let (renderer, NewEvent { id, event, .. }) = (Arc::clone(app), event);
    let render =
        move |_: &[u8]| Ok(told.into_iter().map(|told| told.text(&renderer, id, &event)).collect::<Vec<_>>());
    let (_held, texts) = held.work_apart(render).await?;
    Ok(Json(EventTrial { matched: trial.matched, would, texts }).into_response())
}

/// Whom a subscription leads to, and by what template it is told.
struct Told {
    id: SubscriptionId,
    name: String,
    kind: ChannelKind,
    channel: Option<ChannelName>,
    target: String,
    template: Option<(Arc<Template>, i64)>,
}

impl Told {
    async fn of(
        app: &App,
        event: &Event,
        id: SubscriptionId,
        subscription: Subscription,
    ) -> Result<Self, Problem> {
        let ((kind, channel), target) = match subscription.target {
            Target::List(list) => (ingest::stamp(app, &list).await?, list.to_string()),
            Target::Address { channel, address } => {
                let settings = app.catalog.channels.get(&channel);
                let kind = settings.map_or(ChannelKind::Webhook, |settings| settings.kind);
                ((kind, Some(channel)), address.as_str().to_owned())
            }
        };
        let found = channel.as_ref().map(|channel| app.store.templates(&event.kind, channel.as_str()));
        let found = found.unwrap_or_default();
        let template =
            choose(&found, event.locale.as_ref(), &app.default_locale).map(|(_, found)| found.clone());
        Ok(Told { id, name: subscription.name, kind, channel, target, template })
    }

    fn text(self, app: &App, event_id: EventId, event: &Event) -> TrialText {
        let facts = Facts {
            signal: event,
            event_id,
            row: event,
            subscription: Some(&self.name),
            locale: event.locale.as_ref(),
        };
        let rendered = match &self.template {
            None => Ok(without_template(&facts)),
            Some((template, version)) => rendered(app, template, *version, &facts),
        };
        let (rendered, fault) = match rendered {
            Ok(rendered) => (Some(rendered.trimmed(self.kind)), None),
            Err(fault) => (None, Some(fault)),
        };
        let text = |part: fn(&Rendered) -> String| rendered.as_ref().map(part);
        TrialText {
            subscription: self.id.to_string(),
            channel: self.channel.map(|channel| channel.to_string()),
            target: self.target,
            template: self.template.map(|(template, _)| template.name()),
            title: text(|rendered| rendered.title.clone()),
            body: text(|rendered| rendered.body.clone()),
            html: rendered.as_ref().and_then(|rendered| rendered.html.clone()),
            sequence_id: text(|rendered| rendered.sequence_id.clone()),
            tags: rendered.as_ref().map(|rendered| rendered.tags.clone()).unwrap_or_default(),
            priority: rendered.as_ref().and_then(|rendered| rendered.priority),
            cut: rendered.is_some_and(|rendered| rendered.cut),
            fault,
        }
    }
}

fn rendered(app: &App, template: &Template, version: i64, facts: &Facts<'_>) -> Result<Rendered, String> {
    let compiled = app
        .renderings
        .compiled(template, version)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    compiled.render(facts).map_err(|fault| fault.to_string())
}
