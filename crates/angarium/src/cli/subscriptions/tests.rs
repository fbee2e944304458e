use clap::Parser;

use super::*;
use crate::cli::args::{ClientCommand, Command, Invocation};
use crate::cli::client::tests::{api, server};
use crate::cli::output::tests::Captured;

fn command(args: &[&str]) -> SubscriptionCommand {
    let args = ["angarium", "subscription"].iter().chain(args);
    let Command::Client(ClientCommand::Subscription(command)) =
        Invocation::try_parse_from(args).unwrap().command
    else {
        panic!("a subscription")
    };
    command
}

fn made(args: &[&str]) -> Result<Value, Failure> {
    match command(&[&["create", "--name", "N", "--feed", "f"], args].concat()) {
        SubscriptionCommand::Create(args) => created(&args),
        _ => panic!("a new subscription"),
    }
}

fn changed(args: &[&str]) -> Value {
    let SubscriptionCommand::Update(args) = command(&[&["update", "ns_a"], args].concat()) else {
        panic!("a change")
    };
    let (body, how) = update(&args).unwrap();
    assert!(how.merge, "what is not named stays");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_rule_says_what_was_said_and_no_more() {
    let plain = made(&["--channel", "hooks", "--address", "https://h/"]).unwrap();
    assert_eq!(
        plain,
        json!({"name": "N", "feed": "f", "target": {"channel": "hooks", "address": "https://h/"}})
    );
    let whole =
        [
            &[
                "--list",
                "ops",
                "--type",
                "A,B",
                "--type",
                "C",
                "--field",
                "feeder=14",
                "--field",
                "feeder=a=b",
            ][..],
            &["--keyword", "area=Bakakeng", "--keyword", "*=pump", "--match", "all", "--cooldown", "30m"],
            &["--daily-cap", "20", "--at-most-once", "--inactive"],
        ]
        .concat();
    let expected = json!({"name": "N", "feed": "f", "target": {"list": "ops"}, "filter": {
            "event_types": ["A", "B", "C"], "fields": {"feeder": ["14", "a=b"]},
            "keywords": {"area": ["Bakakeng"], "*": ["pump"]}, "match": "all"},
        "cooldown": "30m", "daily_cap": 20, "delivery": "at_most_once", "active": false});
    assert_eq!(made(&whole).unwrap(), expected);
    let failure = made(&["--address", "https://h/"]).unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage, "an address alone leads nowhere");
}

#[test]
fn a_change_names_what_changes() {
    for (args, change) in [
        (&["--inactive"][..], json!({"active": false})),
        (&["--active", "--name", "M"], json!({"active": true, "name": "M"})),
        (&["--no-daily-cap", "--at-least-once"], json!({"daily_cap": null, "delivery": "at_least_once"})),
        (&["--list", "ops"], json!({"target": {"list": "ops", "channel": null, "address": null}})),
        (&["--address", "https://h/"], json!({"target": {"address": "https://h/", "list": null}})),
        (&["--keyword", "area=x"], json!({"filter": {"keywords": {"area": ["x"]}}})),
    ] {
        assert_eq!(changed(args), change, "{args:?}");
    }
}

#[test]
fn a_file_says_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.json");
    std::fs::write(&path, "{\"name\": \"N\"}").unwrap();
    let file = path.to_str().unwrap();
    let args = |more: &[&str]| match command(&[&["update", "ns_a", "--file", file], more].concat()) {
        SubscriptionCommand::Update(args) => update(&args).unwrap(),
        _ => panic!("a change"),
    };
    let (body, how) = args(&["--if-match", "17"]);
    assert_eq!((body.as_str(), how.merge, how.if_match.as_deref()), ("{\"name\": \"N\"}", false, Some("17")));
    assert!(args(&["--merge"]).1.merge);
}

#[test]
fn filters_become_parameters() {
    let SubscriptionCommand::Export(args) =
        command(&["export", "--feed", "f", "--channel", "c", "--owner", "o", "--q", "t", "--inactive"])
    else {
        panic!("an export")
    };
    let pairs: Vec<String> =
        filters(&args).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(pairs.join(" "), "feed=f channel=c owner=o q=t active=false");
}

#[test]
fn a_subscription_in_a_row() {
    let value = json!({"id": "ns_a", "name": "N", "feed": "f", "target": {"channel": "hooks", "address": "https://h/"},
        "owner": null, "active": false, "managed_by": "api", "last_sent_at": "2026-07-07T01:02:03.5Z"});
    let expected = ["ns_a", "N", "f", "hooks:https://h/", "", "off", "api", "2026-07-07T01:02:03Z"];
    assert_eq!(row(&value), expected);
    assert_eq!(row(&value).len(), SUBSCRIPTIONS.columns.len());
    assert_eq!(row(&json!({"target": {"list": "ops"}}))[3], "ops");
}

#[test]
fn what_is_exported_can_be_imported() {
    const FIRST: &str = r#"200 {"items":[{"id":"ns_a","name":"N","feed":"f","target":{"list":"ops"},"options":{"n":1.50},"active":true,"owner":null,"managed_by":"api","version":3,"created_at":"x","updated_at":"x","last_sent_at":null}],"next":"c2"}"#;
    const SECOND: &str = r#"200 {"items":[{"id":"ns_b"}],"next":null}"#;
    for (format, expected) in [
        (
            Format::Table,
            "{\"active\":true,\"feed\":\"f\",\"id\":\"ns_a\",\"name\":\"N\",\"options\":{\"n\":1.50},\"target\":{\"list\":\"ops\"}}\n{\"id\":\"ns_b\"}\n",
        ),
        (Format::Ids, "ns_a\nns_b\n"),
    ] {
        let (url, requests) = server(&[Some(FIRST), Some(SECOND)]);
        let captured = Captured::default();
        let query = vec![("feed", "f".to_owned())];
        assert_eq!(export(&api(url), query, &mut captured.out(format)), Ok(Exit::Fine));
        assert_eq!(captured.text(), expected);
        let requests = requests.join().unwrap();
        assert!(requests[0].starts_with("GET /v1/subscriptions?feed=f&limit=500 "), "{}", requests[0]);
        assert!(
            requests[1].starts_with("GET /v1/subscriptions?feed=f&limit=500&cursor=c2 "),
            "{}",
            requests[1]
        );
    }
}
