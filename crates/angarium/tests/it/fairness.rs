//! One receiver's trouble is its own (OB-09).

use angarium_receivers::http::{Receiver, Reply};

use crate::support::{Database, ON_LOOPBACK, id_of, to, to_with_id};

/// Ten thousand rows wait for a receiver that takes connections and never answers; the others do not notice.
pub(crate) async fn a_dead_receiver_with_ten_thousand_rows_delays_nobody(on: Database) {
    let dead = Receiver::start().await.unwrap();
    dead.script("/hook", [Reply::silence()]);
    let well = Receiver::start().await.unwrap();
    let server = on.started(ON_LOOPBACK).await;
    let backlog: Vec<_> = (0..10_000).map(|n| to(&dead.url("/hook"), &format!("dead {n}"))).collect();
    server.hand_in_all(backlog).await;
    dead.wait_for("/hook", 8).await;
    for n in 0..50 {
        let name = format!("well {n}");
        server.hand_in(&to_with_id(&well.url("/hook"), &name)).await;
        let row = server.until(&id_of(&name), "delivered").await;
        assert_eq!(row["retry_count"], 0);
    }
    assert_eq!(dead.requests().len(), 8, "the dead one holds its share of eight and no more");
    assert_eq!(server.get("/v1/kpis").await["global"]["queue_depth"], 10_000);
}
