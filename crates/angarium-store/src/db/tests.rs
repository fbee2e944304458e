//! Every statement, on both databases: that it is understood, and that it goes through no more than it must.

use angarium_testbed::postgres::{self, Fresh};

use super::dialect::Dialect;
use super::{Db, Op, Options, PostgresUrl, Statement, Tx, Value};
use crate::error::Result;
use crate::{
    accept, acknowledged, actions, audit, bounces, claim, events, keys, kpi, lanes, nodes, routes, settle,
    views,
};

fn all() -> Vec<(&'static str, &'static Statement)> {
    let modules = [
        crate::STATEMENTS,
        accept::STATEMENTS,
        acknowledged::STATEMENTS,
        actions::STATEMENTS,
        audit::STATEMENTS,
        bounces::STATEMENTS,
        claim::STATEMENTS,
        events::accept::STATEMENTS,
        events::ledger::STATEMENTS,
        events::plan::STATEMENTS,
        events::plan::questions::STATEMENTS,
        events::signal::STATEMENTS,
        events::steps::STATEMENTS,
        events::views::STATEMENTS,
        keys::STATEMENTS,
        kpi::STATEMENTS,
        lanes::STATEMENTS,
        nodes::STATEMENTS,
        routes::as_of::STATEMENTS,
        routes::change::STATEMENTS,
        routes::known::STATEMENTS,
        routes::declared::STATEMENTS,
        routes::objects::STATEMENTS,
        routes::subscriptions::STATEMENTS,
        settle::STATEMENTS,
        views::STATEMENTS,
    ];
    modules.concat()
}

/// Runs a statement that nobody wrote down, and takes what it says.
struct Ask(Statement, Vec<Value<'static>>);

impl Op for Ask {
    type Output = Vec<String>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<String>> {
        let column = if matches!(tx, Tx::Sqlite(_)) { 3 } else { 0 };
        tx.query(&self.0, &self.1, |row| row.text(column)).await
    }
}

/// A statement behind `EXPLAIN`; parameters for which nothing is given are null.
fn explained(word: &str, statement: &Statement, given: &[i64], dialect: Dialect) -> Ask {
    let text = statement.said_by(dialect);
    let parameters = (1..).take_while(|n| text.contains(&format!("${n}"))).count();
    let given = given.iter().map(|number| Value::Int(*number)).chain(std::iter::repeat(Value::Null));
    Ask(Statement::composed(format!("{word} {text}")), given.take(parameters).collect())
}

async fn sqlite() -> (Db, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Db::open(&Options::new(folder.path().join("a.db"))).await.unwrap(), folder)
}

async fn server() -> (Db, Fresh) {
    let fresh = tokio::task::spawn_blocking(postgres::fresh_database).await.unwrap();
    let url = PostgresUrl::parse(&fresh.url).unwrap();
    (Db::open(&Options::at(super::Database::Postgres(url))).await.unwrap(), fresh)
}

#[tokio::test]
async fn every_statement_is_understood_by_both_databases() {
    let (sqlite, _folder) = sqlite().await;
    let (server, _fresh) = server().await;
    assert!(all().len() > 50, "the list has lost some: {}", all().len());
    let listing = views::every_condition();
    for (name, statement) in all().into_iter().chain([("the listing", &listing)]) {
        let asked = sqlite.read(explained("EXPLAIN QUERY PLAN", statement, &[], Dialect::Sqlite)).await;
        assert!(asked.is_ok(), "{name} on SQLite: {asked:?}");
        let asked = server.write(explained("EXPLAIN", statement, &[], Dialect::Postgres)).await;
        assert!(asked.is_ok(), "{name} on PostgreSQL: {asked:?}");
    }
}

/// A claim's questions, which run all day beside however many rows are parked or done, and what they are asked with.
fn asked_all_day() -> Vec<(&'static str, &'static Statement, &'static [i64])> {
    let asked: [(&str, &[i64]); 5] = [
        ("TAKE_DUE", &[50_000, 1, 10, 60_000]),
        ("WAITING_LANES", &[]),
        ("ABANDONED", &[5, 10]),
        ("LEASED_BY", &[1, 5]),
        ("BEHIND", &[10]),
    ];
    let statement = |name: &str| all().into_iter().find(|(one, _)| *one == name).unwrap().1;
    asked.into_iter().map(|(name, given)| (name, statement(name), given)).collect()
}

