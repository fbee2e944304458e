//! What an event leads to, as people read it: who is told, who is not, and why.

use serde_json::Value;

use super::exit::counted;
use super::listing::text;
use super::output::Out;
use super::table::{Column, Table, escape};

const COLUMNS: &[Column] =
    &[("STATUS", 10), ("NOTIFICATION", 36), ("ROUTE", 12), ("REF", 24), ("CHANNEL", 16), ("REASON", 80)];

/// The answer to an event that was handed in: a sentence, and a row for each notification and each match without one.
pub(super) fn show(answer: &Value, out: &mut Out) {
    out.line(&escape(&sentence(answer)));
    rows(answer, out);
}

/// The rows alone.
pub(super) fn rows(answer: &Value, out: &mut Out) {
    let planned = items(answer, "notifications").iter().map(notification);
    write(planned.chain(items(answer, "skipped").iter().map(skipped)), out);
}

/// The rows of what is not told.
pub(super) fn skipped_rows(answer: &Value, out: &mut Out) {
    write(items(answer, "skipped").iter().map(skipped), out);
}

fn write(rows: impl Iterator<Item = Vec<String>>, out: &mut Out) {
    Table::new(COLUMNS).write(&rows.collect::<Vec<_>>(), out);
}

/// How many are told and how many not.
pub(super) fn sentence(answer: &Value) -> String {
    let [notifications, skipped] = ["notifications", "skipped"].map(|list| items(answer, list).len());
    let led = match (notifications, skipped) {
        (0, 0) if answer["planning"] == true => "nothing is planned yet".to_owned(),
        (0, 0) => "nobody is told".to_owned(),
        (_, 0) => counted(notifications, "notification"),
        _ => format!("{}, {skipped} skipped", counted(notifications, "notification")),
    };
    let more = if answer["planning"] == true { ", more are being planned" } else { "" };
    format!("{}: {led}{more}", text(answer, &["id"]))
}

fn notification(value: &Value) -> Vec<String> {
    ["status", "id", "route", "ref", "channel", "skip_reason"].map(|member| text(value, &[member])).into()
}

fn skipped(value: &Value) -> Vec<String> {
    let [route, subscription, reason, by, told_by] =
        ["route", "ref", "reason", "by", "told_by"].map(|member| text(value, &[member]));
    let reason = match (by.as_str(), told_by.as_str()) {
        ("", "") => reason,
        (by, "") => format!("{reason}, by {by}"),
        (_, told_by) => format!("{reason}, told later by {told_by}"),
    };
    let [status, notification, channel] = ["skipped", "", ""].map(str::to_owned);
    vec![status, notification, route, subscription, channel, reason]
}

/// The items of a member that is an array; none if it is something else.
pub(super) fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::output::{Format, tests::Captured};

    #[test]
    fn how_many_are_told_in_one_sentence() {
        let of = |notifications: usize, skipped: usize, planning: bool| {
            let list = |count| vec![json!({}); count];
            sentence(&json!({"id": "e", "planning": planning, "notifications": list(notifications),
                "skipped": list(skipped)}))
        };
        assert_eq!(of(0, 0, false), "e: nobody is told");
        assert_eq!(of(0, 0, true), "e: nothing is planned yet, more are being planned");
        assert_eq!(of(1, 0, false), "e: 1 notification");
        assert_eq!(of(0, 1, false), "e: 0 notifications, 1 skipped");
        assert_eq!(of(100, 2, true), "e: 100 notifications, 2 skipped, more are being planned");
    }

    #[test]
    fn each_match_has_a_row() {
        let answer = json!({"id": "e", "planning": false,
            "notifications": [{"id": "n1", "route": "subscription", "ref": "ns_c", "channel": "hooks", "status": "pending",
                "skip_reason": null}],
            "skipped": [{"route": "subscription", "ref": "ns_a", "reason": "cooldown", "by": "n0", "told_by": null},
                {"route": "subscription", "ref": "ns_b\u{1b}", "reason": "daily_cap", "by": null, "told_by": null},
                {"route": "subscription", "ref": "ns_d", "reason": "already_told", "by": "n0", "told_by": "n9"}]});
        let captured = Captured::default();
        show(&answer, &mut captured.out(Format::Table));
        let shown = captured.text();
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["e:", "1", "notification,", "3", "skipped"]);
        assert_eq!(lines[2], ["pending", "n1", "subscription", "ns_c", "hooks"]);
        assert_eq!(lines[3], ["skipped", "subscription", "ns_a", "cooldown,", "by", "n0"]);
        assert_eq!(lines[4], ["skipped", "subscription", "ns_b\\u{1b}", "daily_cap"]);
        assert_eq!(
            lines[5],
            ["skipped", "subscription", "ns_d", "already_told,", "told", "later", "by", "n9"]
        );
    }
}
