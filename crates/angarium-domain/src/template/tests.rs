//! Templates: what is read, what is refused, and that what is written is read again as the same.

use proptest::prelude::*;

use super::*;

fn refused(json: &str) -> Vec<String> {
    Template::parse(json).unwrap_err().iter().map(Complaint::to_string).collect()
}

/// A template with `more` members, each with a comma before it.
fn with(more: &str) -> String {
    format!(
        "{{\"event_type\":\"NewOutage\",\"channel\":\"hooks\",\"locale\":\"en-US\",\"body\":\"b\"{more}}}"
    )
}

/// FP-12: texts, identity, tags and priority of a message, for one event type.
#[test]
fn a_template_is_read_and_written() {
    let json = r#"{"event_type":"NewOutage","channel":"hooks","locale":"en-US",
        "subject":"Outage on {{ fields.feeder }}","body":"{{ fields.area }}\nsince {{ event.time }}","html":"<p>é</p>",
        "sequence_id":"power-outage-{{ event.key }}","tags":["warning","{{ event.type }}"],"priority":4,
        "sample":{"key":"42", "fields":{"n":1.50}}}"#;
    let template = Template::parse(json).unwrap();
    assert_eq!(template.name(), "NewOutage/hooks/en-US");
    assert_eq!(template.subject, "Outage on {{ fields.feeder }}");
    assert_eq!(template.body, "{{ fields.area }}\nsince {{ event.time }}");
    assert_eq!(template.html.as_deref(), Some("<p>é</p>"));
    assert_eq!(template.sequence_id.as_deref(), Some("power-outage-{{ event.key }}"));
    assert_eq!(template.tags, ["warning", "{{ event.type }}"]);
    assert_eq!(template.priority, Some(4));
    assert_eq!(template.sample.as_deref(), Some(r#"{"key":"42", "fields":{"n":1.50}}"#), "word for word");
    assert_eq!(template.to_json(), json.replace("\n        ", ""));
}

#[test]
fn what_is_not_said_is_left_out() {
    let template = Template::parse(&with("")).unwrap();
    assert_eq!((template.subject.as_str(), template.body.as_str()), ("", "b"));
    assert!(template.html.is_none() && template.sequence_id.is_none() && template.sample.is_none());
    assert!(template.tags.is_empty() && template.priority.is_none());
    assert_eq!(template.to_json(), with(""));
}

#[test]
fn a_template_that_makes_no_sense_is_refused() {
    let eleven = ["\"t\""; 11].join(",");
    for (json, expected) in [
        (
            "{}".to_owned(),
            vec!["event_type is required", "channel is required", "locale is required", "body is required"],
        ),
        (with(r#","priority":0"#), vec!["priority must be a whole number from 1 to 5"]),
        (with(r#","priority":6"#), vec!["priority must be a whole number from 1 to 5"]),
        (with(r#","priority":"5""#), vec!["priority must be a whole number from 1 to 5"]),
        (with(r#","tags":["a",""]"#), vec!["tags[1] must not be empty"]),
        (with(&format!(",\"tags\":[{eleven}]")), vec!["tags has 11 entries, at most 10 are allowed"]),
        (with(r#","sequence_id":"""#), vec!["sequence_id must not be empty"]),
        (with(r#","sample":"x","html":1"#), vec!["html must be a string", "sample must be an object"]),
        (with(r#","subjct":"x""#), vec!["subjct is not known here; did you mean subject?"]),
    ] {
        assert_eq!(refused(&json), expected, "{json}");
    }
    assert!(Template::parse(&with(r#","priority":1"#)).is_ok());
}

#[test]
fn the_texts_are_bounded_together() {
    let json = |n: usize| {
        let x = "x".repeat(n);
        with(&format!(",\"subject\":\"é\",\"html\":\"{x}\",\"sequence_id\":\"s\",\"tags\":[\"t\"]"))
    };
    assert!(Template::parse(&json(TEXT_BYTES - 5)).is_ok());
    let expected = ["body and the other texts have 65537 bytes together, at most 65536 are allowed"];
    assert_eq!(refused(&json(TEXT_BYTES - 4)), expected);
}

prop_compose! {
    fn templates()(
        subject in "\\PC{0,20}", body in "[^\\x00]{0,40}", html in proptest::option::of("\\PC{0,20}"),
        sequence_id in proptest::option::of("\\PC{1,9}"), tags in proptest::collection::vec("\\PC{1,9}", 0..=MOST_TAGS),
        priority in proptest::option::of(1..=5_u8), sample in proptest::option::of("[a-z]{1,9}"),
    ) -> Template {
        Template {
            event_type: EventType::parse("order.approved").unwrap(),
            channel: ChannelName::parse("mail").unwrap(),
            locale: Locale::parse("nl-NL").unwrap(),
            subject, body, html, sequence_id, tags, priority,
            sample: sample.map(|word| format!("{{ \"{word}\": 1e2 }}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_the_same(template in templates()) {
        prop_assert_eq!(Template::parse(&template.to_json()), Ok(template));
    }
}
