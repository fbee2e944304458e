//! One row for each reason there is.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::event::{Defaults, Event};
use angarium_domain::feed::Feed;
use angarium_domain::id::{EventId, NotificationId};
use angarium_domain::state::{SkipReason, Status};
use angarium_domain::subscription::{Scope, Subscription, Target};
use angarium_domain::text::{ChannelName, EventType, FeedId, SubscriptionId};
use angarium_domain::time::Timestamp;
use angarium_store::{
    EventView, Evidence, Key, Planned, PlannedNotification, SkippedMatch, StoredEvent, SuppressReason,
};

use super::*;

const THEN: &str = "2026-07-07T12:00:00Z";
const NOW: &str = "2026-07-07T13:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn event() -> Event {
    let json = r#"{"feed": "outages", "type": "NewOutage", "key": "42", "fields": {"feeder": "F14"}}"#;
    let defaults = Defaults { source: "erp", external_id: "1".to_owned(), at: at(THEN) };
    Event::parse(json, defaults).unwrap().event
}

fn a_feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage", "Restoration"], "fields": {"feeder": {}, "area": {}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

fn a_subscription() -> Subscription {
    Subscription {
        name: "Home".to_owned(),
        feed: FeedId::parse("outages").unwrap(),
        filter: Filter::default(),
        target: Target::Address {
            channel: ChannelName::parse("hooks").unwrap(),
            address: Address::parse(ChannelKind::Webhook, "https://example.com/a").unwrap(),
        },
        options: None,
        active: true,
        cooldown: Duration::ZERO,
        daily_cap: None,
        at_most_once: false,
        scope: Scope::System,
        owner: None,
        expires_at: None,
        test: false,
    }
}

fn own_id() -> NotificationId {
    NotificationId::derived(&["test"], "own")
}

fn view() -> EventView {
    let id = EventId::derived(&["test"], "event");
    EventView {
        stored: StoredEvent {
            key: Key::from_cursor(1),
            id,
            event: event(),
            accepted_by: "key:erp".to_owned(),
            created_at: at(THEN),
            plan_version: 7,
            planning: false,
            matched: 1,
        },
        planned: Planned {
            id,
            duplicate: false,
            planning: false,
            notifications: Vec::new(),
            skipped: Vec::new(),
        },
        notifications: 0,
        suppressed: 0,
        source_gone: false,
        superseded_by: None,
    }
}

/// A subscription that wants the event, of which nothing is recorded.
fn bare() -> Evidence {
    Evidence {
        view: view(),
        feed: Some(Arc::new(a_feed())),
        subscription: Some(a_subscription()),
        known: true,
        skipped: None,
        notification: None,
    }
}

fn a_notification(status: Status, skip_reason: Option<SkipReason>) -> PlannedNotification {
    PlannedNotification {
        id: own_id(),
        subscription: SubscriptionId::parse("ns_1").unwrap(),
        channel: Some(ChannelName::parse("hooks").unwrap()),
        target: "https://example.com/a".to_owned(),
        status,
        skip_reason,
    }
}

fn a_match(reason: SuppressReason) -> SkippedMatch {
    SkippedMatch {
        subscription: SubscriptionId::parse("ns_1").unwrap(),
        reason,
        by: Some(NotificationId::derived(&["test"], "other")),
        told_by: None,
        at: at(THEN),
    }
}

/// What comes last, and what it means.
fn ends(evidence: &Evidence) -> (&'static str, Verdict, &'static str, Outcome) {
    let Explanation { outcome, steps } = explain(evidence, None, at(NOW));
    let last = steps.last().unwrap();
    (last.step, last.verdict, last.reason, outcome)
}

/// FP-06: what was suppressed has its reason, and the outcome follows from it.
#[test]
fn every_reason_for_which_a_match_is_suppressed_is_told() {
    use SuppressReason::*;
    for reason in SuppressReason::ALL {
        let (step, outcome) = match reason {
            Cooldown => ("cooldown", Outcome::Suppressed),
            AlreadyTold => ("ledger", Outcome::Told),
            DailyCap => ("daily_cap", Outcome::Suppressed),
            SameTarget => ("same_target", Outcome::Told),
            ChannelDisabled | ChannelUnknown => ("channel", Outcome::Suppressed),
            SubscriptionExpired | Expired => ("expiry", Outcome::Suppressed),
            Superseded => ("superseded", Outcome::Suppressed),
            FeedDisabled => ("feed", Outcome::Suppressed),
        };
        let evidence = Evidence { skipped: Some(a_match(reason)), ..bare() };
        assert_eq!(ends(&evidence), (step, Verdict::Stop, reason.as_str(), outcome), "{reason:?}");
        let last = explain(&evidence, None, at(NOW)).steps.pop().unwrap();
        assert!(
            last.detail.contains(&NotificationId::derived(&["test"], "other").to_string()),
            "{}",
            last.detail
        );
        // What was in the way for a while only is a step like others.
        let freed = SkippedMatch { told_by: Some(own_id()), ..a_match(reason) };
        let evidence = Evidence {
            skipped: Some(freed),
            notification: Some(a_notification(Status::Delivered, None)),
            ..bare()
        };
        let Explanation { outcome, steps } = explain(&evidence, None, at(NOW));
        let gate = steps.iter().find(|found| found.reason == reason.as_str()).unwrap();
        assert_eq!(
            (gate.step, gate.verdict, outcome),
            (step, Verdict::Pass, Outcome::Delivered),
            "{reason:?}"
        );
        assert!(gate.detail.contains(&own_id().to_string()), "{}", gate.detail);
    }
}

