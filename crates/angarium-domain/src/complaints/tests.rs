//! Reading members: what is accepted, and what exactly is complained about.

use super::*;

/// What `read` complains about, as one would read it.
fn complaints<T>(json: &str, read: impl FnOnce(&mut Members<'_>) -> T) -> Vec<String> {
    let mut members = match Members::read(json) {
        Ok(members) => members,
        Err(complaints) => return complaints.iter().map(Complaint::to_string).collect(),
    };
    read(&mut members);
    members.finish().err().unwrap_or_default().iter().map(Complaint::to_string).collect()
}

fn any(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

#[test]
fn an_object_is_needed() {
    for json in ["[]", "1", "null", "\"x\"", "", "{"] {
        assert_eq!(complaints(json, |_| ()), ["must be an object"], "{json:?}");
    }
}

#[test]
fn every_kind_of_member_is_read() {
    let json = r#"{"text": "a", "flag": true, "number": 5, "duration": "2h", "time": "2026-07-07T01:02:03Z",
                   "texts": ["a", "b"], "map": {"x": 1.50, "y": null}, "object": {"inner": "c"},
                   "raw": {"n": 1.50}, "choice": "one", "label": "Ops"}"#;
    let mut m = Members::read(json).unwrap();
    assert!(m.has("text") && !m.has("nothing"));
    assert_eq!(m.required("text", any).unwrap(), "a");
    assert!(!m.has("text"));
    assert_eq!(m.flag("flag"), Some(true));
    assert_eq!(m.number("number", 1..=5_u8), Some(5));
    assert_eq!(m.duration("duration"), Some(Duration::from_secs(7200)));
    assert_eq!(m.time("time").unwrap().to_string(), "2026-07-07T01:02:03Z");
    assert_eq!(m.texts("texts", 1..=2, any).unwrap(), ["a", "b"]);
    let map = m.entries("map", 1..=1).unwrap();
    assert_eq!(map.into_iter().map(|(k, v)| (k, v.get())).collect::<Vec<_>>(), [("x".to_owned(), "1.50")]);
    assert_eq!(m.object("object", |m| m.text("inner", any)).flatten().unwrap(), "c");
    assert_eq!(m.raw("raw").unwrap().get(), r#"{"n": 1.50}"#);
    assert_eq!(m.choice("choice", &[("one", 1), ("two", 2)]), Some(1));
    assert_eq!(m.label("label").unwrap(), "Ops");
    assert_eq!(m.finish_with(Some(7)), Ok(7));
}

#[test]
fn null_is_the_same_as_not_there() {
    let json = r#"{"text": null, "flag": null, "number": null, "texts": null, "map": null, "needed": null}"#;
    let found = complaints(json, |m| {
        assert!(!m.has("text"));
        assert!(m.text("text", any).is_none() && m.flag("flag").is_none());
        assert!(m.number("number", 1..=5_u8).is_none() && m.texts("texts", 1..=2, any).is_none());
        assert!(m.entries("map", 1..=2).is_none());
        m.required("needed", any)
    });
    assert_eq!(found, ["needed is required"]);
}

#[test]
fn each_complaint_names_its_member() {
    let json = r#"{"text": 1, "flag": "yes", "number": 6, "part": 1.5, "duration": "60", "time": "1969-12-31T23:59:59Z",
                   "texts": ["a", 2], "few": [], "many": [1, 2, 3], "map": [], "object": {"in": 1, "x": 1},
                   "choice": "three", "label": " ", "fine": "x", "long": "0s"}"#;
    let found = complaints(json, |m| {
        m.text("text", any);
        m.flag("flag");
        m.number("number", 1..=5_u8);
        m.number("part", 1..=5_u32);
        m.duration("duration");
        m.time("time");
        m.texts("texts", 1..=2, any);
        m.items("few", 1..=2);
        m.items("many", 1..=2);
        m.entries("map", 0..=2);
        m.object("object", |m| m.text("in", any));
        m.choice("choice", &[("one", 1), ("two", 2)]);
        m.label("label");
        m.text("fine", |_| Err::<(), _>("is not fine"));
        m.lasting("long");
        m.required("gone", any);
        m.refuse_all(
            "filter",
            vec![Complaint::new("", "a"), Complaint::new("[1]", "b"), Complaint::new("x", "c")],
        );
    });
    let expected = [
        "text must be a string",
        "flag must be true or false",
        "number must be a whole number from 1 to 5",
        "part must be a whole number from 1 to 5",
        "duration needs a unit: write for example \"60s\", \"10m\", \"12h\", \"365d\" or \"250ms\"",
        "time lies outside the years 1970 to 9999",
        "texts[1] must be a string",
        "few must not be empty",
        "many has 3 entries, at most 2 are allowed",
        "map must be an object",
        "object.in must be a string",
        "object.x is not known here",
        "choice is none of one, two",
        "label begins or ends with white space",
        "fine is not fine",
        "long must be longer than zero",
        "gone is required",
        "filter a",
        "filter[1] b",
        "filter.x c",
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_nobody_asked_for_is_a_complaint() {
    let found =
        complaints(r#"{"fliter": {}, "colour": null, "a\u001b[2J": 1}"#, |m| m.raw("filter").is_some());
    let expected = [
        "a [2J is not known here",
        "colour is not known here",
        "fliter is not known here; did you mean filter?",
    ];
    assert_eq!(found, expected);
}

#[test]
fn complaints_are_bounded() {
    let members: Vec<String> = (0..1000).map(|i| format!("\"x{i}\":1")).collect();
    let json = format!("{{{0},\"inner\":{{{0}}}}}", members.join(","));
    assert_eq!(complaints(&json, |m| m.object("inner", |_| ())).len(), MOST_COMPLAINTS);
}

#[test]
fn nothing_made_of_good_members_is_still_no_success() {
    let members = Members::read("{}").unwrap();
    assert_eq!(members.finish_with(None::<u8>), Err(vec![Complaint::new("", "is not complete")]));
}
