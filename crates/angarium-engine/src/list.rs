//! An attempt at a list: its members are resolved once, at the first attempt, and each has its own fate.
//!
//! Members are sent to in groups as large as one exchange of the adapter allows, several groups side by side
//! where permits can be spared. What became of a group is written as soon as it is known.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use angarium_domain::adapter::{Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::disposition::{Scope, decide};
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::targets::{RollUp, TargetState, roll_up};
use angarium_domain::time::Timestamp;
use angarium_store::{
    AttemptRecord, Claim, LaneName, Payload, ScopeChange, ScopedLane, Settlement, Target, TargetResult,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use crate::delivery::{Context, Spare, Stop, Way, park, record, suppressed};
use crate::settler::until_written;

/// Sends to every member that is due, and rolls up what becomes of them.
pub(crate) async fn attempt(
    context: &Arc<Context>,
    claim: &Claim,
    payload: Payload,
    message: Arc<Message>,
    name: &str,
    spare: Spare,
) -> Result<Settlement, Stop> {
    let (way, mut targets) = members(context, claim, payload, name).await?;
    let way = Arc::new(way);
    let started_at = context.clock.now();
    let mut round = Round::default();
    round.refuse_suppressed(context, claim, &mut targets).await;
    heed_receivers(&mut targets);
    let mut waiting = due_groups(context, &way, &targets, started_at);
    if !waiting.is_empty() {
        context.last_look(claim, &way).await?;
    }
    // From here on something may have been sent: whatever goes wrong, what is known is written and settled.
    let mut under_way = UnderWay::default();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|group| under_way.has_room(&group.receiver, &way));
        // The claim's own permit carries one group; further ones side by side need permits of their own.
        let borrowed = if under_way.is_empty() { None } else { borrow(&spare, &way) };
        let (Some(next), true) = (next, borrowed.is_some() || under_way.is_empty()) else {
            drop(borrowed);
            round.take_in(context, claim, &way, &mut targets, under_way.next().await).await;
            continue;
        };
        if round.sent > 0 && !may_go_on(context, claim).await {
            break;
        }
        round.sent += 1;
        let Some(group) = waiting.remove(next) else { break };
        let delivery = delivery_to(&way, &message, &targets, &group.places, context.clock.now());
        let (context, way) = (Arc::clone(context), Arc::clone(&way));
        under_way.begin(group, async move {
            let outcomes = context.send(&way, &delivery).await;
            drop(borrowed);
            outcomes
        });
    }
    while let Some(ended) = under_way.next().await {
        round.take_in(context, claim, &way, &mut targets, Some(ended)).await;
    }
    round.settlement(context, claim, &way, &targets, started_at)
}

/// Members that are sent to in one exchange, by their places, and the receiver behind the first of them.
struct Group {
    places: Vec<usize>,
    receiver: String,
}

/// What came of a group; no outcomes if its sending broke off.
type Ended = (Group, Vec<Outcome>);

/// The groups that are being sent to.
#[derive(Default)]
struct UnderWay {
    sending: JoinSet<Vec<Outcome>>,
    groups: HashMap<tokio::task::Id, Group>,
}

impl UnderWay {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether another group may be sent to this receiver now.
    fn has_room(&self, receiver: &str, way: &Way) -> bool {
        let at_it = self.groups.values().filter(|group| group.receiver == receiver).count();
        at_it < way.settings.max_parallel_per_receiver.max(1)
    }

    fn begin(&mut self, group: Group, sending: impl Future<Output = Vec<Outcome>> + Send + 'static) {
        let task = self.sending.spawn(sending).id();
        self.groups.insert(task, group);
    }

    /// The next group that comes to an end; none if nothing is under way.
    async fn next(&mut self) -> Option<Ended> {
        let (task, outcomes) = match self.sending.join_next_with_id().await? {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(cause = %error, "sending to members of a list broke off");
                (error.id(), Vec::new())
            }
        };
        Some((self.groups.remove(&task)?, outcomes))
    }
}

/// The way out and the members: those written down at the first attempt, or, at the first attempt, those that
/// the list has now.
async fn members(
    context: &Context,
    claim: &Claim,
    payload: Payload,
    name: &str,
) -> Result<(Way, Vec<Target>), Stop> {
    if claim.resolved {
        let channel =
            claim.channel.as_ref().ok_or_else(|| park(FailureClass::PermanentConfig, "no channel"))?;
        return Ok((context.way(channel)?, payload.targets));
    }
    let (list, settings) = context
        .catalog
        .list(name)
        .ok_or_else(|| park(FailureClass::PermanentConfig, format!("list not found: {name}")))?;
    let way = context.way(&list.channel)?;
    let members = list.members.clone();
    if !context.store.resolve(claim, settings.kind, &list.channel, members, context.clock.now()).await? {
        return Err(Stop::Lost);
    }
    // Permits were taken, and waits looked at, for the channel that the row was stamped with.
    if claim.channel.as_ref() != Some(&list.channel) {
        return Err(Stop::Moved);
    }
    let resolved = context.store.load(claim).await?.ok_or(Stop::Lost)?;
    Ok((way, resolved.targets))
}

