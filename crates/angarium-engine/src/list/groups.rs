//! The members of a list that are due, in groups: who is sent to in one exchange, and which groups are under way.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use angarium_domain::adapter::{Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::outcome::Outcome;
use angarium_domain::targets::TargetState;
use angarium_domain::time::Timestamp;
use angarium_store::Target;
use tokio::task::JoinSet;

use crate::delivery::{Context, Way};

/// Members that are sent to in one exchange, by their places, and the receiver behind the first of them.
pub(super) struct Group {
    pub(super) places: Vec<usize>,
    pub(super) receiver: String,
}

/// What came of a group; no outcomes if its sending broke off.
pub(super) type Ended = (Group, Vec<Outcome>);

/// The groups that are being sent to.
#[derive(Default)]
pub(super) struct UnderWay {
    sending: JoinSet<Vec<Outcome>>,
    groups: HashMap<tokio::task::Id, Group>,
}

impl UnderWay {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether another group may be sent to this receiver now.
    pub(super) fn has_room(&self, receiver: &str, way: &Way) -> bool {
        let at_it = self.groups.values().filter(|group| group.receiver == receiver).count();
        at_it < way.settings.max_parallel_per_receiver.max(1)
    }

    pub(super) fn begin(
        &mut self,
        group: Group,
        sending: impl Future<Output = Vec<Outcome>> + Send + 'static,
    ) {
        let task = self.sending.spawn(sending).id();
        self.groups.insert(task, group);
    }

    /// The next group that comes to an end; none if nothing is under way.
    pub(super) async fn next(&mut self) -> Option<Ended> {
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

/// The members that are due, in groups as large as one exchange allows; those behind receivers that failed
/// lately come last. Where one message goes to many, no failures are held against receivers, and the order is the
/// list's.
pub(super) fn due_groups(
    context: &Context,
    way: &Way,
    targets: &[Target],
    now: Timestamp,
) -> VecDeque<Group> {
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

/// The exchange with the members at these places.
pub(super) fn delivery_to(
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
        transcript: None,
    }
}
