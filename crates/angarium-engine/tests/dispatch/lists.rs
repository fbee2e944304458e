//! Lists: each member has its own fate.

use std::time::Duration;

use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::retry::RetryPolicy;
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::time::Clock;
use angarium_store::{Action, View};

use crate::home::On;
use crate::support::{Scripted, Setup, World, fail, id, list};

fn ops(members: Vec<&'static str>) -> Setup {
    Setup { lists: vec![("ops", members)], ..Setup::default() }
}

/// The same with an adapter that sends one message to many.
fn ops_in_one_exchange(members: Vec<&'static str>) -> Setup {
    Setup { adapters: vec![Scripted::to_many(ChannelKind::Webhook, 100)], ..ops(members) }
}

/// Tried again every ten seconds, ten times.
fn patient() -> ChannelSettings {
    ChannelSettings { retry: RetryPolicy::fixed(Duration::from_secs(10), 10), ..Setup::default().channel }
}

fn accepted(row: &View) -> usize {
    row.targets.iter().filter(|target| target.state == TargetState::Accepted).count()
}

fn trouble_of_the_channel() -> Outcome {
    let failure = Failure::new(FailureClass::Transient, "the relay is down");
    Outcome::Failed(Failure { whole_channel: true, ..failure })
}

/// OB-07, OB-12: who accepted is not sent to again; who is busy is retried alone; who refuses is named.
pub(crate) async fn one_fine_one_refused_one_busy(on: On) {
    let world = World::new(on, ops(vec!["fine", "refused", "busy"])).await;
    world.adapter.outcomes("refused", [fail(FailureClass::PermanentRecipient)]);
    world.adapter.outcomes("busy", [fail(FailureClass::Transient)]);
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Retrying).await;
    assert_eq!((row.retry_count, row.targets.len()), (1, 3));
    world.advance(10);
    let row = world.until("alarm", Status::Delivered).await;
    let error = row.last_error.unwrap();
    assert!(error.detail.contains("https://refused.example/"), "{}", error.detail);
    assert!(!error.detail.contains("busy.example"), "{}", error.detail);
    let sent = world.adapter.sent();
    assert_eq!((sent.len(), world.adapter.sent_to("busy")), (4, 2));
    assert_eq!(row.targets[0].state, TargetState::Accepted);
    let attempts = world.attempts("alarm").await;
    assert_eq!(attempts.len(), 2);
    assert!(attempts[1].record.targets.as_deref().unwrap().contains("busy"));
}

/// OB-12: parked when nobody accepted.
pub(crate) async fn a_list_that_nobody_accepts_is_parked(on: On) {
    let world = World::new(on, ops(vec!["a", "b"])).await;
    for host in ["a", "b"] {
        world.adapter.outcomes(host, [fail(FailureClass::PermanentRecipient)]);
    }
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Parked).await;
    let detail = row.last_error.unwrap().detail;
    assert!(detail.contains("a.example") && detail.contains("b.example"), "{detail}");
    world.act("alarm", Action::Retry).await;
    world.until("alarm", Status::Delivered).await;
}

/// A cancelled list stops between members: what has not been sent is not sent.
pub(crate) async fn cancel_stops_a_list_on_its_way(on: On) {
    let world = World::new(on, Setup { max_parallel_deliveries: 1, ..ops(vec!["a", "b", "c"]) }).await;
    world.adapter.close("a");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(1).await;
    world.act("alarm", Action::Cancel).await;
    world.adapter.open("a");
    let row = world.until("alarm", Status::Skipped).await;
    world.looked("afterwards").await;
    assert_eq!(world.adapter.sent(), ["a", "marker-afterwards"]);
    assert_eq!(row.skip_reason.as_deref(), Some("cancelled"));
}

