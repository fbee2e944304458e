//! Nobody is told the same thing twice, nor more than they want (FP-05, FP-06).

use angarium_receivers::http::{Gate, Receiver, Reply};
use serde_json::{Value, json};

use super::{event, only, skipped, subscriber, texts, with, word};
use crate::support::Database;

/// The notification that stood in the way of the first match that was suppressed.
fn in_the_way(told: &Value) -> String {
    word(&told["skipped"][0]["by"])
}

/// FP-05: a signal that comes again is not told again, and says which notification told it.
pub(crate) async fn a_repeated_signal_is_told_once(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let first = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    let queued = server.publish(&event("o-2", "NewOutage", "42", "Irisan")).await;
    server.until(&only(&first), "delivered").await;
    let delivered = server.publish(&event("o-3", "NewOutage", "42", "Irisan")).await;
    for again in [&queued, &delivered] {
        assert_eq!((skipped(again), in_the_way(again)), (vec![("home", "already_told")], only(&first)));
        let explained = server.explain(again, "home").await;
        assert_eq!(explained["outcome"], "told");
        let stop =
            explained["steps"].as_array().unwrap().iter().find(|step| step["verdict"] == "stop").unwrap();
        assert_eq!((&stop["step"], &stop["reason"]), (&json!("ledger"), &json!("already_told")));
        assert!(word(&stop["detail"]).contains(&only(&first)), "{stop}");
    }
    // Another type, and another key, are other signals.
    for other in [event("o-4", "Updated", "42", "Irisan"), event("o-5", "NewOutage", "43", "Irisan")] {
        server.until(&only(&server.publish(&other).await), "delivered").await;
    }
    assert_eq!(receiver.requests().len(), 3);
}

/// FP-05: a notification that is given up frees its place: the signal that it stood in the way of is told. Whoever wants the
/// first one sent after all learns who has told it meanwhile.
pub(crate) async fn what_was_given_up_frees_its_place(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let gate = Gate::closed();
    receiver.script("/home", [Reply::status(400).gate(&gate), Reply::ok()]);
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let first = server.publish(&event("o-1", "NewOutage", "42", "First")).await;
    receiver.wait_for("/home", 1).await;
    let second = server.publish(&event("o-2", "NewOutage", "42", "Second")).await;
    let third = server.publish(&event("o-3", "NewOutage", "42", "Third")).await;
    for suppressed in [&second, &third] {
        assert_eq!(
            (skipped(suppressed), in_the_way(suppressed)),
            (vec![("home", "already_told")], only(&first))
        );
    }
    gate.open();
    server.until(&only(&first), "parked").await;
    let told_by = server.told_after_all(&third).await;
    server.until(&told_by, "delivered").await;
    assert_eq!(texts(&receiver.effects("/home")), ["Third is dark"], "the newest is told, and it alone");
    assert_eq!(server.explain(&third, "home").await["outcome"], "delivered");
    assert_eq!(server.explain(&first, "home").await["outcome"], "parked");
    assert_eq!(server.event(&second).await["skipped"][0]["told_by"], Value::Null);

    let (status, problem) = server.act("retry", &only(&first)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("already_told")));
    assert!(word(&problem["detail"]).contains(&told_by), "{problem}");
    assert_eq!(server.view(&only(&first)).await["status"], "parked");
    assert_eq!(receiver.requests().len(), 2);
}

/// FP-05: a notification that was given up and then retried by an operator has its place again.
pub(crate) async fn a_retry_takes_its_place_again(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(400), Reply::ok()]);
    let server = on.started(&with(&[subscriber("Home", &receiver.url("/home"), "")])).await;
    let first = server.publish(&event("o-1", "NewOutage", "42", "First")).await;
    server.until(&only(&first), "parked").await;
    assert_eq!(server.act("retry", &only(&first)).await.0, 200);
    server.until(&only(&first), "delivered").await;
    let again = server.publish(&event("o-2", "NewOutage", "42", "Second")).await;
    assert_eq!((skipped(&again), in_the_way(&again)), (vec![("home", "already_told")], only(&first)));
}

