//! Planning: each subscription that an event matches is decided here, in the database, in a fixed order of questions
//! (FP-06): is it still to be told at all, is it told of something else just now, was it told of this before, was it told
//! as often as it wants to be, is another told at the same address. What passes is reserved in the ledger and becomes a
//! notification; what does not is written down with its reason.

pub(crate) mod questions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use angarium_domain::channel::ChannelKind;
use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::id::{EventId, NotificationId};
use angarium_domain::state::Status;
use angarium_domain::subscription::{Subscription, Target};
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;

use super::ledger::{self, Hold};
use super::signal;
use super::types::{Channels, PlannedNotification, SkippedMatch, SuppressReason};
use crate::audit::{self, Fact};
use crate::db::{Tx, row, statements};
use crate::error::{Result, StoreError};
use crate::key::Keys;
use crate::lanes;
use crate::routes::known::Known;
use crate::routes::subscriptions::{subscription_columns, subscription_row};
use crate::routes::types::StoredSubscription;
use crate::types::{Key, LaneName};

statements! {
    /// One that was deleted and made again may be of another feed by now.
    CANDIDATE = concat!("SELECT ", subscription_columns!(), " FROM subscriptions s
        WHERE s.key = $1 AND s.feed = $2 AND s.deleted = 0");

    PLANNED_ID = "INSERT INTO ids (id, key, hash, created_at) {values: uuid, bigint, bytea, bigint}
        ON CONFLICT (id) DO NOTHING RETURNING key";

    PLANNED = "INSERT INTO notifications
        (key, id, kind, channel, list, address, lane, due_at, created_at, enqueued_at, accepted_by, event, subscription,
         at_most_once, status, route, generation, attempts, budget_used, retry_count, interruptions, resolved, facts, audited)
        SELECT r.key, r.id, r.kind, r.channel, r.list, r.address, r.lane, r.now, r.now, r.at, r.accepted_by, r.event,
            r.subscription, r.at_most_once, 'pending', 'subscription', 0, 0, 0, 0, 0, 0, 1, 1
        FROM {rows: key bigint, id uuid, kind text, channel text, list text, address text, lane bigint, now bigint,
            at bigint, accepted_by text, event bigint, subscription bigint, at_most_once bigint}";

    /// One that was suppressed before is suppressed for another reason now.
    SUPPRESS = "INSERT INTO suppressed (event, subscription, reason, holder, holder_id, at)
        {values: bigint, bigint, text, bigint, uuid, bigint}
        ON CONFLICT (event, subscription) DO UPDATE SET reason = excluded.reason, holder = excluded.holder,
            holder_id = excluded.holder_id, at = excluded.at";
}

/// What planning needs besides the database.
pub(crate) struct Planner {
    pub(crate) known: Arc<Known>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) channels: Arc<Channels>,
}

/// The event that is planned.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'e> {
    pub(crate) key: Key,
    pub(crate) id: EventId,
    pub(crate) event: &'e Event,
    pub(crate) feed: &'e Feed,
    /// Who handed it in.
    pub(crate) actor: &'e str,
}

/// What an event led to.
pub(crate) type Outcome = (Vec<PlannedNotification>, Vec<SkippedMatch>);

/// A subscription that the event matches.
struct Candidate {
    key: i64,
    stored: StoredSubscription,
    channel: Option<ChannelName>,
    kind: ChannelKind,
    lane: LaneName,
    /// How many it tells.
    recipients: i64,
    verdict: Verdict,
}

enum Verdict {
    Open,
    Suppressed(SuppressReason, Option<Hold>),
    Planned(Hold),
}

/// Whether the ledger counts what the event tells: tests count for nothing.
fn reserves(subject: &Subject<'_>) -> bool {
    !subject.event.test
}

