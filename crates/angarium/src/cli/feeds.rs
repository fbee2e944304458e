//! Feeds in a row: where events come from.

use serde_json::Value;

use super::listing::{text, time};
use super::objects::{Noun, joined, standing};

pub(super) const FEEDS: Noun = Noun {
    path: "feeds",
    columns: &[
        ("ID", 40),
        ("NAME", 40),
        ("TYPES", 60),
        ("FIELDS", 40),
        ("STATE", 5),
        ("MANAGED BY", 10),
        ("UPDATED", 20),
    ],
    row,
};

fn row(value: &Value) -> Vec<String> {
    let [state, managed_by] = standing(value);
    let [types, fields] = ["event_types", "fields"].map(|member| joined(value, member));
    let [id, name] = ["id", "name"].map(|member| text(value, &[member]));
    vec![id, name, types, fields, state, managed_by, time(value, "updated_at")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_feed_in_a_row() {
        let value = json!({"id": "f", "name": "F", "event_types": ["A", "B"], "fields": {"area": {}, "cause": {}},
            "enabled": false, "active": true, "managed_by": "file", "updated_at": "2026-07-07T01:02:03.5Z"});
        assert_eq!(row(&value), ["f", "F", "A,B", "area,cause", "off", "file", "2026-07-07T01:02:03Z"]);
        assert_eq!(row(&value).len(), FEEDS.columns.len());
    }
}
