//! `kpi`: the figures an operator looks at first, global, per site and per node.

use serde_json::Value;

use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{text, unreadable};
use super::output::{Format, Out};
use super::table::{Column, Table, escape};

const COLUMNS: &[Column] = &[
    ("SCOPE", 60),
    ("QUEUED", 12),
    ("STUCK", 12),
    ("PARKED", 12),
    ("DELIVERED", 12),
    ("IN FLIGHT", 12),
    ("OLDEST", 12),
];

const FIGURES: [&str; 5] =
    ["queue_depth", "stuck_count", "parked_count", "delivered_last_interval", "in_flight"];

pub(super) fn run(api: &Api, out: &mut Out) -> Result<Exit, Failure> {
    let answer = api.get(&["kpis"], &[])?;
    if out.format() == Format::Json {
        out.line(&answer);
        return Ok(Exit::Fine);
    }
    let kpis: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    let rows = rows(&kpis);
    match out.format() {
        Format::Ids => rows.iter().filter_map(|row| row.first()).for_each(|scope| out.line(&escape(scope))),
        _ => Table::new(COLUMNS).write(&rows, out),
    }
    Ok(Exit::Fine)
}

fn rows(kpis: &Value) -> Vec<Vec<String>> {
    let mut rows = vec![row("global", kpis.get("global").unwrap_or(&Value::Null))];
    for (word, key) in [("site", "sites"), ("node", "nodes")] {
        let scopes = kpis.get(key).and_then(Value::as_object).into_iter().flatten();
        rows.extend(scopes.map(|(name, figures)| row(&format!("{word} {name}"), figures)));
    }
    rows
}

fn row(scope: &str, figures: &Value) -> Vec<String> {
    let oldest = figures.get("oldest_pending_age_seconds").and_then(Value::as_f64);
    let mut row = vec![scope.to_owned()];
    row.extend(FIGURES.map(|key| text(figures, &[key])));
    row.push(oldest.map(age).unwrap_or_default());
    row
}

/// An age in the largest unit that leaves a number to look at.
fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 7200.0 => format!("{:.0}m", s / 60.0),
        s if s < 172_800.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_in_rows() {
        let kpis = json!({"global": {"queue_depth": 3, "stuck_count": 1, "parked_count": 2, "delivered_last_interval": 7,
            "oldest_pending_age_seconds": 600, "in_flight": 1}, "sites": {"plant-7": {"queue_depth": 3}},
            "nodes": {"plant-7/node-a": {"oldest_pending_age_seconds": null}}});
        let rows = rows(&kpis);
        assert_eq!(rows[0], ["global", "3", "1", "2", "7", "1", "10m"]);
        assert_eq!(rows[1][..2], ["site plant-7", "3"]);
        assert_eq!(rows[2][0], "node plant-7/node-a");
        assert!(rows.iter().all(|row| row.len() == COLUMNS.len()));
    }

    #[test]
    fn ages() {
        for (seconds, text) in
            [(0.0, "0s"), (119.0, "119s"), (120.0, "2m"), (7200.0, "2h"), (172_800.0, "2d")]
        {
            assert_eq!(age(seconds), text);
        }
    }
}
