//! Lists in a row: addresses on one channel that belong together.

use serde_json::Value;

use super::listing::{text, time};
use super::objects::{Noun, standing};
use super::planned::items;

pub(super) const LISTS: Noun = Noun {
    path: "lists",
    columns: &[
        ("ID", 40),
        ("CHANNEL", 20),
        ("MEMBERS", 7),
        ("STATE", 5),
        ("MANAGED BY", 10),
        ("UPDATED", 20),
    ],
    row,
};

fn row(value: &Value) -> Vec<String> {
    let [state, managed_by] = standing(value);
    let count = items(value, "members").len().to_string();
    let [id, channel] = ["id", "channel"].map(|member| text(value, &[member]));
    vec![id, channel, count, state, managed_by, time(value, "updated_at")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_in_a_row() {
        let value = json!({"id": "ops", "name": "ops", "channel": "mail", "members": ["a", {"address": "b"}],
            "active": true, "managed_by": "api", "updated_at": "2026-07-07T01:02:03Z"});
        assert_eq!(row(&value), ["ops", "mail", "2", "on", "api", "2026-07-07T01:02:03Z"]);
        assert_eq!(row(&value).len(), LISTS.columns.len());
    }
}
