//! What an event costs beside many subscriptions: `cargo bench -p angarium-domain --bench matching`.
//!
//! Three sizes; at each, most subscriptions are for one feeder and one street of their own, and some are for a word that the broad
//! event holds. Beside the index stands the plainest way to do without it: texts folded beforehand, and a loop over all of
//! them. Times are what the thread computed, so that a busy machine disturbs them little.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::filter::Filter;
use angarium_domain::fold::fold;
use angarium_domain::matching::Index;
use angarium_domain::text::{EventSource, EventType, ExternalId, FeedId, FieldName, SourceKey};
use angarium_domain::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

const SIZES: [i64; 5] = [10, 100, 1_000, 100_000, 1_000_000];
/// Subscriptions that the broad event matches.
const BROAD: i64 = 1_400;

fn main() {
    println!(
        "{:>9} {:>9} {:>9} {:>6}  {:>22} {:>22} {:>9}",
        "subscr.", "load", "of parse", "bytes", "selective / by a loop", "broad / by a loop", "matches"
    );
    let feed = feed();
    for size in SIZES {
        let texts: Vec<String> = (0..size).map(|n| Rule::nth(n, size).json()).collect();
        let (_, reading) = timed(|| texts.iter().filter(|json| Filter::parse(json).is_ok()).count());
        let before = resident();
        let (index, load) = timed(|| {
            let mut index = Index::default();
            for (key, json) in (0..).zip(&texts) {
                index.insert(key, &Filter::parse(json).unwrap(), &feed, false);
            }
            index
        });
        let bytes = resident().saturating_sub(before) / texts.len();
        let rules: Vec<Rule> = (0..size).map(|n| Rule::nth(n, size)).collect();
        let measured = |event: Event| {
            let (found, plainly) = (index.matches(&event), by_a_loop(&rules, &event));
            assert_eq!(found, plainly);
            let index = per_event(|| index.matches(&event).len());
            (found.len(), format!("{index:.2?} / {:.2?}", per_event(|| by_a_loop(&rules, &event).len())))
        };
        let selective = measured(event("Feeder 123 of 500", "Kalye 77"));
        let broad = measured(event("Feeder 1 of 7", "Session Road, common sector"));
        println!(
            "{size:>9} {load:>9.2?} {reading:>9.2?} {bytes:>6}  {:>22} {:>22} {:>9}",
            selective.1,
            broad.1,
            format!("{} / {}", selective.0, broad.0)
        );
    }
}

fn feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage", "Restoration"], "fields": {"feeder": {}, "area": {"match": "word"},
        "cause": {"match": "substring"}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

/// What a subscription is for, its texts folded.
enum Rule {
    /// A word in the area.
    Broad(&'static str),
    /// A feeder, or a street named anywhere, in an outage.
    Own { feeder: String, street: String },
}

impl Rule {
    /// Every so many is broad; the others are for a feeder and a street.
    fn nth(n: i64, size: i64) -> Rule {
        let every = (size / BROAD).max(2);
        if n % every == 0 && n / every < BROAD {
            return Rule::Broad("common sector");
        }
        Rule::Own { feeder: format!("feeder {} of {n}", n % 977), street: format!("kalye {n}") }
    }

    fn json(&self) -> String {
        match self {
            Rule::Broad(word) => format!(r#"{{"keywords": {{"area": ["{word}"]}}}}"#),
            Rule::Own { feeder, street } => format!(
                r#"{{"event_types": ["NewOutage"], "fields": {{"feeder": ["{feeder}"]}}, "keywords": {{"*": ["{street}"]}}}}"#
            ),
        }
    }
}

/// The subscriptions that the event matches, with no index.
fn by_a_loop(rules: &[Rule], event: &Event) -> Vec<i64> {
    let folded = |name: &str| fold(&event.fields[&FieldName::parse(name).unwrap()]);
    let (feeder, area, cause) = (folded("feeder"), folded("area"), folded("cause"));
    let is_outage = event.kind.as_str() == "NewOutage";
    let holds = |rule: &Rule| match rule {
        Rule::Broad(word) => holds_word(&area, word),
        Rule::Own { feeder: own, street } => {
            let anywhere =
                || feeder == *street || holds_word(&area, street) || cause.contains(street.as_str());
            is_outage && (feeder == *own || anywhere())
        }
    };
    (0..).zip(rules).filter(|(_, rule)| holds(rule)).map(|(key, _)| key).collect()
}

fn event(feeder: &str, area: &str) -> Event {
    let cause = "A transformer failed after a tree fell onto the line; crews are on their way and expect to restore power within four hours.";
    let fields = [("feeder", feeder), ("area", area), ("cause", cause)];
    Event {
        source: EventSource::parse("/scada").unwrap(),
        external_id: ExternalId::parse("1").unwrap(),
        feed: FeedId::parse("outages").unwrap(),
        kind: EventType::parse("NewOutage").unwrap(),
        key: SourceKey::parse("42").unwrap(),
        at: Timestamp::EPOCH,
        locale: None,
        fields: fields
            .into_iter()
            .map(|(name, text)| (FieldName::parse(name).unwrap(), text.to_owned()))
            .collect(),
        data: None,
        entity: None,
        recipients: Vec::new(),
        expires_at: None,
        supersede_key: None,
        test: false,
    }
}

fn holds_word(text: &str, word: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (before, after) = (|at: usize| text[..at].chars().next_back(), |at: usize| text[at..].chars().next());
    text.match_indices(word).any(|(at, _)| !inner(before(at)) && !inner(after(at + word.len())))
}

/// The time of one run, over as many as take a third of a second.
fn per_event<T>(mut run: impl FnMut() -> T) -> Duration {
    let begun = Instant::now();
    let mut runs = 0;
    let ((), took) = timed(|| {
        while begun.elapsed() < Duration::from_millis(300) {
            black_box(run());
            runs += 1;
        }
    });
    took / runs
}

/// How long this thread computed.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let begun = now();
    let result = run();
    (result, now() - begun)
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}
