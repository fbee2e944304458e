//! The verdict, as whoever runs the demo meets it.

use super::api::{Entry, EntryDetail};
use super::picture::tests::snapshot;
use super::verdict::{Check, Line, Reckoning, Tally, checked, differences, in_words, table, trail_end};

const FINE: Tally = Tally { requests: 27, ids: 9, effects: 9, delivered: 9, ..Tally::NOTHING };

fn line(seen: Tally) -> Line {
    Line { name: "flaky", must: FINE, seen }
}

fn reckoning(seen: Tally, held: bool, retrying: usize) -> Reckoning {
    Reckoning {
        lines: vec![line(seen)],
        checks: vec![Check::new("it is signed", held, "8 of\x1b[2J 9")],
        open: snapshot(&[[0, retrying, 9, 0, 0]]),
    }
}

#[test]
fn nothing_differs_if_all_is_as_it_must_be() {
    let none = differences(&reckoning(FINE, true, 0));
    assert_eq!(none, Vec::<String>::new());
    assert_eq!(in_words(&none), ["Everything came out as it must."]);
}

#[test]
fn whatever_differs_is_named() {
    let cases = [
        (Tally { requests: 28, ..FINE }, "flaky: requests 28, and it must be 27"),
        (Tally { ids: 8, ..FINE }, "flaky: ids 8, and it must be 9"),
        (Tally { effects: 10, ..FINE }, "flaky: effects 10, and it must be 9"),
        (Tally { duplicates: 1, ..FINE }, "flaky: duplicates 1, and it must be 0"),
        (Tally { delivered: 8, ..FINE }, "flaky: delivered 8, and it must be 9"),
        (Tally { parked: 1, ..FINE }, "flaky: parked 1, and it must be 0"),
        (Tally { discarded: 1, ..FINE }, "flaky: discarded 1, and it must be 0"),
    ];
    for (seen, difference) in cases {
        assert_eq!(differences(&reckoning(seen, true, 0)), [difference]);
    }
    assert_eq!(differences(&reckoning(FINE, true, 2)), ["refuses: 2 still on the way when the time was up"]);
    let unsigned = differences(&reckoning(FINE, false, 0));
    assert_eq!(unsigned, ["not so: it is signed (8 of [2J 9)"]);
    assert_eq!(in_words(&unsigned).len(), 2);
}

#[test]
fn the_table_stands_in_columns_and_points_at_what_differs() {
    let table = table(&[line(FINE), line(Tally { duplicates: 1, ..FINE })]);
    assert_eq!(
        table.get(..4).unwrap(),
        [
            "           what the receivers saw             what the server says",
            "           requests ids effects duplicates   delivered parked discarded",
            "  flaky          27   9       9          0           9      0         0",
            "  flaky          27   9       9          1           9      0         0  differs",
        ]
    );
}

#[test]
fn a_check_shows_nothing_that_a_terminal_would_obey() {
    assert_eq!(checked(&reckoning(FINE, true, 0).checks), ["  yes  it is signed (8 of [2J 9)"]);
    assert_eq!(checked(&reckoning(FINE, false, 0).checks), ["  NO   it is signed (8 of [2J 9)"]);
}

#[test]
fn a_trail_ends_with_what_an_operator_did_and_what_came_of_it() {
    let entry = |kind: &str, actor: &str, detail: EntryDetail| Entry {
        kind: kind.to_owned(),
        actor: actor.to_owned(),
        detail,
    };
    let some = |text: &str| Some(text.to_owned());
    let trail = [
        entry("accepted", "system", EntryDetail::default()),
        entry(
            "submitted",
            "key:admin",
            EntryDetail {
                action: some("retry"),
                status: some("pending"),
                reason: some("it\x1bworks"),
                ..EntryDetail::default()
            },
        ),
        entry("attempt", "system", EntryDetail::default()),
        entry(
            "terminal",
            "system",
            EntryDetail { status: some("delivered"), attempt: Some(2), ..EntryDetail::default() },
        ),
    ];
    assert_eq!(
        trail_end(&trail),
        [
            "submitted by key:admin  retry:  pending, \"it works\"",
            "terminal  by system     delivered by attempt 2"
        ]
    );
}
