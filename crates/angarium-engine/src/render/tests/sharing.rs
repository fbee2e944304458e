//! FP-20: who shares a text.

use std::sync::Arc;

use super::super::{Renderings, RowVersion};
use super::*;

fn row(version: i64) -> RowVersion {
    RowVersion { row: event_id(), version }
}

/// FP-20: one text for all who read the same, made once even when they ask at the same moment.
#[test]
fn a_text_is_made_once_for_all_who_share_it() {
    let renderings = Renderings::default();
    let template = template("{{ fields.area }}");
    let event = event(&[("area", "Bakakeng")]);
    let ask = |name: &str| {
        let facts = Facts { subscription: Some(name), ..facts(&event) };
        renderings.render(&template, 1, row(1), &facts).unwrap()
    };
    let first = ask("one");
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|n| scope.spawn(move || ask(&format!("s{n}")))).collect();
        for asked in asking {
            assert!(Arc::ptr_eq(&first, &asked.join().unwrap()));
        }
    });
}

/// FP-20: whatever a text depends on makes another one.
#[test]
fn what_differs_is_rendered_apart() {
    let renderings = Renderings::default();
    let template = template("{{ subscription.name }} {{ recipient.locale }} {{ fields.area }}");
    let (english, dutch) = (Locale::parse("en-US").unwrap(), Locale::parse("nl-NL").unwrap());
    let (old, new) = (event(&[("area", "old")]), event(&[("area", "new")]));
    let ask = |version, row_version, row_event, name, locale| {
        let facts = Facts { row: row_event, subscription: Some(name), locale: Some(locale), ..facts(&old) };
        renderings.render(&template, version, row(row_version), &facts).unwrap().body.clone()
    };
    assert_eq!(ask(1, 1, &old, "a", &english), "a en-US old");
    assert_eq!(ask(1, 1, &old, "b", &english), "b en-US old");
    assert_eq!(ask(1, 1, &old, "a", &dutch), "a nl-NL old");
    assert_eq!(ask(1, 2, &new, "a", &english), "a en-US new");
    assert_eq!(ask(1, 1, &new, "a", &english), "a en-US old");
    assert_eq!(ask(2, 1, &new, "a", &english), "a en-US new");
}

#[test]
fn nobody_reads_another_subscriptions_name() {
    for source in [
        "{{ subscription.name }}",
        "{{ subscription }}",
        "{% set s = subscription %}{{ s.name }}",
        "{{ [subscription][0].name[0:2] }}",
        "{{ 'x' | default(subscription) }}",
        "{% filter replace('a', subscription.name) %}{% endfilter %}",
    ] {
        assert!(Compiled::compile(&template(source)).unwrap().uses_subscription(), "{source}");
    }
    assert!(!Compiled::compile(&template("subscription {{ 'subscription' }}")).unwrap().uses_subscription());
}

#[test]
fn a_fault_is_told_to_each() {
    let renderings = Renderings::default();
    let event = event(&[]);
    let broken = template("{{ fields.nope }}");
    for _ in 0..2 {
        assert!(renderings.render(&broken, 1, row(1), &facts(&event)).is_err());
        assert!(renderings.render(&template("{{"), 2, row(1), &facts(&event)).is_err());
    }
    let mended = template("mended");
    assert_eq!(renderings.render(&mended, 3, row(1), &facts(&event)).unwrap().body, "mended");
}
