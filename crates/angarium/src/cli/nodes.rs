//! `node list`: the nodes that work on one database together.

use serde_json::Value;

use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{Listing, text, time};
use super::output::Out;
use super::table::Column;

const COLUMNS: &[Column] = &[
    ("INSTANCE", 20),
    ("NAME", 64),
    ("STATE", 5),
    ("ADDRESS", 60),
    ("VERSION", 20),
    ("STARTED", 20),
    ("SEEN", 20),
];

pub(super) fn list(api: &Api, out: &mut Out) -> Result<Exit, Failure> {
    let listing = Listing {
        path: &["nodes"],
        query: Vec::new(),
        all: true,
        columns: COLUMNS,
        row,
        id: |value| text(value, &["instance"]),
    };
    listing.run(api, out)
}

fn row(value: &Value) -> Vec<String> {
    let state = match value {
        _ if value["lost"] == true => "lost",
        _ if value["leads"] == true => "leads",
        _ => "works",
    };
    let [instance, name, address, version] =
        ["instance", "name", "address", "version"].map(|member| text(value, &[member]));
    let [started, seen] = ["started_at", "seen_at"].map(|member| time(value, member));
    vec![instance, name, state.to_owned(), address, version, started, seen]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_in_a_row() {
        let node = |lost: bool, leads: bool| {
            row(&json!({"instance": 7, "name": "a", "version": "0.1.0", "address": "127.0.0.1:7180",
                "started_at": "2026-07-07T01:02:03.5Z", "seen_at": "2026-07-07T01:02:04Z", "lost": lost, "leads": leads}))
        };
        let expected =
            ["7", "a", "works", "127.0.0.1:7180", "0.1.0", "2026-07-07T01:02:03Z", "2026-07-07T01:02:04Z"];
        assert_eq!(node(false, false), expected);
        assert_eq!(expected.len(), COLUMNS.len());
        assert_eq!([node(false, true), node(true, true)].map(|row| row[2].clone()), ["leads", "lost"]);
    }
}