/// A list that was configured only after it was written to is delivered on the channel it has now.
pub(crate) async fn a_list_that_was_not_known_when_it_was_written_to(on: On) {
    let mut world = World::asleep(on, ops(vec!["a"])).await;
    world.accept_stamped("alarm", list("ops"), false).await;
    assert_eq!(world.view("alarm").await.kind, ChannelKind::Email);
    world.start().await;
    let row = world.until("alarm", Status::Delivered).await;
    assert_eq!((row.kind, row.channel.as_deref()), (ChannelKind::Webhook, Some("hooks")));
    assert_eq!(world.adapter.sent(), ["a"]);
}

/// While it cannot be written what became of a member, nothing more is sent, and nothing is sent twice.
pub(crate) async fn a_database_that_takes_no_outcome_stops_a_list(on: On) {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let mut world = World::asleep(on, Setup { channel, ..ops(vec!["a/1", "a/2"]) }).await;
    world.home.break_table("targets");
    world.accept("alarm", list("ops")).await;
    world.start().await;
    world.adapter.begun(1).await;
    world.looked("meanwhile").await;
    assert_eq!(world.adapter.sent(), ["a/1", "marker-meanwhile"]);
    world.home.mend_table("targets");
    world.until("alarm", Status::Delivered).await;
    assert_eq!((world.adapter.sent_to("a/1"), world.adapter.sent_to("a/2")), (1, 1));
}

/// What a receiver asks for in one list is heeded for that receiver, and for nobody else in the list.
pub(crate) async fn a_rate_limited_member_holds_up_no_other(on: On) {
    let world = World::new(on, ops(vec!["a", "b"])).await;
    let retry_after = Some(Duration::from_secs(30));
    let limited = Failure { retry_after, ..Failure::new(FailureClass::RateLimited, "HTTP 429") };
    world.adapter.outcomes("a", [Outcome::Failed(limited)]);
    world.accept("first", list("ops")).await;
    world.until("first", Status::Retrying).await;
    world.accept("second", list("ops")).await;
    world.adapter.begun(3).await;
    world.until("second", Status::Pending).await;
    world.looked("meanwhile").await;
    assert_eq!((world.adapter.sent_to("a"), world.adapter.sent_to("b")), (1, 2));
    world.advance(30);
    for name in ["first", "second"] {
        world.until(name, Status::Delivered).await;
    }
    assert_eq!((world.adapter.sent_to("a"), world.adapter.sent_to("b")), (3, 2));
}

/// A member whose receiver hangs holds up neither the other members nor the next notification.
pub(crate) async fn a_member_that_hangs_holds_up_no_other(on: On) {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world = World::new(on, Setup { channel, ..ops(vec!["dead/1", "dead/2", "dead/3", "well"]) }).await;
    world.adapter.close("dead/1");
    world.accept("alarm", list("ops")).await;
    world.adapter.begun(2).await;
    assert_eq!(world.adapter.sent(), ["dead/1", "well"], "one at a time to the same receiver");
    world.adapter.open("dead/1");
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent().len(), 4);
}

/// Members behind receivers that failed lately come last.
pub(crate) async fn members_that_work_come_first(on: On) {
    let world = World::new(on, Setup { max_parallel_deliveries: 1, ..ops(vec!["dead", "well"]) }).await;
    world.adapter.outcomes("dead", [fail(FailureClass::Transient)]);
    world.hand_in("first", "dead").await;
    world.until("first", Status::Retrying).await;
    world.accept("alarm", list("ops")).await;
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.sent(), ["dead", "well", "dead"]);
}

/// Tries a notification to the list again and again: at each try all members but those who took it fail.
async fn try_again(world: &World, name: &str, tries: u32) {
    world.accept(name, list("ops")).await;
    for retries in 1..=tries {
        world.until_it(name, |row| row.retry_count == retries && !row.in_flight).await;
        world.advance(if retries < tries { 10 } else { 0 });
    }
    world.act(name, Action::Cancel).await;
}

