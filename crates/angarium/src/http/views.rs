//! What the store knows, in the shapes that are shown.

use angarium_domain::channel::ChannelKind;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::time::Timestamp;
use angarium_store::{AttemptView, AuditView, Target, View};
use serde_json::value::RawValue;

use super::dto::{
    Attempt, AuditEntry, EntityOf, Kpi, Kpis, LastError, Notification, ResolvedTarget, Source, To,
};

/// A notification. It is stuck if it is live and was accepted before `stuck_before` (OB-19).
pub(super) fn notification(view: View, stuck_before: Timestamp) -> Notification {
    let live = !view.status.is_terminal();
    let resolved_targets = resolved_targets(&view);
    let [site, instance, script, node] = view.source;
    let event = view.event;
    let to = match (&view.channel, view.address) {
        (Some(channel), Some(address)) => Some(To { channel: channel.clone(), address }),
        _ => None,
    };
    Notification {
        id: view.id.to_string(),
        status: view.status.as_str(),
        kind: ChannelKind::as_str(view.kind),
        channel: view.channel,
        list: view.list,
        to,
        route: view.route,
        subject: view.subject,
        body: view.body,
        retry_count: view.retry_count,
        data: view.data.and_then(|data| RawValue::from_string(data).ok()),
        last_error: view
            .last_error
            .map(|error| LastError { class: error.class.as_str().to_owned(), detail: error.detail }),
        resolved_targets,
        provider_message_id: view.provider_message_id,
        provider_response: view.provider_response,
        source: Source { site, instance, script, node },
        enqueued_at: view.enqueued_at,
        created_at: view.created_at,
        last_attempt_at: view.last_attempt_at,
        next_attempt_at: view.next_attempt_at.filter(|_| live && !view.in_flight),
        delivered_at: view.delivered_at,
        completed_at: view.completed_at,
        event_id: event.as_ref().map(|event| event.id.to_string()),
        event_type: event.as_ref().map(|event| event.kind.clone()),
        entity: event.as_ref().and_then(|event| event.entity.clone()).map(|(kind, id)| EntityOf { kind, id }),
        reference: event.and_then(|event| event.subscription),
        skip_reason: view.skip_reason,
        in_flight: view.in_flight,
        stuck: live && view.created_at < stuck_before,
    }
}

fn resolved_targets(view: &View) -> Vec<ResolvedTarget> {
    let resolved = |address: &str, result: &str, detail: Option<&str>| ResolvedTarget {
        address: address.to_owned(),
        result: result.to_owned(),
        detail: detail.map(str::to_owned),
    };
    let Some(address) = &view.address else {
        return view
            .targets
            .iter()
            .map(|target| {
                let (result, detail) = fared(target);
                resolved(&target.address, result, detail)
            })
            .collect();
    };
    match &view.bounced {
        Some(why) => vec![resolved(address, "bounced", Some(without_result(why)))],
        None if view.status == Status::Delivered => vec![resolved(address, "accepted", None)],
        None => Vec::new(),
    }
}

/// How a member fared, and why. One that is still to be sent to waits, whatever came back before.
fn fared(target: &Target) -> (&'static str, Option<&str>) {
    match (&target.state, &target.bounced) {
        (TargetState::Waiting { error, .. }, _) => {
            ("waiting", error.as_ref().map(|error| error.detail.as_str()))
        }
        (_, Some(why)) => ("bounced", Some(without_result(why))),
        (TargetState::Accepted, None) => ("accepted", None),
        (TargetState::Refused(error), None) => ("refused", Some(&error.detail)),
    }
}

/// Why an address bounced, without saying once more that it did.
fn without_result(why: &str) -> &str {
    why.strip_prefix("bounced: ").unwrap_or(why)
}

/// One try.
pub(super) fn attempt(view: AttemptView) -> Attempt {
    let record = view.record;
    let took = record.ended_at.since(record.started_at);
    Attempt {
        number: view.number,
        started_at: record.started_at,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        node: record.node,
        result: if record.class.is_none() { "delivered" } else { "failed" },
        class: record.class.map(|class| class.as_str()),
        detail: record.detail,
        status_code: record.status_code,
        duplicate_risk: record.duplicate_risk,
        retry_after_s: record.retry_after_s,
        response_excerpt: record.response_excerpt,
        targets: json_or(record.targets.unwrap_or_default(), "[]"),
        template: record.template,
        led_to: view.led_to.as_str(),
        late: view.late,
    }
}

/// One entry of a trail.
pub(super) fn audit_entry(view: AuditView) -> AuditEntry {
    AuditEntry {
        event_id: view.event_id.to_string(),
        kind: view.kind,
        actor: view.actor,
        at: view.at,
        detail: json_or(view.detail, "{}"),
    }
}

/// Stored JSON as it is, or what stands for nothing.
fn json_or(stored: String, nothing: &'static str) -> Box<RawValue> {
    RawValue::from_string(stored)
        .or_else(|_| RawValue::from_string(nothing.to_owned()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The figures at `now`.
pub(super) fn kpis(kpis: angarium_store::Kpis, now: Timestamp) -> Kpis {
    let node =
        |(site, node): &(String, String)| format!("{}/{node}", site.replace('%', "%25").replace('/', "%2F"));
    Kpis {
        global: kpi(&kpis.global, now),
        sites: kpis.sites.iter().map(|(site, figures)| (site.clone(), kpi(figures, now))).collect(),
        nodes: kpis.nodes.iter().map(|(name, figures)| (node(name), kpi(figures, now))).collect(),
    }
}

fn kpi(figures: &angarium_store::Kpi, now: Timestamp) -> Kpi {
    Kpi {
        queue_depth: figures.queue_depth,
        stuck_count: figures.stuck_count,
        parked_count: figures.parked_count,
        delivered_last_interval: figures.delivered_last_interval,
        oldest_pending_age_seconds: figures.oldest_pending.map(|oldest| now.since(oldest).as_secs()),
        in_flight: figures.in_flight,
    }
}
