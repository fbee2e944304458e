//! What a claimed notification is about, as it stands right before it is sent.

use angarium_domain::text::{FeedId, SourceKey};
use angarium_store::*;

use crate::events::{Happening, another, claim, happens, happens_at, only, outage, own, park, ready, skip};
use crate::subscriptions::Sub;
use crate::support::{Database, at, delivered, note, retried};

async fn signal(db: &Database, claim: &Claim) -> Signal {
    db.store.signal(claim, at(60)).await.unwrap().unwrap()
}

/// Plans it, for the one subscription that there is, and claims what that led to.
async fn claimed(db: &Database, happening: &Happening) -> Claim {
    let planned = happens(db, happening).await;
    claim(db, only(&planned), happening.now).await
}

/// The external id of the event that the text would be made from.
async fn row(db: &Database, claim: &Claim) -> Option<String> {
    signal(db, claim).await.row.map(|row| row.event.external_id.as_str().to_owned())
}

/// FP-07: the newest event about the subject counts, by when it happened, and of two at once the one that came last.
pub(crate) async fn a_text_is_made_from_the_newest_row(db: Database) {
    ready(&db).await;
    own("a").with(r#""options":{"ntfy":{"priority":5}}"#).put(&db).await;
    let claim = claimed(&db, &outage("first").when(10)).await;
    let told = signal(&db, &claim).await;
    assert_eq!((&told.event, Some(&told.event)), (told.row.as_ref().unwrap(), told.row.as_ref()));
    assert_eq!(told.event.event, outage("first").build().event);
    assert_eq!(told.subscription.as_deref(), Some("About a"));
    assert_eq!(told.options.as_deref(), Some(r#"{"ntfy":{"priority":5}}"#));
    assert!(!told.superseded && !told.unsubscribed && !told.in_doubt && told.pinned.is_none());

    happens(&db, &outage("earlier").when(11).happened(9)).await;
    assert_eq!(row(&db, &claim).await.as_deref(), Some("first"));
    happens(&db, &outage("at once").when(12).happened(10)).await;
    assert_eq!(row(&db, &claim).await.as_deref(), Some("at once"));
    happens(&db, &outage("later").when(13)).await;
    happens(&db, &outage("another").key("43").when(14)).await;
    happens(&db, &outage("a test").with(r#""test":true"#).when(15)).await;
    assert_eq!(row(&db, &claim).await.as_deref(), Some("later"));
    assert_eq!(signal(&db, &claim).await.event.event.external_id.as_str(), "first");
}

/// FP-06: a row that is gone is told of no more, until there is news of it.
pub(crate) async fn a_row_that_is_gone_may_come_back(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let claim = claimed(&db, &outage("first")).await;
    let (feed, key) = (FeedId::parse("outages").unwrap(), |key| SourceKey::parse(key).unwrap());
    assert!(!db.store.source_gone(&feed, &key("43"), at(20)).await.unwrap());
    assert!(db.store.source_gone(&feed, &key("42"), at(20)).await.unwrap());
    assert_eq!(row(&db, &claim).await, None);
    assert!(db.store.event(outage("first").id()).await.unwrap().unwrap().source_gone);
    happens(&db, &outage("old news").happened(5)).await;
    assert_eq!(row(&db, &claim).await, None);
    happens(&db, &outage("later").when(21)).await;
    assert_eq!(row(&db, &claim).await.as_deref(), Some("later"));
    assert!(!db.store.event(outage("first").id()).await.unwrap().unwrap().source_gone);
}

/// FP-22: a later event of a type that the feed says so of makes an earlier one untrue.
pub(crate) async fn a_later_type_supersedes(db: Database) {
    ready(&db).await;
    own("a").with(r#""filter":{"event_types":["NewOutage"]}"#).put(&db).await;
    let claim = claimed(&db, &outage("out")).await;
    let restored = |name: &str| outage(name).kind("Restoration");
    happens(&db, &restored("earlier").happened(5)).await;
    happens(&db, &restored("elsewhere").key("43").when(11)).await;
    happens(&db, &restored("tested").with(r#""test":true"#).when(12)).await;
    happens(&db, &outage("again").when(13)).await;
    assert!(!signal(&db, &claim).await.superseded);
    happens(&db, &restored("at last").when(14)).await;
    assert!(signal(&db, &claim).await.superseded);
    let view = db.store.event(outage("out").id()).await.unwrap().unwrap();
    assert_eq!(view.superseded_by, Some(restored("at last").id()));
    let restored = db.store.event(restored("at last").id()).await.unwrap().unwrap();
    assert_eq!(restored.superseded_by, None);
}

pub(crate) async fn a_later_event_with_the_same_supersede_key_supersedes(db: Database) {
    ready(&db).await;
    own("a").with(r#""filter":{"event_types":["NewOutage"]}"#).put(&db).await;
    let same = r#""supersede_key":"order 7""#;
    let claim = claimed(&db, &outage("first").with(same)).await;
    let other = |name: &str| outage(name).key(name).kind("Restoration");
    happens(&db, &other("earlier").with(same).happened(9)).await;
    happens(&db, &other("another").with(r#""supersede_key":"order 8""#).when(11)).await;
    happens(&db, &other("none").when(11)).await;
    happens(&db, &other("test").with(same).with(r#""test":true"#).when(11)).await;
    assert!(!signal(&db, &claim).await.superseded);
    happens(&db, &other("at once").with(same).when(12).happened(10)).await;
    assert!(signal(&db, &claim).await.superseded, "of two at once the one that came last is the later");
}

/// FP-03: whether it is still wanted is looked at right before it is sent.
pub(crate) async fn who_no_longer_wants_it_is_found_out(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let claim = claimed(&db, &outage("e")).await;
    let unsubscribed = async || signal(&db, &claim).await.unsubscribed;
    let put = async |one: Sub| {
        one.put(&db).await;
        unsubscribed().await
    };
    assert!(!unsubscribed().await);
    assert!(put(own("a").with(r#""active":false"#)).await);
    assert!(put(own("a").with(r#""expires_at":"2026-10-05T00:00:00Z""#)).await);
    assert!(!put(own("a").with(r#""cooldown":"1h""#)).await);
    own("a").delete(&db).await;
    assert!(unsubscribed().await);
}

/// A claim that no longer stands is about nothing, and neither is what no event led to.
pub(crate) async fn a_signal_belongs_to_a_claim_that_stands(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let claim = claimed(&db, &outage("e")).await;
    db.store.release(&claim, at(11)).await.unwrap();
    assert!(db.store.signal(&claim, at(12)).await.unwrap().is_none());
    let again = db.claim_one(at(12)).await;
    assert!(db.store.signal(&claim, at(12)).await.unwrap().is_none());
    assert!(db.store.signal(&again, at(12)).await.unwrap().is_some());
    db.accept(&note("direct").when(at(13))).await;
    let direct = db.claim_one(at(13)).await;
    assert!(!direct.tells && again.tells);
    assert!(db.store.signal(&direct, at(13)).await.unwrap().is_none());
}

fn text(body: &str) -> RenderedText {
    let (subject, presentation) = ("Outage".into(), r#"{"tags":["warning"]}"#.into());
    RenderedText { subject, body: body.into(), data: Some(r#"{"n":1}"#.into()), presentation }
}

const NO_TEXT: [u8; 32] = [9; 32];

/// Once an attempt may have arrived, what was sent is sent again to the letter.
pub(crate) async fn a_text_is_kept_before_it_is_sent(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    own("b").put(&db).await;
    let planned = happens(&db, &outage("e")).await;
    let claims = db.claim_all(at(10)).await;
    assert_eq!((claims.len(), planned.notifications.len()), (2, 2));
    let texts = || db.ask("SELECT body FROM contents ORDER BY body");
    for claim in &claims {
        let before = db.store.load(claim, at(10)).await.unwrap().unwrap();
        assert_eq!((&*before.subject, &*before.body, before.presentation), ("", "", None));
        assert!(db.store.pin(claim, text("out"), [1; 32], at(10)).await.unwrap());
        let loaded = db.store.load(claim, at(10)).await.unwrap().unwrap();
        let RenderedText { subject, body, data, presentation } = text("out");
        assert_eq!((loaded.subject, loaded.body, loaded.data), (subject, body, data));
        assert_eq!(loaded.presentation, Some(presentation));
        let told = signal(&db, claim).await;
        assert_eq!((told.pinned, told.in_doubt), (Some([1; 32]), false));
    }
    assert_eq!(texts(), ["out"], "one text for both");

    let claim = claims.first().unwrap();
    let mut doubtful = retried(claim, at(11), at(12));
    doubtful.attempt.as_mut().unwrap().duplicate_risk = true;
    assert_eq!(db.settle(doubtful).await, Settled::Applied);
    assert!(!db.store.pin(claim, text("too late"), NO_TEXT, at(12)).await.unwrap());
    assert_eq!(texts(), ["out"], "of which nothing is left");
    let again = db.claim_one(at(12)).await;
    let told = signal(&db, &again).await;
    assert_eq!((told.pinned, told.in_doubt), (Some([1; 32]), true));
    assert_eq!(db.store.load(&again, at(12)).await.unwrap().unwrap().body, "out");

    let other = claims.last().unwrap();
    assert_eq!(db.settle(retried(other, at(11), at(12))).await, Settled::Applied);
    let other = db.claim_one(at(12)).await;
    assert!(!signal(&db, &other).await.in_doubt, "a failure that is sure leaves no doubt");
    assert!(db.store.pin(&other, text("newer"), [2; 32], at(12)).await.unwrap());
    assert_eq!(db.store.load(&other, at(12)).await.unwrap().unwrap().body, "newer");
    assert_eq!(db.store.load(&again, at(12)).await.unwrap().unwrap().body, "out");
}

/// The same text from two nodes at once is stored once.
pub(crate) async fn two_nodes_share_a_text(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    own("b").put(&db).await;
    let beside = another(&db).await;
    let beside = beside.as_ref().unwrap_or(&db.store);
    for round in 0..8u8 {
        happens_at(&db.store, &outage(&format!("e{round}")).key(&round.to_string())).await;
        let claims = db.claim_all(at(10)).await;
        let [one, other] = &*claims else { panic!("{claims:?}") };
        let body = format!("text {round}");
        let (ours, theirs) = tokio::join!(
            db.store.pin(one, text(&body), [round; 32], at(10)),
            beside.pin(other, text(&body), [round; 32], at(10)),
        );
        assert!(ours.unwrap() && theirs.unwrap());
        for claim in &claims {
            assert_eq!(db.store.load(claim, at(10)).await.unwrap().unwrap().body, body);
        }
    }
    assert_eq!(db.ask("SELECT body FROM contents").len(), 8);
}

/// FP-03: when a subscription was last told changes with deliveries alone.
pub(crate) async fn only_a_delivery_counts_as_told(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let last_sent = async || own("a").stored(&db).await.unwrap().last_sent_at;
    let ledger = || db.ask("SELECT CAST(told_at AS TEXT) FROM ledger");
    let first = only(&happens(&db, &outage("1").key("1")).await);
    park(&db, first, at(20)).await;
    let second = only(&happens(&db, &outage("2").key("2")).await);
    skip(&db, second, angarium_domain::state::SkipReason::Superseded, at(21)).await;
    assert_eq!((last_sent().await, ledger()), (None, vec![]));
    let third = claimed(&db, &outage("3").key("3").when(30)).await;
    assert_eq!(db.settle(retried(&third, at(30), at(31))).await, Settled::Applied);
    assert_eq!(ledger(), [i64::MAX.to_string()], "it holds its place meanwhile");
    let third = db.claim_one(at(31)).await;
    assert_eq!(db.settle(delivered(&third, at(32))).await, Settled::Applied);
    assert_eq!((last_sent().await, ledger()), (Some(at(32)), vec![at(32).micros().to_string()]));
    let sooner = claimed(&db, &outage("4").key("4").when(33)).await;
    assert_eq!(db.settle(delivered(&sooner, at(31))).await, Settled::Applied);
    assert_eq!(last_sent().await, Some(at(32)), "it never goes back");
}

/// A success that comes in after its claim had ended counts for the ledger, too.
pub(crate) async fn a_late_delivery_counts_as_told(db: Database) {
    ready(&db).await;
    own("a").put(&db).await;
    let claim = claimed(&db, &outage("1")).await;
    db.store.release(&claim, at(100)).await.unwrap();
    assert_eq!(db.settle(delivered(&claim, at(20))).await, Settled::LateDelivered);
    assert_eq!(own("a").stored(&db).await.unwrap().last_sent_at, Some(at(20)));
    assert_eq!(db.ask("SELECT CAST(told_at AS TEXT) FROM ledger"), [at(20).micros().to_string()]);
}