/// C059: looking and claiming go through the indexes of live rows alone, on SQLite.
#[tokio::test]
async fn c059_looking_and_claiming_never_touch_what_is_done() {
    let (sqlite, _folder) = sqlite().await;
    for (name, statement, given) in asked_all_day().into_iter() {
        let asked = explained("EXPLAIN QUERY PLAN", statement, given, Dialect::Sqlite);
        let plan = sqlite.read(asked).await.unwrap();
        let is_of_rows =
            |step: &&String| ["notifications", " n ", " d "].iter().any(|of| format!("{step} ").contains(of));
        let of_rows: Vec<_> = plan.iter().filter(is_of_rows).collect();
        assert!(!of_rows.is_empty(), "{name}: {plan:?}");
        for step in of_rows {
            let mut narrow = NARROW.iter().chain(&["INTEGER PRIMARY KEY"]);
            assert!(narrow.any(|index| step.contains(index)), "{name}: {step} in {plan:#?}");
        }
    }
}

const NARROW: [&str; 4] =
    ["notifications_due", "notifications_live", "notifications_leased", "notifications_unaudited"];

/// C059: the same on PostgreSQL, which chooses by what it knows of the table.
#[tokio::test]
async fn c059_nor_on_postgres() {
    let (server, fresh) = server().await;
    fresh.sql(
        "SET search_path = angarium;
         INSERT INTO lanes (channel, receiver, waits_until) VALUES ('hooks', 'a.example:443', 0);
         INSERT INTO notifications (key, id, status, route, kind, lane, due_at, generation, attempts, budget_used,
             retry_count, interruptions, resolved, facts, audited, accepted_by, created_at, completed_at)
         SELECT n, gen_random_uuid(), CASE WHEN n > 29990 THEN 'pending' ELSE 'parked' END, 'direct', 'webhook', 1,
             CASE WHEN n > 29990 THEN n END, 0, 0, 0, 0, 0, 0, 1, 1, 'key:erp', n, CASE WHEN n <= 29990 THEN n END
         FROM generate_series(1, 30000) n;
         ANALYZE notifications",
    );
    for (name, statement, given) in asked_all_day().into_iter() {
        let plan = server.write(explained("EXPLAIN", statement, given, Dialect::Postgres)).await.unwrap();
        let wide = plan.iter().find(|step| step.contains("Seq Scan on notifications"));
        assert!(wide.is_none(), "{name}: {plan:#?}");
        assert!(plan.iter().any(|step| NARROW.iter().any(|index| step.contains(index))), "{name}: {plan:#?}");
    }
}

/// Statements, and a sign for each of their parameters: a number, a text, bytes, or nothing.
type Asked = [(&'static str, &'static str)];

/// FP-05, FP-20: what is asked for each event, step and attempt, and with what.
fn asked_of_events() -> Vec<(&'static str, &'static Statement, Vec<Value<'static>>)> {
    let steps: &Asked = &[
        ("UNPLANNED", "1"),
        ("RELEASE", "11"),
        ("WAITING", "111"),
        ("CAPPED", "111"),
        ("CHANGED_SINCE", "f1"),
        ("AS_THEY_WERE", "f1"),
    ];
    let ledger: &Asked = &[
        ("RELEASE", "1"),
        ("TOLD_SINCE", "11"),
        ("RECIPIENTS_SINCE", "11"),
        ("HOLDER", "1fff"),
        ("CONFIRM", "--"),
        ("KEEP", "11"),
        ("STOOD_FOR", "1"),
    ];
    let signal: &Asked = &[
        ("SUPERSEDED_BY_TYPE", "fff110"),
        ("SUPERSEDED_BY_KEY", "ff110"),
        ("SIGNAL", "11"),
        ("SOURCE_ROW", "ff"),
        ("SHARED_TEXT", "b"),
        ("WANTED", "1"),
    ];
    let plan: &Asked = &[("CANDIDATE", "1f")];
    let questions: &Asked = &[("SAME_ADDRESS", "1ff0"), ("SAME_LIST", "1f0")];
    let all = [
        (events::steps::STATEMENTS, steps),
        (events::ledger::STATEMENTS, ledger),
        (events::signal::STATEMENTS, signal),
        (events::plan::STATEMENTS, plan),
        (events::plan::questions::STATEMENTS, questions),
    ];
    let given = |sign: char| match sign {
        'f' => Value::Text("f"),
        'b' => Value::Bytes(&[0; 4]),
        '-' => Value::Null,
        number => Value::Int(i64::from(number == '1')),
    };
    let found = all.iter().flat_map(|(statements, asked)| {
        asked.iter().map(|(name, signs)| {
            let (_, statement) = statements.iter().find(|(one, _)| one == name).unwrap();
            (*name, *statement, signs.chars().map(given).collect())
        })
    });
    found.collect()
}

