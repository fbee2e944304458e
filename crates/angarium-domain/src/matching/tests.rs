use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::text::{EventSource, ExternalId, FeedId, SourceKey};
use crate::time::Timestamp;

fn feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage", "Restoration"], "fields": {
        "feeder": {"match": "exact", "alias": "feeders"}, "area": {"match": "word"}, "cause": {"match": "substring"}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

fn event(kind: &str, fields: &[(&str, &str)]) -> Event {
    let fields = fields.iter().map(|(name, text)| (FieldName::parse(name).unwrap(), (*text).to_owned()));
    Event {
        source: EventSource::parse("/scada/7").unwrap(),
        external_id: ExternalId::parse("e-1").unwrap(),
        feed: FeedId::parse("outages").unwrap(),
        kind: EventType::parse(kind).unwrap(),
        key: SourceKey::parse("42").unwrap(),
        at: Timestamp::EPOCH,
        locale: None,
        fields: fields.collect(),
        data: None,
        entity: None,
        recipients: Vec::new(),
        expires_at: None,
        supersede_key: None,
        test: false,
    }
}

fn outage() -> Event {
    event(
        "NewOutage",
        &[("feeder", "Feeder 14"), ("area", "Bakakeng Central"), ("cause", "Transformer-Fault")],
    )
}

/// The matcher's answer, which must be the index's too.
fn matches(filter: &str, event: &Event) -> bool {
    let filter = Filter::parse(filter).unwrap();
    assert_eq!(filter.check(&feed()), [], "{filter:?}");
    let judged = Matcher::compile(&filter, &feed()).judge(event).matches;
    let mut index = Index::default();
    index.insert(1, &filter, &feed(), event.test);
    assert_eq!(index.matches(event) == [1], judged, "{filter:?}");
    judged
}