/// FP-06: within a cooldown nothing else is told; whoever has none is told.
pub(crate) async fn a_cooldown_keeps_further_events_back(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let subscribers = [
        subscriber("Calm", &receiver.url("/calm"), "cooldown = \"1h\""),
        subscriber("Eager", &receiver.url("/eager"), ""),
    ];
    let server = on.started(&with(&subscribers)).await;
    let first = server.publish(&event("o-1", "NewOutage", "42", "First")).await;
    let calm = first["notifications"].as_array().unwrap().iter().find(|one| one["ref"] == "calm").unwrap();
    server.drained().await;
    let second = server.publish(&event("o-2", "NewOutage", "43", "Second")).await;
    assert_eq!(skipped(&second), [("calm", "cooldown")]);
    assert_eq!(in_the_way(&second), word(&calm["id"]));
    assert_eq!(second["notifications"][0]["ref"], "eager");
    server.drained().await;
    assert_eq!(texts(&receiver.effects("/calm")), ["First is dark"]);
    assert_eq!(receiver.effects("/eager").len(), 2);
}

/// FP-06: a send that fails uses up no cooldown: what it kept back is told.
pub(crate) async fn what_was_not_told_uses_up_no_cooldown(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let gate = Gate::closed();
    receiver.script("/calm", [Reply::status(400).gate(&gate), Reply::ok()]);
    let server = on.started(&with(&[subscriber("Calm", &receiver.url("/calm"), "cooldown = \"1h\"")])).await;
    let first = server.publish(&event("o-1", "NewOutage", "42", "First")).await;
    receiver.wait_for("/calm", 1).await;
    let second = server.publish(&event("o-2", "NewOutage", "43", "Second")).await;
    assert_eq!((skipped(&second), in_the_way(&second)), (vec![("calm", "cooldown")], only(&first)));
    gate.open();
    server.until(&server.told_after_all(&second).await, "delivered").await;
    assert_eq!(texts(&receiver.effects("/calm")), ["Second is dark"]);
}

/// FP-06, FP-15: no more are told in a day than the subscription says.
pub(crate) async fn a_daily_cap_is_kept(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let server = on.started(&with(&[subscriber("Calm", &receiver.url("/calm"), "daily_cap = 2")])).await;
    for n in 0..2 {
        let told = server.publish(&event(&format!("o-{n}"), "NewOutage", &format!("{n}"), "Bakakeng")).await;
        server.until(&only(&told), "delivered").await;
    }
    let third = server.publish(&event("o-2", "NewOutage", "2", "Bakakeng")).await;
    assert_eq!((skipped(&third), &third["notifications"]), (vec![("calm", "daily_cap")], &json!([])));
    assert_eq!(receiver.requests().len(), 2);
}

/// FP-05: two subscriptions that lead to the same address are one message, and each has been told.
pub(crate) async fn one_address_is_told_once(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    let address = receiver.url("/home");
    let server = on.started(&with(&[subscriber("One", &address, ""), subscriber("Two", &address, "")])).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    let told_for = word(&told["notifications"][0]["ref"]);
    let tied = if told_for == "one" { "two" } else { "one" };
    assert_eq!((skipped(&told), in_the_way(&told)), (vec![(tied, "same_target")], only(&told)));
    server.until(&only(&told), "delivered").await;
    assert_eq!(server.explain(&told, &told_for).await["outcome"], "delivered");
    assert_eq!(server.explain(&told, tied).await["outcome"], "told");
    let again = server.publish(&event("o-2", "NewOutage", "42", "Irisan")).await;
    let mut reasons = skipped(&again);
    reasons.sort_unstable();
    assert_eq!(reasons, [("one", "already_told"), ("two", "already_told")]);
    assert_eq!(receiver.requests().len(), 1);
}

/// WH-03, FP-05: whoever wants a message at most once gets one try: then it is parked, no operator repeats it, and what it may
/// have told counts as told.
pub(crate) async fn at_most_once_is_one_try(on: Database) {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/home", [Reply::status(503)]);
    let once = subscriber("Home", &receiver.url("/home"), "delivery = \"at_most_once\"");
    let server = on.started(&with(&[once])).await;
    let told = server.publish(&event("o-1", "NewOutage", "42", "Bakakeng")).await;
    let row = server.until(&only(&told), "parked").await;
    assert_eq!(row["retry_count"], 0);
    let (status, problem) = server.act("retry", &only(&told)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("at_most_once")));
    let again = server.publish(&event("o-2", "NewOutage", "42", "Bakakeng")).await;
    assert_eq!((skipped(&again), in_the_way(&again)), (vec![("home", "already_told")], only(&told)));
    assert_eq!(receiver.requests().len(), 1);
}
