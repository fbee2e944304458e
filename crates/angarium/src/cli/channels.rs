//! `channel list`, `test` and `reopen`.

use std::time::Duration;

use angarium_domain::text::ChannelName;
use serde_json::{Value, json};

use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::listing::{Listing, text, time, unreadable};
use super::output::{Format, Out};
use super::send::kind_of;
use super::table::{Column, escape};

const COLUMNS: &[Column] =
    &[("NAME", 40), ("KIND", 8), ("PARALLEL", 8), ("STATE", 14), ("UNTIL", 20), ("REASON", 100)];

/// How long a test may take: longer than anybody waits. The server breaks it off when we go.
const TEST_TIMEOUT: Duration = Duration::from_secs(20 * 60);

pub(super) fn list(api: &Api, out: &mut Out) -> Result<Exit, Failure> {
    let listing = Listing {
        path: &["channels"],
        query: Vec::new(),
        all: true,
        columns: COLUMNS,
        row,
        id: |value| text(value, &["name"]),
    };
    listing.run(api, out)
}

fn row(value: &Value) -> Vec<String> {
    let suspended = value.get("suspended").filter(|suspended| !suspended.is_null());
    let waits = time(value, "waits_until");
    let (state, until) = match suspended {
        _ if value["enabled"] == false => ("disabled", String::new()),
        _ if value["adapter"] == false => ("no adapter", String::new()),
        Some(suspended) => ("suspended", time(suspended, "until")),
        None if waits.is_empty() => ("open", String::new()),
        None => ("waits", waits),
    };
    let reason = text(value, &["suspended", "reason"]);
    let [name, kind, parallel] = ["name", "kind", "max_parallel"].map(|member| text(value, &[member]));
    vec![name, kind, parallel, state.to_owned(), until, reason]
}

/// Sends a test message and shows what was said. That it was not delivered is a failure, told like a result.
pub(super) fn test(api: &Api, channel: &ChannelName, address: &str, out: &mut Out) -> Result<Exit, Failure> {
    let address = kind_of(address).map_or(address, |(_, address)| address);
    let body = json!({"address": address}).to_string();
    let answer = api.post_patiently(&["channels", channel.as_str(), "test"], body, TEST_TIMEOUT)?;
    let told: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    let delivered = told["outcome"] == "delivered";
    match out.format() {
        Format::Json => out.line(&answer),
        Format::Ids if delivered => out.line(channel.as_str()),
        Format::Ids => {}
        Format::Table => show(&told, out),
    }
    Ok(if delivered { Exit::Fine } else { Exit::Failed })
}

fn show(told: &Value, out: &mut Out) {
    for turn in told["transcript"].as_array().map_or(&[][..], Vec::as_slice) {
        let mark = match turn["from"].as_str() {
            Some("us") => '>',
            Some("them") => '<',
            _ => '*',
        };
        out.line(format!("{mark} {}", escape(&text(turn, &["text"]))).trim_end());
    }
    out.line(&escape(&outcome(told)));
}

/// `delivered; the channel sends again`, `failed: permanent_config: 535 …`.
fn outcome(told: &Value) -> String {
    let [outcome, class, detail, id] =
        ["outcome", "class", "detail", "provider_message_id"].map(|member| text(told, &[member]));
    let told_more: Vec<String> =
        [outcome, class, detail].into_iter().filter(|part| !part.is_empty()).collect();
    let id = if id.is_empty() { String::new() } else { format!(" ({id})") };
    let reopened = if told["reopened"] == true { "; the channel sends again" } else { "" };
    format!("{}{id}{reopened}", told_more.join(": "))
}

