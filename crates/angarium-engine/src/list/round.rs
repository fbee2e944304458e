//! What one attempt at a list leads to: for each member, beyond the members, and for the notification.

use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::disposition::{Next, Progress, Scope, decide};
use angarium_domain::limits::ERROR_CHARS;
use angarium_domain::outcome::{Failure, FailureClass, LastError, Outcome};
use angarium_domain::state::{Refused, State};
use angarium_domain::targets::{RollUp, TargetState, roll_up};
use angarium_domain::text::one_line;
use angarium_domain::time::Timestamp;
use angarium_store::{
    AttemptRecord, Claim, LaneName, ScopeChange, ScopedLane, Settlement, Target, TargetResult,
};

use super::groups::{Ended, Group};
use crate::delivery::{Context, Stop, Way, park, record, suppressed};
use crate::settler::until_written;

/// How long a member that is put off waits at least and at most: about as long as the attempt that is at its receiver
/// may last, which is the channel's timeout.
const POSTPONED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));

/// What one attempt at a list has led to so far.
#[derive(Default)]
pub(super) struct Round {
    /// Groups that were sent to.
    pub(super) sent: usize,
    /// What became of members without a try, not written yet.
    untried: Vec<TargetResult>,
    scopes: Vec<ScopeChange>,
    /// Until when the whole channel is left alone.
    channel_waits: Option<Timestamp>,
    /// Until when the channel is suspended, and why.
    suspended: Option<(Timestamp, String)>,
    told: Vec<serde_json::Value>,
    accepted: usize,
    slow: usize,
    /// Members that failed, themselves or through their receiver, and are tried again by policy; by their ordinals.
    retried: Vec<i64>,
    first_failure: Option<Failure>,
    /// Some may have the message although nothing says so.
    in_doubt: bool,
    provider_message_id: Option<String>,
}

impl Round {
    /// Members that want no more messages are refused without a try.
    pub(super) fn refuse_suppressed(&mut self, targets: &mut [Target]) {
        for target in targets.iter_mut().filter(|target| matches!(target.state, TargetState::Waiting { .. }))
        {
            let Some(reason) = &target.suppressed else { continue };
            let failure = Failure::new(FailureClass::PermanentRecipient, suppressed(reason));
            target.state = TargetState::Refused(failure.as_last_error());
            self.untried.push(result_of(target, None));
            self.tell(target, &Outcome::Failed(failure));
        }
    }

    /// Members behind a receiver that another attempt probes wait for a while, without a try. That is free as long as
    /// nothing is known of the probe; but if the receiver failed since they were put off the last time, that failure
    /// is theirs too. Otherwise they would wait for ever, and more of them with each notification.
    pub(super) fn postpone(&mut self, context: &Context, way: &Way, targets: &mut [Target], group: &Group) {
        let now = context.clock.now();
        let wait = way.settings.timeout.clamp(POSTPONED.0, POSTPONED.1);
        for place in &group.places {
            let Some(target) = targets.get_mut(*place) else { continue };
            let TargetState::Waiting { due, error } = target.state.clone() else { continue };
            // The first time is kept as a retry that cost nothing; so it is known from then on. That it was put off
            // one wait before it was due is not kept; where the policy made that longer, its end is looked at.
            let put_off_before = target.progress.retry_count > target.progress.budget_used;
            let put_off_at = due.minus(wait);
            let (next, error) = if !put_off_before {
                (Next::Retry { due: now.plus(wait), charged: false }, error.or_else(|| Some(trouble(false))))
            } else if context.receivers.failed_since(&group.receiver, put_off_at) {
                (failed_meanwhile(context, way, target.progress, now.plus(wait)), Some(trouble(true)))
            } else {
                (Next::Again { due: now.plus(wait) }, error)
            };
            if matches!(next, Next::Retry { charged: true, .. }) {
                self.retried.push(target.ordinal);
            }
            target.progress = target.progress.after(&next, None);
            target.state = TargetState::after(&next, error);
            self.untried.push(result_of(target, None));
        }
    }

    /// Writes what became of members without a try, however often that has to be tried.
    pub(super) async fn write_untried(&mut self, context: &Context, claim: &Claim, targets: &mut [Target]) {
        let results = std::mem::take(&mut self.untried);
        if !results.is_empty() {
            let accepted = until_written(|| context.store.settle_untried(claim, results.clone())).await;
            self.accept(targets, &accepted);
        }
    }

