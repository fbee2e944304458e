//! `event list`, `show`, `announce` and `gone`. Publishing and explaining stand apart.

use angarium_domain::id::EventId;
use angarium_domain::time::{Clock, SystemClock};
use serde_json::{Value, json};

use super::args::{AnnounceArgs, EventCommand, EventListArgs, Globals};
use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{Listing, text, time, unreadable};
use super::notifications::instant;
use super::output::{Format, Out};
use super::table::{Column, escape};
use super::{explain, input, members, planned, publish};

const COLUMNS: &[Column] = &[
    ("ID", 36),
    ("FEED", 30),
    ("TYPE", 30),
    ("KEY", 30),
    ("TIME", 20),
    ("SOURCE", 20),
    ("MATCHED", 7),
    ("STATE", 20),
];

pub(super) fn run(globals: &Globals, command: EventCommand, out: &mut Out) -> Result<Exit, Failure> {
    let api = || Api::connect(globals);
    match command {
        EventCommand::Publish(args) if args.dry_run => publish::dry_run(globals, &args.event, out),
        EventCommand::Publish(args) => publish::run(globals, &args.event, out),
        EventCommand::Try(args) => publish::dry_run(globals, &args, out),
        EventCommand::List(args) => list(&api()?, args, out),
        EventCommand::Show { id } => show(&api()?, id, out),
        EventCommand::Explain { id, subscription } => explain::run(&api()?, id, subscription.as_deref(), out),
        EventCommand::Announce(args) => {
            let request = announcement(&args)?;
            announce(&api()?, &args.feed, request, out)
        }
        EventCommand::Gone { feed, key } => gone(&api()?, &feed, &key, out),
    }
}

fn list(api: &Api, args: EventListArgs, out: &mut Out) -> Result<Exit, Failure> {
    let all = args.all;
    let query = query(args, &SystemClock::new())?;
    let listing =
        Listing { path: &["events"], query, all, columns: COLUMNS, row, id: |value| text(value, &["id"]) };
    listing.run(api, out)
}