/// OB-09: a member that is known to be dead costs the list's later notifications nothing. One of them finds out
/// whether it lives again, and the others wait for that, each for this member alone.
pub(crate) async fn a_dead_member_slows_no_later_notification(on: On) {
    let world = World::new(on, Setup { channel: patient(), ..ops(vec!["dead", "a", "b"]) }).await;
    world.adapter.outcomes("dead", std::iter::repeat_n(fail(FailureClass::Transient), 4));
    try_again(&world, "early", 4).await;
    world.adapter.close("dead");
    world.accept("probe", list("ops")).await;
    world.adapter.begun(6 + 3).await;
    let later: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for name in &later {
        world.accept(name, list("ops")).await;
    }
    world.adapter.begun(6 + 3 + 40).await;
    let until_postponed = async |name: &str| {
        let due = world.clock.now().plus(Duration::from_secs(20));
        world.until_it(name, |row| row.next_attempt_at == Some(due) && !row.in_flight).await
    };
    for _ in 0..2 {
        for name in &later {
            let row = until_postponed(name).await;
            assert_eq!((row.status, row.retry_count, accepted(&row)), (Status::Pending, 0, 2));
            assert!(row.last_error.unwrap().detail.contains("tried for one member at a time"));
            assert_eq!(row.targets[0].progress.budget_used, 0);
            assert_eq!(world.attempts(name).await.len(), 1, "to wait is no attempt");
        }
        assert_eq!(world.adapter.sent_to("dead"), 4 + 1, "one probe at a time");
        world.advance(20);
    }
    world.adapter.open("dead");
    world.until("probe", Status::Delivered).await;
    world.advance(20);
    for name in &later {
        world.until(name, Status::Delivered).await;
    }
    let times = ["dead", "a", "b"].map(|host| world.adapter.sent_to(host));
    assert_eq!(times, [4 + 21, 1 + 21, 1 + 21], "each once");
}

/// Makes a receiver known to have trouble.
async fn in_trouble(world: &World, host: &'static str) {
    world.adapter.outcomes(host, std::iter::repeat_n(fail(FailureClass::Transient), 3));
    for n in 0..3 {
        let name = format!("trouble of {host} {n}");
        world.hand_in(&name, host).await;
        world.until(&name, Status::Retrying).await;
        world.act(&name, Action::Cancel).await;
    }
}

/// OB-09: a receiver that has trouble is probed for one member at a time, of whatever list. Once the probe succeeds,
/// the others in its own notification follow at once.
pub(crate) async fn a_dead_receiver_is_probed_for_one_member(on: On) {
    let lists = vec![("ops", vec!["dead/1", "dead/2", "a"]), ("night", vec!["dead/3", "b"])];
    let world = World::new(on, Setup { channel: patient(), lists, ..Setup::default() }).await;
    in_trouble(&world, "dead").await;
    for member in ["dead/1", "dead/2", "dead/3"] {
        world.adapter.close(member);
    }
    world.accept("first", list("ops")).await;
    world.adapter.begun(3 + 2).await;
    world.accept("second", list("night")).await;
    world.until_it("second", |row| accepted(row) == 1 && !row.in_flight).await;
    assert_eq!(world.adapter.sent()[3..], ["a", "dead/1", "b"]);
    for member in ["dead/1", "dead/2", "dead/3"] {
        world.adapter.open(member);
    }
    world.until("first", Status::Delivered).await;
    assert_eq!(world.attempts("first").await.len(), 1);
    world.advance(20);
    world.until("second", Status::Delivered).await;
    assert_eq!(["dead/1", "dead/2", "dead/3"].map(|member| world.adapter.sent_to(member)), [1, 1, 1]);
}

/// Once the probe fails, the others in its own notification are put off without a try, and at no cost.
pub(crate) async fn a_probe_that_fails_speaks_for_its_neighbours(on: On) {
    let world = World::new(on, Setup { channel: patient(), ..ops(vec!["dead/1", "dead/2", "a"]) }).await;
    in_trouble(&world, "dead").await;
    world.adapter.outcomes("dead/1", [fail(FailureClass::Transient)]);
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Retrying).await;
    let budget: Vec<_> = row.targets.iter().map(|target| target.progress.budget_used).collect();
    assert_eq!((budget, accepted(&row)), (vec![1, 0, 0], 1));
    assert_eq!((world.adapter.sent_to("dead/1"), world.adapter.sent_to("dead/2")), (1, 0));
    world.advance(10);
    world.until_it("alarm", |row| accepted(row) == 2 && !row.in_flight).await;
    world.advance(10);
    world.until("alarm", Status::Delivered).await;
}

