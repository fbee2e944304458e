//! Accepting: the one transaction that makes a notification ours (OB-01, OB-02).

use angarium_domain::content::Recipient;
use angarium_domain::state::Status;
use angarium_domain::text::SourceName;
use angarium_domain::time::Timestamp;

use crate::audit::{self, Fact};
use crate::db::{Op, Tx, params};
use crate::error::Result;
use crate::lanes;
use crate::types::{Acceptance, Key, LaneKey, LaneName, NewNotification};

/// Inserts notifications, each on its own: a resend is a no-op, a reused id is refused, and neither touches
/// its neighbours.
pub(crate) struct Accept {
    pub(crate) items: Vec<(Key, NewNotification)>,
    /// Lanes whose keys were known before; the others are looked up.
    pub(crate) known_lanes: Vec<Option<LaneKey>>,
    pub(crate) now: Timestamp,
}

/// What became of each item, in order, and the lanes that were looked up.
pub(crate) struct Accepted {
    pub(crate) results: Vec<Acceptance>,
    pub(crate) lanes: Vec<(LaneName, LaneKey)>,
}

const CLAIM_ID: &str =
    "INSERT INTO ids (id, key, hash, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING";

const KNOWN_ID: &str =
    "SELECT i.hash, n.status FROM ids i LEFT JOIN notifications n ON n.key = i.key WHERE i.id = $1";

const INSERT_CONTENT: &str = "INSERT INTO contents (key, subject, body, data) VALUES ($1, $2, $3, $4)";

const INSERT_NOTIFICATION: &str = "INSERT INTO notifications
    (key, id, status, route, kind, channel, list, address, lane, site, instance, script, node, due_at,
     generation, attempts, budget_used, retry_count, interruptions, resolved, facts, audited, enqueued_at, created_at,
     accepted_by)
    VALUES ($1, $2, 'pending', 'direct', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0, 0, 0, 0, 0, 1, 1, $13, $12, $14)";

impl Op for Accept {
    type Output = Accepted;

    fn weight(&self) -> usize {
        self.items.len() * 4 + self.items.iter().map(|(_, item)| item.text_bytes()).sum::<usize>() / 4096
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Accepted> {
        let mut results = Vec::with_capacity(self.items.len());
        let mut looked_up = Vec::new();
        let mut facts = Vec::with_capacity(self.items.len());
        for ((key, item), known) in self.items.iter().zip(&self.known_lanes) {
            let lanes_before = looked_up.len();
            tx.savepoint().await?;
            let stored = self.store_one(tx, *key, item, *known, &mut looked_up).await;
            let acceptance = match tx.close_savepoint(stored).await? {
                Err(error) if error.concerns_the_database() => return Err(error),
                Err(error) => {
                    looked_up.truncate(lanes_before);
                    Acceptance::Failed { id: item.id, detail: error.to_string() }
                }
                Ok(acceptance) => acceptance,
            };
            if matches!(acceptance, Acceptance::Accepted { duplicate: false, .. }) {
                facts.push(Fact::accepted(*key, item.id, item.accepted_by.as_str(), self.now));
            }
            results.push(acceptance);
        }
        audit::record(tx, &facts).await?;
        Ok(Accepted { results, lanes: looked_up })
    }
}

impl Accept {
    async fn store_one(
        &self,
        tx: &mut Tx<'_>,
        key: Key,
        item: &NewNotification,
        known: Option<LaneKey>,
        looked_up: &mut Vec<(LaneName, LaneKey)>,
    ) -> Result<Acceptance> {
        if let Some(earlier) = claim_id(tx, key, item, self.now).await? {
            return Ok(earlier);
        }
        let lane = match known {
            Some(lane) => lane,
            None => {
                let name = lane_of(item);
                let lane = lanes::ensure(tx, &name).await?;
                looked_up.push((name, lane));
                lane
            }
        };
        insert(tx, key, item, lane, self.now).await?;
        Ok(Acceptance::Accepted { id: item.id, status: Status::Pending, duplicate: false })
    }
}

/// Takes the producer's id, or says what it already stands for.
async fn claim_id(
    tx: &mut Tx<'_>,
    key: Key,
    item: &NewNotification,
    now: Timestamp,
) -> Result<Option<Acceptance>> {
    let hash: &[u8] = item.hash.as_bytes();
    if tx.execute(CLAIM_ID, params![item.id.uuid(), key.0, hash, now]).await? == 1 {
        return Ok(None);
    }
    let known = tx
        .query_opt(KNOWN_ID, params![item.id.uuid()], |row| {
            let status = row.opt_text(1)?.and_then(|word| word.parse().ok());
            Ok((row.bytes(0)?, status))
        })
        .await?;
    Ok(Some(match known {
        Some((stored, status)) if stored == hash => {
            // The row itself may have been purged; what was promised then still holds.
            let status = status.unwrap_or(Status::Delivered);
            Acceptance::Accepted { id: item.id, status, duplicate: true }
        }
        _ => Acceptance::IdReused { id: item.id },
    }))
}

async fn insert(
    tx: &mut Tx<'_>,
    key: Key,
    item: &NewNotification,
    lane: LaneKey,
    now: Timestamp,
) -> Result<()> {
    let content = params![key.0, item.subject.as_str(), item.body.as_str(), item.data.as_deref()];
    tx.execute(INSERT_CONTENT, content).await?;
    let (list, address) = match &item.recipient {
        Recipient::List(list) => (Some(list.as_str()), None),
        Recipient::Address { address, .. } => (None, Some(address.as_str())),
    };
    let from = &item.provenance;
    let name = |part: &'_ Option<SourceName>| part.as_ref().map(|name| name.as_str().to_owned());
    let (site, instance, script, node) =
        (name(&from.site), name(&from.instance), name(&from.script), name(&from.node));
    let row = params![
        key.0,
        item.id.uuid(),
        item.kind.as_str(),
        item.channel.as_ref().map(|channel| channel.as_str()),
        list,
        address,
        lane.0,
        site.as_deref(),
        instance.as_deref(),
        script.as_deref(),
        node.as_deref(),
        now,
        item.enqueued_at,
        item.accepted_by.as_str(),
    ];
    tx.execute(INSERT_NOTIFICATION, row).await.map(drop)
}

/// The lane of a notification is stamped when it is accepted.
pub(crate) fn lane_of(item: &NewNotification) -> LaneName {
    let channel = item.channel.as_ref().map_or("", |channel| channel.as_str()).to_owned();
    match &item.recipient {
        Recipient::List(list) => LaneName::of_list(&channel, list.as_str()),
        Recipient::Address { address, .. } => LaneName { channel, receiver: address.receiver().to_owned() },
    }
}
