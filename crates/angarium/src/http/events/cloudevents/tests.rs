use axum::http::HeaderName;

use super::super::super::problem::Code;
use super::*;

const NOW: &str = "2026-07-07T12:00:00Z";

fn feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage"],
        "fields": {"feeder": {"alias": "feeders"}, "area": {}, "cause": {}, "count": {}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    pairs.iter().map(pair).collect()
}

const BARE: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "a-1"), ("ce-source", "/erp"), ("ce-type", "NewOutage")];

fn binary(more: &[(&str, &str)], bytes: &[u8]) -> Result<CloudEvent, Problem> {
    CloudEvent::binary(&headers(&[&BARE, more].concat()), bytes, 64)
}

/// A structured event with more members than it needs.
fn structured(more: &str) -> Result<CloudEvent, Problem> {
    let text =
        format!(r#"{{"specversion": "1.0", "id": "a-1", "source": "/erp", "type": "NewOutage"{more}}}"#);
    CloudEvent::structured(&text, 64)
}

fn on_feed(event: CloudEvent) -> Event {
    event.on(&feed(), NOW.parse().unwrap()).unwrap().event
}

/// The fields of the errors, and the code.
fn refused(answer: Result<CloudEvent, Problem>) -> (Code, Vec<String>) {
    let problem = answer.unwrap_err();
    (problem.code, problem.body(None).errors.into_iter().map(|error| error.field).collect())
}

/// WH-08: one event in each mode is one and the same.
#[test]
fn an_event_is_the_same_in_every_mode() {
    let more = r#", "subject": "42", "time": "2026-07-07T01:02:03Z", "feed": "outages", "locale": "nl-NL",
        "supersedekey": "s", "expirytime": "2026-07-08T00:00:00Z", "cause": "Euro € 😀",
        "datacontenttype": "application/json", "data": {"feeders": "F14", "area": ["no scalar"], "count": 7}"#;
    let first = structured(more).unwrap();
    let second = binary(
        &[
            ("ce-subject", "42"),
            ("ce-time", "2026-07-07T01:02:03Z"),
            ("ce-feed", "outages"),
            ("ce-locale", "nl-NL"),
            ("ce-supersedekey", "s"),
            ("ce-expirytime", "2026-07-08T00:00:00Z"),
            ("ce-cause", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("content-type", "application/json; charset=utf-8"),
        ],
        br#" {"count": 7, "feeders": "F14", "area": ["no scalar"]} "#,
    )
    .unwrap();
    assert_eq!(first.hash, second.hash);
    for event in [on_feed(first), on_feed(second)] {
        let names =
            (event.source.as_str(), event.external_id.as_str(), event.kind.as_str(), event.key.as_str());
        assert_eq!(names, ("/erp", "a-1", "NewOutage", "42"));
        assert_eq!(event.at, "2026-07-07T01:02:03Z".parse().unwrap());
        assert_eq!(event.locale.unwrap().as_str(), "nl-NL");
        assert_eq!(event.supersede_key.unwrap().as_str(), "s");
        assert_eq!(event.expires_at, Some("2026-07-08T00:00:00Z".parse().unwrap()));
        let fields: Vec<_> =
            event.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(fields, [("cause", "Euro € 😀"), ("count", "7"), ("feeder", "F14")]);
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    for event in [structured("").unwrap(), binary(&[], b"").unwrap()] {
        assert_eq!((event.feed.as_ref(), event.source()), (None, "/erp"));
        let event = on_feed(event);
        assert_eq!((event.key.as_str(), event.at), ("a-1", NOW.parse().unwrap()));
        assert_eq!((event.data, event.fields.len()), (None, 0));
    }
}

/// What counts when a resend is compared with what came first.
#[test]
fn another_event_has_another_hash() {
    let bare = structured("").unwrap().hash;
    for more in [
        r#", "subject": "42""#,
        r#", "data": 1"#,
        r#", "data": null, "trace": "t""#,
        r#", "time": "2026-07-07T01:02:03Z""#,
    ] {
        assert_ne!(structured(more).unwrap().hash, bare, "{more}");
    }
    let one = structured(r#", "data": {"a": 1, "b": 2}"#).unwrap().hash;
    assert_eq!(one, structured(r#", "data": {"b":2,"a":1}, "datacontenttype": "text/json""#).unwrap().hash);
}

#[test]
fn headers_are_decoded_strictly() {
    let good = [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("plain text", "plain text"),
        ("%25", "%"),
        ("%2525", "%25"),
        ("%e2%82%ac", "€"),
        (r#""quoted \"text\" \\ %20""#, "quoted \"text\" \\  "),
        ("\"", "\""),
    ];
    for (value, text) in good {
        assert_eq!(decode(&HeaderValue::from_str(value).unwrap()).as_deref(), Ok(text), "{value}");
    }
    for bad in ["%", "%2", "%zz", "%E2%82", "%C0%80", "%ED%A0%80", "caf\u{e9}"] {
        assert!(decode(&HeaderValue::from_bytes(bad.as_bytes()).unwrap()).is_err(), "{bad}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let all = CloudEvent::structured("{}", 64);
    assert_eq!(
        refused(all),
        (Code::InvalidRequest, ["specversion", "id", "source", "type"].map(String::from).into())
    );
    let table = [
        (r#", "subject": """#, "subject"),
        (r#", "time": "yesterday""#, "time"),
        (r#", "feed": "no feed""#, "feed"),
        (r#", "Upper": "x""#, "Upper"),
        (r#", "under_score": "x""#, "under_score"),
        (r#", "extension": {"a": 1}"#, "extension"),
        (r#", "extension": 1.5"#, "extension"),
        (r#", "extension": "a\nb""#, "extension"),
        (r#", "data": 1, "data_base64": "MQ==""#, "data_base64"),
        (r#", "data_base64": "?""#, "data_base64"),
        (r#", "data_base64": "ew==""#, "data_base64"),
    ];
    for (more, field) in table {
        assert_eq!(refused(structured(more)), (Code::InvalidRequest, vec![field.to_owned()]), "{more}");
    }
    let empty = r#"{"specversion": "0.3", "id": "", "source": "", "type": ""}"#;
    assert_eq!(refused(CloudEvent::structured(empty, 64)).1, ["specversion", "id", "source", "type"]);
    assert_eq!(refused(CloudEvent::structured("[]", 64)).0, Code::InvalidRequest);
    let table = [
        (("ce-data", "x"), "data"),
        (("ce-datacontenttype", "application/json"), "datacontenttype"),
        (("ce-my-ext", "x"), "my-ext"),
        (("ce-ext", "%00"), "ext"),
        (("ce-ext", "%ff"), "ext"),
        (("ce-id", "a-1"), "id"),
    ];
    for (header, field) in table {
        assert_eq!(
            refused(binary(&[header], b"")),
            (Code::InvalidRequest, vec![field.to_owned()]),
            "{header:?}"
        );
    }
}

#[test]
fn data_becomes_json_whatever_it_is() {
    let binary = |media: &str, bytes: &[u8]| binary(&[("content-type", media)], bytes).unwrap().data.unwrap();
    assert_eq!(binary("application/json", b" {\"n\": 1.0} "), "{\"n\": 1.0}");
    assert_eq!(binary("application/vnd.x+json", b"[1]"), "[1]");
    assert_eq!(binary("text/plain", "caf\u{e9}".as_bytes()), "\"caf\u{e9}\"");
    assert_eq!(binary("text/plain; charset=latin1", b"caf\xe9"), "\"Y2Fm6Q==\"");
    assert_eq!(binary("text/plain", b"a\0"), "\"YQA=\"");
    assert_eq!(binary("application/octet-stream", b"abc"), "\"YWJj\"");
    let structured = |more: &str| structured(more).unwrap().data.unwrap();
    assert_eq!(structured(r#", "data_base64": "eyJuIjogMX0=""#), "{\"n\": 1}");
    assert_eq!(structured(r#", "datacontenttype": "text/plain", "data_base64": "YWJj""#), "\"YWJj\"");
    assert_eq!(structured(r#", "datacontenttype": "text/xml", "data": "<a/>""#), "\"<a/>\"");
}

#[test]
fn data_that_claims_to_be_json_must_be() {
    let json = [("content-type", "application/json")];
    assert_eq!(binary(&json, b"{").unwrap_err().code, Code::JsonInvalid);
    assert_eq!(binary(&json, br#"{"a": 1, "a": 2}"#).unwrap_err().code, Code::JsonDuplicateKey);
    assert_eq!(binary(&json, "[".repeat(65).as_bytes()).unwrap_err().code, Code::JsonTooDeep);
    let latin = [("content-type", "application/json; charset=latin1")];
    assert_eq!(binary(&latin, b"{}").unwrap_err().code, Code::ContentTypeUnsupported);
}

/// FP-02: fields come from where the event has them; what it says outright goes before its data, a name before its alias.
#[test]
fn fields_are_those_that_the_feed_declares() {
    let event = structured(
        r#", "area": "North", "other": "x", "data": {"area": "South", "feeder": "F1", "feeders": "F2", "count": true}"#,
    );
    let event = on_feed(event.unwrap());
    let fields: Vec<_> = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(fields, [("area", "North"), ("count", "true"), ("feeder", "F1")]);
    let long = format!(r#", "data": {{"area": "{}"}}"#, "x".repeat(FIELD_BYTES + 1));
    let problem = structured(&long).unwrap().on(&feed(), NOW.parse().unwrap()).unwrap_err();
    assert_eq!(problem.body(None).errors[0].field, "area");
}