    /// Writes how members fared, however often that has to be tried.
    async fn write(
        &mut self,
        context: &Context,
        claim: &Claim,
        targets: &mut [Target],
        results: Vec<TargetResult>,
    ) {
        if !results.is_empty() {
            let accepted = until_written(|| context.store.settle_targets(claim, results.clone())).await;
            self.accept(targets, &accepted);
        }
    }

    /// What another node sent to these members came in late, and counts, however they fared here.
    fn accept(&mut self, targets: &mut [Target], accepted: &[i64]) {
        for target in targets.iter_mut().filter(|target| accepted.contains(&target.ordinal)) {
            target.state = TargetState::Accepted;
        }
        self.retried.retain(|ordinal| !accepted.contains(ordinal));
    }

    /// Decides what follows for each member of a group that was sent to, and writes it.
    pub(super) async fn take_in(
        &mut self,
        context: &Context,
        claim: &Claim,
        way: &Way,
        targets: &mut [Target],
        ended: Option<Ended>,
    ) {
        let Some((group, outcomes)) = ended else { return };
        let mut results = Vec::new();
        for (place, outcome) in group.places.into_iter().zip(outcomes) {
            let Some(target) = targets.get_mut(place) else { continue };
            let follows = context.follows(claim, &outcome, target.progress, way);
            let (error, class, provider_id) = match &outcome {
                Outcome::Delivered(receipt) => (None, None, receipt.provider_message_id.clone()),
                Outcome::Failed(failure) => (Some(failure.as_last_error()), Some(failure.class), None),
            };
            self.widen(follows.scope, way, target, error.as_ref().map(|error| error.detail.as_str()));
            if matches!(follows.next, Next::Retry { .. }) {
                self.retried.push(target.ordinal);
            }
            target.progress = target.progress.after(&follows.next, class);
            target.state = TargetState::after(&follows.next, error);
            self.provider_message_id = self.provider_message_id.take().or_else(|| provider_id.clone());
            results.push(result_of(target, provider_id));
            self.tell(target, &outcome);
        }
        self.write(context, claim, targets, results).await;
    }

    /// What follows beyond the member itself: for the receiver behind it, its address, or the whole channel, which
    /// many members of one exchange may ask for. How the list's own lane does is judged at the end.
    fn widen(&mut self, scope: Scope, way: &Way, target: &Target, reason: Option<&str>) {
        let reason = reason.unwrap_or_default();
        match scope {
            Scope::Unchanged => {}
            Scope::Healthy => self.accepted += 1,
            Scope::SlowLane => self.slow += 1,
            Scope::ChannelWaits(until) => self.channel_waits = self.channel_waits.max(Some(until)),
            Scope::SuspendChannel(until) => {
                self.suspended.get_or_insert_with(|| (until, reason.to_owned()));
            }
            // Who stands behind the addresses of one exchange for many was not asked.
            Scope::LaneWaits(_) if !way.one_to_each() => {}
            Scope::LaneWaits(_) | Scope::SuppressAddress => {
                let address = Address::stored(way.settings.kind, target.address.clone());
                let receiver = address.receiver().to_owned();
                self.scopes.push(ScopeChange {
                    scope,
                    lane: ScopedLane::Name(LaneName { channel: way.channel.as_str().to_owned(), receiver }),
                    channel: Some(way.channel.clone()),
                    address: Some(target.address.clone()),
                    reason: reason.to_owned(),
                });
            }
        }
    }

    /// What follows for the channel, once, and for the list's own lane.
    fn widest(&mut self, claim: &Claim, way: &Way, targets: &[Target]) -> Vec<ScopeChange> {
        let change = |scope, reason| ScopeChange {
            scope,
            lane: ScopedLane::Key(claim.lane),
            channel: Some(way.channel.clone()),
            address: None,
            reason,
        };
        let waits = self.channel_waits.map(|until| change(Scope::ChannelWaits(until), String::new()));
        let suspended = self.suspended.take();
        let suspended = suspended.map(|(until, reason)| change(Scope::SuspendChannel(until), reason));
        let health = self.health(targets).map(|scope| change(scope, String::new()));
        [waits, suspended, health].into_iter().flatten().collect()
    }

