//! What the outage feeds of `examples/outages.toml` tell, word for word (FP-12): one file for each message in `outages` beside
//! this one. `ANGARIUM_GOLDEN=write` writes them anew.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(clippy::unwrap_used, reason = "a failed expectation must end the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::id::EventId;
use angarium_domain::template::Template;
use angarium_domain::text::{EventSource, EventType, ExternalId, FeedId, FieldName, SourceKey};
use angarium_engine::render::{Compiled, Facts, Rendered};
use toml::Table;

/// A message: its file, its event's feed, type and key, and the fields.
type Sample =
    (&'static str, &'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const POWER: &str = "beneco.power-outages";
const PLANNED: &str = "beneco.scheduled-outages";
const FEEDER: (&str, &str) = ("feeder", "Feeder 14");
const AREA: (&str, &str) = ("area", "Bakakeng Central & Camp 7");
const ENTRY: [(&str, &str); 4] =
    [FEEDER, ("areas", "Loakan Proper, Camp 8"), ("interruptionType", "Total"), ("purpose", "Line upgrade")];
const CHANGED: [(&str, &str); 5] =
    [FEEDER, ENTRY[1], ("interruptionType", "Partial"), ("purpose", ""), ("item", "1207")];
const DIGEST: [(&str, &str); 2] = [("itemCount", "3"), ("weekOf", "2026-07-06")];
const ONE: [(&str, &str); 1] = [("itemCount", "1")];

const SAMPLES: [Sample; 10] = [
    ("NewOutage", POWER, "NewOutage", "42", &[FEEDER, AREA, ("cause", "Tree on the line")]),
    ("NewOutage-scheduled", POWER, "NewOutage", "43", &[FEEDER, AREA, ("scheduled", "1207")]),
    ("Restoration", POWER, "Restoration", "42", &[FEEDER, AREA]),
    ("RestoredAnnouncement", POWER, "RestoredAnnouncement", "42", &[FEEDER, AREA]),
    ("NewEntry", PLANNED, "NewEntry", "1207", &ENTRY),
    ("Updated", PLANNED, "Updated", "1207-9f3c", &CHANGED),
    ("Cancelled", PLANNED, "Cancelled", "1207", &ENTRY),
    ("WeeklyDigest", PLANNED, "WeeklyDigest", "weekly-2026-07-07", &DIGEST),
    ("DailyUpdate", PLANNED, "DailyUpdate", "daily-2026-07-07", &ONE),
    ("DayBeforeReminder", PLANNED, "DayBeforeReminder", "reminder-2026-07-08", &ONE),
];

fn crate_file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn example() -> Table {
    let text = std::fs::read_to_string(crate_file("../../examples/outages.toml")).unwrap();
    text.parse().unwrap()
}

fn templates() -> Vec<Template> {
    let example = example();
    let tables = example["templates"].as_array().unwrap();
    tables.iter().map(|table| Template::parse(&serde_json::to_string(table).unwrap()).unwrap()).collect()
}

fn feeds() -> Vec<Feed> {
    let example = example();
    let tables = example["feeds"].as_table().unwrap();
    let read = |(id, table): (&String, &toml::Value)| {
        Feed::parse(FeedId::parse(id).unwrap(), &serde_json::to_string(table).unwrap()).unwrap()
    };
    tables.iter().map(read).collect()
}

fn event((_, feed, kind, key, fields): &Sample) -> Event {
    let fields = fields.iter().map(|(name, value)| (FieldName::parse(name).unwrap(), (*value).to_owned()));
    Event {
        source: EventSource::parse("poller").unwrap(),
        external_id: ExternalId::parse("1").unwrap(),
        feed: FeedId::parse(feed).unwrap(),
        kind: EventType::parse(kind).unwrap(),
        key: SourceKey::parse(key).unwrap(),
        at: "2026-07-07T01:02:03Z".parse().unwrap(),
        locale: None,
        fields: fields.collect::<BTreeMap<_, _>>(),
        data: None,
        entity: None,
        recipients: Vec::new(),
        expires_at: None,
        supersede_key: None,
        test: false,
    }
}

fn render(templates: &[Template], sample: &Sample) -> Rendered {
    let event = event(sample);
    let event_id: EventId = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59".parse().unwrap();
    let template = templates.iter().find(|template| template.event_type == event.kind).unwrap();
    let compiled = Compiled::compile(template).unwrap();
    let facts = Facts { signal: &event, event_id, row: &event, subscription: None, locale: None };
    compiled.render(&facts).unwrap()
}

fn spelt(rendered: &Rendered) -> String {
    let Rendered { title, body, html, sequence_id, tags, priority, cut } = rendered;
    assert!(html.is_none() && !cut);
    let (tags, priority) = (tags.join(" "), priority.unwrap());
    format!("title: {title}\nsequence id: {sequence_id}\ntags: {tags}\npriority: {priority}\n\n{body}\n")
}

/// FP-12: each type of event has its own text, and it is the one in the file.
#[test]
fn each_type_is_told_as_its_file_says() {
    let templates = templates();
    for sample in &SAMPLES {
        let told = spelt(&render(&templates, sample));
        let file = crate_file("tests/golden/outages").join(format!("{}.txt", sample.0));
        if std::env::var_os("ANGARIUM_GOLDEN").is_some_and(|wish| wish == "write") {
            std::fs::write(&file, &told).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), told, "{}", file.display());
    }
}

/// Every type has a template and a sample, and there is no file that nothing refers to.
#[test]
fn nothing_is_missing_and_nothing_left_over() {
    let types = |feed: Feed| feed.event_types.into_iter().map(|kind| kind.to_string());
    let declared: BTreeSet<String> = feeds().into_iter().flat_map(types).collect();
    let templates: BTreeSet<String> =
        templates().iter().map(|template| template.event_type.to_string()).collect();
    let sampled: BTreeSet<String> = SAMPLES.iter().map(|sample| sample.2.to_owned()).collect();
    assert_eq!((&templates, &sampled), (&declared, &declared));
    let folder = std::fs::read_dir(crate_file("tests/golden/outages")).unwrap();
    let files: BTreeSet<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, SAMPLES.iter().map(|sample| format!("{}.txt", sample.0)).collect());
}

/// Templates take nothing for granted that their feed does not declare.
#[test]
fn the_feeds_declare_what_the_templates_use() {
    let feeds = feeds();
    for template in templates() {
        let feed = feeds.iter().find(|feed| feed.has_type(&template.event_type)).unwrap();
        assert_eq!(Compiled::compile(&template).unwrap().unknown_fields(feed), []);
    }
}

/// FP-11: what a provider replaces by is the item alone, however its text and its time change.
#[test]
fn a_logical_event_keeps_its_identity() {
    let templates = templates();
    let id = |sample: &Sample| render(&templates, sample).sequence_id;
    let ids: Vec<String> = SAMPLES[..4].iter().map(id).collect();
    assert_eq!(
        ids,
        ["power-outage-42", "power-outage-43", "power-restored-42", "power-restored-announced-42"]
    );
    let again: Sample = ("", PLANNED, "Updated", "1207-0000", &CHANGED);
    assert_eq!(id(&SAMPLES[5]), id(&again));
}
