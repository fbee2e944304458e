use angarium_domain::disposition::Scope;
use angarium_domain::text::ChannelName;
use angarium_store::*;

use crate::support::{Database, at, note, retried, with_scope};

async fn strike(db: &Database, name: &str, scope: Scope) {
    db.accept(&note(name).when(at(0))).await;
    let claims = db.claim_all(at(0)).await;
    let claim = claims.last().unwrap();
    db.settle(with_scope(retried(claim, at(1), at(1)), claim, scope)).await;
}

fn hooks() -> ChannelName {
    ChannelName::parse("hooks").unwrap()
}

/// A channel that waits, then one that is suspended; the longer wait and the reason stand.
pub(crate) async fn what_stands_in_the_way_of_a_channel_is_shown(db: Database) {
    assert!(db.store.channel_states().await.unwrap().is_empty());
    let state = |waits_until, suspended: Option<&str>| ChannelState {
        channel: "hooks".into(),
        waits_until,
        suspended: suspended.map(str::to_owned),
    };
    strike(&db, "a", Scope::ChannelWaits(at(0))).await;
    assert_eq!(db.store.channel_states().await.unwrap(), [state(at(0), None)]);
    strike(&db, "b", Scope::SuspendChannel(at(300))).await;
    let db = db.reopened().await;
    assert_eq!(db.store.channel_states().await.unwrap(), [state(at(300), Some("HTTP 410"))]);
}

/// What holds up the whole channel is lifted; what one receiver asked for is not.
pub(crate) async fn a_reopened_channel_sends_again(db: Database) {
    db.accept(&note("waits").to("https://b.example/")).await;
    let claim = db.claim_one(at(0)).await;
    db.settle(with_scope(retried(&claim, at(1), at(1)), &claim, Scope::LaneWaits(at(600)))).await;
    strike(&db, "a", Scope::SuspendChannel(at(300))).await;
    assert!(db.claim_all(at(2)).await.is_empty());

    let other = ChannelName::parse("other").unwrap();
    assert!(!db.store.reopen_channel(&other).await.unwrap());
    assert!(db.claim_all(at(2)).await.is_empty(), "another channel is none of its business");
    assert!(db.store.reopen_channel(&hooks()).await.unwrap());
    assert!(!db.store.reopen_channel(&hooks()).await.unwrap(), "nothing stands in its way any more");
    assert!(db.store.channel_states().await.unwrap().is_empty());
    let claimed: Vec<_> = db.claim_all(at(2)).await.into_iter().map(|claim| claim.id).collect();
    assert_eq!(claimed, [note("a").id()]);
    let waiting = db.store.waiting_lanes(at(2)).await.unwrap();
    assert_eq!((waiting.len(), waiting[0].waits_until, waiting[0].suspended), (1, at(600), false));
}
