//! Why somebody was told of an event, or was not.
//!
//! The questions stand in one order, that of the way from an event to a delivery; the first that is answered with a stop
//! ends the way, and gives the outcome. What was recorded (a notification, a match that was suppressed) is a fact; what an
//! event matched is not recorded but found out again, with the subscription and the feed as they were when the event was
//! planned. Where the two disagree the record counts, and the step says that it is not known.
//!
//! Deliberately absent: looking anything up. Whoever asks brings the evidence.

mod overview;
#[cfg(test)]
mod tests;
mod words;

use angarium_domain::event::Event;
use angarium_domain::filter::Filter;
use angarium_domain::matching::Matcher;
use angarium_domain::state::Status;
use angarium_domain::subscription::Subscription;
use angarium_domain::text::one_line;
use angarium_domain::time::Timestamp;
use angarium_store::{Evidence, PlannedNotification, SkippedMatch, StoredEvent, SuppressReason};

pub use overview::overview;
use words::{in_words, skip, suppression};

/// Characters of what a producer wrote that one detail repeats.
const QUOTED_CHARS: usize = 100;

/// What became of an event, and the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In one word.
    pub outcome: Outcome,
    /// From the event on, in order.
    pub steps: Vec<Step>,
}

/// One question on the way, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was asked: `cooldown`.
    pub step: &'static str,
    /// Whether it went on.
    pub verdict: Verdict,
    /// Why, as a word for programs.
    pub reason: &'static str,
    /// Why, as a sentence.
    pub detail: String,
}

/// Whether it went on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing stood in the way.
    Pass,
    /// It ended here.
    Stop,
    /// That cannot be said, or not yet.
    Unknown,
}

impl Verdict {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Stop => "stop",
            Verdict::Unknown => "unknown",
        }
    }
}

/// What became of an event: in all, or for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver took it.
    Delivered,
    /// It waits for its first attempt.
    Pending,
    /// It was tried without success and will be tried again.
    Retrying,
    /// It was given up and waits for an operator.
    Parked,
    /// An operator gave it up.
    Discarded,
    /// It was planned, and was not worth sending any more.
    Skipped,
    /// It matched, and something stood in the way.
    Suppressed,
    /// It matched, and the same thing is told, or was, by another notification.
    Told,
    /// It does not concern the subscription.
    NotMatched,
    /// Not all whom it concerns have been looked at yet.
    Planning,
    /// Of the event as a whole: it led to notifications that have not all been delivered.
    Planned,
    /// Of the event as a whole: it is kept, and nobody wants it.
    Nobody,
    /// What is recorded does not say.
    Unknown,
}

impl Outcome {
    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Delivered => "delivered",
            Outcome::Pending => "pending",
            Outcome::Retrying => "retrying",
            Outcome::Parked => "parked",
            Outcome::Discarded => "discarded",
            Outcome::Skipped => "skipped",
            Outcome::Suppressed => "suppressed",
            Outcome::Told => "told",
            Outcome::NotMatched => "not_matched",
            Outcome::Planning => "planning",
            Outcome::Planned => "planned",
            Outcome::Nobody => "nobody",
            Outcome::Unknown => "unknown",
        }
    }
}

/// What is known of how a notification was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Retries scheduled so far.
    pub retries: u32,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// When it was last tried.
    pub last_attempt_at: Option<Timestamp>,
    /// When it will be tried next.
    pub next_attempt_at: Option<Timestamp>,
}

/// What became of an event for one subscription. `tries` are those of the notification that the evidence names, if it names
/// one.
pub fn explain(evidence: &Evidence, tries: Option<&Tries>, now: Timestamp) -> Explanation {
    const QUESTIONS: [fn(&Case<'_>) -> Answer; 11] = [
        |case| Answer::of(about(&case.evidence.view.stored)),
        feed,
        subscription,
        active,
        expiry,
        event_type,
        filter,
        gates,
        planned,
        judged,
        delivery,
    ];
    let case = Case { evidence, tries, now };
    let mut steps = Vec::new();
    for question in QUESTIONS {
        let answer = question(&case);
        steps.extend(answer.steps);
        if let Some(outcome) = answer.outcome {
            return Explanation { outcome, steps };
        }
    }
    Explanation { outcome: Outcome::Unknown, steps }
}

struct Case<'a> {
    evidence: &'a Evidence,
    tries: Option<&'a Tries>,
    now: Timestamp,
}

