//! One thing as people read it: its members one a line, what stands deeper under a dotted name.

use serde_json::Value;

use super::output::Out;
use super::table::{escape, escape_lines};

/// The members that come before all others, in this order; the rest follows in the order of the alphabet.
const FIRST: [&str; 4] = ["id", "name", "feed", "type"];

/// How deep names are dotted; what stands deeper is shown as JSON.
const DEPTH: usize = 3;

/// Shows the members of an object but those in `without`. What is null, empty or false is left out.
pub(super) fn show(value: &Value, without: &[&str], out: &mut Out) {
    let Some(members) = value.as_object() else { return };
    let rest = members.keys().map(String::as_str).filter(|name| !FIRST.contains(name));
    let mut rows = Vec::new();
    for name in FIRST.into_iter().chain(rest).filter(|name| !without.contains(name)) {
        if let Some(member) = members.get(name) {
            flatten(name, member, 1, &mut rows);
        }
    }
    for (name, text) in rows {
        line(&name, &text, out);
    }
}

fn flatten(name: &str, value: &Value, depth: usize, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => rows.push((name.to_owned(), "yes".to_owned())),
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => rows.push((name.to_owned(), text.clone())),
        Value::Object(members) if depth < DEPTH => {
            for (inner, member) in members {
                flatten(&format!("{name}.{inner}"), member, depth + 1, rows);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            for item in items {
                flatten(name, item, depth, rows);
            }
        }
        Value::Array(items) => rows.extend(items.iter().map(|item| (name.to_owned(), item.to_string()))),
        other => rows.push((name.to_owned(), other.to_string())),
    }
}

/// A name and its text; a text of several lines stands below its name.
fn line(name: &str, text: &str, out: &mut Out) {
    let name = escape(name);
    if text.contains('\n') {
        let indented: Vec<String> = escape_lines(text).lines().map(|line| format!("  {line}")).collect();
        out.line(&format!("{name}\n{}", indented.join("\n")));
    } else {
        out.line(&format!("{name:<20} {}", escape(text)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::output::{Format, tests::Captured};

    #[test]
    fn what_is_there_is_shown_and_nothing_else() {
        let value = json!({"id": "f", "zone": "", "name": "F\u{1b}", "event_types": ["A", "B"], "enabled": true,
            "ttl": null, "planning": false, "version": 17, "left": "out",
            "fields": {"area": {"match": "word", "deep": {"n": 1}}}, "members": [{"address": "a"}, "b"],
            "body": "one\ntwo\u{7}"});
        let captured = Captured::default();
        show(&value, &["left"], &mut captured.out(Format::Table));
        let expected = [
            "id                   f",
            "name                 F\\u{1b}",
            "body",
            "  one",
            "  two\\u{7}",
            "enabled              yes",
            "event_types          A",
            "event_types          B",
            "fields.area.deep     {\"n\":1}",
            "fields.area.match    word",
            "members              {\"address\":\"a\"}",
            "members              \"b\"",
            "version              17",
        ];
        assert_eq!(captured.text().lines().collect::<Vec<_>>(), expected);
    }
}
