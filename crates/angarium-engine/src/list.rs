//! An attempt at a list: its members are resolved once, at the first attempt, and each has its own fate.
//!
//! Members are sent to in groups as large as one exchange of the adapter allows, several groups side by side
//! where permits can be spared. What became of a group is written as soon as it is known. A member whose receiver
//! has trouble waits for the one attempt that probes that receiver, so that the others' notifications pass. If that is
//! this attempt, it waits here; if it is another, it is put off.

mod groups;
mod round;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use angarium_domain::adapter::Message;
use angarium_domain::address::Address;
use angarium_domain::outcome::FailureClass;
use angarium_domain::targets::TargetState;
use angarium_domain::text::{ChannelName, ListName};
use angarium_store::{Claim, Payload, Settlement, Target};

use crate::delivery::{Context, Stop, Way, park, template_of};
use crate::permits::{Permit, Spare};
use crate::receivers::{Probe, Turn};
use groups::{Group, UnderWay, delivery_to, due_groups};
use round::Round;

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
    round.refuse_suppressed(&mut targets);
    heed_receivers(&mut targets);
    let mut waiting = due_groups(context, &way, &targets, started_at);
    let mut under_way = UnderWay::default();
    while let Some(step) = next_step(context, claim, &way, &spare, &mut waiting, &under_way) {
        match step {
            Step::Wait => {
                round.take_in(context, claim, &way, &mut targets, under_way.next().await).await;
            }
            Step::Postpone(group) => round.postpone(context, &way, &mut targets, &group),
            Step::Send(group, hold) => {
                if !may_send(context, claim, &way, round.sent).await? {
                    break;
                }
                round.sent += 1;
                let delivery = delivery_to(&way, &message, &targets, &group.places, context.clock.now());
                let (context, way) = (Arc::clone(context), Arc::clone(&way));
                under_way.begin(group, async move {
                    let outcomes = context.send(&way, &delivery).await;
                    drop(hold);
                    outcomes
                });
            }
        }
    }
    while let Some(ended) = under_way.next().await {
        round.take_in(context, claim, &way, &mut targets, Some(ended)).await;
    }
    round.write_untried(context, claim, &mut targets).await;
    round.settlement(context, claim, &way, &targets, (started_at, template_of(&message)))
}

/// What an attempt does next.
enum Step {
    /// Send to these.
    Send(Group, Hold),
    /// Leave these to a later attempt.
    Postpone(Group),
    /// See what becomes of those that are under way.
    Wait,
}

/// What a group holds while it is sent to: permits, unless the claim's own carry it, and the right to probe its
/// receiver if that has trouble.
type Hold = (Option<Permit>, Option<Probe>);

/// The first group whose turn it is decides what to do; nothing is left to do when no group waits.
fn next_step(
    context: &Context,
    claim: &Claim,
    way: &Way,
    spare: &Spare,
    waiting: &mut VecDeque<Group>,
    under_way: &UnderWay,
) -> Option<Step> {
    let turn_of = |group: &Group| {
        let receiver = &group.receiver;
        match context.receivers.turn(receiver, claim) {
            Turn::Open => under_way.has_room(receiver, way).then_some(Turn::Open),
            // Members behind a receiver that this attempt is at itself wait to see how that ends,
            _ if under_way.is_at(receiver) => None,
            // and if it ended badly, they come later.
            Turn::Probe(_) if under_way.has_been_at(receiver) => Some(Turn::Later),
            turn => Some(turn),
        }
    };
    let next = waiting.iter().enumerate().find_map(|(place, group)| Some((place, turn_of(group)?)));
    let Some((place, turn)) = next else { return (!waiting.is_empty()).then_some(Step::Wait) };
    let probe = match turn {
        Turn::Later => return waiting.remove(place).map(Step::Postpone),
        Turn::Probe(probe) => Some(probe),
        Turn::Open => None,
    };
    // The claim's own permit carries one group; further ones side by side need permits of their own.
    let borrowed = if under_way.is_empty() { None } else { borrow(spare, way) };
    if borrowed.is_none() && !under_way.is_empty() {
        return Some(Step::Wait);
    }
    waiting.remove(place).map(|group| Step::Send(group, (borrowed, probe)))
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
    let (channel, members) = present_members(context, name)
        .await?
        .ok_or_else(|| park(FailureClass::PermanentConfig, format!("list not found: {name}")))?;
    let way = context.way(&channel)?;
    if !context.store.resolve(claim, way.settings.kind, &channel, members, context.clock.now()).await? {
        return Err(Stop::Lost);
    }
    // Permits were taken, and waits looked at, for the channel that the row was stamped with.
    if claim.channel.as_ref() != Some(&channel) {
        return Err(Stop::Moved);
    }
    let resolved = context.store.load(claim, context.clock.now()).await?.ok_or(Stop::Lost)?;
    Ok((way, resolved.targets))
}

/// The channel and the members that a list has now (OB-07); none if there is no such list.
async fn present_members(context: &Context, name: &str) -> Result<Option<(ChannelName, Vec<Address>)>, Stop> {
    if let Ok(name) = ListName::parse(name)
        && let Some(list) = context.store.known_list(&name, true).await?
    {
        let members = list.members.iter().map(|member| member.address.clone());
        return Ok(Some((list.channel.clone(), members.collect())));
    }
    let configured = context.catalog.list(name);
    Ok(configured.map(|(list, _)| (list.channel.clone(), list.members.clone())))
}

/// Whether one more group may be sent to. Before the first one nothing has been sent, and the claim can be dropped;
/// from then on, whatever goes wrong, what is known is written and settled.
async fn may_send(context: &Context, claim: &Claim, way: &Way, sent: usize) -> Result<bool, Stop> {
    if sent > 0 {
        return Ok(may_go_on(context, claim).await);
    }
    context.last_look(claim, way).await?;
    Ok(true)
}

/// A long list takes its time: between groups it may have been cancelled, the lease lost, the stop begun. If
/// the store cannot tell, the rest waits for another attempt.
async fn may_go_on(context: &Context, claim: &Claim) -> bool {
    !context.stopping.load(Ordering::Relaxed)
        && context.leases.may_begin(claim, context.clock.monotonic())
        && context.store.stands(claim).await.unwrap_or(false)
}

/// Permits for one more group, as long as a quarter of the channel's stays free for others.
fn borrow(spare: &Spare, way: &Way) -> Option<Permit> {
    if spare.of_channel() > way.settings.max_parallel / 4 { spare.take() } else { None }
}

/// A member whose receiver asked to be left alone is due no sooner than that.
fn heed_receivers(targets: &mut [Target]) {
    for target in targets {
        if let TargetState::Waiting { due, .. } = &mut target.state {
            *due = (*due).max(target.waits_until);
        }
    }
}
