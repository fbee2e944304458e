use angarium_domain::state::Status;
use angarium_store::*;

use crate::support::{Database, at, note};

fn accepted(note: &crate::support::Note, duplicate: bool) -> Acceptance {
    Acceptance::Accepted { id: note.id(), status: Status::Pending, duplicate }
}

/// OB-02: a resend of the same id is a no-op with the same acknowledgement.
pub(crate) async fn a_resend_gets_the_same_answer_and_stores_nothing(db: Database) {
    let alarm = note("alarm");
    assert_eq!(db.accept(&alarm).await, accepted(&alarm, false));
    assert_eq!(db.accept(&alarm).await, accepted(&alarm, true));
    let twice = db.store.accept(vec![note("b").build(), note("b").build()], at(0)).await.unwrap();
    assert_eq!(twice, [accepted(&note("b"), false), accepted(&note("b"), true)]);
    assert_eq!(db.store.list(Filter::default(), 10).await.unwrap().items.len(), 2);
    let claim = db.claim_all(at(0)).await.remove(0);
    db.settle(crate::support::delivered(&claim, at(1))).await;
    let done = Acceptance::Accepted { id: alarm.id(), status: Status::Delivered, duplicate: true };
    assert_eq!(db.accept(&alarm).await, done);
}

/// OB-02: the same id with other content is refused, and nothing of it is stored.
pub(crate) async fn a_reused_id_is_refused_and_harms_no_neighbour(db: Database) {
    db.accept(&note("alarm")).await;
    let other = note("alarm").about("something else");
    let batch = vec![note("x").build(), other.build(), note("y").build()];
    let answers = db.store.accept(batch, at(1)).await.unwrap();
    let refused = Acceptance::IdReused { id: other.id() };
    assert_eq!(answers, [accepted(&note("x"), false), refused, accepted(&note("y"), false)]);
    assert_eq!(db.view(&note("alarm")).await.subject, "about alarm");
    assert_eq!(db.store.list(Filter::default(), 10).await.unwrap().items.len(), 3);
}

/// OB-01, OB-03: one durable row with everything that was handed in.
pub(crate) async fn what_is_accepted_is_there_after_a_restart(db: Database) {
    let alarm = note("alarm").list("ops").from("plant-7", "node-a").when(at(5));
    db.accept(&alarm).await;
    let db = db.reopened().await;
    let row = db.view(&alarm).await;
    assert_eq!(
        (row.status, row.route.as_str(), row.list.as_deref()),
        (Status::Pending, "direct", Some("ops"))
    );
    assert_eq!((row.subject.as_str(), row.body.as_str()), ("about alarm", "it happened"));
    assert_eq!(row.data.as_deref(), Some(r#"{"n": 1.50}"#), "data is kept word for word");
    assert_eq!(row.source, [Some("plant-7".into()), None, None, Some("node-a".into())]);
    assert_eq!((row.created_at, row.next_attempt_at), (at(5), Some(at(5))));
    assert_eq!(db.claim_all(at(5)).await.len(), 1);
}

/// OB-02: a hundred producers hand in one id at once; one row, one first answer.
pub(crate) async fn concurrent_producers_of_one_id_make_one_row(db: Database) {
    let alarm = note("alarm");
    let (store, one) = (&db.store, &alarm);
    let mut first = 0;
    let answers = (0..100).map(|_| async move { store.accept(vec![one.build()], at(0)).await.unwrap() });
    for answer in futures(answers).await {
        first += usize::from(answer == [accepted(&alarm, false)]);
    }
    assert_eq!(first, 1);
    assert_eq!(db.store.list(Filter::default(), 10).await.unwrap().items.len(), 1);
}

/// Polls all of them together.
async fn futures<F: std::future::Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in waiting.iter_mut().zip(&mut done) {
            if output.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *output = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// C051: a clock that steps back, over a restart too, makes no key twice and loses no order of arrival.
pub(crate) async fn keys_rise_even_when_the_clock_goes_back(db: Database) {
    db.accept(&note("first").when(at(1000))).await;
    let db = db.reopened().await;
    db.accept(&note("second").when(at(0))).await;
    let newest_first: Vec<_> = db
        .store
        .list(Filter::default(), 10)
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|row| row.subject)
        .collect();
    assert_eq!(newest_first, ["about second", "about first"]);
    let at_once = (0..500).map(|n| note(&n.to_string()).build()).collect();
    db.store.accept(at_once, at(0)).await.unwrap();
    let keys: std::collections::BTreeSet<_> =
        db.store.list(Filter::default(), 1000).await.unwrap().items.into_iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), 502, "no key twice");
}
