//! What an event costs beside many subscriptions: `cargo bench -p angarium-domain --bench matching`.
//!
//! Three sizes; at each, most subscriptions are for one feeder and one street of their own, and some are for a word that the broad
//! event holds. The floor of each figure is what holding every filter against the event costs, in the same run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark talks to whoever runs it")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::filter::Filter;
use angarium_domain::matching::{Index, Matcher};
use angarium_domain::text::{EventSource, EventType, ExternalId, FeedId, FieldName, SourceKey};
use angarium_domain::time::Timestamp;

const SIZES: [i64; 3] = [1_000, 100_000, 1_000_000];
/// Subscriptions that the broad event matches.
const BROAD: i64 = 1_400;

fn main() {
    println!("{:>10} {:>9} {:>8} {:>13} {:>13} {:>13} {:>8}", "subscr.", "load", "bytes", "one by one", "selective", "broad", "matches");
    for size in SIZES {
        let (feed, before) = (feed(), resident());
        let filters: Vec<String> = (0..size).map(|n| filter(n, size)).collect();
        let texts = resident();
        let begun = Instant::now();
        let mut index = Index::default();
        for (key, json) in (0..).zip(&filters) {
            index.insert(key, &Filter::parse(json).unwrap(), &feed, false);
        }
        let load = begun.elapsed();
        let bytes = resident().saturating_sub(texts) / usize::try_from(size).unwrap();
        black_box(before);
        let (selective, broad) = (event("Feeder 123 of 500", "Kalye 77"), event("Feeder 1 of 7", "Session Road, common sector"));
        let one_by_one = one_by_one(&filters, &feed, &selective);
        let selective = (per_event(|| index.matches(&selective).len()), index.matches(&selective).len());
        let broad = (per_event(|| index.matches(&broad).len()), index.matches(&broad).len());
        println!(
            "{size:>10} {load:>9.2?} {bytes:>8} {one_by_one:>13.2?} {:>13.2?} {:>13.2?} {:>8}",
            selective.0, broad.0, format!("{}/{}", selective.1, broad.1)
        );
    }
}

fn feed() -> Feed {
    let json = r#"{"event_types": ["NewOutage", "Restoration"], "fields": {"feeder": {}, "area": {"match": "word"},
        "cause": {"match": "substring"}}}"#;
    Feed::parse(FeedId::parse("outages").unwrap(), json).unwrap()
}

/// Every so many is broad; the others are for a feeder and a street.
fn filter(n: i64, size: i64) -> String {
    let every = (size / BROAD).max(1);
    if n % every == 0 && n / every < BROAD {
        return r#"{"keywords": {"area": ["common sector"]}}"#.to_owned();
    }
    format!(
        r#"{{"event_types": ["NewOutage"], "fields": {{"feeder": ["Feeder {} of {n}"]}}, "keywords": {{"*": ["kalye {n}"]}}}}"#,
        n % 977
    )
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
        fields: fields.into_iter().map(|(name, text)| (FieldName::parse(name).unwrap(), text.to_owned())).collect(),
        data: None,
        entity: None,
        recipients: Vec::new(),
        expires_at: None,
        supersede_key: None,
        test: false,
    }
}

/// Holding a thousand filters against the event, as many times as it takes, scaled to all of them.
fn one_by_one(filters: &[String], feed: &Feed, event: &Event) -> Duration {
    let some: Vec<Matcher> =
        filters.iter().take(1_000).map(|json| Matcher::compile(&Filter::parse(json).unwrap(), feed)).collect();
    let thousand = per_event(|| some.iter().filter(|one| one.judge(event).matches).count());
    thousand.mul_f64(filters.len() as f64 / some.len() as f64)
}

/// The time of one run, over as many as take a third of a second.
fn per_event<T>(mut run: impl FnMut() -> T) -> Duration {
    let begun = Instant::now();
    let mut runs = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        black_box(run());
        runs += 1;
    }
    begun.elapsed() / runs
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}
