use proptest::prelude::*;

use super::*;
use crate::text::FeedId;

fn complaints(json: &str) -> Vec<String> {
    Filter::parse(json)
        .map_or_else(|complaints| complaints.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

fn feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage"], "fields": {"feeder": {"alias": "feeders"}, "area": {"match": "word"}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

fn senseless(json: &str) -> Vec<String> {
    Filter::parse(json).unwrap().check(&feed()).iter().map(ToString::to_string).collect()
}

/// FP-04: an empty filter is everything, and is only ever written as such.
#[test]
fn everything_is_said_by_an_empty_filter_alone() {
    assert!(Filter::parse("{}").unwrap().is_everything());
    assert!(Filter::parse(r#"{"match": "all"}"#).unwrap().is_everything());
    assert!(!Filter::parse(r#"{"event_types": ["a"]}"#).unwrap().is_everything());
}

/// C020: what is empty is refused, never read as everything or nothing.
#[test]
fn c020_empty_filters_and_lists() {
    for (json, field) in [
        (r#"{"event_types": []}"#, "event_types"),
        (r#"{"fields": {}}"#, "fields"),
        (r#"{"fields": {"area": []}}"#, "fields.area"),
        (r#"{"fields": {"area": [" "]}}"#, "fields.area[0]"),
        (r#"{"keywords": {}}"#, "keywords"),
        (r#"{"keywords": {"*": []}}"#, "keywords.*"),
        (r#"{"keywords": {"area": ["\u0301"]}}"#, "keywords.area[0]"),
        (r#"{"filters": []}"#, "filters"),
        (r#"{"filters": [{}]}"#, "filters[0]"),
        (r#"{"filters": [{"any": []}]}"#, "filters[0].any"),
        (r#"{"filters": [{"exact": {}}]}"#, "filters[0].exact"),
        (r#"{"filters": [{"not": {"all": []}}]}"#, "filters[0].not.all"),
        (r#"{"filters": [{"exact": {"type": ""}}]}"#, "filters[0].exact.type"),
    ] {
        let found = complaints(json);
        assert!(found.iter().any(|one| one.starts_with(&format!("{field} "))), "{json}: {found:?}");
    }
}

#[test]
fn what_is_no_filter_is_refused_by_name() {
    for (json, expected) in [
        (r#"{"field": {"area": ["x"]}}"#, "field is not known here"),
        (r#"{"match": "some"}"#, "match is none of any, all"),
        (r#"{"fields": {"area": "x"}}"#, "fields.area must be an array"),
        (r#"{"fields": {"area": [{"a": 1}]}}"#, "fields.area[0] must be a string, a number or a boolean"),
        (r#"{"keywords": {"area": [5]}}"#, "keywords.area[0] must be a string"),
        (r#"{"keywords": {"a b": ["x"]}}"#, "keywords.a b may contain"),
        (r#"{"filters": [{"sql": "x"}]}"#, "filters[0].sql is not known here"),
        (r#"{"filters": [{"exact": {"type": "a"}, "not": {}}]}"#, "filters[0] has 2 entries"),
        (r#"{"filters": [{"prefix": {"type": null}}]}"#, "filters[0].prefix must not be empty"),
    ] {
        let found = complaints(json);
        assert!(found.iter().any(|one| one.starts_with(expected)), "{json}: {found:?}");
    }
    let long = format!(r#"{{"keywords": {{"area": ["{}"]}}}}"#, "x".repeat(101));
    assert_eq!(complaints(&long), ["keywords.area[0] has 101 characters, at most 100 are allowed"]);
}

/// Filters are bounded in depth and in number.
#[test]
fn what_is_too_complex_is_refused() {
    let deep = format!("{}{}{}", r#"{"not":"#.repeat(9), r#"{"exact":{"type":"a"}}"#, "}".repeat(9));
    let found = complaints(&format!(r#"{{"filters": [{deep}]}}"#));
    assert!(found[0].contains("filter_too_complex"), "{found:?}");
    let one = r#"{"exact":{"type":"a"}}"#;
    let wide = format!(r#"{{"any":[{}]}}"#, [one; 100].join(","));
    let found = complaints(&format!(r#"{{"filters": [{}]}}"#, [wide.as_str(); 3].join(",")));
    assert!(found.iter().any(|one| one.contains("filter_too_complex")), "{found:?}");
}

/// A filter that names what its feed lacks, or can never hold, is refused by its clause.
#[test]
fn what_makes_no_sense_on_the_feed_is_refused() {
    for (json, field) in [
        (r#"{"event_types": ["NewOutage", "Newoutage"]}"#, "event_types[1]"),
        (r#"{"fields": {"region": ["x"]}}"#, "fields.region"),
        (r#"{"keywords": {"region": ["x"]}}"#, "keywords.region"),
        (r#"{"keywords": {"area": ["ok", "--"]}}"#, "keywords.area[1]"),
        (r#"{"filters": [{"prefix": {"region": "x"}}]}"#, "filters[0].prefix.region"),
        (r#"{"filters": [{"not": {"exact": {"type": "Nothing"}}}]}"#, "filters[0].not.exact.type"),
        (
            r#"{"filters": [{"exact": {"subject": "1"}}, {"all": [{"exact": {"subject": "2"}}]}]}"#,
            "filters[1].all[0].exact.subject",
        ),
    ] {
        let found = senseless(json);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{field} ")), "{json}: {found:?}");
    }
    for json in [
        r#"{"event_types": ["ManualAnnouncement"]}"#,
        r#"{"fields": {"feeders": ["x"]}, "keywords": {"feeders": ["x"], "*": ["--"]}}"#,
        r#"{"filters": [{"any": [{"exact": {"subject": "1"}}, {"exact": {"subject": "2"}}]}]}"#,
    ] {
        assert!(senseless(json).is_empty(), "{json}: {:?}", senseless(json));
    }
    let bare = Feed::parse(FeedId::parse("bare").unwrap(), r#"{"event_types": ["a"]}"#).unwrap();
    assert_eq!(Filter::parse(r#"{"keywords": {"*": ["x"]}}"#).unwrap().check(&bare).len(), 1);
}

#[test]
fn a_scalar_is_one_text() {
    let plain = |json: &str| plain_value(serde_json::from_str(json).unwrap());
    for (json, text) in [("\"a\\u0041\"", "aA"), ("5.0", "5"), ("-0", "0"), ("true", "true"), ("1e2", "100")]
    {
        assert_eq!(plain(json).as_deref(), Some(text), "{json}");
    }
    for json in ["\"a\\\"b\\\\\"", "\"\\u00e9 é\"", "\"\""] {
        assert_eq!(plain(json), serde_json::from_str(json).unwrap(), "{json}");
    }
    for json in ["\"\\ud83d\"", "null", "[1]", "{\"a\":1}"] {
        assert_eq!(plain(json), None, "{json}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(
        kind in "[A-Za-z]{1,8}", value in "[a-zß0-9.]{1,8}", word in "[a-zé]{1,8}", all in any::<bool>(),
    ) {
        let json = serde_json::json!({
            "event_types": [kind], "fields": {"area": [value]}, "keywords": {"*": [word]},
            "match": if all { "all" } else { "any" },
            "filters": [{"any": [{"exact": {"type": kind}}, {"not": {"prefix": {"area": value}}}]}, {"all": [{"suffix": {"id": word}}]}],
        });
        let filter = Filter::parse(&json.to_string()).unwrap();
        prop_assert_eq!(Filter::parse(&filter.to_json()).unwrap(), filter);
    }
}
