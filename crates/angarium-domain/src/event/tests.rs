//! Events: what is read, what is refused, and which of them are the same one sent twice.

use super::*;

fn defaults() -> Defaults<'static> {
    Defaults {
        source: "plant-7",
        external_id: "01976e5c".to_owned(),
        at: "2026-07-07T01:02:03Z".parse().unwrap(),
    }
}

fn parse(json: &str) -> Event {
    Event::parse(json, defaults()).unwrap().event
}

fn refused(json: &str) -> Vec<String> {
    Event::parse(json, defaults()).unwrap_err().iter().map(Complaint::to_string).collect()
}

/// A complete event with `more` members, each with a comma before it.
fn with(more: &str) -> String {
    format!("{{\"feed\":\"outages\",\"type\":\"NewOutage\",\"key\":\"42\"{more}}}")
}

/// FP-02: an event is a signal of a feed, a type and a key, with flat fields.
#[test]
fn an_event_is_read() {
    let event = parse(
        r#"{"id": "17", "source": "erp", "feed": "beneco.power-outages", "type": "NewOutage", "key": "42",
            "time": "2026-07-06T00:00:00+02:00", "locale": "en-US",
            "fields": {"feeder": "Feeder 14", "area": "Bakakeng Central", "none": null},
            "data": {"n": 1.50,  "big": 9007199254740993}, "entity": {"type": "PurchaseOrder", "id": "po-1"},
            "recipients": ["u1", "u2", "u1"], "ttl": "30m", "supersede_key": "outage-42", "test": true}"#,
    );
    assert_eq!((event.source.as_str(), event.external_id.as_str()), ("erp", "17"));
    assert_eq!(event.feed.as_str(), "beneco.power-outages");
    assert_eq!((event.kind.as_str(), event.key.as_str()), ("NewOutage", "42"));
    assert_eq!(event.at.to_string(), "2026-07-05T22:00:00Z");
    assert_eq!(event.locale.unwrap().as_str(), "en-US");
    let fields: Vec<_> = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(fields, [("area", "Bakakeng Central"), ("feeder", "Feeder 14")]);
    assert_eq!(event.data.unwrap(), r#"{"n": 1.50,  "big": 9007199254740993}"#, "word for word");
    let entity = event.entity.unwrap();
    assert_eq!((entity.kind.as_str(), entity.id.as_str()), ("PurchaseOrder", "po-1"));
    assert_eq!(event.recipients.iter().map(SourceName::as_str).collect::<Vec<_>>(), ["u1", "u2"]);
    assert_eq!(event.expires_at.unwrap().to_string(), "2026-07-05T22:30:00Z");
    assert_eq!(event.supersede_key.unwrap().as_str(), "outage-42");
    assert!(event.test);
}