pub(super) fn reopen(api: &Api, channel: &ChannelName, out: &mut Out) -> Result<Exit, Failure> {
    let answer = api.post(&["channels", channel.as_str(), "reopen"], String::new())?;
    let told: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    let reopened = told["reopened"] == true;
    match out.format() {
        Format::Json => out.line(&answer),
        _ if !reopened => say(&format!("{channel} was neither suspended nor waiting\n")),
        Format::Ids => out.line(channel.as_str()),
        Format::Table => out.line(&format!("{channel} sends again")),
    }
    Ok(if reopened { Exit::Fine } else { Exit::NothingMatched })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::tests::{api, server};
    use crate::cli::output::tests::Captured;

    #[test]
    fn what_stands_in_a_channels_way() {
        let channel = |members: Value| {
            let mut channel = json!({"name": "mail", "kind": "email", "enabled": true, "adapter": true,
                "max_parallel": 4, "waits_until": null, "suspended": null});
            for (name, member) in members.as_object().unwrap() {
                channel[name] = member.clone();
            }
            row(&channel)
        };
        let at = "2026-07-07T01:02:03.5Z";
        let shown = "2026-07-07T01:02:03Z";
        let suspended = json!({"reason": "535", "until": at});
        for (members, state) in [
            (json!({}), ["open", "", ""]),
            (json!({"waits_until": at}), ["waits", shown, ""]),
            (json!({"waits_until": at, "suspended": suspended}), ["suspended", shown, "535"]),
            (json!({"suspended": suspended}), ["suspended", shown, "535"]),
            (json!({"enabled": false, "adapter": false}), ["disabled", "", ""]),
            (json!({"adapter": false}), ["no adapter", "", ""]),
        ] {
            let row = channel(members);
            assert_eq!(row[3..], state);
            assert_eq!((row[..3].join(" ").as_str(), row.len()), ("mail email 4", COLUMNS.len()));
        }
    }

    /// The exit codes are what scripts go by; an address may say its kind.
    #[test]
    fn how_commands_end() {
        let (url, requests) = server(&[
            Some("200 {\"outcome\":\"delivered\"}"),
            Some("200 {\"outcome\":\"failed\"}"),
            Some("404 {\"code\":\"channel_not_found\"}"),
            Some("200 {\"reopened\":true}"),
            Some("200 {\"reopened\":false}"),
        ]);
        let (api, mail) = (api(url), ChannelName::parse("mail").unwrap());
        let captured = Captured::default();
        let mut out = captured.out(Format::Ids);
        assert_eq!(test(&api, &mail, "mailto:a@example.com", &mut out), Ok(Exit::Fine));
        assert_eq!(test(&api, &mail, "b@example.com", &mut out), Ok(Exit::Failed));
        assert_eq!(test(&api, &mail, "c", &mut out).unwrap_err().exit(), Exit::NothingMatched);
        assert_eq!(reopen(&api, &mail, &mut out), Ok(Exit::Fine));
        assert_eq!(reopen(&api, &mail, &mut out), Ok(Exit::NothingMatched));
        assert_eq!(captured.text(), "mail\nmail\n");
        let requests = requests.join().unwrap();
        assert!(requests[0].starts_with("POST /v1/channels/mail/test HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].ends_with("\r\n{\"address\":\"a@example.com\"}"), "{}", requests[0]);
        assert!(requests[1].ends_with("{\"address\":\"b@example.com\"}"), "{}", requests[1]);
        assert!(requests[3].starts_with("POST /v1/channels/mail/reopen HTTP/1.1\r\n"), "{}", requests[3]);
    }

    #[test]
    fn a_conversation_as_it_is_shown() {
        let shown = |told: Value| {
            let captured = Captured::default();
            show(&told, &mut captured.out(Format::Table));
            captured.text()
        };
        let failed = json!({"outcome": "failed", "class": "transient", "detail": "busy", "reopened": false,
            "transcript": [{"from": "remark", "text": "connected"}, {"from": "them", "text": "220 a\u{1b}[2J"},
                {"from": "us", "text": "EHLO b"}, {"from": "us", "text": ""}]});
        assert_eq!(shown(failed), "* connected\n< 220 a\\u{1b}[2J\n> EHLO b\n>\nfailed: transient: busy\n");
        let delivered = json!({"outcome": "delivered", "class": null, "detail": null,
            "provider_message_id": "7", "reopened": true, "transcript": []});
        assert_eq!(shown(delivered), "delivered (7); the channel sends again\n");
    }
}