/// FP-04: each kind of condition, and how they are joined.
#[test]
fn what_a_filter_lets_through() {
    let table = [
        ("{}", true),
        (r#"{"event_types": ["NewOutage"]}"#, true),
        (r#"{"event_types": ["Restoration"]}"#, false),
        (r#"{"event_types": ["Restoration"], "keywords": {"area": ["bakakeng"]}}"#, false),
        (r#"{"fields": {"feeder": ["Feeder 13", "FEEDER  14"]}}"#, true),
        (r#"{"fields": {"feeders": ["feeder 14"]}}"#, true),
        (r#"{"fields": {"feeder": ["Feeder"]}}"#, false),
        (r#"{"keywords": {"area": ["bakakeng"]}}"#, true),
        (r#"{"keywords": {"area": ["baka"]}}"#, false),
        (r#"{"keywords": {"area": ["keng central"]}}"#, false),
        (r#"{"keywords": {"cause": ["former-f"]}}"#, true),
        (r#"{"keywords": {"feeder": ["feeder 14"]}}"#, true),
        (r#"{"keywords": {"feeder": ["feeder"]}}"#, false),
        (r#"{"keywords": {"*": ["transformer"]}}"#, true),
        (r#"{"keywords": {"*": ["entral"]}}"#, false),
        (r#"{"keywords": {"area": ["nowhere"], "*": ["transformer"]}}"#, true),
        (r#"{"keywords": {"area": ["nowhere"], "*": ["transformer"]}, "match": "all"}"#, false),
        (
            r#"{"fields": {"feeder": ["x", "feeder 14"]}, "keywords": {"area": ["central"]}, "match": "all"}"#,
            true,
        ),
        (r#"{"keywords": {"area": ["bakakeng", "nowhere"]}, "match": "all"}"#, false),
        (r#"{"filters": [{"exact": {"type": "NewOutage", "subject": "42"}}]}"#, true),
        (r#"{"filters": [{"exact": {"area": "bakakeng central"}}]}"#, false),
        (r#"{"filters": [{"prefix": {"source": "/scada/"}}, {"suffix": {"area": "Central"}}]}"#, true),
        (r#"{"filters": [{"not": {"exact": {"type": "NewOutage"}}}]}"#, false),
        (r#"{"filters": [{"any": [{"exact": {"subject": "41"}}, {"prefix": {"cause": "Trans"}}]}]}"#, true),
        (r#"{"filters": [{"all": [{"exact": {"feed": "outages"}}, {"exact": {"id": "e-2"}}]}]}"#, false),
        (r#"{"fields": {"feeder": ["feeder 14"]}, "filters": [{"exact": {"subject": "41"}}]}"#, false),
    ];
    for (filter, expected) in table {
        assert_eq!(matches(filter, &outage()), expected, "{filter}");
    }
    let bare = event("NewOutage", &[]);
    assert!(!matches(r#"{"filters": [{"prefix": {"area": "B"}}]}"#, &bare), "an attribute that is not there");
    assert!(matches(r#"{"filters": [{"not": {"prefix": {"area": "B"}}}]}"#, &bare));
    assert!(!matches(r#"{"keywords": {"*": ["a"]}}"#, &bare));
}

/// Numbers are compared exactly, whatever way they were written.
#[test]
fn numbers_are_compared_exactly() {
    let with = |text: &str| event("NewOutage", &[("feeder", text)]);
    assert!(matches(r#"{"fields": {"feeder": [5.0]}}"#, &with("5")));
    assert!(matches(r#"{"fields": {"feeder": [9007199254740993]}}"#, &with("9007199254740993")));
    assert!(!matches(r#"{"fields": {"feeder": [9007199254740992]}}"#, &with("9007199254740993")));
    assert!(matches(r#"{"fields": {"feeder": [true]}}"#, &with("true")));
}

/// C015: a word ends where no letter of any script follows.
#[test]
fn c015_whole_words_beside_letters_that_are_not_ascii() {
    let holds = |word: &str, text: &str| {
        let filter = format!(r#"{{"keywords": {{"area": ["{word}"]}}}}"#);
        matches(&filter, &event("NewOutage", &[("area", text)]))
    };
    assert!(!holds("lan", "bağlan hattı"));
    assert!(holds("hattı", "bağlan hattı"));
    assert!(holds("тест", "опять тест"));
    assert!(!holds("ä", "aä"));
    assert!(!holds("n1", "n1_b"));
    assert!(holds("n1", "(N1)"));
    assert!(holds("a a", "ba a a"), "one that overlaps itself is found where it stands alone");
    assert!(holds("a-a", "ba-a-a"), "whatever it is made of");
    assert!(!holds("1", "1\u{fe0f}\u{20e3}"), "marks that combine with nothing are marks");
}

/// C014, C018: what folding makes equal is equal to filters.
#[test]
fn c014_c018_filters_fold() {
    let with = |text: &str| event("NewOutage", &[("cause", text), ("area", text)]);
    for (word, text, expected) in [
        ("istanbul", "ISTANBUL", true),
        ("istanbul", "İSTANBUL", true),
        ("istanbul", "ıstanbul", false),
        ("strasse", "Straße", true),
        ("fish", "ﬁsh", false),
        ("schoen", "schön", false),
        ("schon", "schön", true),
    ] {
        for field in ["area", "cause", "*"] {
            let filter = format!(r#"{{"keywords": {{"{field}": ["{word}"]}}}}"#);
            assert_eq!(matches(&filter, &with(text)), expected, "{word} in {text}, {field}");
        }
    }
}

#[test]
fn each_clause_says_whether_it_holds() {
    let filter = r#"{"event_types": ["NewOutage"], "fields": {"feeder": ["Feeder 13"]},
        "keywords": {"area": ["Bakakeng"], "*": ["x"]}, "filters": [{"not": {"prefix": {"source": "/scada"}}}]}"#;
    let judged = Matcher::compile(&Filter::parse(filter).unwrap(), &feed()).judge(&outage());
    let clauses: Vec<(&str, bool)> = judged.clauses.iter().map(|(words, holds)| (&**words, *holds)).collect();
    assert_eq!(
        clauses,
        [
            ("the event's type is NewOutage", true),
            ("feeder is \"feeder 13\"", false),
            ("a field holds \"x\"", false),
            ("area holds the word \"bakakeng\"", true),
            ("not (source begins with \"/scada\")", false),
        ]
    );
    assert!(!judged.matches);
}

/// FP-17: a test event reaches test subscriptions, and no others.
#[test]
fn tests_are_apart() {
    let mut index = Index::default();
    index.insert(1, &Filter::default(), &feed(), false);
    index.insert(2, &Filter::default(), &feed(), true);
    assert_eq!(index.matches(&outage()), [1]);
    assert_eq!(index.matches(&Event { test: true, ..outage() }), [2]);
    index.insert(2, &Filter::default(), &feed(), false);
    assert_eq!(index.matches(&outage()), [1, 2]);
    assert_eq!(index.len(), 2);
}

/// A subscription outlives a field of its feed, and is told nothing for its sake.
#[test]
fn a_clause_about_a_field_that_the_feed_lacks_never_holds() {
    let event = event("NewOutage", &[("area", "Bakakeng"), ("gone", "x")]);
    for (json, expected) in [
        (r#"{"keywords": {"gone": ["bakakeng"]}}"#, false),
        (r#"{"fields": {"gone": ["x"]}}"#, false),
        (r#"{"keywords": {"area": ["bakakeng"], "gone": ["x"]}}"#, true),
        (r#"{"keywords": {"area": ["bakakeng"], "gone": ["x"]}, "match": "all"}"#, false),
    ] {
        let filter = Filter::parse(json).unwrap();
        let mut index = Index::default();
        index.insert(1, &filter, &feed(), false);
        assert_eq!(Matcher::compile(&filter, &feed()).judge(&event).matches, expected, "{json}");
        assert_eq!(index.matches(&event) == [1], expected, "{json}");
    }
}

/// What every event has goes by its name, even where a feed gives a field that alias.
#[test]
fn an_alias_hides_no_attribute() {
    let json = r#"{"event_types": ["NewOutage"], "fields": {"topic": {"alias": "subject"}}}"#;
    let feed = Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap();
    let filter = Filter::parse(r#"{"filters": [{"exact": {"subject": "42"}}]}"#).unwrap();
    assert!(Matcher::compile(&filter, &feed).judge(&event("NewOutage", &[("topic", "x")])).matches);
}

/// Sets of types that nobody is for any more are forgotten, and what is in stays what it is.
#[test]
fn types_in_any_order_are_the_same_types() {
    let put = |index: &mut Index, key, types: &str| {
        let filter = Filter::parse(&format!(r#"{{"event_types": [{types}]}}"#)).unwrap();
        index.insert(key, &filter, &feed(), false);
    };
    let mut index = Index::default();
    put(&mut index, 1, r#""Restoration", "NewOutage""#);
    put(&mut index, 2, r#""NewOutage", "Restoration", "NewOutage""#);
    put(&mut index, 3, r#""Restoration""#);
    assert_eq!(index.matches(&outage()), [1, 2]);
    index.remove(1);
    assert_eq!(index.matches(&outage()), [2]);
    put(&mut index, 2, r#""Restoration""#);
    assert!(index.matches(&outage()).is_empty());
    assert_eq!(index.matches(&event("Restoration", &[])), [2, 3]);
}

const VALUES: [&str; 8] = ["a", "A b", "ab", "b a b", "ä-b", "aab", "a-a", "ba-a-a"];

fn value() -> impl Strategy<Value = String> {
    prop_oneof![proptest::sample::select(&VALUES[..]).prop_map(str::to_owned), "[abß ]{1,4}[ab]"]
}

fn attribute() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = proptest::sample::select(&["type", "subject", "feeder", "area", "cause"][..]);
    proptest::collection::btree_map(name.prop_map(str::to_owned), value(), 1..3)
}

fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        attribute().prop_map(Condition::Exact),
        attribute().prop_map(Condition::Prefix),
        attribute().prop_map(Condition::Suffix),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(Condition::All),
            proptest::collection::vec(inner.clone(), 1..3).prop_map(Condition::Any),
            inner.prop_map(|one| Condition::Not(Box::new(one))),
        ]
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let types = proptest::collection::vec(proptest::sample::select(&["NewOutage", "Restoration"][..]), 0..2);
    let field = proptest::sample::select(&["feeder", "feeders", "area", "cause", "nothing"][..]);
    let place = proptest::sample::select(&["feeder", "area", "cause", "*", "feeders", "nothing"][..]);
    let values = || proptest::collection::vec(value(), 1..3);
    let fields = proptest::collection::btree_map(field, values(), 0..2);
    let keywords = proptest::collection::btree_map(place, values(), 0..3);
    let conditions = prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(condition(), 1..3)];
    (types, fields, keywords, any::<bool>(), conditions).prop_map(
        |(types, fields, keywords, all, conditions)| Filter {
            event_types: types.into_iter().map(|kind| EventType::parse(kind).unwrap()).collect(),
            fields: fields
                .into_iter()
                .map(|(name, values)| (FieldName::parse(name).unwrap(), values))
                .collect(),
            keywords: keywords.into_iter().map(|(name, words)| (name.to_owned(), words)).collect(),
            mode: if all { MatchMode::All } else { MatchMode::Any },
            conditions,
        },
    )
}

fn any_event() -> impl Strategy<Value = Event> {
    let kind = proptest::sample::select(&["NewOutage", "Restoration"][..]);
    let field = proptest::sample::select(&["feeder", "area", "cause", "nothing"][..]);
    let fields = proptest::collection::btree_map(field, value(), 0..4);
    (kind, fields).prop_map(|(kind, fields)| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (*name, &**text)).collect();
        event(kind, &fields)
    })
}

/// What is done to an index.
#[derive(Clone, Debug)]
enum Change {
    Put(i64, Filter),
    Remove(i64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![4 => (0..12i64, filter()).prop_map(|(key, filter)| Change::Put(key, filter)),
        1 => (0..12i64).prop_map(Change::Remove)]
}

proptest! {
    /// FP-20: whatever came and went, the index finds what each filter by itself lets through.
    #[test]
    fn the_index_agrees_with_the_matcher(
        changes in proptest::collection::vec(change(), 1..40),
        events in proptest::collection::vec(any_event(), 1..6),
    ) {
        let feed = feed();
        let (mut index, mut plain) = (Index::default(), BTreeMap::new());
        for change in changes {
            match change {
                Change::Put(key, filter) => {
                    index.insert(key, &filter, &feed, false);
                    plain.insert(key, Matcher::compile(&filter, &feed));
                }
                Change::Remove(key) => {
                    index.remove(key);
                    plain.remove(&key);
                }
            }
            prop_assert_eq!(index.len(), plain.len());
        }
        for event in events {
            let expected: Vec<i64> =
                plain.iter().filter(|(_, one)| one.judge(&event).matches).map(|(key, _)| *key).collect();
            prop_assert_eq!(index.matches(&event), expected);
        }
    }
}
