use std::sync::mpsc::SyncSender;

use super::*;
use crate::cli::client::tests::{api, server};
use crate::cli::output::tests::Captured;

fn chunk(numbers: &[u64]) -> Chunk {
    let lines = b"{}\n".repeat(numbers.len());
    Chunk { lines, numbers: numbers.to_vec(), last: *numbers.last().unwrap(), ..Chunk::default() }
}

/// What becomes of what is sent, with a server that answers so.
fn imported(
    format: Format,
    answers: &'static [Option<&str>],
    feed: impl FnOnce(&SyncSender<Next>, &Interrupt),
) -> (Result<(), Failure>, String, String, Vec<String>) {
    let (url, requests) = server(answers);
    let captured = Captured::default();
    let mut out = captured.out(format);
    let (send, next) = sync_channel(10);
    let interrupt = Interrupt::default();
    feed(&send, &interrupt);
    drop(send);
    let mut tally = Tally::new(&mut out);
    let mut progress = Progress::start(&Captured::default().out(Format::Json), None);
    let ended = import(&api(url), &next, &interrupt, &mut tally, &mut progress);
    let advice = tally.advice(Path::new("s.ndjson"));
    tally.finish(ended.is_ok());
    (ended, captured.text(), advice, requests.join().unwrap())
}

const MIXED: &str = "200 {\"line\":1,\"id\":\"ns_a\"}\n{\"line\":2,\"problem\":{\"title\":\"T\",\"detail\":\"name is required\",\"errors\":[{\"field\":\"name\",\"message\":\"is required\"},{\"field\":\"feed\",\"message\":\"is required\"}]}}\n{\"progress\":{\"stored\":1,\"refused\":1}}\n{\"done\":true,\"stored\":1,\"refused\":1}\n";
const ONE: &str = "200 {\"line\":1,\"id\":\"ns_b\"}\n{\"done\":true,\"stored\":1,\"refused\":0}\n";

fn two_chunks(send: &SyncSender<Next>, _: &Interrupt) {
    send.send(Next::Lines(Chunk { too_long: vec![4], ..chunk(&[3, 5]) })).unwrap();
    send.send(Next::Lines(chunk(&[9]))).unwrap();
    send.send(Next::End).unwrap();
}

#[test]
fn each_line_is_stored_or_refused_under_its_own_number() {
    let answers = &[Some(MIXED), Some(ONE)];
    let (ended, shown, _, requests) = imported(Format::Table, answers, two_chunks);
    assert_eq!((ended, shown.as_str()), (Ok(()), "2 stored, 2 refused\n"));
    assert!(requests[0].starts_with("POST /v1/subscriptions/import HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("content-type: application/x-ndjson\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\n{}\n{}\n") && requests[1].ends_with("\r\n\r\n{}\n"));
    assert_eq!(imported(Format::Ids, answers, two_chunks).1, "ns_a\nns_b\n");
    let json: Value = serde_json::from_str(&imported(Format::Json, answers, two_chunks).1).unwrap();
    assert_eq!((&json["stored"], &json["refused"]), (&json!(2), &json!(2)));
    assert_eq!(json["problems"][0]["line"], 4);
    assert_eq!(json["problems"][0]["problem"]["code"], "line_too_long");
    assert_eq!(json["problems"][1]["line"], 5);
    assert_eq!(json["problems"][1]["problem"]["errors"][0]["field"], "name");
}

#[test]
fn only_the_first_reasons_are_kept() {
    let captured = Captured::default();
    let mut out = captured.out(Format::Table);
    let mut tally = Tally::new(&mut out);
    for line in 1..=100 {
        tally.refused(line, &too_long());
    }
    assert_eq!((tally.first.len(), tally.refused, tally.exit()), (SHOWN, 100, Exit::Failed));
    assert_eq!(tally.first[0], (1, "has more than 1 MiB".to_owned()));
}

#[test]
fn a_reason_names_every_member() {
    let problem = json!({"title": "T", "detail": "D", "errors": [{"field": "a", "message": "is odd"},
        {"field": "b", "message": "is needed"}]});
    assert_eq!(reason(&problem), "a is odd; b is needed");
    assert_eq!(reason(&json!({"title": "T", "detail": "D"})), "D");
    assert_eq!(reason(&json!({"title": "T"})), "T");
}

/// However it ends, it is told how many are stored and where to go on.
#[test]
fn an_end_too_early_says_how_far_it_came() {
    let cut = &[Some("200 {\"line\":1,\"id\":\"ns_a\"}\n{\"line\":2,\"id\":\"ns")];
    let (ended, shown, advice, _) = imported(Format::Table, cut, two_chunks);
    assert_eq!((ended.unwrap_err().exit(), shown.as_str()), (Exit::Failed, ""));
    assert_eq!(advice, "1 stored, 1 refused; to go on: tail -n +4 s.ndjson | angarium subscription import -");

    let stalled = &[Some(
        "200 {\"line\":1,\"id\":\"ns_a\"}\n{\"problem\":{\"code\":\"body_timeout\",\"detail\":\"D\"}}\n",
    )];
    let (ended, ..) = imported(Format::Table, stalled, two_chunks);
    assert!(ended.unwrap_err().shown(Format::Table).contains('D'));

    let refused = &[Some(MIXED), Some("403 {\"code\":\"scope_missing\",\"detail\":\"no.\"}")];
    let (ended, _, advice, _) = imported(Format::Json, refused, two_chunks);
    assert_eq!(ended.unwrap_err().exit(), Exit::Failed);
    assert!(advice.starts_with("1 stored, 2 refused; to go on: tail -n +6 "), "{advice}");

    let gone = &[None];
    let (ended, _, advice, requests) = imported(Format::Table, gone, two_chunks);
    assert_eq!((ended.unwrap_err().exit(), requests.len()), (Exit::Unreachable, 1), "nothing is sent twice");
    assert!(advice.contains("tail -n +1 "), "{advice}");
}

#[test]
fn an_interrupt_ends_it_between_two_requests() {
    let asked_while_reading = |send: &SyncSender<Next>, _: &Interrupt| send.send(Next::Interrupted).unwrap();
    let (ended, ..) = imported(Format::Table, &[], asked_while_reading);
    assert!(ended.unwrap_err().shown(Format::Table).contains("interrupted"));
    let asked_while_sending = |send: &SyncSender<Next>, interrupt: &Interrupt| {
        interrupt.ask();
        two_chunks(send, interrupt);
    };
    let (ended, _, advice, requests) = imported(Format::Table, &[], asked_while_sending);
    assert!(ended.is_err() && requests.is_empty());
    assert!(advice.starts_with("0 stored"), "{advice}");
}

#[test]
fn what_cannot_be_read_ends_it() {
    let feed = |send: &SyncSender<Next>, _: &Interrupt| {
        send.send(Next::Lines(chunk(&[1]))).unwrap();
        send.send(Next::Fault("broken".into())).unwrap();
    };
    let (ended, _, advice, _) = imported(Format::Table, &[Some(ONE)], feed);
    assert!(ended.unwrap_err().shown(Format::Table).contains("broken"));
    assert!(advice.starts_with("1 stored"), "{advice}");
}

#[test]
fn a_name_is_one_word_for_a_shell() {
    assert_eq!(quoted("/tmp/s-1.ndjson"), "/tmp/s-1.ndjson");
    assert_eq!(quoted("a b"), "'a b'");
    assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
}
