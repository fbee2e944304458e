//! What the store knows of events, in the shapes that are shown.

use angarium_engine::explain::{Explanation, Step};
use angarium_store::{EventView, Planned, StoredEvent};
use serde_json::value::RawValue;

use super::super::dto::EntityOf;
use super::dto::{
    Event, EventAccepted, EventDetail, EventExplanation, ExplainedStep, PlannedNotification, SkippedMatch,
};

/// The route of whatever a subscription asked for.
const SUBSCRIPTION: &str = "subscription";

/// What an event led to, as it is answered to whoever handed it in.
pub(super) fn accepted(planned: Planned) -> EventAccepted {
    EventAccepted {
        id: planned.id.to_string(),
        duplicate: planned.duplicate,
        planning: planned.planning,
        notifications: planned.notifications.into_iter().map(notification).collect(),
        skipped: planned.skipped.into_iter().map(skipped).collect(),
    }
}

fn notification(planned: angarium_store::PlannedNotification) -> PlannedNotification {
    PlannedNotification {
        id: planned.id.to_string(),
        route: SUBSCRIPTION.to_owned(),
        channel: planned.channel.map(|channel| channel.to_string()),
        reference: planned.subscription.to_string(),
        status: planned.status.as_str().to_owned(),
        skip_reason: planned.skip_reason.map(|reason| reason.as_str().to_owned()),
    }
}

fn skipped(skipped: angarium_store::SkippedMatch) -> SkippedMatch {
    SkippedMatch {
        route: SUBSCRIPTION.to_owned(),
        reference: skipped.subscription.to_string(),
        reason: skipped.reason.as_str().to_owned(),
        by: skipped.by.map(|id| id.to_string()),
        told_by: skipped.told_by.map(|id| id.to_string()),
        at: skipped.at,
    }
}

/// An event.
pub(super) fn event(stored: StoredEvent) -> Event {
    let StoredEvent { id, event, accepted_by, created_at, planning, matched, .. } = stored;
    let entity =
        event.entity.map(|entity| EntityOf { kind: entity.kind.to_string(), id: entity.id.to_string() });
    Event {
        id: id.to_string(),
        source: event.source.to_string(),
        external_id: event.external_id.to_string(),
        feed: event.feed.to_string(),
        kind: event.kind.to_string(),
        key: event.key.to_string(),
        time: event.at,
        locale: event.locale.map(|locale| locale.to_string()),
        fields: event.fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        data: event.data.and_then(|data| RawValue::from_string(data).ok()),
        entity,
        recipients: event.recipients.iter().map(ToString::to_string).collect(),
        expires_at: event.expires_at,
        supersede_key: event.supersede_key.map(|key| key.to_string()),
        test: event.test,
        accepted_by,
        created_at,
        planning,
        matched,
    }
}

/// An event with what it led to.
pub(super) fn detail(view: EventView) -> EventDetail {
    EventDetail {
        event: event(view.stored),
        notification_count: view.notifications,
        notifications: view.planned.notifications.into_iter().map(notification).collect(),
        skipped_count: view.suppressed,
        skipped: view.planned.skipped.into_iter().map(skipped).collect(),
        source_gone: view.source_gone,
        superseded_by: view.superseded_by.map(|id| id.to_string()),
    }
}

/// Why somebody was told, or was not.
pub(super) fn explanation(
    view: &EventView,
    subscription: Option<String>,
    explanation: Explanation,
) -> EventExplanation {
    let step = |Step { step, verdict, reason, detail }| ExplainedStep {
        step: str::to_owned(step),
        verdict: verdict.as_str().to_owned(),
        reason: str::to_owned(reason),
        detail,
    };
    EventExplanation {
        event_id: view.stored.id.to_string(),
        subscription,
        outcome: explanation.outcome.as_str().to_owned(),
        matched: view.stored.matched,
        notification_count: view.notifications,
        skipped_count: view.suppressed,
        steps: explanation.steps.into_iter().map(step).collect(),
    }
}