/// A long list takes its time: between groups it may have been cancelled, the lease lost, the stop begun. If
/// the store cannot tell, the rest waits for another attempt.
async fn may_go_on(context: &Context, claim: &Claim) -> bool {
    !context.stopping.load(Ordering::Relaxed)
        && context.leases.trusts(claim, context.clock.monotonic())
        && context.store.stands(claim).await.unwrap_or(false)
}

/// Permits for one more group, as long as a quarter of the channel's stays free for others.
fn borrow((overall, channel): &Spare, way: &Way) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
    if channel.available_permits() <= way.settings.max_parallel / 4 {
        return None;
    }
    let overall = Arc::clone(overall).try_acquire_owned().ok()?;
    Some((overall, Arc::clone(channel).try_acquire_owned().ok()?))
}

/// A member whose receiver asked to be left alone is due no sooner than that.
fn heed_receivers(targets: &mut [Target]) {
    for target in targets {
        if let TargetState::Waiting { due, .. } = &mut target.state {
            *due = (*due).max(target.waits_until);
        }
    }
}

/// The members that are due, in groups as large as one exchange allows; those behind receivers that failed
/// lately come last.
fn due_groups(context: &Context, way: &Way, targets: &[Target], now: Timestamp) -> VecDeque<Group> {
    let is_due = |target: &Target| matches!(target.state, TargetState::Waiting { due, .. } if due <= now);
    let receiver =
        |target: &Target| Address::stored(way.settings.kind, target.address.clone()).receiver().to_owned();
    let due = (0..).zip(targets).filter(|(_, target)| is_due(target));
    let mut due: Vec<(u32, usize, String)> = due
        .map(|(place, target)| (place, receiver(target)))
        .map(|(place, receiver)| (context.receivers.failures(&receiver), place, receiver))
        .collect();
    due.sort_unstable();
    due.chunks(way.adapter.addresses_per_send().max(1))
        .map(|members| Group {
            places: members.iter().map(|(_, place, _)| *place).collect(),
            receiver: members.first().map(|(_, _, receiver)| receiver.clone()).unwrap_or_default(),
        })
        .collect()
}

fn delivery_to(
    way: &Way,
    message: &Arc<Message>,
    targets: &[Target],
    group: &[usize],
    now: Timestamp,
) -> Delivery {
    let address = |place: &usize| targets.get(*place).map(|target| target.address.clone());
    Delivery {
        channel: way.channel.clone(),
        message: Arc::clone(message),
        addresses: group
            .iter()
            .filter_map(address)
            .map(|text| Address::stored(way.settings.kind, text))
            .collect(),
        attempted_at: now,
    }
}

/// What one attempt at a list has led to so far.
#[derive(Default)]
struct Round {
    scopes: Vec<ScopeChange>,
    told: Vec<serde_json::Value>,
    accepted: usize,
    slow: usize,
    sent: usize,
    first_failure: Option<Failure>,
    provider_message_id: Option<String>,
}

impl Round {
    /// Members that want no more messages are refused without a try.
    async fn refuse_suppressed(&mut self, context: &Context, claim: &Claim, targets: &mut [Target]) {
        let mut results = Vec::new();
        for target in targets.iter_mut().filter(|target| matches!(target.state, TargetState::Waiting { .. }))
        {
            let Some(reason) = &target.suppressed else { continue };
            let failure = Failure::new(FailureClass::PermanentRecipient, suppressed(reason));
            target.state = TargetState::Refused(failure.as_last_error());
            results.push(result_of(target, None));
            self.tell(target, &Outcome::Failed(failure));
        }
        write(context, claim, results).await;
    }

    /// Decides what follows for each member of a group that was sent to, and writes it.
    async fn take_in(
        &mut self,
        context: &Context,
        claim: &Claim,
        way: &Way,
        targets: &mut [Target],
        ended: Option<Ended>,
    ) {
        let Some((group, outcomes)) = ended else { return };
        let now = context.clock.now();
        let mut results = Vec::new();
        for (place, outcome) in group.places.into_iter().zip(outcomes) {
            let Some(target) = targets.get_mut(place) else { continue };
            let follows = decide(&outcome, target.progress, &way.rules(), now, context.chance.as_ref());
            let (error, class, provider_id) = match &outcome {
                Outcome::Delivered(receipt) => (None, None, receipt.provider_message_id.clone()),
                Outcome::Failed(failure) => (Some(failure.as_last_error()), Some(failure.class), None),
            };
            self.widen(follows.scope, claim, way, target, error.as_ref().map(|error| error.detail.as_str()));
            target.progress = target.progress.after(&follows.next, class);
            target.state = TargetState::after(&follows.next, error);
            self.provider_message_id = self.provider_message_id.take().or_else(|| provider_id.clone());
            results.push(result_of(target, provider_id));
            self.tell(target, &outcome);
        }
        write(context, claim, results).await;
    }

