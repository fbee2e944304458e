//! The figures an operator watches (OB-18, OB-19), all of one snapshot and one moment.

use angarium_domain::time::Timestamp;

use crate::db::{Op, Row, Tx, params, statements};
use crate::error::Result;
use crate::types::{Kpi, Kpis};

/// Counts everything, by site and by node.
pub(crate) struct Count {
    /// Rows accepted before this and still live are stuck.
    pub(crate) stuck_before: Timestamp,
    /// Rows delivered after this count as delivered in the last interval.
    pub(crate) delivered_since: Timestamp,
}

statements! {
    LIVE = "SELECT site, node, count(*), sum(CASE WHEN created_at < $1 THEN 1 ELSE 0 END), min(created_at),
            sum(CASE WHEN lease_until IS NOT NULL THEN 1 ELSE 0 END)
        FROM notifications WHERE due_at IS NOT NULL GROUP BY site, node";

    PARKED = "SELECT site, node, count(*) FROM notifications WHERE status = 'parked' GROUP BY site, node";

    DELIVERED = "SELECT site, node, count(*) FROM notifications
        WHERE completed_at IS NOT NULL AND completed_at > $1 AND status = 'delivered' GROUP BY site, node";
}

type Counted = (Option<String>, Option<String>, Kpi);

impl Op for Count {
    type Output = Kpis;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Kpis> {
        let live = |row: &Row<'_>| {
            let kpi = Kpi {
                queue_depth: row.int(2)?,
                stuck_count: row.int(3)?,
                oldest_pending: row.opt_time(4)?,
                in_flight: row.int(5)?,
                ..Kpi::default()
            };
            Ok((row.opt_text(0)?, row.opt_text(1)?, kpi))
        };
        let parked = |row: &Row<'_>| {
            Ok((row.opt_text(0)?, row.opt_text(1)?, Kpi { parked_count: row.int(2)?, ..Kpi::default() }))
        };
        let delivered = |row: &Row<'_>| {
            Ok((
                row.opt_text(0)?,
                row.opt_text(1)?,
                Kpi { delivered_last_interval: row.int(2)?, ..Kpi::default() },
            ))
        };
        let mut kpis = Kpis::default();
        kpis.add(tx.query(&LIVE, params![self.stuck_before], live).await?);
        kpis.add(tx.query(&PARKED, &[], parked).await?);
        kpis.add(tx.query(&DELIVERED, params![self.delivered_since], delivered).await?);
        Ok(kpis)
    }
}

impl Kpis {
    fn add(&mut self, counted: Vec<Counted>) {
        for (site, node, kpi) in counted {
            self.global.add(&kpi);
            let Some(site) = site else { continue };
            self.sites.entry(site.clone()).or_default().add(&kpi);
            if let Some(node) = node {
                self.nodes.entry((site, node)).or_default().add(&kpi);
            }
        }
    }
}

impl Kpi {
    fn add(&mut self, other: &Kpi) {
        self.queue_depth += other.queue_depth;
        self.stuck_count += other.stuck_count;
        self.parked_count += other.parked_count;
        self.delivered_last_interval += other.delivered_last_interval;
        self.in_flight += other.in_flight;
        self.oldest_pending = match (self.oldest_pending, other.oldest_pending) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}
