//! FP-11: what a logical event is called.

use std::collections::BTreeSet;

use super::super::identity;
use super::*;

fn of(key: &str) -> String {
    let mut event = event(&[]);
    event.key = SourceKey::parse(key).unwrap();
    identity::of(&event)
}

#[test]
fn an_event_is_called_after_what_it_is_about() {
    assert_eq!(of("42"), "beneco-power-outages-newoutage-42");
    let mut later = event(&[("area", "other")]);
    later.at = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(identity::of(&later), of("42"));
}

#[test]
fn different_keys_stay_different() {
    let long = "k".repeat(100);
    let keys =
        ["a/b", "a b", "a-b", "a.b", "A-B", "Ä", "ä", "-", "日本", &long, &format!("{long}x"), "a\u{1F600}"];
    let names: BTreeSet<String> = keys.iter().map(|key| of(key)).collect();
    assert_eq!(names.len(), keys.len(), "{names:?}");
    for name in &names {
        let fits =
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        assert!(fits && name.len() <= 64, "{name}");
    }
    assert_eq!(of(&long), of(&long));
}

#[test]
fn a_template_may_choose_the_name() {
    let named = |source: &str, key: &str| {
        let mut template = template("");
        template.sequence_id = Some(source.to_owned());
        let mut event = event(&[]);
        event.key = SourceKey::parse(key).unwrap();
        render(&template, &event).unwrap().sequence_id
    };
    assert_eq!(named("power-outage-{{ event.key }}", "42"), "power-outage-42");
    assert_eq!(named("Outage_{{ event.key }}\n", "42"), "Outage_42");
    assert_eq!(named(" {{ '' }}", "42"), "beneco-power-outages-newoutage-42");
    let (one, other) = (named("o-{{ event.key }}", "4/2"), named("o-{{ event.key }}", "4.2"));
    assert!(one.starts_with("o-4-2-") && other.starts_with("o-4-2-") && one != other, "{one} {other}");
    assert_eq!(named("{{ event.key }}", &"k".repeat(200)).len(), 64);
}