    /// A list whose members all had trouble is slow; one of whom any took the message is not. Where some took it
    /// in an earlier attempt, only those who had trouble are left, and how they do says nothing about the list.
    fn health(&self, targets: &[Target]) -> Option<Scope> {
        let reached = targets.iter().any(|target| target.state == TargetState::Accepted);
        match (self.accepted, self.slow) {
            (0, 0) => None,
            (0, _) => (!reached).then_some(Scope::SlowLane),
            _ => Some(Scope::Healthy),
        }
    }

    fn tell(&mut self, target: &Target, outcome: &Outcome) {
        let (result, class, detail, status) = match outcome {
            Outcome::Delivered(receipt) => ("accepted", None, None, receipt.status_code),
            Outcome::Failed(failure) => {
                self.first_failure.get_or_insert_with(|| failure.clone());
                self.in_doubt |= failure.duplicate_risk;
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

    /// What to write down about the notification. An attempt at which nobody was tried or refused is none.
    pub(super) fn settlement(
        mut self,
        context: &Context,
        claim: &Claim,
        way: &Way,
        targets: &[Target],
        (started_at, template): (Timestamp, Option<String>),
    ) -> Result<Settlement, Stop> {
        let now = context.clock.now();
        let wider = self.widest(claim, way, targets);
        self.scopes.extend(wider);
        let mut progress = claim.progress;
        progress.retry_count = progress.retry_count.saturating_add(u32::from(!self.retried.is_empty()));
        let tried = !self.told.is_empty();
        if tried {
            progress.interruptions = 0;
        }
        let state = self
            .state(claim, targets, now)
            .map_err(|refused| park(FailureClass::Internal, refused.to_string()))?;
        let outcome = self.outcome();
        let attempt = AttemptRecord {
            template,
            targets: Some(serde_json::Value::from(self.told).to_string()),
            ..record(&outcome, started_at, now, &context.node)
        };
        Ok(Settlement {
            attempt: tried.then_some(attempt),
            provider_message_id: self.provider_message_id,
            scopes: self.scopes,
            ..Settlement::of(claim, state, progress)
        })
    }

    /// What the attempt as a whole is recorded as: failed if it failed for anybody, and for how many it did not.
    fn outcome(&self) -> Outcome {
        let Some(failure) = &self.first_failure else { return Outcome::Delivered(Default::default()) };
        let failure = Failure { duplicate_risk: self.in_doubt, ..failure.clone() };
        let accepted = self.told.iter().filter(|told| told["result"] == "accepted").count();
        if accepted == 0 {
            return Outcome::Failed(failure);
        }
        let detail = format!("{accepted} of {} took it; {}", self.told.len(), failure.detail);
        Outcome::Failed(Failure { detail: one_line(&detail, ERROR_CHARS), ..failure })
    }

    /// The notification is retried once a member is; one whose members merely wait, waits as it did before.
    fn state(&self, claim: &Claim, targets: &[Target], now: Timestamp) -> Result<State, Refused> {
        let state = claim.state.clone();
        match roll_up(targets.iter().map(|target| (target.address.as_str(), &target.state))) {
            RollUp::Waiting { due, error: Some(error) } if !self.retried.is_empty() => {
                state.retry_at(due, error)
            }
            RollUp::Waiting { due, error } => state.wait_until(due, error),
            RollUp::Delivered(refused) => state.deliver(now, refused),
            RollUp::Parked(error) => state.park(now, error),
        }
    }
}

/// What follows for a member whose receiver failed another attempt: what would follow if that had been its own, but
/// nothing before `least`.
fn failed_meanwhile(context: &Context, way: &Way, progress: Progress, least: Timestamp) -> Next {
    let failure = Failure::new(FailureClass::Transient, trouble(true).detail);
    let now = context.clock.now();
    match decide(&Outcome::Failed(failure), progress, &way.rules(), now, context.chance.as_ref()).next {
        Next::Retry { due, charged } => Next::Retry { due: due.max(least), charged },
        next => next,
    }
}

/// Why a member was put off; `failed` if the receiver is known to have failed since it was put off before.
fn trouble(failed: bool) -> LastError {
    let detail = match failed {
        false => "the receiver has trouble and is tried for one member at a time",
        true => "the receiver has trouble; another attempt failed meanwhile",
    };
    LastError { class: FailureClass::Transient, detail: detail.to_owned() }
}

fn result_of(target: &Target, provider_message_id: Option<String>) -> TargetResult {
    TargetResult {
        ordinal: target.ordinal,
        state: target.state.clone(),
        progress: target.progress,
        provider_message_id,
    }
}
