//! `notification list` and `notification show`.

use std::collections::BTreeMap;

use angarium_domain::id::NotificationId;
use angarium_domain::time::{Clock, SystemClock, Timestamp};
use serde_json::Value;
use serde_json::value::RawValue;

use super::args::ListArgs;
use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{Listing, text, time, unreadable};
use super::output::{Format, Out};
use super::planned::items;
use super::table::{Column, Table, escape, escape_lines};
use crate::config::units;

const COLUMNS: &[Column] = &[
    ("ID", 36),
    ("STATUS", 16),
    ("KIND", 7),
    ("CHANNEL", 16),
    ("TARGET", 40),
    ("RETRIES", 7),
    ("CREATED", 20),
    ("SUBJECT", 40),
    ("LAST ERROR", 60),
];

pub(super) fn list(api: &Api, args: ListArgs, out: &mut Out) -> Result<Exit, Failure> {
    let all = args.all;
    let query = query(args, &SystemClock::new())?;
    let listing = Listing {
        path: &["notifications"],
        query,
        all,
        columns: COLUMNS,
        row,
        id: |value| text(value, &["id"]),
    };
    listing.run(api, out)
}

fn query(args: ListArgs, clock: &dyn Clock) -> Result<Vec<(&'static str, String)>, Failure> {
    let query = [
        ("status", args.status.map(|status| status.to_string())),
        ("kind", args.kind.map(|kind| kind.to_string())),
        ("channel", args.channel),
        ("list", args.list),
        ("site", args.site),
        ("node", args.node),
        ("q", args.q),
        ("since", instant("since", args.since, clock)?),
        ("until", instant("until", args.until, clock)?),
        ("stuck", args.stuck.then(|| "true".to_owned())),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor),
    ];
    Ok(query.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// What the argument `--{key}` says: an instant, or how long ago it was.
pub(super) fn instant(key: &str, text: Option<String>, clock: &dyn Clock) -> Result<Option<String>, Failure> {
    let read = |text: String| match units::duration(&text) {
        Ok(ago) => Ok(clock.now().minus(ago).to_string()),
        Err(_) => text
            .parse::<Timestamp>()
            .map(|time| time.to_string())
            .map_err(|error| Failure::usage(&format!("--{key} {error}"))),
    };
    text.map(read).transpose()
}

fn row(value: &Value) -> Vec<String> {
    let stuck = value.get("stuck").and_then(Value::as_bool).unwrap_or(false);
    let status = text(value, &["status"]);
    vec![
        text(value, &["id"]),
        if stuck { format!("{status} (stuck)") } else { status },
        text(value, &["kind"]),
        text(value, &["channel"]),
        target(value),
        text(value, &["retry_count"]),
        time(value, "created_at"),
        text(value, &["subject"]),
        text(value, &["last_error", "detail"]),
    ]
}

/// The list, or the one address.
fn target(value: &Value) -> String {
    [&["list"][..], &["to", "address"], &["address"], &["ref"]]
        .into_iter()
        .map(|path| text(value, path))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

pub(super) fn show(api: &Api, id: NotificationId, out: &mut Out) -> Result<Exit, Failure> {
    let id = id.to_string();
    let row = api.get(&["notifications", &id], &[])?;
    if out.format() == Format::Ids {
        out.line(&id);
        return Ok(Exit::Fine);
    }
    let attempts = all_attempts(api, &id)?;
    let audit = api.get(&["notifications", &id, "audit"], &[])?;
    match out.format() {
        Format::Json => show_json(&row, &attempts, &audit, out)?,
        _ => show_text(&value(&row)?, &value(&attempts)?, &value(&audit)?, out),
    }
    Ok(Exit::Fine)
}

fn value(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

/// Every attempt, page after page, as one listing.
fn all_attempts(api: &Api, id: &str) -> Result<String, Failure> {
    let mut all = Vec::new();
    let mut query = vec![("limit", "500".to_owned())];
    loop {
        let page = value(&api.get(&["notifications", id, "attempts"], &query)?)?;
        all.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(cursor) => query = vec![("limit", "500".to_owned()), ("cursor", cursor.to_owned())],
            None => return Ok(serde_json::json!({"items": all}).to_string()),
        }
    }
}

/// The row as the API gives it, and in it its `attempts` and its `audit` trail; every value word for word.
fn show_json(row: &str, attempts: &str, audit: &str, out: &mut Out) -> Result<(), Failure> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let members = |text| serde_json::from_str::<Members<'_>>(text).map_err(|error| unreadable(&error));
    let mut row = members(row)?;
    for (name, listing) in [("attempts", attempts), ("audit", audit)] {
        row.extend(members(listing)?.remove("items").map(|items| (name.to_owned(), items)));
    }
    let text = serde_json::to_string(&row).map_err(|error| unreadable(&error))?;
    out.line(&text);
    Ok(())
}

const ATTEMPTS: &[Column] = &[
    ("#", 6),
    ("STARTED", 20),
    ("MS", 8),
    ("NODE", 20),
    ("RESULT", 10),
    ("CLASS", 20),
    ("CODE", 5),
    ("DETAIL", 100),
];
const AUDIT: &[Column] = &[("AT", 20), ("KIND", 10), ("ACTOR", 30), ("DETAIL", 120)];

/// The members that are shown one a line where there is something to show; the subject and the body come
/// after them.
const MEMBERS: [&[&str]; 19] = [
    &["id"],
    &["status"],
    &["kind"],
    &["channel"],
    &["route"],
    &["retry_count"],
    &["last_error", "class"],
    &["last_error", "detail"],
    &["skip_reason"],
    &["provider_message_id"],
    &["source", "site"],
    &["source", "instance"],
    &["source", "script"],
    &["source", "node"],
    &["enqueued_at"],
    &["created_at"],
    &["last_attempt_at"],
    &["next_attempt_at"],
    &["completed_at"],
];

fn show_text(row: &Value, attempts: &Value, audit: &Value, out: &mut Out) {
    let mut member = |name: &str, shown: &str| {
        if !shown.is_empty() {
            out.line(&format!("{name:<20} {}", escape(shown)));
        }
    };
    member("target", &target(row));
    for path in MEMBERS {
        member(&path.join("."), &text(row, path));
    }
    for name in ["stuck", "in_flight"] {
        member(name, if row.get(name) == Some(&Value::Bool(true)) { "yes" } else { "" });
    }
    for target in items(row, "resolved_targets") {
        let [address, result, detail] = ["address", "result", "detail"].map(|name| text(target, &[name]));
        member("resolved_target", format!("{address} {result} {detail}").trim_end());
    }
    for name in ["provider_response", "data", "subject"] {
        member(name, &text(row, &[name]));
    }
    out.text("\n");
    out.line(&escape_lines(&text(row, &["body"])));
    section("attempts", ATTEMPTS, items(attempts, "items"), attempt, out);
    section("trail", AUDIT, items(audit, "items"), trail, out);
}

fn section(
    title: &str,
    columns: &'static [Column],
    items: &[Value],
    row: fn(&Value) -> Vec<String>,
    out: &mut Out,
) {
    if !items.is_empty() {
        out.line(&format!("\n{title}"));
        Table::new(columns).write(&items.iter().map(row).collect::<Vec<_>>(), out);
    }
}

fn attempt(value: &Value) -> Vec<String> {
    let mut row = vec![text(value, &["number"]), time(value, "started_at")];
    row.extend(
        ["duration_ms", "node", "result", "class", "status_code", "detail"].map(|key| text(value, &[key])),
    );
    if let (true, Some(detail)) = (value["duplicate_risk"] == true, row.last_mut()) {
        *detail = format!("in doubt, the receiver may have it: {detail}");
    }
    row
}

fn trail(value: &Value) -> Vec<String> {
    vec![time(value, "at"), text(value, &["kind"]), text(value, &["actor"]), text(value, &["detail"])]
}

#[cfg(test)]
mod tests {
    use angarium_domain::time::ManualClock;
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::cli::args::{ClientCommand, Command, Invocation, NotificationCommand};
    use crate::cli::output::tests::Captured;

    fn query_of(args: &str) -> Result<String, Failure> {
        let args = ["angarium", "notification", "list"].into_iter().chain(args.split_whitespace());
        let Command::Client(ClientCommand::Notification(NotificationCommand::List(args))) =
            Invocation::try_parse_from(args).unwrap().command
        else {
            panic!("a listing")
        };
        let clock = ManualClock::at("2026-07-07T12:00:00Z".parse().unwrap());
        let pairs = query(args, &clock)?;
        Ok(pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn filters_become_parameters() {
        assert_eq!(query_of("").unwrap(), "limit=50");
        assert_eq!(
            query_of("--status parked --kind webhook --channel c --list l --site s --node n --q pump --stuck --limit 500 --cursor x").unwrap(),
            "status=parked kind=webhook channel=c list=l site=s node=n q=pump stuck=true limit=500 cursor=x"
        );
        assert_eq!(
            query_of("--since 2h --until 2026-07-07T13:00:00+02:00").unwrap(),
            "since=2026-07-07T10:00:00Z until=2026-07-07T11:00:00Z limit=50"
        );
        assert_eq!(query_of("--since yesterday").unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn a_row_tells_what_an_operator_asks_first() {
        let value = json!({"id": "i", "status": "retrying", "stuck": true, "kind": "webhook", "channel": "hooks",
            "list": null, "to": {"channel": "hooks", "address": "https://h/"}, "retry_count": 2,
            "created_at": "2026-07-07T01:02:03.5Z", "subject": "S", "last_error": {"class": "transient", "detail": "503"}});
        let expected = [
            "i",
            "retrying (stuck)",
            "webhook",
            "hooks",
            "https://h/",
            "2",
            "2026-07-07T01:02:03Z",
            "S",
            "503",
        ];
        assert_eq!(row(&value), expected);
        assert_eq!(row(&value).len(), COLUMNS.len());
        assert_eq!(target(&json!({"list": "ops", "address": "a"})), "ops");
        assert_eq!(target(&json!({"list": null, "address": "a"})), "a");
    }

    #[test]
    fn show_is_the_row_its_attempts_and_its_trail() {
        let row = r#"{"id":"i","status":"parked","stuck":false,"in_flight":true,"source":{"site":"plant-7","node":null},"data":{"n":12345678901234567890123,"x":1.50},"subject":"S\u001b","body":"one\ntwo","completed_at":null}"#;
        let attempts = r#"{"items":[{"number":1,"started_at":"2026-07-07T01:02:03Z","duration_ms":12,"node":"n","result":"failed","class":"transient","status_code":503,"detail":"busy"}]}"#;
        let audit =
            r#"{"items":[{"at":"2026-07-07T01:02:03Z","kind":"accepted","actor":"key:a","detail":{}}]}"#;

        let captured = Captured::default();
        show_json(row, attempts, audit, &mut captured.out(Format::Json)).unwrap();
        let shown = captured.text();
        assert!(shown.contains(r#""data":{"n":12345678901234567890123,"x":1.50}"#), "{shown}");
        let json: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(json["attempts"][0]["status_code"], 503);
        assert_eq!(json["audit"][0]["kind"], "accepted");

        let captured = Captured::default();
        let [row, attempts, audit] = [row, attempts, audit].map(|text| value(text).unwrap());
        show_text(&row, &attempts, &audit, &mut captured.out(Format::Table));
        let shown = captured.text();
        for line in [
            "status               parked",
            "subject              S\\u{1b}",
            "source.site          plant-7",
            "in_flight            yes",
            "one",
            "two",
            "attempts",
            "trail",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
        assert!(!shown.contains("source.node") && !shown.contains("stuck"), "{shown}");
        assert!(
            shown.contains("1  2026-07-07T01:02:03Z  12  n     failed  transient  503   busy"),
            "{shown}"
        );
    }
}
