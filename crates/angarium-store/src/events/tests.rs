//! What was learned inside a transaction that came to nothing is forgotten with it.

use std::sync::Arc;

use angarium_domain::channel::ChannelKind;
use angarium_domain::event::{Defaults, Event};
use angarium_domain::id::uuid_from;
use angarium_domain::subscription::Subscription;
use angarium_domain::text::{Actor, ChannelName, SubscriptionId};
use angarium_domain::time::Timestamp;

use super::accept::AcceptEvents;
use super::plan::Planner;
use super::types::{ChannelFacts, Channels, EventAcceptance, NewEvent};
use crate::db::{Op, Options, Statement, Tx};
use crate::error::Result;
use crate::routes::subscriptions::Put;
use crate::routes::types::{Changed, Expect, ObjectKind};
use crate::{Store, StoreError};

const NOW: Timestamp = Timestamp::EPOCH;

fn channels() -> Arc<Channels> {
    let facts = ChannelFacts { kind: ChannelKind::Webhook, enabled: true };
    Arc::new([(ChannelName::parse("hooks").unwrap(), facts)].into())
}

fn subscription(kind: &str) -> Subscription {
    let json = format!(
        r#"{{"name":"x","feed":"f","target":{{"channel":"hooks","address":"https://a.example/"}},
        "filter":{{"event_types":["{kind}"]}}}}"#
    );
    Subscription::parse(&json, &|_| Some(ChannelKind::Webhook)).unwrap()
}

fn id(name: &str) -> SubscriptionId {
    SubscriptionId::parse(name).unwrap()
}

fn event(kind: &str) -> NewEvent {
    let json = format!(r#"{{"feed":"f","type":"{kind}","key":"42"}}"#);
    let parsed = Event::parse(&json, Defaults { source: "erp", external_id: kind.into(), at: NOW }).unwrap();
    let id = uuid_from([kind]).into();
    NewEvent { id, event: parsed.event, hash: parsed.hash, accepted_by: Actor::system() }
}

/// Somebody subscribes, an event is planned for them, and the transaction is lost.
struct Lost {
    put: Put,
    accept: AcceptEvents,
}

impl Op for Lost {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        self.put.run(tx).await?;
        let answers = self.accept.run(tx).await?;
        let [EventAcceptance::Accepted(planned)] = &*answers else { panic!("{answers:?}") };
        assert_eq!(planned.notifications.len(), 1, "what is about to be lost was learned");
        tx.execute(&Statement::fixed("ROLLBACK"), &[]).await.map(drop)
    }
}

#[tokio::test]
async fn what_was_learned_before_a_failed_commit_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Options::new(folder.path().join("a.db"))).await.unwrap();
    store.configure(channels());
    let feed = r#"{"event_types":["A","B"]}"#.to_owned();
    store.put_object(ObjectKind::Feed, "f", feed, Expect::Absent, NOW).await.unwrap();
    store.learn_routes().await.unwrap();

    let (known, keys) = (Arc::clone(&store.routes), Arc::clone(&store.keys));
    let planner = Arc::new(Planner { known, keys, channels: channels() });
    let put = Put { id: id("a"), subscription: subscription("A"), expect: Expect::Absent, now: NOW };
    let lost = Lost { put, accept: AcceptEvents { items: vec![event("A")], planner, now: NOW } };
    assert!(matches!(store.db.write(lost).await, Err(StoreError::Unavailable(_))));

    // The next change has the number, and the next subscription the key, of those that never were.
    let made = store.put_subscription(id("b"), subscription("B"), Expect::Absent, NOW).await.unwrap();
    assert!(matches!(made, Changed::Done { created: true, .. }), "{made:?}");
    for (kind, told) in [("A", 0), ("B", 1)] {
        let answers = store.accept_events(vec![event(kind)], channels(), NOW).await.unwrap();
        let [EventAcceptance::Accepted(planned)] = &*answers else { panic!("{answers:?}") };
        assert_eq!(planned.notifications.len(), told, "{kind}");
    }
}