impl Planner {
    /// Decides the subscriptions with these keys, which rise. `first` says that nothing was planned for the event before.
    pub(crate) async fn plan(
        &self,
        tx: &mut Tx<'_>,
        subject: &Subject<'_>,
        keys: &[i64],
        first: bool,
        now: Timestamp,
    ) -> Result<Outcome> {
        let mut candidates = self.candidates(tx, subject, keys, now).await?;
        if candidates.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        if let Some(reason) = self.untold(tx, subject, now).await? {
            candidates.iter_mut().for_each(|candidate| candidate.suppress(reason, None));
        }
        if reserves(subject) {
            questions::pace(tx, &mut candidates, now).await?;
            questions::held(tx, subject, &mut candidates).await?;
            questions::cap(tx, &mut candidates, now).await?;
        }
        if !first {
            questions::told_before(tx, subject, &mut candidates, now).await?;
        }
        self.reserve(tx, subject, &mut candidates, now).await?;
        self.write(tx, subject, &candidates, now).await?;
        suppress(tx, subject, &candidates, now).await?;
        Ok(outcome(candidates, now))
    }

    async fn candidates(
        &self,
        tx: &mut Tx<'_>,
        subject: &Subject<'_>,
        keys: &[i64],
        now: Timestamp,
    ) -> Result<Vec<Candidate>> {
        let asked: Vec<_> = keys.iter().map(|key| row![*key, subject.event.feed.as_str()]).collect();
        let found = tx.query_each(&CANDIDATE, &asked, |row| subscription_row(row, 0)).await?;
        Ok(found.into_iter().flatten().map(|(key, stored)| self.candidate(key, stored, now)).collect())
    }

    fn candidate(&self, key: i64, stored: StoredSubscription, now: Timestamp) -> Candidate {
        let Subscription { target, expires_at, .. } = &stored.subscription;
        let (channel, recipients, lane) = match target {
            Target::Address { channel, address } => {
                let lane = LaneName {
                    channel: channel.as_str().to_owned(),
                    receiver: address.receiver().to_owned(),
                };
                (Some(channel.clone()), 1, lane)
            }
            Target::List(name) => {
                let list = self.known.list(name);
                let channel = list.as_ref().map(|list| list.channel.clone());
                let lane =
                    LaneName::of_list(channel.as_ref().map_or("", |name| name.as_str()), name.as_str());
                (channel, list.map_or(1, |list| list.members.len()), lane)
            }
        };
        let facts = channel.as_ref().and_then(|name| self.channels.get(name));
        let verdict = match facts {
            _ if expires_at.is_some_and(|end| end <= now) => {
                Verdict::Suppressed(SuppressReason::SubscriptionExpired, None)
            }
            None if channel.is_some() => Verdict::Suppressed(SuppressReason::ChannelUnknown, None),
            Some(facts) if !facts.enabled => Verdict::Suppressed(SuppressReason::ChannelDisabled, None),
            _ => Verdict::Open,
        };
        let kind = facts.map_or(ChannelKind::Email, |facts| facts.kind);
        let recipients = i64::try_from(recipients).unwrap_or(i64::MAX);
        Candidate { key, stored, channel, kind, lane, recipients, verdict }
    }

    /// Why nobody is told of the event any more, if that is so.
    async fn untold(
        &self,
        tx: &mut Tx<'_>,
        subject: &Subject<'_>,
        now: Timestamp,
    ) -> Result<Option<SuppressReason>> {
        if !subject.feed.enabled {
            return Ok(Some(SuppressReason::FeedDisabled));
        }
        if subject.event.expires_at.is_some_and(|end| end <= now) {
            return Ok(Some(SuppressReason::Expired));
        }
        let later = signal::superseding(tx, subject.key, subject.event, subject.feed).await?;
        Ok(later.map(|_| SuppressReason::Superseded))
    }