/// Where some addresses of a receiver fail and others work, those that work are not put off until they are given up.
pub(crate) async fn addresses_that_fail_do_not_speak_for_those_that_work(on: On) {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world =
        World::new(on, Setup { channel, ..ops(vec!["gw/1", "gw/2", "gw/3", "gw/4", "gw/5", "gw/6"]) }).await;
    for member in ["gw/1", "gw/2", "gw/3"] {
        world.adapter.outcomes(member, std::iter::repeat_n(fail(FailureClass::Transient), 9));
    }
    world.accept("alarm", list("ops")).await;
    world.until_it("alarm", |row| row.retry_count == 1 && !row.in_flight).await;
    assert_eq!(world.adapter.sent(), ["gw/1", "gw/2", "gw/3"]);
    world.advance(20);
    let row = world.until_it("alarm", |row| row.retry_count == 2 && !row.in_flight).await;
    assert_eq!(accepted(&row), 3);
}

/// OB-09, OB-13: a member that stays dead is given up when the policy is used up, also in notifications that never get
/// to try it because another is at it each time; so their number stays bounded. To be put off for the first time costs
/// nothing, nor does it while the receiver has not failed again.
pub(crate) async fn a_member_that_stays_dead_is_given_up(on: On) {
    let world = World::new(on, ops(vec!["dead", "a"])).await;
    in_trouble(&world, "dead").await;
    world.adapter.outcomes("dead", std::iter::repeat_n(fail(FailureClass::Transient), 9));
    world.adapter.close("dead");
    world.accept("probe 0", list("ops")).await;
    world.adapter.begun(3 + 2).await;
    world.accept("alarm", list("ops")).await;
    let put_off = async |costs: u32| {
        let due = world.clock.now().plus(Duration::from_secs(20));
        let row = world.until_it("alarm", |row| row.next_attempt_at == Some(due) && !row.in_flight).await;
        assert_eq!((row.retry_count, row.targets[0].progress.budget_used), (costs, costs));
        assert_eq!(row.status, if costs == 0 { Status::Pending } else { Status::Retrying });
        let detail = row.last_error.unwrap().detail;
        assert_eq!(detail.contains("another attempt failed meanwhile"), costs > 0, "{detail}");
    };
    put_off(0).await;
    world.advance(20);
    put_off(0).await;
    // The probe fails, and another one is at the receiver when the alarm is due.
    let next_probe = async |n: usize| {
        world.advance(1);
        world.adapter.let_go("dead");
        let before = format!("probe {}", n - 1);
        world.until_it(&before, |row| row.retry_count == 1 && !row.in_flight).await;
        world.act(&before, Action::Cancel).await;
        world.accept(&format!("probe {n}"), list("ops")).await;
        world.wake.now();
        world.adapter.begun(3 + 2 + 1 + 2 * n).await;
        world.advance(19);
    };
    next_probe(1).await;
    put_off(1).await;
    next_probe(2).await;
    put_off(2).await;
    next_probe(3).await;
    let row = world.until("alarm", Status::Delivered).await;
    let detail = row.last_error.as_ref().unwrap().detail.as_str();
    assert!(detail.contains("dead.example/: the receiver has trouble"), "{detail}");
    assert_eq!((accepted(&row), world.attempts("alarm").await.len()), (1, 1), "to wait is no attempt");
    assert_eq!(world.adapter.sent_to("dead"), 3 + 4, "none of them was the alarm's");
}