#[test]
fn what_an_event_does_not_say_is_said_for_it() {
    let event = parse(&with(""));
    assert_eq!((event.source.as_str(), event.external_id.as_str()), ("plant-7", "01976e5c"));
    assert_eq!(event.at.to_string(), "2026-07-07T01:02:03Z");
    assert!(event.locale.is_none() && event.fields.is_empty() && event.data.is_none() && !event.test);
    assert!(event.entity.is_none() && event.recipients.is_empty() && event.expires_at.is_none());
    assert!(event.supersede_key.is_none());
    assert_eq!(parse(&with(r#","ttl":"1h""#)).expires_at.unwrap().to_string(), "2026-07-07T02:02:03Z");
    let told = parse(&with(r#","expires_at":"2026-07-08T00:00:00Z""#));
    assert_eq!(told.expires_at.unwrap().to_string(), "2026-07-08T00:00:00Z");
}

#[test]
fn a_field_is_one_plain_value() {
    let event = parse(&with(r#","fields":{"a":5.0,"b":true,"c":"","d":9007199254740993}"#));
    let values: Vec<_> = event.fields.values().map(String::as_str).collect();
    assert_eq!(values, ["5", "true", "", "9007199254740993"]);
    let found = refused(&with(r#","fields":{"a":[1],"b":{"c":1},"d e":"x"}"#));
    let expected = [
        "fields.a must be a string, a number, true or false",
        "fields.b must be a string, a number, true or false",
        "fields.d e may contain letters, digits, dot, hyphen and underscore only",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_event_that_makes_no_sense_is_refused() {
    for (json, expected) in [
        ("{}".to_owned(), vec!["feed is required", "type is required", "key is required"]),
        (with(r#","fields":[]"#), vec!["fields must be an object"]),
        (
            with(r#","source":"","id":"a\nb""#),
            vec!["source must not be empty", "id contains the control character U+000A"],
        ),
        (
            with(r#","entity":{"type":"PurchaseOrder","idd":"x"}"#),
            vec!["entity.id is required", "entity.idd is not known here; did you mean id?"],
        ),
        (with(r#","entity":"po-1""#), vec!["entity must be an object"]),
        (with(r#","recipients":["u1",""]"#), vec!["recipients[1] must not be empty"]),
        (
            with(r#","ttl":"1h","expires_at":"2026-07-08T00:00:00Z""#),
            vec!["ttl must not stand beside expires_at"],
        ),
        (with(r#","ttl":"0m""#), vec!["ttl must be longer than zero"]),
        (
            with(r#","test":1,"locale":"en US""#),
            vec![
                "locale may contain letters, digits, dot, hyphen and underscore only",
                "test must be true or false",
            ],
        ),
        (with(r#","recipient":["u1"]"#), vec!["recipient is not known here; did you mean recipients?"]),
    ] {
        assert_eq!(refused(&json), expected, "{json}");
    }
}

/// A default that cannot be one is a complaint, not a panic.
#[test]
fn a_default_is_judged_as_well() {
    let defaults = Defaults { source: "", ..defaults() };
    let found = Event::parse(&with(""), defaults).unwrap_err();
    assert_eq!(found, [Complaint::new("source", "must not be empty")]);
}

/// C013: times outside the years 1970 to 9999 are refused, and a time to live does not lead beyond them.
#[test]
fn c013_times_out_of_range_are_refused() {
    for (time, message) in [
        ("1969-12-31T23:59:59Z", "lies outside the years 1970 to 9999"),
        ("10000-01-01T00:00:00Z", "is not an RFC 3339 time such as 2026-07-07T01:02:03Z"),
        ("-0001-01-01T00:00:00Z", "is not an RFC 3339 time such as 2026-07-07T01:02:03Z"),
        ("2026-07-07T01:02:03", "has no offset from UTC; write Z or +02:00 after the seconds"),
    ] {
        for member in ["time", "expires_at"] {
            let found = refused(&with(&format!(",\"{member}\":\"{time}\"")));
            assert_eq!(found, [format!("{member} {message}")]);
        }
    }
    let last = parse(&with(r#","time":"9999-12-31T23:59:59.999999Z","ttl":"36500d""#));
    assert_eq!(last.expires_at, Some(Timestamp::LAST));
}

/// Fields and recipients have bounds.
#[test]
fn an_event_is_bounded() {
    let fields = |n: usize| {
        let fields: Vec<_> = (0..n).map(|i| format!("\"f{i}\":\"\"")).collect();
        with(&format!(",\"fields\":{{{}}}", fields.join(",")))
    };
    assert_eq!(parse(&fields(64)).fields.len(), 64);
    assert_eq!(refused(&fields(65)), ["fields has 65 entries, at most 64 are allowed"]);
    let field = |n: usize| with(&format!(",\"fields\":{{\"a\":\"{}\"}}", "é".repeat(n)));
    assert_eq!(parse(&field(2048)).fields.len(), 1);
    assert_eq!(refused(&field(2049)), ["fields.a has 4098 bytes, at most 4096 are allowed"]);
    let people = |n: usize| {
        let people: Vec<_> = (0..n).map(|i| format!("\"u{i}\"")).collect();
        with(&format!(",\"recipients\":[{}]", people.join(",")))
    };
    assert_eq!(parse(&people(1000)).recipients.len(), 1000);
    assert_eq!(refused(&people(1001)), ["recipients has 1001 entries, at most 1000 are allowed"]);
}

/// A resend says the same in other spelling, from elsewhere, later: it is the same event.
#[test]
fn a_resend_is_the_same_event() {
    let hash = |json: &str| Event::parse(json, defaults()).unwrap().hash;
    let first =
        r#","fields":{"b":"x","a":5},"data":{"b":[1,2.50],"a":"é"},"recipients":["u1","u2"],"ttl":"60m""#;
    let again = r#","ttl":"1h","data":{ "a":"\u00e9", "b":[1,2.50] },"id":"2","source":"elsewhere","test":false,
                   "recipients":["u2","u1","u2"],"fields":{"a":5.0,"b":"x"},"locale":null"#;
    let json = with(first);
    let later = Defaults { at: Timestamp::LAST, ..defaults() };
    assert_eq!(hash(&json), Event::parse(&with(again), later).unwrap().hash);
}

/// Whatever else a producer says makes it another event.
#[test]
fn another_word_is_another_event() {
    let said = [
        "",
        r#","time":"2026-07-07T01:02:03Z""#,
        r#","fields":{"a":"x"}"#,
        r#","fields":{"a":""}"#,
        r#","fields":{"ax":""}"#,
        r#","data":{}"#,
        r#","data":{"a":1}"#,
        r#","data":{"a":1.0}"#,
        r#","entity":{"type":"a","id":"b"}"#,
        r#","entity":{"type":"b","id":"a"}"#,
        r#","recipients":["a"]"#,
        r#","recipients":["a","b"]"#,
        r#","locale":"a""#,
        r#","supersede_key":"a""#,
        r#","ttl":"1h""#,
        r#","expires_at":"2026-07-07T02:02:03Z""#,
        r#","test":true"#,
    ];
    let mut events: Vec<String> = said.iter().map(|more| with(more)).collect();
    events.extend(["outages", "NewOutage", "42"].map(|word| with("").replace(word, "else")));
    let hashes: Vec<_> =
        events.iter().map(|json| *Event::parse(json, defaults()).unwrap().hash.as_bytes()).collect();
    let distinct: HashSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), events.len());
}