    /// Reserves what is still open, one for each target; the others are tied to it.
    async fn reserve(
        &self,
        tx: &mut Tx<'_>,
        subject: &Subject<'_>,
        candidates: &mut [Candidate],
        now: Timestamp,
    ) -> Result<()> {
        // Whoever loses a race for its place in the ledger makes room for the next with the same target.
        while candidates.iter().any(Candidate::is_open) {
            let mut leaders: HashMap<Where, Hold> = candidates.iter().filter_map(Candidate::led).collect();
            let (mut wanted, mut rows) = (Vec::new(), Vec::new());
            for candidate in candidates.iter_mut().filter(|candidate| candidate.is_open()) {
                let place = candidate.place();
                let leader = leaders.get(&place).copied();
                let hold = leader.unwrap_or_else(|| self.hold(subject, candidate, now));
                leaders.insert(place, hold);
                wanted.push((candidate.key, hold, leader.is_some()));
                rows.push((candidate.key, hold, candidate.recipients));
            }
            let reserved = match reserves(subject) {
                true => ledger::reserve(tx, subject.event, &rows, now).await?,
                false => rows.iter().map(|(key, _, _)| *key).collect(),
            };
            let lost: HashSet<NotificationId> = wanted
                .iter()
                .filter(|(key, _, tied)| !tied && !reserved.contains(key))
                .map(|(_, hold, _)| hold.id)
                .collect();
            // Those that were tied to one that lost are given back, and look for another.
            let orphans: Vec<i64> = wanted
                .iter()
                .filter(|(key, hold, tied)| *tied && lost.contains(&hold.id) && reserved.contains(key))
                .map(|(key, _, _)| *key)
                .collect();
            ledger::give_back(tx, subject.event, &orphans).await?;
            for (key, hold, tied) in wanted {
                let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.key == key) else {
                    continue;
                };
                candidate.verdict = match (reserved.contains(&key), tied) {
                    (true, true) if lost.contains(&hold.id) => Verdict::Open,
                    (true, true) => Verdict::Suppressed(SuppressReason::SameTarget, Some(hold)),
                    (true, false) => Verdict::Planned(hold),
                    (false, _) => match ledger::holder(tx, key, subject.event).await? {
                        Some(holder) => Verdict::Suppressed(SuppressReason::AlreadyTold, Some(holder)),
                        // It was given back meanwhile.
                        None => Verdict::Open,
                    },
                };
            }
        }
        Ok(())
    }

    fn hold(&self, subject: &Subject<'_>, candidate: &Candidate, now: Timestamp) -> Hold {
        let scope = ["event", &*subject.id.to_string()];
        let id = NotificationId::derived(&scope, candidate.stored.id.as_str());
        Hold { key: self.keys.next(now), id }
    }

    /// Writes the notifications that were planned.
    async fn write(
        &self,
        tx: &mut Tx<'_>,
        subject: &Subject<'_>,
        candidates: &[Candidate],
        now: Timestamp,
    ) -> Result<()> {
        let planned: Vec<(&Candidate, Hold)> =
            candidates.iter().filter_map(|candidate| Some((candidate, candidate.planned()?))).collect();
        if planned.is_empty() {
            return Ok(());
        }
        let names: HashSet<&LaneName> = planned.iter().map(|(candidate, _)| &candidate.lane).collect();
        let lanes = lanes::ensure_all(tx, names.into_iter().collect()).await?;
        let hash = [0u8; 32];
        let mut ids: Vec<_> = planned.iter().map(|(_, hold)| (hold.id.uuid(), hold.key.0)).collect();
        ids.sort_unstable();
        let ids: Vec<_> = ids.into_iter().map(|(id, key)| row![id, key, hash.as_slice(), now]).collect();
        if tx.query_rows(&PLANNED_ID, &ids, |row| row.int(0)).await?.len() < ids.len() {
            return Err(StoreError::Statement("a notification was planned before".into()));
        }
        let mut rows = Vec::with_capacity(planned.len());
        for (candidate, hold) in &planned {
            let lane =
                lanes.get(&candidate.lane).ok_or_else(|| StoreError::Statement("a lane was lost".into()))?;
            let (list, address) = candidate.list_and_address();
            rows.push(row![
                hold.key.0,
                hold.id.uuid(),
                candidate.kind.as_str(),
                candidate.channel.as_ref().map(|channel| channel.as_str()),
                list,
                address,
                lane.0,
                now,
                subject.event.at,
                subject.actor,
                subject.key.0,
                candidate.key,
                candidate.stored.subscription.at_most_once,
            ]);
        }
        tx.execute_rows(&PLANNED, &rows).await?;
        let facts: Vec<Fact> =
            planned.iter().map(|(_, hold)| Fact::accepted(hold.key, hold.id, subject.actor, now)).collect();
        audit::record(tx, &facts).await
    }
}

