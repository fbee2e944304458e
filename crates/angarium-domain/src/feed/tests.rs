//! Feeds: what is read, what is refused, and that what is written is read again as the same.

use proptest::prelude::*;

use super::*;

fn parse(json: &str) -> Result<Feed, Vec<Complaint>> {
    Feed::parse(FeedId::parse("beneco.power-outages").unwrap(), json)
}

fn refused(json: &str) -> Vec<String> {
    parse(json).unwrap_err().iter().map(Complaint::to_string).collect()
}

const FULL: &str = r#"{"name":"BENECO power outages","event_types":["NewOutage","Restoration"],
    "fields":{"area":{"match":"substring","alias":"locationKeywords"},"cause":{"match":"word"},"feeder":{}},
    "user_subscriptions":true,"sources":["https://beneco.example/"],
    "supersedes":{"Restoration":["NewOutage"]},"ttl":"2h","enabled":false}"#;

/// FP-01: a feed says what its events are and how they can be filtered.
#[test]
fn a_feed_is_read_and_written() {
    let feed = parse(FULL).unwrap();
    assert_eq!(feed.name, "BENECO power outages");
    assert_eq!(feed.event_types.len(), 2);
    let field = |name: &str| feed.field(&FieldName::parse(name).unwrap()).unwrap();
    assert_eq!(field("locationKeywords").0.as_str(), "area");
    assert_eq!(field("area").1.matching, FieldMatch::Substring);
    assert_eq!(field("cause").1.matching, FieldMatch::Word);
    assert_eq!(field("feeder").1, &Field { matching: FieldMatch::Exact, alias: None });
    assert!(feed.user_subscriptions && !feed.enabled);
    assert_eq!(feed.ttl, Some(Duration::from_secs(7200)));
    let outage = EventType::parse("NewOutage").unwrap();
    assert_eq!(feed.superseding(&outage), [&EventType::parse("Restoration").unwrap()]);
    assert_eq!(feed.to_json(), FULL.replace("\n    ", ""));
}

#[test]
fn what_is_not_said_is_at_its_default_and_left_out() {
    let json = r#"{"event_types":["NewOutage"]}"#;
    let feed = parse(json).unwrap();
    assert_eq!(feed.name, "beneco.power-outages");
    assert!(feed.enabled && !feed.user_subscriptions && feed.ttl.is_none());
    assert!(feed.fields.is_empty() && feed.sources.is_empty() && feed.supersedes.is_empty());
    assert_eq!(feed.to_json(), json);
}

#[test]
fn a_feed_that_makes_no_sense_is_refused() {
    for (json, expected) in [
        ("[]", vec!["must be an object"]),
        ("{}", vec!["event_types is required"]),
        (r#"{"event_types":null}"#, vec!["event_types is required"]),
        (r#"{"event_types":[]}"#, vec!["event_types must not be empty"]),
        (r#"{"event_types":"A"}"#, vec!["event_types must be an array"]),
        (
            r#"{"event_types":["A","B c","A"]}"#,
            vec!["event_types[1] must not contain white space", "event_types names A twice"],
        ),
        (r#"{"event_types":["A"],"name":""}"#, vec!["name must not be empty"]),
        (r#"{"event_types":["A"],"fields":[]}"#, vec!["fields must be an object"]),
        (
            r#"{"event_types":["A"],"fields":{"a b":{},"c":{"match":"regex","ailas":"d"},"e":1}}"#,
            vec![
                "fields.a b may contain letters, digits, dot, hyphen and underscore only",
                "fields.c.match is none of exact, word, substring",
                "fields.c.ailas is not known here; did you mean alias?",
                "fields.e must be an object",
            ],
        ),
        (
            r#"{"event_types":["A"],"fields":{"a":{"alias":"b"},"b":{"alias":"x"},"c":{"alias":"x"},"d":{"alias":"d"}}}"#,
            vec![
                "fields.a.alias is the name of a field: b",
                "fields.c.alias is the alias of b already: x",
                "fields.d.alias is the name of a field: d",
            ],
        ),
        (r#"{"event_types":["A"],"sources":[""]}"#, vec!["sources[0] must not be empty"]),
        (
            r#"{"event_types":["A","B"],"supersedes":{"A":["A","C"],"D":["B"],"B":[]}}"#,
            vec![
                "supersedes.B must not be empty",
                "supersedes.A names C, which is none of the event types",
                "supersedes.A supersedes itself",
                "supersedes.D names D, which is none of the event types",
            ],
        ),
        (r#"{"event_types":["A","B"],"supersedes":{"A":["B","B"]}}"#, vec!["supersedes.A names B twice"]),
        (r#"{"event_types":["A"],"ttl":"0s"}"#, vec!["ttl must be longer than zero"]),
        (
            r#"{"event_types":["A"],"user_subscription":true}"#,
            vec!["user_subscription is not known here; did you mean user_subscriptions?"],
        ),
    ] {
        assert_eq!(refused(json), expected, "{json}");
    }
}

/// Types and fields have bounds.
#[test]
fn types_and_fields_are_bounded() {
    let types = |n: usize| (0..n).map(|i| format!("\"T{i}\"")).collect::<Vec<_>>().join(",");
    assert!(parse(&format!("{{\"event_types\":[{}]}}", types(200))).is_ok());
    let found = refused(&format!("{{\"event_types\":[{}]}}", types(201)));
    assert_eq!(found, ["event_types has 201 entries, at most 200 are allowed"]);
    let fields = |n: usize| {
        let fields: Vec<_> = (0..n).map(|i| format!("\"f{i}\":{{}}")).collect();
        format!("{{\"event_types\":[\"A\"],\"fields\":{{{}}}}}", fields.join(","))
    };
    assert!(parse(&fields(64)).is_ok());
    assert_eq!(refused(&fields(65)), ["fields has 65 entries, at most 64 are allowed"]);
}

prop_compose! {
    fn feeds()(
        name in "[a-zé]{1,10}", count in 1..6_usize, fields in 0..5_usize, flags in any::<[bool; 3]>(),
        sources in proptest::collection::vec("[a-z:/]{1,9}", 0..3), ttl in proptest::option::of(1..10_000_000_u64),
        matching in 0..3_usize,
    ) -> Feed {
        let event_types: Vec<_> = (0..count).map(|i| EventType::parse(&format!("T{i}")).unwrap()).collect();
        let own = |i: usize| FieldName::parse(&format!("f{i}")).unwrap();
        let field = |i: usize| Field {
            matching: MATCHINGS[(i + matching) % 3].1,
            alias: flags[0].then(|| FieldName::parse(&format!("alias{i}")).unwrap()),
        };
        let supersedes = match event_types.as_slice() {
            [first, others @ ..] if !others.is_empty() => BTreeMap::from([(first.clone(), others.to_vec())]),
            _ => BTreeMap::new(),
        };
        Feed {
            id: FeedId::parse("beneco.power-outages").unwrap(),
            name, event_types, sources, supersedes,
            fields: (0..fields).map(|i| (own(i), field(i))).collect(),
            user_subscriptions: flags[1],
            ttl: ttl.map(Duration::from_millis),
            enabled: flags[2],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_the_same(feed in feeds()) {
        prop_assert_eq!(parse(&feed.to_json()), Ok(feed));
    }
}