fn query(args: EventListArgs, clock: &dyn Clock) -> Result<Vec<(&'static str, String)>, Failure> {
    let query = [
        ("feed", args.feed),
        ("type", args.kind),
        ("key", args.key),
        ("source", args.source),
        ("since", instant("since", args.since, clock)?),
        ("until", instant("until", args.until, clock)?),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor),
    ];
    Ok(query.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

fn row(value: &Value) -> Vec<String> {
    let [id, feed, kind, key] = ["id", "feed", "type", "key"].map(|name| text(value, &[name]));
    let state = match (value["planning"] == true, value["test"] == true) {
        (true, _) => "being planned",
        (false, true) => "test",
        (false, false) => "",
    };
    let [source, matched] = ["source", "matched"].map(|name| text(value, &[name]));
    vec![id, feed, kind, key, time(value, "time"), source, matched, state.to_owned()]
}

fn show(api: &Api, id: EventId, out: &mut Out) -> Result<Exit, Failure> {
    let id = id.to_string();
    let answer = api.get(&["events", &id], &[])?;
    match out.format() {
        Format::Json => out.line(&answer),
        Format::Ids => out.line(&id),
        Format::Table => {
            let event: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
            members::show(&event, &["notifications", "skipped"], out);
            out.text("\n");
            planned::rows(&event, out);
        }
    }
    Ok(Exit::Fine)
}

fn announcement(args: &AnnounceArgs) -> Result<Value, Failure> {
    let body = match (&args.body, &args.body_file) {
        (Some(body), _) => body.clone(),
        (None, Some(path)) => input::read(path)?,
        (None, None) => return Err(Failure::usage("give --body or --body-file")),
    };
    let mut request = json!({"subject": args.subject, "body": body});
    if !args.fields.is_empty() {
        request["fields"] = publish::fields(&args.fields)?;
    }
    if args.test {
        request["test"] = true.into();
    }
    Ok(request)
}

fn announce(api: &Api, feed: &str, request: Value, out: &mut Out) -> Result<Exit, Failure> {
    let answer = api.post(&["feeds", feed, "announcements"], request.to_string())?;
    publish::show_one(&answer, out)?;
    Ok(Exit::Fine)
}

fn gone(api: &Api, feed: &str, key: &str, out: &mut Out) -> Result<Exit, Failure> {
    api.delete(&["feeds", feed, "rows", key], &[])?;
    match out.format() {
        Format::Table => {
            out.line(&escape(&format!("{key} of {feed} is gone: what is queued about it is not sent")))
        }
        Format::Ids => out.line(&escape(key)),
        Format::Json => out.line(&json!({"feed": feed, "key": key}).to_string()),
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use angarium_domain::time::ManualClock;
    use clap::Parser;

    use super::*;
    use crate::cli::args::{ClientCommand, Command, Invocation};
    use crate::cli::client::tests::{api, server};
    use crate::cli::output::tests::Captured;

    fn command(args: &[&str]) -> EventCommand {
        let args = ["angarium", "event"].iter().chain(args);
        let Command::Client(ClientCommand::Event(command)) =
            Invocation::try_parse_from(args).unwrap().command
        else {
            panic!("an event")
        };
        command
    }

    #[test]
    fn filters_become_parameters() {
        let clock = ManualClock::at("2026-07-07T12:00:00Z".parse().unwrap());
        let EventCommand::List(args) = command(&[
            "list", "--feed", "f", "--type", "T", "--key", "k", "--source", "s", "--since", "2h", "--limit",
            "7",
        ]) else {
            panic!("a listing")
        };
        let pairs: Vec<String> =
            query(args, &clock).unwrap().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(pairs.join(" "), "feed=f type=T key=k source=s since=2026-07-07T10:00:00Z limit=7");
    }

    #[test]
    fn an_event_in_a_row() {
        let value = json!({"id": "e", "feed": "f", "type": "T", "key": "k", "time": "2026-07-07T01:02:03.5Z",
            "source": "erp", "matched": 3, "planning": true, "test": true});
        let expected = ["e", "f", "T", "k", "2026-07-07T01:02:03Z", "erp", "3", "being planned"];
        assert_eq!(row(&value), expected);
        assert_eq!(row(&value).len(), COLUMNS.len());
    }

    /// FP-17: what an operator says goes to the feed's subscribers as an event.
    #[test]
    fn an_announcement_says_what_was_said() {
        let said = |args: &[&str]| match command(args) {
            EventCommand::Announce(args) => announcement(&args).unwrap(),
            _ => panic!("an announcement"),
        };
        let plain = said(&["announce", "f", "--subject", "S", "--body", "B"]);
        assert_eq!(plain, json!({"subject": "S", "body": "B"}));
        let test = said(&["announce", "f", "--subject", "S", "--body", "B", "--field", "area=a=b", "--test"]);
        assert_eq!(test, json!({"subject": "S", "body": "B", "fields": {"area": "a=b"}, "test": true}));
    }

    #[test]
    fn what_is_gone_is_told_and_what_was_never_there_is_not() {
        let (url, requests) = server(&[Some("204 "), Some("404 {\"code\":\"row_not_found\"}")]);
        let api = api(url);
        let captured = Captured::default();
        let mut out = captured.out(Format::Table);
        assert_eq!(gone(&api, "outages", "4/2", &mut out), Ok(Exit::Fine));
        assert_eq!(gone(&api, "outages", "5", &mut out).unwrap_err().exit(), Exit::NothingMatched);
        assert_eq!(captured.text(), "4/2 of outages is gone: what is queued about it is not sent\n");
        let requests = requests.join().unwrap();
        assert!(
            requests[0].starts_with("DELETE /v1/feeds/outages/rows/4%2F2 HTTP/1.1\r\n"),
            "{}",
            requests[0]
        );
    }
}
