//! `event explain`: what became of an event in one sentence, and below it the way there.

use angarium_domain::id::EventId;
use serde_json::Value;

use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{text, unreadable};
use super::output::{Format, Out};
use super::planned::items;
use super::table::{Column, Table, escape};

const COLUMNS: &[Column] = &[(" ", 1), ("STEP", 14), ("REASON", 24), ("DETAIL", 200)];

pub(super) fn run(
    api: &Api,
    id: EventId,
    subscription: Option<&str>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let query: Vec<(&str, String)> =
        subscription.map(|id| ("subscription", id.to_owned())).into_iter().collect();
    let answer = api.get(&["events", &id.to_string(), "explain"], &query)?;
    match out.format() {
        Format::Json => out.line(&answer),
        Format::Ids => out.line(&id.to_string()),
        Format::Table => show(&serde_json::from_str(&answer).map_err(|error| unreadable(&error))?, out),
    }
    Ok(Exit::Fine)
}

fn show(explanation: &Value, out: &mut Out) {
    out.line(&escape(&sentence(explanation)));
    out.text("\n");
    let rows: Vec<Vec<String>> = items(explanation, "steps").iter().map(row).collect();
    Table::new(COLUMNS).write(&rows, out);
}

fn row(step: &Value) -> Vec<String> {
    let [name, reason, detail] = ["step", "reason", "detail"].map(|member| text(step, &[member]));
    vec![mark(step).to_owned(), name, reason, detail]
}

/// A sign that can be told apart without colour.
fn mark(step: &Value) -> &'static str {
    match step["verdict"].as_str() {
        Some("pass") => "\u{2713}",
        Some("stop") => "\u{2717}",
        _ => "?",
    }
}

/// The outcome, with what decided it.
fn sentence(explanation: &Value) -> String {
    let outcome = text(explanation, &["outcome"]);
    let told = match outcome.as_str() {
        "delivered" => "Delivered: the receiver took it",
        "pending" => "Planned: it waits for its first attempt",
        "retrying" => "Not delivered yet: it was tried without success, and will be tried again",
        "parked" => "Not delivered: it was given up, and waits for an operator",
        "discarded" => "Not delivered: an operator gave it up",
        "skipped" => "Not delivered: it was planned, and not worth sending any more",
        "suppressed" => "Nobody is told: it matched, and something stood in the way",
        "told" => "Told by another notification: the same thing goes there once",
        "not_matched" => "Not told: it does not concern this subscription",
        "planning" => "Being planned: not all whom it concerns have been looked at yet",
        "planned" => "Planned: not everything that it led to has been delivered",
        "nobody" => "Kept: nobody wants it",
        "unknown" => "Not known: what is recorded does not say",
        _ => "",
    };
    let told = if told.is_empty() { format!("Outcome: {outcome}") } else { told.to_owned() };
    match decided(explanation, &outcome) {
        Some(detail) => format!("{told} ({detail})."),
        None => format!("{told}."),
    }
}

/// The step that stopped it, where one subscription was asked about.
fn decided(explanation: &Value, outcome: &str) -> Option<String> {
    let of_one = !text(explanation, &["subscription"]).is_empty();
    let stopped = |step: &&Value| step["verdict"] == "stop";
    let first = items(explanation, "steps").iter().find(stopped)?;
    let detail = text(first, &["detail"]);
    (of_one && outcome != "delivered" && !detail.is_empty()).then(|| detail.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::client::tests::{api, server};
    use crate::cli::output::tests::Captured;

    const ID: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";

    fn shown(explanation: Value) -> Vec<String> {
        let captured = Captured::default();
        show(&explanation, &mut captured.out(Format::Table));
        captured.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_outcome_stands_first_and_each_step_has_a_mark() {
        let step = |step: &str, verdict: &str, detail: &str| {
            json!({"step": step, "verdict": verdict,
            "reason": "r", "detail": detail})
        };
        let lines = shown(json!({"event_id": ID, "subscription": "ns_a", "outcome": "suppressed", "steps": [
            step("event", "pass", "NewOutage about 42\u{1b}"), step("feed", "unknown", ""),
            step("cooldown", "stop", "until 12:00.")]}));
        assert_eq!(lines[0], "Nobody is told: it matched, and something stood in the way (until 12:00).");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "   STEP      REASON  DETAIL");
        assert_eq!(lines[3], "\u{2713}  event     r       NewOutage about 42\\u{1b}");
        assert_eq!(lines[4], "?  feed      r");
        assert_eq!(lines[5], "\u{2717}  cooldown  r       until 12:00.");
    }

    #[test]
    fn every_outcome_has_its_sentence() {
        for outcome in [
            "delivered",
            "pending",
            "retrying",
            "parked",
            "discarded",
            "skipped",
            "suppressed",
            "told",
            "not_matched",
            "planning",
            "planned",
            "nobody",
            "unknown",
        ] {
            let told = sentence(&json!({"outcome": outcome, "steps": []}));
            assert!(told.ends_with('.') && !told.starts_with("Outcome"), "{told}");
        }
        assert_eq!(sentence(&json!({"outcome": "unheard_of"})), "Outcome: unheard_of.");
        let overview = json!({"outcome": "planned", "subscription": null,
            "steps": [{"verdict": "stop", "detail": "one of many"}]});
        assert!(!sentence(&overview).contains("one of many"));
    }

    #[test]
    fn it_can_be_asked_for_one_subscription() {
        let (url, requests) =
            server(&[Some("200 {\"steps\":[]}"), Some("404 {\"code\":\"subscription_not_found\"}")]);
        let (api, captured) = (api(url), Captured::default());
        let mut out = captured.out(Format::Json);
        let id: EventId = ID.parse().unwrap();
        assert_eq!(run(&api, id, None, &mut out), Ok(Exit::Fine));
        assert_eq!(run(&api, id, Some("ns_a&b"), &mut out).unwrap_err().exit(), Exit::NothingMatched);
        assert_eq!(captured.text(), "{\"steps\":[]}\n");
        let requests = requests.join().unwrap();
        assert!(
            requests[0].starts_with(&format!("GET /v1/events/{ID}/explain HTTP/1.1\r\n")),
            "{}",
            requests[0]
        );
        assert!(requests[1].contains("/explain?subscription=ns_a%26b "), "{}", requests[1]);
    }
}
