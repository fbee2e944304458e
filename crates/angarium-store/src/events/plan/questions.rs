//! The questions that are asked of each candidate, in their order (FP-06): was it told of something else just now, of the
//! same thing, as often as it wants to be, and does the event tell its target already.

use angarium_domain::time::Timestamp;

use super::{Candidate, Subject, Where, reserves};
use crate::db::{Row, Tx, row, statements};
use crate::error::Result;
use crate::events::ledger::{self, Hold};
use crate::events::types::SuppressReason;
use crate::types::Key;

statements! {
    /// What is counted for a subscription is counted by one transaction at a time.
    PACE = "SELECT n.key FROM subscriptions n WHERE n.key = $1 {lock found}";

    /// Whoever settles it meanwhile is waited for, so that what is tied to it is not forgotten.
    SAME_ADDRESS = "SELECT n.key, n.id, n.delivered_at FROM notifications n
        WHERE n.event = $1 AND n.address = $3 AND n.channel = $2 AND n.at_most_once = $4 AND n.status IN ('pending', 'retrying', 'delivered')
        ORDER BY n.key LIMIT 1 {lock found}";

    SAME_LIST = "SELECT n.key, n.id, n.delivered_at FROM notifications n
        WHERE n.event = $1 AND n.address IS NULL AND n.list = $2 AND n.at_most_once = $3 AND n.status IN ('pending', 'retrying', 'delivered')
        ORDER BY n.key LIMIT 1 {lock found}";
}

/// Cooldown: told of something else just now, or about to be.
pub(super) async fn pace(tx: &mut Tx<'_>, candidates: &mut [Candidate], now: Timestamp) -> Result<()> {
    let paced: Vec<_> = candidates
        .iter()
        .filter(|candidate| candidate.is_open() && candidate.is_paced())
        .map(|candidate| row![candidate.key])
        .collect();
    tx.query_each(&PACE, &paced, |_| Ok(())).await?;
    for candidate in candidates.iter_mut().filter(|candidate| candidate.is_open()) {
        let cooldown = candidate.stored.subscription.cooldown;
        if !cooldown.is_zero()
            && let Some(holder) = ledger::told_since(tx, candidate.key, now.minus(cooldown)).await?
        {
            candidate.suppress(SuppressReason::Cooldown, Some(holder));
        }
    }
    Ok(())
}

/// Ledger: told of the same thing, or about to be.
pub(super) async fn held(tx: &mut Tx<'_>, subject: &Subject<'_>, candidates: &mut [Candidate]) -> Result<()> {
    let keys: Vec<i64> =
        candidates.iter().filter(|candidate| candidate.is_open()).map(|open| open.key).collect();
    let holders = ledger::holders(tx, &keys, subject.event).await?;
    for candidate in candidates.iter_mut() {
        if let Some(holder) = holders.get(&candidate.key) {
            candidate.suppress(SuppressReason::AlreadyTold, Some(*holder));
        }
    }
    Ok(())
}

/// Daily cap: as many were told in the last 24 hours as may be, or are about to be.
pub(super) async fn cap(tx: &mut Tx<'_>, candidates: &mut [Candidate], now: Timestamp) -> Result<()> {
    for candidate in candidates.iter_mut().filter(|candidate| candidate.is_open()) {
        let Some(cap) = candidate.stored.subscription.daily_cap else { continue };
        let told = ledger::recipients_since(tx, candidate.key, now.minus(ledger::DAY)).await?;
        if told.saturating_add(candidate.recipients) > i64::from(cap) {
            candidate.suppress(SuppressReason::DailyCap, None);
        }
    }
    Ok(())
}

/// Targets that the event's earlier notifications tell already.
pub(super) async fn told_before(
    tx: &mut Tx<'_>,
    subject: &Subject<'_>,
    candidates: &mut [Candidate],
    now: Timestamp,
) -> Result<()> {
    let open: Vec<(usize, Where)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.is_open())
        .map(|(place, candidate)| (place, candidate.place()))
        .collect();
    let (lists, addresses): (Vec<_>, Vec<_>) =
        open.iter().partition(|(_, (_, address, ..))| address.is_empty());
    let told =
        |row: &Row<'_>| Ok((Hold { key: Key(row.int(0)?), id: row.uuid(1)?.into() }, row.opt_time(2)?));
    let asked: Vec<_> = addresses
        .iter()
        .map(|(_, (channel, address, _, once))| row![subject.key.0, channel, address, *once])
        .collect();
    let mut found = tx.query_each(&SAME_ADDRESS, &asked, told).await?;
    let asked: Vec<_> =
        lists.iter().map(|(_, (_, _, list, once))| row![subject.key.0, list, *once]).collect();
    found.extend(tx.query_each(&SAME_LIST, &asked, told).await?);
    for ((place, _), found) in addresses.into_iter().chain(lists).zip(found) {
        let Some(candidate) = candidates.get_mut(*place) else { continue };
        if let Some((holder, delivered_at)) = found.into_iter().next() {
            if reserves(subject) {
                let tied = [(candidate.key, holder, candidate.recipients)];
                ledger::reserve(tx, subject.event, &tied, now).await?;
                // What is delivered already is not confirmed again.
                let told: Vec<_> = delivered_at.map(|at| (holder.key, at)).into_iter().collect();
                ledger::confirm(tx, &told).await?;
            }
            candidate.suppress(SuppressReason::SameTarget, Some(holder));
        }
    }
    Ok(())
}
