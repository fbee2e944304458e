//! Outcomes that the database does not take as they come: somebody holds a row, or there are too many at a time.

use std::future::Future;
use std::time::Duration;

use angarium_domain::outcome::FailureClass;
use angarium_domain::state::Status;
use angarium_domain::time::Clock;
use angarium_testbed::postgres::shared;

use crate::home::{Home, On};
use crate::support::{NEVER, Setup, World, id, pause, within};

/// Deliveries that are under way together.
const TOGETHER: usize = 9;
/// The one whose row somebody holds.
const HELD: &str = "3";
/// So short that what is done three times a lease, in real time, is done soon.
const LEASE: Duration = Duration::from_millis(300);

fn names() -> impl Iterator<Item = String> {
    (0..TOGETHER).map(|n| n.to_string())
}

/// A world in which [`TOGETHER`] deliveries are under way.
async fn under_way(setup: Setup) -> World {
    let world = World::new(On::Postgres, setup).await;
    for name in names() {
        world.adapter.close(&name);
        world.hand_in(&name, &name).await;
    }
    world.adapter.begun(TOGETHER).await;
    world
}

fn open_all(world: &World) {
    names().for_each(|name| world.adapter.open(&name));
}

/// From now on no outcome can be written for [`HELD`], as if somebody kept a transaction open that changed its row.
fn hold(world: &World) {
    world.home.tamper(&format!(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
         AS $$ BEGIN RAISE 'held' USING ERRCODE = 'lock_not_available'; END $$;
         CREATE TRIGGER held BEFORE UPDATE ON notifications FOR EACH ROW
         WHEN (OLD.id = '{}' AND OLD.lease_until IS NOT NULL AND NEW.lease_until IS NULL) EXECUTE FUNCTION hold()",
        id(HELD)
    ));
}

fn let_go(world: &World) {
    world.home.tamper("DROP TRIGGER held ON notifications");
}

async fn all_others_are_delivered(world: &World) {
    for name in names().filter(|name| name != HELD) {
        world.until(&name, Status::Delivered).await;
    }
}

/// P11: a row that somebody holds keeps no other outcome from being written, nor new work from being done; its own is
/// written once they let go, and nothing is sent twice.
#[tokio::test]
async fn a_row_that_somebody_holds_holds_up_no_other_outcome() {
    let world = under_way(Setup::default()).await;
    hold(&world);
    open_all(&world);
    all_others_are_delivered(&world).await;
    world.looked("meanwhile").await;
    assert!(world.view(HELD).await.in_flight);
    let_go(&world);
    world.until(HELD, Status::Delivered).await;
    assert_eq!((world.attempts(HELD).await.len(), world.adapter.sent_to(HELD)), (1, 1));
}

/// P11: whose outcome is held up keeps its permit: what is known but not written has a bound.
#[tokio::test]
async fn an_outcome_that_is_held_up_keeps_its_permit() {
    // Of twelve permits, receivers that are not known yet have ten.
    let (permits, newcomers) = (12, 10);
    let world = under_way(Setup { max_parallel_deliveries: permits, ..Setup::default() }).await;
    hold(&world);
    open_all(&world);
    all_others_are_delivered(&world).await;
    for n in 0..permits {
        world.adapter.close(&format!("new{n}"));
        world.hand_in(&format!("new {n}"), &format!("new{n}")).await;
    }
    world.adapter.begun(TOGETHER + newcomers - 1).await;
    world.looks_again().await;
    assert_eq!(world.adapter.sent().len(), TOGETHER + newcomers - 1);
    let_go(&world);
    world.adapter.begun(TOGETHER + newcomers).await;
}

/// P11: a soft stop waits for an outcome that is held up.
#[tokio::test]
async fn a_soft_stop_waits_for_what_is_held_up() {
    let mut world = under_way(Setup::default()).await;
    hold(&world);
    open_all(&world);
    all_others_are_delivered(&world).await;
    let mut stopping = Box::pin(world.dispatcher.take().unwrap().stop(NEVER));
    let begun = std::future::poll_fn(|context| std::task::Poll::Ready(stopping.as_mut().poll(context))).await;
    assert!(begun.is_pending(), "it waits for what is held up");
    let_go(&world);
    assert!(within(stopping).await);
    let row = world.view(HELD).await;
    assert_eq!((row.status, row.in_flight), (Status::Delivered, false));
}