impl<'a> Case<'a> {
    fn event(&self) -> &'a Event {
        &self.evidence.view.stored.event
    }

    fn accepted_at(&self) -> Timestamp {
        self.evidence.view.stored.created_at
    }

    /// Whether the database says that the event matched.
    fn is_recorded(&self) -> bool {
        self.evidence.notification.is_some() || self.evidence.skipped.is_some()
    }

    /// What stood in the way, if it was one of these.
    fn stood_in_the_way(&self, reasons: &[SuppressReason]) -> Option<&'a SkippedMatch> {
        self.evidence.skipped.as_ref().filter(|skipped| reasons.contains(&skipped.reason))
    }

    /// It ends here, by what was found out again; if the record says that it went on, nobody knows.
    fn stop(&self, step: Step, outcome: Outcome) -> Answer {
        if self.is_recorded() {
            return Answer::of(Step { verdict: Verdict::Unknown, ..step });
        }
        Answer { steps: vec![step], outcome: Some(outcome) }
    }
}

/// What one question yields: steps, and the outcome if it ends here.
struct Answer {
    steps: Vec<Step>,
    outcome: Option<Outcome>,
}

impl Answer {
    fn of(step: Step) -> Self {
        Answer { steps: vec![step], outcome: None }
    }
}

fn pass(step: &'static str, reason: &'static str, detail: impl Into<String>) -> Step {
    Step { step, verdict: Verdict::Pass, reason, detail: detail.into() }
}

fn stop(step: &'static str, reason: &'static str, detail: impl Into<String>) -> Step {
    Step { step, verdict: Verdict::Stop, reason, detail: detail.into() }
}

fn unknown(step: &'static str, reason: &'static str, detail: impl Into<String>) -> Step {
    Step { step, verdict: Verdict::Unknown, reason, detail: detail.into() }
}

fn about(stored: &StoredEvent) -> Step {
    let event = &stored.event;
    let key = one_line(event.key.as_str(), QUOTED_CHARS);
    let test = if event.test { ", as a test" } else { "" };
    let detail = format!(
        "{} about {key} on feed {}, accepted at {}{test}; planned as of change {}",
        event.kind, event.feed, stored.created_at, stored.plan_version
    );
    pass("event", "accepted", detail)
}

fn feed(case: &Case<'_>) -> Answer {
    match case.evidence.feed.as_deref() {
        Some(feed) if !feed.enabled => {
            let detail = format!("feed {} was switched off: the event is kept, and nobody is told", feed.id);
            case.stop(stop("feed", "feed_disabled", detail), Outcome::Suppressed)
        }
        Some(feed) => gate(case, "feed", &[SuppressReason::FeedDisabled], Outcome::Suppressed)
            .unwrap_or_else(|| {
                Answer::of(pass("feed", "enabled", format!("feed {} was switched on", feed.id)))
            }),
        None => Answer::of(unknown("feed", "feed_unknown", "how the feed was then is not known any more")),
    }
}

fn subscription(case: &Case<'_>) -> Answer {
    let Some(subscription) = &case.evidence.subscription else {
        let detail = "the subscription was not there when the event was planned: it was made later, or had been deleted";
        return case.stop(stop("subscription", "not_there", detail), Outcome::NotMatched);
    };
    let event = case.event();
    if subscription.feed != event.feed {
        let detail = format!("the subscription is for feed {}", subscription.feed);
        return case.stop(stop("subscription", "other_feed", detail), Outcome::NotMatched);
    }
    if subscription.test != event.test {
        let detail = match event.test {
            true => "test events reach test subscriptions alone",
            false => "the subscription is for test events alone",
        };
        return case.stop(stop("subscription", "test", detail), Outcome::NotMatched);
    }
    let name = one_line(&subscription.name, QUOTED_CHARS);
    Answer::of(pass("subscription", "there", format!("\"{name}\", as it was when the event was planned")))
}

fn active(case: &Case<'_>) -> Answer {
    match &case.evidence.subscription {
        Some(subscription) if !subscription.active => {
            let detail = "the subscription was switched off";
            case.stop(stop("active", "inactive", detail), Outcome::NotMatched)
        }
        Some(_) => Answer::of(pass("active", "active", "the subscription was switched on")),
        None => nothing(),
    }
}

