//! What became of an event as a whole.

use angarium_domain::feed::Feed;
use angarium_domain::state::Status;
use angarium_store::{EventView, PlannedNotification, SkippedMatch};

use super::words::{skip, suppression};
use super::{Explanation, Outcome, Step, about, pass, stop, unknown};

/// What an event led to: everything that the view holds of it, at most a hundred notifications and a hundred matches that
/// were suppressed. `feed` is its feed as it is now.
pub fn overview(view: &EventView, feed: Option<&Feed>) -> Explanation {
    let mut steps = vec![about(&view.stored)];
    steps.extend(feed.filter(|feed| !feed.enabled).map(|feed| {
        let detail =
            format!("feed {} is switched off now; of what it gets while it is, nobody is told", feed.id);
        unknown("feed", "feed_disabled", detail)
    }));
    steps.push(matched(view));
    steps.extend(
        view.stored
            .planning
            .then(|| unknown("planned", "planning", "not all whom it concerns have been looked at yet")),
    );
    steps.extend(view.source_gone.then(|| {
        unknown("judged", "source_gone", "what it told of is gone; what still waits to be sent is skipped")
    }));
    steps.extend(view.superseded_by.map(|by| {
        unknown(
            "judged",
            "superseded",
            format!("event {by} has made it untrue; what still waits to be sent is skipped"),
        )
    }));
    steps.extend(view.planned.notifications.iter().map(notification));
    steps.extend(more("notification", view.notifications, view.planned.notifications.len()));
    steps.extend(view.planned.skipped.iter().map(skipped));
    steps.extend(more("skipped", view.suppressed, view.planned.skipped.len()));
    Explanation { outcome: outcome(view), steps }
}

fn outcome(view: &EventView) -> Outcome {
    let shown = &view.planned.notifications;
    let all_shown = usize::try_from(view.notifications).is_ok_and(|count| count <= shown.len());
    let nothing_planned = view.notifications == 0 && shown.is_empty();
    if view.stored.planning {
        Outcome::Planning
    } else if nothing_planned && view.stored.matched == 0 {
        Outcome::Nobody
    } else if nothing_planned {
        Outcome::Suppressed
    } else if all_shown && shown.iter().all(|planned| planned.status == Status::Delivered) {
        Outcome::Delivered
    } else {
        Outcome::Planned
    }
}

fn matched(view: &EventView) -> Step {
    let so_far = if view.stored.planning { " so far" } else { "" };
    match view.stored.matched {
        0 if view.stored.planning => unknown("matched", "planning", "no subscription matched so far"),
        0 => stop("matched", "nobody", "kept, nobody wants it: no subscription matched"),
        count => {
            let detail = format!(
                "subscriptions that matched{so_far}: {count}; notifications: {}; suppressed: {}",
                view.notifications, view.suppressed
            );
            pass("matched", "matched", detail)
        }
    }
}

fn notification(planned: &PlannedNotification) -> Step {
    let channel = planned.channel.as_ref().map_or(String::new(), |channel| format!(" on channel {channel}"));
    let which = format!("{}{channel} for subscription {}", planned.id, planned.subscription);
    let step = "notification";
    match (planned.status, planned.skip_reason) {
        (Status::Skipped, Some(reason)) => stop(step, reason.as_str(), format!("{which}: {}", skip(reason))),
        (Status::Delivered, _) => pass(step, Status::Delivered.as_str(), which),
        (status @ (Status::Pending | Status::Retrying), _) => unknown(step, status.as_str(), which),
        (status, _) => stop(step, status.as_str(), which),
    }
}

fn skipped(skipped: &SkippedMatch) -> Step {
    let detail = format!("subscription {}: {}", skipped.subscription, suppression(skipped));
    let reason = skipped.reason.as_str();
    match skipped.told_by {
        Some(_) => pass("skipped", reason, detail),
        None => stop("skipped", reason, detail),
    }
}

fn more(step: &'static str, count: u32, shown: usize) -> Option<Step> {
    let hidden =
        usize::try_from(count).unwrap_or(usize::MAX).checked_sub(shown).filter(|hidden| *hidden > 0)?;
    Some(unknown(step, "more", format!("{hidden} more are not shown here")))
}
