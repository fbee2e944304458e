//! What a start does with a configuration.

use std::path::Path;

use angarium_domain::text::SubscriptionId;
use angarium_domain::time::ManualClock;
use angarium_store::{Expect, ManagedBy, ObjectKind};

use super::*;
use crate::config::Source;

const GROUND: &str = r#"
[channels.hooks]
kind = "webhook"
[lists.ops]
channel = "hooks"
members = [{ address = "https://example.com/ops", name = "Ops" }]
[feeds.outages]
event_types = ["NewOutage"]
fields.feeder = {}
"#;

const ROUTES: &str = r#"
[[templates]]
event_type = "NewOutage"
channel = "hooks"
locale = "en-US"
body = "Outage on {{ fields.feeder }}"
[[subscriptions]]
name = "All outages"
feed = "outages"
target.list = "ops"
"#;

fn configured(epoch: i64, rest: &str) -> Config {
    let source = Source {
        name: "angarium.toml",
        folder: Path::new(""),
        readable_by_others: false,
        env: &|_| None,
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    Config::parse(&format!("[server]\nconfig_epoch = {epoch}\n{GROUND}{rest}"), &source).unwrap().config
}

/// What the store says of each object, and whether it counts.
async fn standing(store: &Store) -> Vec<(String, ManagedBy, bool)> {
    let mut standing = Vec::new();
    for kind in [ObjectKind::Feed, ObjectKind::Template, ObjectKind::List] {
        for object in store.objects(kind, None, 10).await.unwrap() {
            standing.push((object.name, object.managed_by, object.active));
        }
    }
    let all_outages = SubscriptionId::parse("all-outages").unwrap();
    if let Some(stored) = store.subscription(&all_outages).await.unwrap() {
        standing.push((stored.id.to_string(), stored.managed_by, stored.subscription.active));
    }
    standing
}

fn by_file(names: &[(&str, bool)]) -> Vec<(String, ManagedBy, bool)> {
    names.iter().map(|(name, active)| ((*name).to_owned(), ManagedBy::File, *active)).collect()
}

/// FP-01, FP-03: what the file declares is stored at the start, idempotently; what vanishes from it no longer counts, and
/// an older file takes nothing back.
#[tokio::test]
async fn a_start_makes_the_store_agree_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Options::new(folder.path().join("angarium.db"))).await.unwrap();
    let clock = ManualClock::at("2026-07-07T12:00:00Z".parse().unwrap());
    let whole = configured(1, ROUTES);
    apply(&whole, &store, &clock).await.unwrap();
    let all =
        by_file(&[("outages", true), ("NewOutage/hooks/en-US", true), ("ops", true), ("all-outages", true)]);
    assert_eq!(standing(&store).await, all);
    let list = store.object(ObjectKind::List, "ops").await.unwrap().unwrap();
    assert_eq!(
        list.spec,
        r#"{"channel":"hooks","members":[{"address":"https://example.com/ops","name":"Ops"}]}"#
    );

    clock.advance(Duration::from_secs(60));
    apply(&whole, &store, &clock).await.unwrap();
    assert_eq!(store.object(ObjectKind::List, "ops").await.unwrap().unwrap(), list);

    apply(&configured(2, ""), &store, &clock).await.unwrap();
    let fewer = by_file(&[
        ("outages", true),
        ("NewOutage/hooks/en-US", false),
        ("ops", true),
        ("all-outages", false),
    ]);
    assert_eq!(standing(&store).await, fewer);
    apply(&whole, &store, &clock).await.unwrap();
    assert_eq!(standing(&store).await, fewer);
    apply(&configured(3, ROUTES), &store, &clock).await.unwrap();
    assert_eq!(standing(&store).await, all);
}

/// FP-03: what was made through the API stays as it was made, and stops no start.
#[tokio::test]
async fn what_the_api_made_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Options::new(folder.path().join("angarium.db"))).await.unwrap();
    let clock = ManualClock::at("2026-07-07T12:00:00Z".parse().unwrap());
    let spec = r#"{"channel":"hooks","members":["https://example.com/other"]}"#.to_owned();
    store.put_object(ObjectKind::List, "ops", spec.clone(), Expect::Absent, clock.now()).await.unwrap();
    apply(&configured(1, ROUTES), &store, &clock).await.unwrap();
    let list = store.object(ObjectKind::List, "ops").await.unwrap().unwrap();
    assert_eq!((list.managed_by, list.spec), (ManagedBy::Api, spec));
    assert_eq!(standing(&store).await.len(), 4);
}