fn nothing() -> Answer {
    Answer { steps: Vec::new(), outcome: None }
}

/// The subscription's end and the event's, when it was planned.
fn expiry(case: &Case<'_>) -> Answer {
    let reasons = [SuppressReason::SubscriptionExpired, SuppressReason::Expired];
    if let Some(answer) = gate(case, "expiry", &reasons, Outcome::Suppressed) {
        return answer;
    }
    let then = case.accepted_at();
    let subscription = case.evidence.subscription.as_ref();
    if let Some(end) =
        subscription.and_then(|subscription| subscription.expires_at).filter(|end| *end <= then)
    {
        let detail = format!("the subscription had ended at {end}");
        return case.stop(stop("expiry", "subscription_expired", detail), Outcome::Suppressed);
    }
    if let Some(end) = case.event().expires_at.filter(|end| *end <= then) {
        let detail = format!("the event had ended at {end}");
        return case.stop(stop("expiry", "expired", detail), Outcome::Suppressed);
    }
    Answer::of(pass("expiry", "not_expired", "neither the event nor the subscription had ended"))
}

fn event_type(case: &Case<'_>) -> Answer {
    let Some(Subscription { filter: Filter { event_types, .. }, .. }) = &case.evidence.subscription else {
        return nothing();
    };
    let kind = &case.event().kind;
    if event_types.is_empty() {
        return Answer::of(pass("event_type", "any", "the subscription is for events of all types"));
    }
    if event_types.contains(kind) {
        return Answer::of(pass("event_type", "wanted", format!("the subscription is for {kind}")));
    }
    let types: Vec<&str> = event_types.iter().map(|kind| kind.as_str()).collect();
    let detail = format!("{kind} is none of {}", types.join(", "));
    case.stop(stop("event_type", "other_type", detail), Outcome::NotMatched)
}

/// Each clause is a step. One that does not hold is in the way only if the filter as a whole does not let the event through.
fn filter(case: &Case<'_>) -> Answer {
    let (Some(subscription), Some(feed)) = (&case.evidence.subscription, &case.evidence.feed) else {
        return nothing();
    };
    let judgement = Matcher::compile(&subscription.filter, feed).judge(case.event());
    let clause = |(words, holds): &(String, bool)| match (holds, judgement.matches) {
        (true, _) => pass("filter", "holds", words.as_str()),
        (false, true) => pass("filter", "does_not_hold", format!("{words}; another clause is enough")),
        (false, false) => stop("filter", "does_not_hold", words.as_str()),
    };
    let mut steps: Vec<Step> = judgement.clauses.iter().map(clause).collect();
    if steps.is_empty() && judgement.matches {
        steps.push(pass("filter", "empty", "the filter lets everything through"));
    }
    if judgement.matches {
        return Answer { steps, outcome: None };
    }
    let last = stop("filter", "not_matched", "the filter does not let the event through");
    let answer = case.stop(last, Outcome::NotMatched);
    if answer.outcome.is_none() {
        steps
            .iter_mut()
            .filter(|step| step.verdict == Verdict::Stop)
            .for_each(|step| step.verdict = Verdict::Unknown);
    }
    steps.extend(answer.steps);
    Answer { steps, ..answer }
}

