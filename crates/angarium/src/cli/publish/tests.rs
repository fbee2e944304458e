use clap::Parser;
use serde_json::json;

use super::*;
use crate::cli::args::{ClientCommand, Command, EventCommand, Invocation};
use crate::cli::client::tests::{api, server};
use crate::cli::output::{Output, tests::Captured};

fn args_of(args: &[&str]) -> EventArgs {
    let args = ["angarium", "event", "try"].iter().chain(args);
    let Command::Client(ClientCommand::Event(EventCommand::Try(args))) =
        Invocation::try_parse_from(args).unwrap().command
    else {
        panic!("an event")
    };
    *args
}

fn sent(args: &[&str], id: Option<&str>) -> String {
    request(&args_of(args), id).unwrap()
}

#[test]
fn the_request_says_what_was_said_and_no_more() {
    let needed = ["--feed", "f", "--type", "T", "--key", "k"];
    let plain: Value = serde_json::from_str(&sent(&needed, None)).unwrap();
    assert_eq!(plain, json!({"feed": "f", "type": "T", "key": "k"}));

    let whole = sent(
        &[
            &needed[..],
            &["--field", "area=a=b", "--field", "cause=", "--data", "{\"n\":1.50}", "--source", "erp"],
            &["--time", "2026-07-07T01:02:03Z", "--locale", "nl-NL", "--entity", "PurchaseOrder/po/1"],
            &["--ttl", "6h", "--supersede-key", "s", "--test"],
        ]
        .concat(),
        Some("e1"),
    );
    assert!(whole.contains("\"data\":{\"n\":1.50}"), "{whole}");
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let expected = json!({"id": "e1", "source": "erp", "feed": "f", "type": "T", "key": "k",
        "time": "2026-07-07T01:02:03Z", "locale": "nl-NL", "fields": {"area": "a=b", "cause": ""}, "data": {"n": 1.5},
        "entity": {"type": "PurchaseOrder", "id": "po/1"}, "ttl": "6h", "supersede_key": "s", "test": true});
    assert_eq!(whole, expected);
}

#[test]
fn a_value_is_never_lost() {
    let needed = ["--feed", "f", "--type", "T", "--key", "k"];
    for (more, told) in [
        (["--field", "area=a", "--field", "area=b"], "--field area stands twice"),
        (["--data", "{", "--field", "a=b"], "--data EOF"),
        (["--data", "@/nowhere/at/all", "--field", "a=b"], "/nowhere/at/all: "),
    ] {
        let failure = request(&args_of(&[&needed[..], &more].concat()), None).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.shown(Format::Table).contains(told), "{failure:?}");
    }
}

#[test]
fn data_can_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.json");
    std::fs::write(&path, "{\"n\": 9007199254740993}\n").unwrap();
    assert_eq!(data(&format!("@{}", path.display())).unwrap().get(), "{\"n\": 9007199254740993}");
}

#[test]
fn a_batch_has_a_bound_in_events_and_in_bytes() {
    let events = |count: usize, bytes: usize| {
        let event = format!("\"{}\"", "x".repeat(bytes));
        vec![raw(event).unwrap(); count]
    };
    let sizes = |events: &[Box<RawValue>]| batches(events).map(<[_]>::len).collect::<Vec<_>>();
    assert_eq!(sizes(&events(2001, 1)), [1000, 1000, 1]);
    assert_eq!(sizes(&events(5, BATCH_BYTES / 2 - 2)), [2, 2, 1]);
    assert_eq!(sizes(&events(2, BATCH_BYTES * 2)), [1, 1], "one alone goes all the same");
    assert!(sizes(&[]).is_empty());
}

const RESULTS: &str = r#"200 {"results":[{"id":"e1","duplicate":false,"planning":false,"notifications":[{"id":"n1"}],"skipped":[]},{"problem":{"title":"T","code":"unknown_feed","status":422,"detail":"there is no feed g"}},{"id":"e2","duplicate":true,"planning":false,"notifications":[],"skipped":[]}]}"#;

/// What is told of three events in one request, one of which is refused.
fn many(output: Output) -> (Exit, String, String) {
    let (url, requests) = server(&[Some(RESULTS)]);
    let captured = Captured::default();
    let mut out = captured.out_as(output);
    let mut results = Results::new(
        &mut out,
        |answer, out| out.line(&outcome(answer)),
        |answer| vec![text(answer, &["id"])],
    );
    let events = vec![raw("{\"key\":1.50}".into()).unwrap(); 3];
    publish_many(&api(url), &events, &mut results).unwrap();
    let exit = results.finish("published");
    (exit, captured.text(), requests.join().unwrap().remove(0))
}

#[test]
fn one_that_is_refused_harms_no_other() {
    let (exit, shown, request) = many(Output::Table);
    assert_eq!(exit, Exit::Failed);
    assert_eq!(shown, "e1: 1 notification\ne2: nobody is told (handed in before)\n");
    assert!(request.starts_with("POST /v1/events/batch HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("idempotency-key: "), "{request}");
    assert!(request.ends_with("{\"events\":[{\"key\":1.50},{\"key\":1.50},{\"key\":1.50}]}"), "{request}");
    assert_eq!(many(Output::Ids).1, "e1\ne2\n");
    let json: Value = serde_json::from_str(&many(Output::Json).1).unwrap();
    assert_eq!(json["results"][0]["id"], "e1");
    assert_eq!(json["results"][1]["problem"]["code"], "unknown_feed");
    assert_eq!(json["results"][2]["duplicate"], true);
    let lines = many(Output::Ndjson).1;
    assert_eq!(
        lines.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(),
        3,
        "{lines}"
    );
}

#[test]
fn how_far_it_came_is_told_where_it_broke_off() {
    let (url, requests) =
        server(&[Some(RESULTS), Some("503 {\"code\":\"overloaded\",\"detail\":\"full.\"}")]);
    let captured = Captured::default();
    let mut out = captured.out(Format::Ids);
    let mut results = Results::new(&mut out, |_, _| {}, |answer| vec![text(answer, &["id"])]);
    let events = vec![raw("{}".into()).unwrap(); BATCH_EVENTS + 1];
    let failure = publish_many(&api(url), &events, &mut results).unwrap_err();
    assert_eq!(failure.shown(Format::Table), "angarium: full; 2 events before it are stored\n");
    assert_eq!(captured.text(), "e1\ne2\n");
    requests.join().unwrap();
}

#[test]
fn a_trial_shows_who_would_be_told_and_in_which_words() {
    let answer = json!({"matched": 2, "would": {"notifications": [{"id": "n", "route": "subscription", "channel": "hooks"}],
            "skipped": [{"route": "subscription", "ref": "ns_b", "reason": "cooldown"}], "planning": false},
        "texts": [{"subscription": "ns_a", "channel": "hooks", "target": "https://h/", "title": "T", "body": "B"}]});
    let captured = Captured::default();
    show_trial(&answer, &mut captured.out(Format::Table));
    let shown = captured.text();
    assert!(shown.starts_with("1 notification would go out; matching subscriptions: 2\n"), "{shown}");
    assert!(shown.contains("ns_b") && shown.contains("cooldown"), "{shown}");
    assert!(shown.ends_with("\n\u{2192} ns_a on hooks to https://h/\n  T\n  B\n"), "{shown}");
    assert_eq!(told(&answer), ["ns_a"]);
}