#[tokio::test]
async fn what_is_asked_of_events_goes_through_indexes() {
    let (sqlite, _folder) = sqlite().await;
    // What is being planned has an index of its own.
    let in_order = [("UNPLANNED", "SCAN n USING INDEX events_planning")];
    let no_table = ["SCAN r", "SCAN CONSTANT ROW"];
    for (name, statement, given) in asked_of_events() {
        let text = format!("EXPLAIN QUERY PLAN {}", statement.said_by(Dialect::Sqlite));
        let plan = sqlite.read(Ask(Statement::composed(text), given)).await.unwrap();
        let wide = plan.iter().find(|step| {
            let of_all = step.starts_with("SCAN ") && !no_table.contains(&step.as_str());
            (of_all || step.contains("TEMP B-TREE")) && !in_order.contains(&(name, step))
        });
        assert!(wide.is_none(), "{name}: {plan:#?}");
    }
}

#[tokio::test]
async fn nor_does_anything_on_postgres_go_through_all_of_them() {
    let (server, fresh) = server().await;
    fresh.sql(
        "SET search_path = angarium;
         INSERT INTO events (key, id, source, external_id, hash, feed, type, subject, at, fields, supersede_key, test,
             accepted_by, created_at, plan_version, planned_to, matched)
         SELECT n, gen_random_uuid(), 'erp', n, '', 'f', 'A', n, n, '{}', n, 0, 'key:erp', n, 0,
             CASE WHEN n > 19990 THEN 1 END, 1 FROM generate_series(1, 20000) n;
         INSERT INTO notifications (key, id, status, route, kind, lane, generation, attempts, budget_used,
             retry_count, interruptions, resolved, facts, audited, accepted_by, created_at, event, subscription)
         SELECT n, gen_random_uuid(), 'parked', 'subscription', 'webhook', 1, 0, 0, 0, 0, 0, 0, 1, 1, 'key:erp', n, n, n
         FROM generate_series(1, 20000) n;
         INSERT INTO ledger SELECT n / 10, 'f', n, 'A', n, gen_random_uuid(), 1, n, n FROM generate_series(1, 20000) n;
         INSERT INTO suppressed SELECT n, n / 10, 'cooldown', n, gen_random_uuid(), n FROM generate_series(1, 20000) n;
         INSERT INTO releases SELECT n, n, n FROM generate_series(1, 20000) n;
         INSERT INTO history SELECT 'subscription', n, 0, CASE WHEN n > 19990 THEN 5 ELSE 1 END, '{}', 1
         FROM generate_series(1, 20000) n;
         INSERT INTO subscriptions (id, name, feed, filter, channel, address, receiver, active, deleted, cooldown,
             at_most_once, scope, test, managed_by, version, created_at, updated_at)
         SELECT n, 'x', 'f' || n / 100, '{}', 'hooks', 'x', 'x', 1, 0, 0, 0, 'system', 0, 'api', n, 0, 0
         FROM generate_series(1, 20000) n;
         INSERT INTO sources SELECT 'f', n, n, n FROM generate_series(1, 20000) n;
         INSERT INTO contents (key, subject, body, hash)
         SELECT n, '', '', decode(lpad(to_hex(n), 8, '0'), 'hex') FROM generate_series(1, 20000) n;
         ANALYZE",
    );
    for (name, statement, given) in asked_of_events() {
        let text = format!("EXPLAIN {}", statement.said_by(Dialect::Postgres));
        let plan = server.write(Ask(Statement::composed(text), given)).await.unwrap();
        assert!(
            !plan.iter().any(|step| step.contains("One-Time Filter")),
            "it asks nothing: {name}: {plan:#?}"
        );
        // Tables that are empty here are read as they are.
        let empty =
            ["targets", "attempts", "subscription_deliveries"].map(|table| format!("Seq Scan on {table} "));
        let full =
            |step: &&String| step.contains("Seq Scan on ") && !empty.iter().any(|scan| step.contains(scan));
        assert!(!plan.iter().any(|step| full(&step)), "{name}: {plan:#?}");
    }
}