fn with(change: impl FnOnce(&mut Subscription)) -> Evidence {
    let mut subscription = a_subscription();
    change(&mut subscription);
    Evidence { subscription: Some(subscription), ..bare() }
}

#[test]
fn whom_it_does_not_concern_is_told_why() {
    let filter = |json: &str| Filter::parse(json).unwrap();
    let off = Feed { enabled: false, ..a_feed() };
    let mut test = bare();
    test.view.stored.event.test = true;
    let table = [
        (Evidence { feed: Some(Arc::new(off)), ..bare() }, "feed", "feed_disabled", Outcome::Suppressed),
        (Evidence { subscription: None, ..bare() }, "subscription", "not_there", Outcome::NotMatched),
        (
            with(|subscription| subscription.feed = FeedId::parse("other").unwrap()),
            "subscription",
            "other_feed",
            Outcome::NotMatched,
        ),
        (with(|subscription| subscription.test = true), "subscription", "test", Outcome::NotMatched),
        (test, "subscription", "test", Outcome::NotMatched),
        (with(|subscription| subscription.active = false), "active", "inactive", Outcome::NotMatched),
        (
            with(|subscription| subscription.expires_at = Some(at(THEN))),
            "expiry",
            "subscription_expired",
            Outcome::Suppressed,
        ),
        (
            with(|subscription| {
                subscription.filter.event_types = vec![EventType::parse("Restoration").unwrap()]
            }),
            "event_type",
            "other_type",
            Outcome::NotMatched,
        ),
        (
            with(|subscription| subscription.filter = filter(r#"{"fields": {"feeder": ["F15"]}}"#)),
            "filter",
            "not_matched",
            Outcome::NotMatched,
        ),
    ];
    for (evidence, step, reason, outcome) in table {
        assert_eq!(ends(&evidence), (step, Verdict::Stop, reason, outcome));
        // The record says that it was planned: then nobody knows.
        let recorded = Evidence { notification: Some(a_notification(Status::Delivered, None)), ..evidence };
        let Explanation { outcome, steps } = explain(&recorded, None, at(NOW));
        let contradicted = steps.iter().find(|found| found.reason == reason).unwrap();
        assert_eq!((contradicted.verdict, outcome), (Verdict::Unknown, Outcome::Delivered), "{reason}");
    }
    let mut late = bare();
    late.view.stored.event.expires_at = Some(at(THEN));
    assert_eq!(ends(&late), ("expiry", Verdict::Stop, "expired", Outcome::Suppressed));
}

/// FP-04: each clause of a filter is judged, and one that does not hold is no obstacle where another is enough.
#[test]
fn each_clause_is_a_step() {
    let any = r#"{"fields": {"feeder": ["F14"], "area": ["North"]}}"#;
    let evidence = |json: &str| with(|subscription| subscription.filter = Filter::parse(json).unwrap());
    let clauses = |json: &str| -> Vec<(Verdict, &str)> {
        let steps = explain(&evidence(json), None, at(NOW)).steps;
        steps.iter().filter(|step| step.step == "filter").map(|step| (step.verdict, step.reason)).collect()
    };
    let found = clauses(any);
    assert_eq!(found.len(), 2);
    assert!(found.contains(&(Verdict::Pass, "holds")) && found.contains(&(Verdict::Pass, "does_not_hold")));
    let all = r#"{"fields": {"feeder": ["F14"], "area": ["North"]}, "match": "all"}"#;
    let found = clauses(all);
    assert!(found.contains(&(Verdict::Pass, "holds")) && found.contains(&(Verdict::Stop, "does_not_hold")));
    assert_eq!(found.last(), Some(&(Verdict::Stop, "not_matched")));
    assert_eq!(clauses("{}"), [(Verdict::Pass, "empty")]);
}

/// FP-22: why a notification was skipped.
#[test]
fn every_reason_for_a_skip_is_told() {
    for reason in SkipReason::ALL {
        let notification = Some(a_notification(Status::Skipped, Some(reason)));
        let evidence = Evidence { notification, ..bare() };
        assert_eq!(ends(&evidence), ("judged", Verdict::Stop, reason.as_str(), Outcome::Skipped));
    }
}

#[test]
fn a_delivery_is_told_by_its_status() {
    let table = [
        (Status::Pending, Verdict::Unknown, Outcome::Pending),
        (Status::Retrying, Verdict::Unknown, Outcome::Retrying),
        (Status::Delivered, Verdict::Pass, Outcome::Delivered),
        (Status::Parked, Verdict::Stop, Outcome::Parked),
        (Status::Discarded, Verdict::Stop, Outcome::Discarded),
    ];
    for (status, verdict, outcome) in table {
        let evidence = Evidence { notification: Some(a_notification(status, None)), ..bare() };
        assert_eq!(ends(&evidence), ("delivery", verdict, status.as_str(), outcome));
    }
    let evidence = Evidence { notification: Some(a_notification(Status::Retrying, None)), ..bare() };
    let tries = Tries {
        retries: 2,
        last_error: Some("HTTP 500".to_owned()),
        last_attempt_at: Some(at(THEN)),
        next_attempt_at: Some(at(NOW)),
    };
    let last = explain(&evidence, Some(&tries), at(NOW)).steps.pop().unwrap();
    for part in ["scheduled so far: 2", "HTTP 500", THEN, NOW] {
        assert!(last.detail.contains(part), "{part}: {}", last.detail);
    }
}

#[test]
fn what_waits_is_judged_as_it_stands_now() {
    let waiting = || Evidence { notification: Some(a_notification(Status::Pending, None)), ..bare() };
    let mut gone = waiting();
    gone.view.source_gone = true;
    let mut superseded = waiting();
    superseded.view.superseded_by = Some(EventId::derived(&["test"], "later"));
    let mut expired = waiting();
    expired.view.stored.event.expires_at = Some(at(NOW));
    let table = [
        (gone, Verdict::Unknown, "source_gone"),
        (superseded, Verdict::Unknown, "superseded"),
        (expired, Verdict::Unknown, "expired"),
        (waiting(), Verdict::Pass, "worth_sending"),
    ];
    for (evidence, verdict, reason) in table {
        let Explanation { outcome, steps } = explain(&evidence, None, at(NOW));
        let judged = steps.iter().find(|step| step.step == "judged").unwrap();
        assert_eq!((judged.verdict, judged.reason, outcome), (verdict, reason, Outcome::Pending));
    }
}

#[test]
fn what_is_not_recorded_is_not_made_up() {
    let mut planning = bare();
    planning.view.stored.planning = true;
    assert_eq!(ends(&planning), ("planned", Verdict::Unknown, "planning", Outcome::Planning));
    assert_eq!(ends(&bare()), ("planned", Verdict::Unknown, "no_record", Outcome::Unknown));
    let steps = explain(&bare(), None, at(NOW)).steps;
    assert!(steps.iter().all(|step| step.step != "cooldown"));
    let no_feed = explain(&Evidence { feed: None, ..bare() }, None, at(NOW));
    assert!(no_feed.steps.iter().any(|step| (step.step, step.verdict) == ("feed", Verdict::Unknown)));
}

#[test]
fn the_steps_stand_in_the_order_of_the_way() {
    let evidence = Evidence { notification: Some(a_notification(Status::Delivered, None)), ..bare() };
    let steps = explain(&evidence, None, at(NOW)).steps;
    let names: Vec<&str> = steps.iter().map(|step| step.step).collect();
    let expected = [
        "event",
        "feed",
        "subscription",
        "active",
        "expiry",
        "event_type",
        "filter",
        "superseded",
        "channel",
        "cooldown",
        "ledger",
        "daily_cap",
        "same_target",
        "planned",
        "judged",
        "delivery",
    ];
    assert_eq!(names, expected);
    assert!(steps.iter().all(|step| step.verdict == Verdict::Pass));
}

#[test]
fn the_overview_says_what_came_of_it_all() {
    let mut nobody = view();
    nobody.stored.matched = 0;
    let mut planning = nobody.clone();
    planning.stored.planning = true;
    let mut suppressed = view();
    suppressed.suppressed = 3;
    suppressed.planned.skipped = vec![a_match(SuppressReason::Cooldown)];
    let mut delivered = view();
    delivered.notifications = 1;
    delivered.planned.notifications = vec![a_notification(Status::Delivered, None)];
    let mut planned = delivered.clone();
    planned.notifications = 2;
    let table = [
        (nobody.clone(), Outcome::Nobody, "nobody"),
        (planning, Outcome::Planning, "planning"),
        (suppressed, Outcome::Suppressed, "more"),
        (delivered, Outcome::Delivered, "delivered"),
        (planned, Outcome::Planned, "more"),
    ];
    for (view, outcome, last) in table {
        let explanation = overview(&view, Some(&a_feed()));
        assert_eq!((explanation.outcome, explanation.steps.last().unwrap().reason), (outcome, last));
    }
    let said = overview(&nobody, Some(&a_feed())).steps.pop().unwrap();
    assert!(said.detail.contains("kept, nobody wants it"), "{}", said.detail);
    let off = Feed { enabled: false, ..a_feed() };
    assert!(overview(&nobody, Some(&off)).steps.iter().any(|step| step.reason == "feed_disabled"));
}
