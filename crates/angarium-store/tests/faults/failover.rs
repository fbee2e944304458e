//! A standby that was behind takes over: what it did not have is named, and everything else goes on.

use std::collections::BTreeSet;

use angarium_domain::id::NotificationId;
use angarium_store::*;
use angarium_testbed::postgres::Server;

use crate::support::*;

/// What a server had acknowledged that its standby had not got when it took over.
struct Failover {
    standby: Server,
    database: String,
    store: Store,
    lost: BTreeSet<NotificationId>,
    timeline: i64,
}

impl Failover {
    async fn happened() -> Self {
        let primary = Server::start();
        let standby = primary.standby();
        let database = primary.endpoint().create_database();
        let url = format!("postgres://angarium@{},{}/{database}", primary.address(), standby.address());
        let store = opened(&url).await;
        accept_at(&store, "kept.example", &names("kept", 50)).await;
        primary.make_synchronous(true);
        // Whoever commits now knows that the standby has all of it.
        accept_at(&store, "kept.example", &names("kept for sure", 1)).await;
        primary.make_synchronous(false);
        standby.stop_fast();
        let lost = names("lost", 70);
        accept_at(&store, "kept.example", &lost[..35]).await;
        accept_at(&store, "lost.example", &lost[35..]).await;
        // Some were handed in twice.
        accept_at(&store, "kept.example", &lost[..5]).await;
        let timeline = store.pulse().await.unwrap().unwrap().timeline;
        primary.stop_immediately();
        standby.start_again();
        standby.promote();
        let lost = lost.iter().map(|name| id(name)).collect();
        Failover { standby, database, store, lost, timeline }
    }

    /// A note to a receiver that the new server has never heard of is claimed as every other is.
    async fn a_note_to_a_lost_receiver_is_claimed(&self) {
        accept_at(&self.store, "lost.example", &names("new", 3)).await;
        let lanes = in_time(self.store.waiting_lanes(at(0))).await.unwrap();
        let receivers: BTreeSet<&str> = lanes.iter().map(|lane| &*lane.name.receiver).collect();
        assert_eq!(receivers, ["kept.example:443", "lost.example:443"].into());
        assert_eq!(in_time(claim_all(&self.store, at(0))).await.unwrap().len(), 51 + 3);
    }
}

async fn accept_at(store: &Store, receiver: &str, names: &[String]) {
    let notes = names.iter().map(|name| note_to(receiver, name)).collect();
    let answers = in_time(store.accept(notes, at(0))).await.unwrap();
    assert!(answers.into_iter().all(|answer| is_taken(&Ok(answer))));
}

/// P5b: exactly what was acknowledged and is not there is named, and the new timeline is seen.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_was_lost_is_named() {
    let after = Failover::happened().await;
    let named = in_time(after.store.after_a_failover()).await.unwrap();
    assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), after.lost);
    assert_eq!(named.len(), after.lost.len(), "each is named once");
    let pulse = in_time(after.store.pulse()).await.unwrap().unwrap();
    assert_eq!(pulse.timeline, after.timeline + 1);
    after.a_note_to_a_lost_receiver_is_claimed().await;
    // Handed in again, all that was lost is there.
    accept_at(&after.store, "kept.example", &names("lost", 70)).await;
    assert_eq!(
        after.standby.sql(&after.database, "SELECT count(*) FROM angarium.ids"),
        (51 + 3 + 70).to_string()
    );
    assert_eq!(in_time(after.store.after_a_failover()).await, Ok(vec![]));
}

/// P5b: nor is anything lost on its way to a receiver before the failover is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_lost_is_known_again_before_anybody_notices() {
    Failover::happened().await.a_note_to_a_lost_receiver_is_claimed().await;
}
