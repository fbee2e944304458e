//! An event that two subscriptions want, and a second one about the same outage, of which nobody is told again.
//!
//! Who is told stands in the ledger from the moment in which the first event is accepted, so what must come of the second
//! does not depend on how far the deliveries of the first have come.

use super::api::Api;
use super::cast::Part;
use super::verdict::{Check, Tally};
use crate::cli::Failure;
use crate::http::events::dto::{EventAccepted, NewEvent};

/// The name under which what the events lead to is shown.
pub(super) const EVENTS: &str = "events";
/// The path of the subscriptions' receivers.
pub(super) const PATH: &str = "/outages";
/// The receivers of the two subscriptions.
pub(super) const SUBSCRIBERS: [Part; 2] =
    [Part { place: 0, script: &[204] }, Part { place: 1, script: &[503, 204] }];
/// What must come out: both are told of the first event, one of them at the second try, and nobody of the second.
pub(super) const MUST: Tally = Tally { requests: 3, ids: 2, effects: 2, delivered: 2, ..Tally::NOTHING };

/// The feed, and what stands in its events.
const FEED: &str = "outages";
const TYPE: &str = "NewOutage";
const FEEDER: &str = "Feeder 14";
/// What must stand in what the receivers get, from the template and whichever event is the newest by then.
const TOLD: &str = "Mine View has no power: a tree fell";

/// What the server answered to both events.
#[derive(Default)]
pub(super) struct Outage {
    first: Option<EventAccepted>,
    again: Option<EventAccepted>,
}

impl Outage {
    /// Publishes the first event.
    pub(super) async fn begins(&mut self, api: &Api) -> Result<(), Failure> {
        self.first = Some(api.publish(&event("a tree fell onto the line")).await?);
        Ok(())
    }

    /// Publishes the second one.
    pub(super) async fn is_seen_again(&mut self, api: &Api) -> Result<(), Failure> {
        self.again = Some(api.publish(&event("a tree fell, as a neighbour saw")).await?);
        Ok(())
    }

    /// The second event and a subscription that it was not told to, for whoever wants to know why; empty if there is none.
    pub(super) fn untold(&self) -> (&str, &str) {
        let again = self.again.as_ref();
        let skipped = again.and_then(|again| again.skipped.first());
        (again.map_or("", |again| &again.id), skipped.map_or("", |skipped| &skipped.reference))
    }

    /// What the table does not show. `told` is how many of how many requests to the subscribers had the text in them.
    pub(super) fn checks(&self, (told, requests): (usize, usize)) -> Vec<Check> {
        let planned = |event: &Option<EventAccepted>| event.as_ref().map_or(0, |it| it.notifications.len());
        let skipped = self.again.iter().flat_map(|event| &event.skipped);
        let already = skipped.filter(|skipped| skipped.reason == "already_told").count();
        let (first, again) = (planned(&self.first), planned(&self.again));
        vec![
            Check::new(
                "both subscriptions were told, in the words of the template",
                first == SUBSCRIBERS.len() && told == requests && requests > 0,
                format_args!("{first} planned, {told} of {requests} requests"),
            ),
            Check::new(
                "the same outage once more was kept, and nobody was told again",
                again == 0 && already == SUBSCRIBERS.len(),
                format_args!("{again} planned, {already} already told"),
            ),
        ]
    }
}

/// Whether a request tells of the outage as it must.
pub(super) fn tells(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(TOLD)
}

fn event(cause: &str) -> NewEvent {
    let text = |text: &str| serde_json::value::to_raw_value(text).ok();
    let fields = [("feeder", FEEDER), ("area", "Mine View"), ("cause", cause)];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value)?)));
    NewEvent {
        feed: FEED.to_owned(),
        kind: TYPE.to_owned(),
        key: "42".to_owned(),
        fields: fields.collect(),
        ..NewEvent::default()
    }
}

/// The part of the configuration that says who is told of what, and how, over the channel `hooks`; the two `subscribers`
/// are addresses.
pub(super) fn configuration(hooks: &str, subscribers: &[String]) -> String {
    let [all, some] = [0, 1].map(|place| subscribers.get(place).map_or("", String::as_str));
    format!(
        r#"
[feeds.{FEED}]
event_types = ["{TYPE}"]
fields.feeder = {{ match = "exact" }}
fields.area = {{ match = "word" }}
fields.cause = {{ match = "substring" }}

[[templates]]
event_type = "{TYPE}"
channel = "{hooks}"
locale = "en-US"
subject = "Power outage: {{{{ fields.feeder }}}}"
body = "{{{{ fields.area }}}} has no power: {{{{ fields.cause }}}}."

[[subscriptions]]
name = "All outages"
feed = "{FEED}"
target = {{ channel = "{hooks}", address = "{all}" }}

[[subscriptions]]
name = "{FEEDER}"
feed = "{FEED}"
filter = {{ fields = {{ feeder = ["{FEEDER}"] }} }}
target = {{ channel = "{hooks}", address = "{some}" }}
"#
    )
}

#[cfg(test)]
mod tests {
    use angarium_domain::time::Timestamp;

    use super::super::verdict::checked;
    use super::*;
    use crate::http::events::dto::{PlannedNotification, SkippedMatch};

    fn answer(planned: usize, skipped: &[&str]) -> Option<EventAccepted> {
        let notification = PlannedNotification {
            id: "n".to_owned(),
            route: "subscription".to_owned(),
            channel: None,
            reference: "ns_a".to_owned(),
            status: "pending".to_owned(),
            skip_reason: None,
        };
        let skipped = skipped.iter().map(|reason| SkippedMatch {
            route: "subscription".to_owned(),
            reference: "ns_a".to_owned(),
            reason: (*reason).to_owned(),
            by: None,
            told_by: None,
            at: Timestamp::EPOCH,
        });
        Some(EventAccepted {
            id: "e".to_owned(),
            duplicate: false,
            planning: false,
            notifications: vec![notification; planned],
            skipped: skipped.collect(),
        })
    }

    const TOLD_TWICE: [&str; 2] = ["already_told"; 2];

    fn answers(
        first: Option<EventAccepted>,
        again: Option<EventAccepted>,
        told: (usize, usize),
    ) -> [bool; 2] {
        let shown = checked(&Outage { first, again }.checks(told));
        [0, 1].map(|check| shown.get(check).unwrap().starts_with("  yes"))
    }

    #[test]
    fn whatever_is_told_too_often_or_too_little_fails_a_check() {
        assert_eq!(answers(answer(2, &[]), answer(0, &TOLD_TWICE), (3, 3)), [true, true]);
        assert_eq!(answers(answer(1, &["cooldown"]), answer(0, &TOLD_TWICE), (3, 3)), [false, true]);
        assert_eq!(answers(answer(2, &[]), answer(0, &TOLD_TWICE), (2, 3)), [false, true]);
        assert_eq!(answers(answer(2, &[]), answer(0, &TOLD_TWICE), (0, 0)), [false, true]);
        assert_eq!(answers(answer(2, &[]), answer(2, &[]), (3, 3)), [true, false]);
        assert_eq!(
            answers(answer(2, &[]), answer(0, &["already_told", "superseded"]), (3, 3)),
            [true, false]
        );
        assert_eq!(answers(None, None, (3, 3)), [false, false]);
    }
}