/// P11: outcomes that are too many for the database at a time are written in smaller parts.
#[tokio::test]
async fn a_batch_that_takes_too_long_is_halved() {
    let world = under_way(Setup::default()).await;
    // Nothing can be written until all outcomes are known.
    world.home.break_table("notifications");
    open_all(&world);
    world.adapter.idle().await;
    world.home.tamper(
        "CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM settled WHERE lease_until IS NULL) > 2 THEN
                RAISE 'too slow' USING ERRCODE = 'query_canceled';
            END IF;
            RETURN NULL;
         END $$;
         CREATE TRIGGER slow AFTER UPDATE ON notifications REFERENCING NEW TABLE AS settled
         FOR EACH STATEMENT EXECUTE FUNCTION be_slow()",
    );
    world.home.mend_table("notifications");
    for name in names() {
        world.until(&name, Status::Delivered).await;
        assert_eq!(world.attempts(&name).await.len(), 1, "{name}");
    }
    assert_eq!(world.adapter.sent().len(), TOGETHER);
}

/// Waits until this statement has a result, and returns that.
async fn until_told(world: &World, sql: &str) -> String {
    within(async {
        loop {
            match world.home.tamper(sql) {
                nothing if nothing.is_empty() => pause().await,
                told => return told,
            }
        }
    })
    .await
}

/// P11: while somebody holds the row of one claim the leases of others are renewed, and its own is once they let go.
#[tokio::test]
async fn a_row_that_somebody_holds_holds_up_no_other_lease() {
    let world = under_way(Setup { lease: LEASE, ..Setup::default() }).await;
    let Home::Postgres(fresh) = &*world.home else { panic!("it is on PostgreSQL") };
    let database = fresh.name.clone();
    let taking = format!("SELECT 1 FROM angarium.notifications WHERE id = '{}' FOR UPDATE", id(HELD));
    let holding = std::thread::spawn(move || {
        let _it_is_cut_off = shared().try_sql(&database, &format!("BEGIN; {taking}; SELECT pg_sleep(600)"));
    });
    let somebody = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    until_told(&world, &format!("SELECT pid {somebody}")).await;
    let ends = world.clock.now().plus(LEASE).micros();
    world.clock.advance(LEASE / 2);
    let renewed = format!("FROM notifications WHERE lease_until > {ends} GROUP BY () HAVING count(*)");
    until_told(&world, &format!("SELECT 1 {renewed} = {}", TOGETHER - 1)).await;
    let leases =
        world.home.tamper(&format!("SELECT lease_until FROM notifications WHERE id = '{}'", id(HELD)));
    assert_eq!(leases, ends.to_string());

    world.home.tamper(&format!("SELECT pg_terminate_backend(pid, 60000) {somebody}"));
    holding.join().unwrap();
    until_told(&world, &format!("SELECT 1 {renewed} = {TOGETHER}")).await;
    open_all(&world);
    for name in names() {
        world.until(&name, Status::Delivered).await;
    }
    assert_eq!(world.adapter.sent().len(), TOGETHER);
}

/// OB-24, P11: nor does a row that somebody holds keep others from being taken back. It is left for later.
#[tokio::test]
async fn a_row_that_somebody_holds_keeps_no_other_from_being_taken_back() {
    let mut world = under_way(Setup { lease: LEASE, ..Setup::default() }).await;
    world.dispatcher = None;
    hold(&world);
    open_all(&world);
    world.free_leases();
    world.start().await;
    all_others_are_delivered(&world).await;
    assert_eq!((world.attempts(HELD).await.len(), world.adapter.sent_to(HELD)), (0, 1));
    let_go(&world);
    world.until(HELD, Status::Delivered).await;
    let attempts = world.attempts(HELD).await;
    let told: Vec<_> = attempts.iter().map(|one| one.record.class).collect();
    assert_eq!(told, [Some(FailureClass::Interrupted), None]);
    let detail = attempts[0].record.detail.as_deref().unwrap();
    assert!(detail.starts_with("node node-a let its lease end while it held this notification"), "{detail}");
}
