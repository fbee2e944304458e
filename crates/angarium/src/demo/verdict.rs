//! What came out beside what must come out: pure functions, from the closing table to the verdict.

use std::fmt::Display;

use angarium_domain::text::one_line;

use super::api::Entry;
use super::picture::Snapshot;

/// What a receiver saw and what the server says about it. The same for what must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// Requests that arrived. Of mail, envelopes.
    pub(super) requests: usize,
    /// Different notifications among them.
    pub(super) ids: usize,
    /// Requests that a real receiver would have acted upon. Of mail, one for each recipient it was taken for.
    pub(super) effects: usize,
    /// Effects of an id that had an effect at the same receiver before.
    pub(super) duplicates: usize,
    /// Notifications that are delivered.
    pub(super) delivered: usize,
    /// Notifications that are parked.
    pub(super) parked: usize,
    /// Notifications that are discarded.
    pub(super) discarded: usize,
}

impl Tally {
    /// Nothing at all.
    pub(super) const NOTHING: Tally =
        Tally { requests: 0, ids: 0, effects: 0, duplicates: 0, delivered: 0, parked: 0, discarded: 0 };

    fn columns(&self) -> [(&'static str, usize); 7] {
        [
            ("requests", self.requests),
            ("ids", self.ids),
            ("effects", self.effects),
            ("duplicates", self.duplicates),
            ("delivered", self.delivered),
            ("parked", self.parked),
            ("discarded", self.discarded),
        ]
    }
}

/// What the columns mean.
const LEGEND: [&str; 7] = [
    "",
    "  An effect is a request that a receiver acted upon, a duplicate one that it had",
    "  acted upon before. The line of the lists counts one message that went to the",
    "  two members of ops, and one to a list that does not exist. The line of the events",
    "  counts what one event led to; another, about the same outage, led to nothing. Of",
    "  mail, a request is an envelope, and an effect is a mail taken for one recipient;",
    "  one of the messages went to the list duty.",
];

/// One line of the closing table.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) must: Tally,
    pub(super) seen: Tally,
}

/// Something that must be and that no column shows.
#[derive(Clone, Debug)]
pub(super) struct Check {
    claim: &'static str,
    held: bool,
    found: String,
}

impl Check {
    /// That `claim` held, judged by what was `found`.
    pub(super) fn new(claim: &'static str, held: bool, found: impl Display) -> Self {
        Check { claim, held, found: one_line(&found.to_string(), 200) }
    }
}

/// Everything that is judged.
pub(super) struct Reckoning {
    pub(super) lines: Vec<Line>,
    pub(super) checks: Vec<Check>,
    /// How things stood at the end.
    pub(super) open: Snapshot,
}

/// The closing table, and what its columns mean.
pub(super) fn table(lines: &[Line]) -> Vec<String> {
    let titles = Tally::NOTHING.columns().map(|(title, _)| title);
    let row = |name: &str, cells: [String; 7], remark: &str| {
        let mut row = format!("  {name:<8}");
        for (place, (title, cell)) in titles.iter().zip(cells).enumerate() {
            let gap = if place == 4 { "   " } else { " " };
            row.push_str(&format!("{gap}{cell:>width$}", width = title.len()));
        }
        format!("{row}  {remark}").trim_end().to_owned()
    };
    let mut table = vec![
        format!("  {:<8} {:<32}   {}", "", "what the receivers saw", "what the server says"),
        row("", titles.map(str::to_owned), ""),
    ];
    for line in lines {
        let remark = if line.seen == line.must { "" } else { "differs" };
        table.push(row(line.name, line.seen.columns().map(|(_, count)| count.to_string()), remark));
    }
    table.extend(LEGEND.map(str::to_owned));
    table
}

/// Each check and how it came out.
pub(super) fn checked(checks: &[Check]) -> Vec<String> {
    let shown = |check: &Check| {
        let answer = if check.held { "yes" } else { "NO" };
        format!("  {answer:<3}  {} ({})", check.claim, check.found)
    };
    checks.iter().map(shown).collect()
}

/// Everything that did not come out as it must.
pub(super) fn differences(reckoning: &Reckoning) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, count) in reckoning.open.open() {
        differences.push(format!("{name}: {count} still on the way when the time was up"));
    }
    for line in &reckoning.lines {
        for ((what, seen), (_, must)) in line.seen.columns().into_iter().zip(line.must.columns()) {
            if seen != must {
                differences.push(format!("{}: {what} {seen}, and it must be {must}", line.name));
            }
        }
    }
    let broken = reckoning.checks.iter().filter(|check| !check.held);
    differences.extend(broken.map(|check| format!("not so: {} ({})", check.claim, check.found)));
    differences
}

/// The verdict.
pub(super) fn in_words(differences: &[String]) -> Vec<String> {
    if differences.is_empty() {
        return vec!["Everything came out as it must.".to_owned()];
    }
    let mut lines = vec!["Not everything came out as it must:".to_owned()];
    lines.extend(differences.iter().map(|difference| format!("  {difference}")));
    lines
}

/// The last two entries of a trail that are no attempts, in words.
pub(super) fn trail_end(trail: &[Entry]) -> Vec<String> {
    let told: Vec<String> =
        trail.iter().filter(|entry| entry.kind != "attempt").map(entry_in_words).collect();
    told.into_iter().rev().take(2).rev().collect()
}

fn entry_in_words(entry: &Entry) -> String {
    let detail = &entry.detail;
    let mut words = format!("{:<9} by {:<9}", entry.kind, entry.actor);
    if let Some(action) = &detail.action {
        words.push_str(&format!("  {action}:"));
    }
    if let Some(status) = &detail.status {
        words.push_str(&format!("  {status}"));
    }
    if let Some(attempt) = detail.attempt {
        words.push_str(&format!(" by attempt {attempt}"));
    }
    if let Some(reason) = &detail.reason {
        words.push_str(&format!(", \"{reason}\""));
    }
    one_line(words.trim_end(), 200)
}