/// However many notifications wait for members that are dead, a new one does not queue behind them.
pub(crate) async fn later_attempts_stand_in_nobodys_way(on: On) {
    let channel = ChannelSettings { max_parallel_per_receiver: 1, ..Setup::default().channel };
    let world = World::new(on, Setup { channel, ..ops(vec!["dead", "a"]) }).await;
    world.adapter.outcomes("dead", [fail(FailureClass::Transient)]);
    world.accept("old", list("ops")).await;
    world.until("old", Status::Retrying).await;
    world.adapter.close("dead");
    world.advance(10);
    world.adapter.begun(2 + 1).await;
    world.accept("new", list("ops")).await;
    world.wake.now();
    world.until_it("new", |row| accepted(row) == 1).await;
    world.adapter.open("dead");
    for name in ["old", "new"] {
        world.until(name, Status::Delivered).await;
    }
}

/// OB-09: however many members are dead, they hold up one notification of the list at a time.
pub(crate) async fn many_dead_members_hold_up_one_notification(on: On) {
    let dead = vec!["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"];
    let channel = ChannelSettings { max_parallel: 10, ..patient() };
    let members = [dead.clone(), vec!["well"]].concat();
    let world = World::new(on, Setup { channel, ..ops(members) }).await;
    for host in &dead {
        world.adapter.outcomes(host, std::iter::repeat_n(fail(FailureClass::Transient), 3));
    }
    try_again(&world, "early", 3).await;
    for host in &dead {
        world.adapter.close(host);
    }
    let before = world.adapter.sent().len();
    world.accept("probe", list("ops")).await;
    // It borrows seven of the channel's permits and leaves a quarter of them to others.
    world.adapter.begun(before + 1 + 7).await;
    let later: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for name in &later {
        world.accept(name, list("ops")).await;
        world.until_it(name, |row| accepted(row) == 1 && !row.in_flight).await;
    }
    assert_eq!(world.adapter.sent().len(), before + 8 + 20);
    for host in &dead {
        world.adapter.open(host);
    }
    world.until("probe", Status::Delivered).await;
    world.advance(20);
    for name in &later {
        world.until(name, Status::Delivered).await;
    }
    for host in dead {
        assert_eq!(world.adapter.sent_to(host), 3 + 21, "{host}");
    }
}

/// Trouble that is the whole channel's is held against neither the list nor the receivers behind its members.
pub(crate) async fn trouble_of_the_channel_is_nobodys(on: On) {
    let world = World::new(on, Setup { channel: patient(), ..ops(vec!["a", "b"]) }).await;
    for host in ["a", "b"] {
        world.adapter.outcomes(host, std::iter::repeat_n(trouble_of_the_channel(), 4));
    }
    try_again(&world, "early", 4).await;
    for host in ["a", "b"] {
        world.adapter.close(host);
    }
    for name in ["first", "second"] {
        world.accept(name, list("ops")).await;
    }
    world.advance(10);
    world.adapter.begun(8 + 4).await;
    for host in ["a", "b"] {
        world.adapter.open(host);
    }
    for name in ["first", "second"] {
        world.until(name, Status::Delivered).await;
    }
}

/// OB-11, OB-12, C093: all that are due go into one exchange; on the retry the busy one is sent to alone, whoever
/// accepted gets no second copy, and whoever refused is not asked again.
pub(crate) async fn c093_the_busy_one_is_sent_to_alone(on: On) {
    let world = World::new(on, ops_in_one_exchange(vec!["a", "b", "c"])).await;
    world.adapter.outcomes("b", [fail(FailureClass::PermanentRecipient)]);
    world.adapter.outcomes("c", [fail(FailureClass::Transient)]);
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Retrying).await;
    assert_eq!(row.targets[0].state, TargetState::Accepted);
    assert!(matches!(row.targets[1].state, TargetState::Refused(_)));
    assert!(matches!(row.targets[2].state, TargetState::Waiting { error: Some(_), .. }));
    world.advance(10);
    let row = world.until("alarm", Status::Delivered).await;
    let detail = row.last_error.unwrap().detail;
    assert!(detail.contains("b.example") && !detail.contains("c.example"), "{detail}");
    assert_eq!(world.adapter.exchanges(), [vec!["a", "b", "c"], vec!["c"]]);
}