/// Where a message goes, and how: the channel, the address, the list, and whether it is sent once at most, which is never
/// tied to what may be sent again.
type Where = (String, String, String, bool);

impl Candidate {
    fn is_open(&self) -> bool {
        matches!(self.verdict, Verdict::Open)
    }

    fn suppress(&mut self, reason: SuppressReason, by: Option<Hold>) {
        if self.is_open() {
            self.verdict = Verdict::Suppressed(reason, by);
        }
    }

    fn planned(&self) -> Option<Hold> {
        match self.verdict {
            Verdict::Planned(hold) => Some(hold),
            _ => None,
        }
    }

    fn led(&self) -> Option<(Where, Hold)> {
        Some((self.place(), self.planned()?))
    }

    fn list_and_address(&self) -> (Option<&str>, Option<&str>) {
        match &self.stored.subscription.target {
            Target::Address { address, .. } => (None, Some(address.as_str())),
            Target::List(list) => (Some(list.as_str()), None),
        }
    }

    fn place(&self) -> Where {
        let (list, address) = self.list_and_address();
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let channel = owned(self.channel.as_ref().map(ChannelName::as_str));
        (channel, owned(address), owned(list), self.stored.subscription.at_most_once)
    }

    fn is_paced(&self) -> bool {
        let Subscription { cooldown, daily_cap, .. } = &self.stored.subscription;
        !cooldown.is_zero() || daily_cap.is_some()
    }
}

async fn suppress(
    tx: &mut Tx<'_>,
    subject: &Subject<'_>,
    candidates: &[Candidate],
    now: Timestamp,
) -> Result<()> {
    let suppressed = |candidate: &Candidate| match candidate.verdict {
        Verdict::Suppressed(reason, by) => Some((candidate.key, reason, by)),
        _ => None,
    };
    let rows: Vec<_> = candidates
        .iter()
        .filter_map(suppressed)
        .map(|(key, reason, by)| {
            let (holder, id) = (by.map(|hold| hold.key.0), by.map(|hold| hold.id.uuid()));
            row![subject.key.0, key, reason.as_str(), holder, id, now]
        })
        .collect();
    tx.execute_rows(&SUPPRESS, &rows).await.map(drop)
}

fn outcome(candidates: Vec<Candidate>, now: Timestamp) -> Outcome {
    let (mut notifications, mut skipped) = (Vec::new(), Vec::new());
    for candidate in candidates {
        let (list, address) = candidate.list_and_address();
        let target = list.or(address).unwrap_or_default().to_owned();
        let subscription = candidate.stored.id.clone();
        match candidate.verdict {
            Verdict::Planned(hold) => notifications.push(PlannedNotification {
                id: hold.id,
                subscription,
                channel: candidate.channel,
                target,
                status: Status::Pending,
                skip_reason: None,
            }),
            Verdict::Suppressed(reason, by) => skipped.push(SkippedMatch {
                subscription,
                reason,
                by: by.map(|hold| hold.id),
                told_by: None,
                at: now,
            }),
            Verdict::Open => {}
        }
    }
    (notifications, skipped)
}
