//! Several nodes on one PostgreSQL database: they share the work, and one takes over what another cannot finish.
//!
//! Time here is real, and leases are as short as a configuration may have them. Nothing rests on how fast it all goes:
//! what must not happen must not happen however long a node or the database is away.

mod clocks;
mod deaths;
mod failover;
mod lock;
mod operating;
mod outages;
mod pauses;
mod producer;
mod sharing;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use angarium_receivers::http::Receiver;
use angarium_testbed::postgres::{self, Fresh};
use http::Method;
use serde_json::Value;

use crate::support::{Database, Installation, ON_LOOPBACK, pause, within};

/// Among the shortest leases that go with a delivery that may take some time, and that time.
const SHORT: &str = "[outbox]\nlease = \"7s\"\n";
const BRIEF: &str = "timeout = \"2s\"\n";

/// A new database for nodes on the shared server.
fn fresh() -> (Arc<Fresh>, Database) {
    let fresh = Arc::new(postgres::fresh_database());
    (Arc::clone(&fresh), Database::Fresh(fresh))
}

/// A node of that name: more tables for its configuration, and more settings of its channel.
async fn node(name: &str, on: &Database, tables: &str, channel: &str) -> Installation {
    on.started(&configuration(name, tables, channel)).await
}

fn configuration(name: &str, tables: &str, channel: &str) -> String {
    format!("node = \"{name}\"\n{tables}{ON_LOOPBACK}{channel}")
}

/// Two of them that differ in their names.
async fn pair(on: &Database, tables: &str, channel: &str) -> [Installation; 2] {
    let (a, b) = tokio::join!(node("a", on, tables, channel), node("b", on, tables, channel));
    [a, b]
}

/// What the database says of one notification.
#[derive(Debug, Default)]
struct Told {
    status: String,
    /// Attempts that delivered it, those that came in late not counted.
    delivered: usize,
    attempts: usize,
    /// Attempts of which nobody can know whether they reached the receiver.
    in_doubt: usize,
    nodes: BTreeSet<String>,
}

/// What [`tell`] reads.
const TELL: &str = "SELECT n.id, n.status, count(*) FILTER (WHERE a.result = 'delivered' AND a.late = 0), count(a.number),
        count(*) FILTER (WHERE a.duplicate_risk = 1), coalesce(string_agg(DISTINCT a.node, ' '), '')
    FROM angarium.notifications n LEFT JOIN angarium.attempts a ON a.notification = n.key GROUP BY n.id, n.status";

/// Every notification by its id.
fn tell(rows: &str) -> BTreeMap<String, Told> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('|').collect();
        let count = |at: usize| columns[at].parse().unwrap();
        let told = Told {
            status: columns[1].to_owned(),
            delivered: count(2),
            attempts: count(3),
            in_doubt: count(4),
            nodes: columns[5].split_whitespace().map(str::to_owned).collect(),
        };
        (columns[0].to_owned(), told)
    };
    rows.lines().map(row).collect()
}

/// All of these were delivered, by one attempt, and reached the receiver once; or once more for each attempt that nobody
/// can know the outcome of. Returns how many reached it more than once.
fn assert_delivered(rows: &str, receiver: &Receiver, path: &str, ids: &[String]) -> usize {
    let told = tell(rows);
    let effects = receiver.effects_by_id(path);
    let mut repeated = 0;
    for id in ids {
        let told = told.get(id).unwrap_or_else(|| panic!("{id} is lost"));
        let times = effects.get(id).copied().unwrap_or(0);
        assert_eq!(
            (told.status.as_str(), told.delivered),
            ("delivered", 1),
            "{id}: {told:?}, sent {times} times"
        );
        assert!(times >= 1 && times <= 1 + told.in_doubt, "{id}: {told:?}, sent {times} times");
        repeated += usize::from(times > 1);
    }
    repeated
}

impl Installation {
    async fn nodes(&self) -> Vec<Value> {
        self.get("/v1/nodes").await["items"].as_array().unwrap().clone()
    }

    /// The name of the node that leads, once one does.
    async fn leader(&self) -> String {
        within(async {
            loop {
                let nodes = self.nodes().await;
                let leaders: Vec<&Value> = nodes.iter().filter(|node| node["leads"] == true).collect();
                assert!(leaders.len() <= 1, "two lead: {leaders:?}");
                if let Some(leader) = leaders.first() {
                    return leader["name"].as_str().unwrap().to_owned();
                }
                pause().await;
            }
        })
        .await
    }

    /// Waits until it says that it is ready, or that it is not; what it says then.
    async fn says_ready(&self, ready: bool) -> Value {
        within(async {
            loop {
                match self.try_call(Method::GET, "/readyz", None).await {
                    Ok((200, said)) if ready => return said,
                    Ok((503, said)) if !ready => return said,
                    _ => pause().await,
                }
            }
        })
        .await
    }

    /// Waits until it has logged this so often.
    async fn logs(&self, what: &str, times: usize) {
        within(async {
            while self.log().matches(what).count() < times {
                pause().await;
            }
        })
        .await;
    }
}

/// Looks again until it is so; what is looked at may take a program.
async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep between two looks
        }
    })
    .await;
}