/// OB-11: where one message goes to all, none waits for a probe of another, and their order is the list's.
pub(crate) async fn one_exchange_carries_members_that_fail_too(on: On) {
    let setup = ops_in_one_exchange(vec!["busy", "a"]);
    let world = World::new(on, Setup { channel: patient(), ..setup }).await;
    world.adapter.outcomes("busy", std::iter::repeat_n(fail(FailureClass::Transient), 4));
    try_again(&world, "early", 4).await;
    world.adapter.close("busy");
    for name in ["first", "second"] {
        world.accept(name, list("ops")).await;
    }
    world.adapter.begun(5 + 4).await;
    world.adapter.open("busy");
    for name in ["first", "second"] {
        world.until(name, Status::Delivered).await;
    }
    assert_eq!(world.adapter.exchanges()[4..], [vec!["busy", "a"], vec!["busy", "a"]]);
}

/// OB-11: however often each failed, the members of one exchange keep the list's order.
pub(crate) async fn one_exchange_keeps_the_order_of_the_list(on: On) {
    let world = World::new(on, ops_in_one_exchange(vec!["busy", "limited"])).await;
    world.adapter.outcomes("busy", [fail(FailureClass::Transient)]);
    world.adapter.outcomes("limited", [fail(FailureClass::RateLimited)]);
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Retrying).await;
    assert_eq!([0, 1].map(|place| row.targets[place].progress.budget_used), [1, 0]);
    world.advance(10);
    world.until("alarm", Status::Delivered).await;
    assert_eq!(world.adapter.exchanges(), [vec!["busy", "limited"], vec!["busy", "limited"]]);
}

/// However many members of one exchange ask for the channel to be left alone, that is written once.
pub(crate) async fn a_wait_of_the_whole_channel_is_written_once(on: On) {
    let world = World::new(on, ops_in_one_exchange(vec!["a", "b", "c"])).await;
    world.home.break_table("channel_states");
    for host in ["a", "b", "c"] {
        world.adapter.outcomes(host, [trouble_of_the_channel()]);
    }
    world.accept("alarm", list("ops")).await;
    world.until("alarm", Status::Retrying).await;
    let now = world.clock.now();
    let lanes = world.store.waiting_lanes(now).await.unwrap();
    let waits: Vec<_> = lanes.iter().map(|lane| lane.waits_until).collect();
    assert_eq!(waits, [now.plus(Duration::from_secs(10))]);
    world.advance(10);
    world.until("alarm", Status::Delivered).await;
}

/// C107: a list none of whose members may be sent to is parked, with an entry in the trail; nothing is sent, and
/// it does not count as delivered. (A list without members cannot be configured.)
pub(crate) async fn c107_a_list_whose_members_all_opted_out_is_parked(on: On) {
    let world = World::new(on, ops(vec!["a", "b"])).await;
    let gone = Failure { suppress: true, ..Failure::new(FailureClass::PermanentRecipient, "HTTP 410") };
    for host in ["a", "b"] {
        world.adapter.outcomes(host, [Outcome::Failed(gone.clone())]);
        world.hand_in(host, host).await;
        world.until(host, Status::Parked).await;
    }
    world.accept("alarm", list("ops")).await;
    let row = world.until("alarm", Status::Parked).await;
    assert_eq!((row.delivered_at, accepted(&row)), (None, 0));
    let error = row.last_error.unwrap();
    assert_eq!(error.class, FailureClass::PermanentRecipient);
    assert!(error.detail.contains("suppressed"), "{}", error.detail);
    let trail = world.store.audit(id("alarm")).await.unwrap();
    let end = trail.iter().find(|entry| entry.kind == "terminal").unwrap();
    assert!(end.detail.contains("parked"), "{}", end.detail);
    assert_eq!(world.adapter.sent(), ["a", "b"], "nothing was sent to the list");
}