    /// What follows beyond the member itself: for the receiver behind it, its address, or the whole channel.
    /// How the list's own lane does is judged at the end.
    fn widen(&mut self, scope: Scope, claim: &Claim, way: &Way, target: &Target, reason: Option<&str>) {
        let lane = match scope {
            Scope::Unchanged => return,
            Scope::Healthy => {
                self.accepted += 1;
                return;
            }
            Scope::SlowLane => {
                self.slow += 1;
                return;
            }
            Scope::LaneWaits(_) => {
                let address = Address::stored(way.settings.kind, target.address.clone());
                let receiver = address.receiver().to_owned();
                ScopedLane::Name(LaneName { channel: way.channel.as_str().to_owned(), receiver })
            }
            Scope::ChannelWaits(_) | Scope::SuspendChannel(_) | Scope::SuppressAddress => {
                ScopedLane::Key(claim.lane)
            }
        };
        self.scopes.push(ScopeChange {
            scope,
            lane,
            channel: Some(way.channel.clone()),
            address: Some(target.address.clone()),
            reason: reason.unwrap_or_default().to_owned(),
        });
    }

    /// A list whose members all had trouble is slow; one of whom any took the message is not.
    fn health(&self, claim: &Claim, way: &Way) -> Option<ScopeChange> {
        let scope = match (self.accepted, self.slow) {
            (0, 0) => return None,
            (0, _) => Scope::SlowLane,
            _ => Scope::Healthy,
        };
        let channel = Some(way.channel.clone());
        let lane = ScopedLane::Key(claim.lane);
        Some(ScopeChange { scope, lane, channel, address: None, reason: String::new() })
    }

    fn tell(&mut self, target: &Target, outcome: &Outcome) {
        let (result, class, detail, status) = match outcome {
            Outcome::Delivered(receipt) => ("accepted", None, None, receipt.status_code),
            Outcome::Failed(failure) => {
                self.first_failure.get_or_insert_with(|| failure.clone());
                ("failed", Some(failure.class.as_str()), Some(failure.detail.as_str()), failure.status_code)
            }
        };
        self.told.push(serde_json::json!({
            "address": target.address,
            "result": result,
            "class": class,
            "detail": detail,
            "status_code": status,
        }));
    }

    fn settlement(
        mut self,
        context: &Context,
        claim: &Claim,
        way: &Way,
        targets: &[Target],
        started_at: Timestamp,
    ) -> Result<Settlement, Stop> {
        let now = context.clock.now();
        self.scopes.extend(self.health(claim, way));
        let rolled = roll_up(targets.iter().map(|target| (target.address.as_str(), &target.state)));
        let mut progress = claim.progress;
        progress.interruptions = 0;
        let state = claim.state.clone();
        let state = match rolled {
            RollUp::Waiting { due, error: Some(error) } => {
                progress.retry_count = progress.retry_count.saturating_add(1);
                state.retry_at(due, error)
            }
            RollUp::Waiting { due, error: None } => state.wait_until(due, None),
            RollUp::Delivered(refused) => state.deliver(now, refused),
            RollUp::Parked(error) => state.park(now, error),
        };
        let state = state.map_err(|refused| park(FailureClass::Internal, refused.to_string()))?;
        let outcome =
            self.first_failure.map_or_else(|| Outcome::Delivered(Default::default()), Outcome::Failed);
        let attempt = AttemptRecord {
            targets: Some(serde_json::Value::from(self.told.clone()).to_string()),
            ..record(&outcome, started_at, now, &context.node)
        };
        Ok(Settlement {
            attempt: (!self.told.is_empty()).then_some(attempt),
            provider_message_id: self.provider_message_id,
            scopes: self.scopes,
            ..Settlement::of(claim, state, progress)
        })
    }
}

/// Writes how members fared, however often that has to be tried.
async fn write(context: &Context, claim: &Claim, results: Vec<TargetResult>) {
    if !results.is_empty() {
        until_written(|| context.store.settle_targets(claim, results.clone())).await;
    }
}

fn result_of(target: &Target, provider_message_id: Option<String>) -> TargetResult {
    TargetResult {
        ordinal: target.ordinal,
        state: target.state.clone(),
        progress: target.progress,
        provider_message_id,
    }
}