/// What the database decided when it planned, in its order. Nothing is said of what nobody recorded.
fn gates(case: &Case<'_>) -> Answer {
    use SuppressReason::{
        AlreadyTold, ChannelDisabled, ChannelUnknown, Cooldown, DailyCap, SameTarget, Superseded,
    };
    if !case.is_recorded() {
        return nothing();
    }
    let in_order: [(&'static str, &[SuppressReason], Outcome, &str); 6] = [
        ("superseded", &[Superseded], Outcome::Suppressed, "no later event had made it untrue"),
        (
            "channel",
            &[ChannelDisabled, ChannelUnknown],
            Outcome::Suppressed,
            "the channel was there and switched on",
        ),
        ("cooldown", &[Cooldown], Outcome::Suppressed, "no cooldown was running"),
        ("ledger", &[AlreadyTold], Outcome::Told, "the subscription had not been told of the same thing"),
        ("daily_cap", &[DailyCap], Outcome::Suppressed, "there was room under the daily cap"),
        ("same_target", &[SameTarget], Outcome::Told, "no other subscription leads to the same address"),
    ];
    let mut steps = Vec::new();
    for (step, reasons, outcome, free) in in_order {
        let answer =
            gate(case, step, reasons, outcome).unwrap_or_else(|| Answer::of(pass(step, "free", free)));
        steps.extend(answer.steps);
        if answer.outcome.is_some() {
            return Answer { steps, outcome: answer.outcome };
        }
    }
    Answer { steps, outcome: None }
}

/// What one of `reasons` did; none if it was none of them. What stood in the way for a while did not end it.
fn gate(case: &Case<'_>, step: &'static str, reasons: &[SuppressReason], outcome: Outcome) -> Option<Answer> {
    let skipped = case.stood_in_the_way(reasons)?;
    let detail = suppression(skipped);
    Some(match skipped.told_by {
        Some(_) => Answer::of(pass(step, skipped.reason.as_str(), detail)),
        None => Answer { steps: vec![stop(step, skipped.reason.as_str(), detail)], outcome: Some(outcome) },
    })
}

fn planned(case: &Case<'_>) -> Answer {
    if let Some(PlannedNotification { id, channel, .. }) = &case.evidence.notification {
        let channel = channel.as_ref().map_or(String::new(), |channel| format!(" on channel {channel}"));
        return Answer::of(pass("planned", "planned", format!("as notification {id}{channel}")));
    }
    let (reason, detail, outcome) = if case.is_recorded() {
        let detail = "the notification that it was planned as is not there any more";
        ("no_record", detail, Outcome::Unknown)
    } else if case.evidence.view.stored.planning {
        ("planning", "not all whom it concerns have been looked at yet", Outcome::Planning)
    } else {
        ("no_record", "it matches, and what was recorded of that is not there any more", Outcome::Unknown)
    };
    Answer { steps: vec![unknown("planned", reason, detail)], outcome: Some(outcome) }
}

/// Whether it is worth sending, as is asked again right before each attempt (FP-22).
fn judged(case: &Case<'_>) -> Answer {
    let Some(notification) = &case.evidence.notification else { return nothing() };
    if let (Status::Skipped, reason) = (notification.status, notification.skip_reason) {
        let step = match reason {
            Some(reason) => stop("judged", reason.as_str(), skip(reason)),
            None => stop("judged", "skipped", "it was skipped"),
        };
        return Answer { steps: vec![step], outcome: Some(Outcome::Skipped) };
    }
    if notification.status.is_terminal() {
        return Answer::of(pass("judged", "worth_sending", "it was worth sending when it was last tried"));
    }
    let view = &case.evidence.view;
    if view.source_gone {
        return will_be_skipped("source_gone", "what it tells of is gone".to_owned());
    }
    if let Some(by) = view.superseded_by {
        return will_be_skipped("superseded", format!("event {by} has made it untrue"));
    }
    if let Some(end) = case.event().expires_at.filter(|end| *end <= case.now) {
        return will_be_skipped("expired", format!("the event ended at {end}"));
    }
    Answer::of(pass("judged", "worth_sending", "it is worth sending as it stands now"))
}

fn will_be_skipped(reason: &'static str, why: String) -> Answer {
    Answer::of(unknown(
        "judged",
        reason,
        format!("{why}; it will be skipped, unless it is being sent right now"),
    ))
}

fn delivery(case: &Case<'_>) -> Answer {
    let Some(notification) = &case.evidence.notification else { return nothing() };
    let tried = case.tries.map(in_words).unwrap_or_default();
    let status = notification.status;
    let word = status.as_str();
    let (step, outcome) = match status {
        Status::Delivered => {
            (pass("delivery", word, format!("the receiver took it{tried}")), Outcome::Delivered)
        }
        Status::Pending => {
            (unknown("delivery", word, format!("it waits for its first attempt{tried}")), Outcome::Pending)
        }
        Status::Retrying => {
            (unknown("delivery", word, format!("it will be tried again{tried}")), Outcome::Retrying)
        }
        Status::Parked => (
            stop("delivery", word, format!("it was given up and waits for an operator{tried}")),
            Outcome::Parked,
        ),
        Status::Discarded => {
            (stop("delivery", word, format!("an operator gave it up{tried}")), Outcome::Discarded)
        }
        Status::Skipped => (stop("delivery", word, "it is not to be sent any more"), Outcome::Skipped),
    };
    Answer { steps: vec![step], outcome: Some(outcome) }
}
