//! The members of a list that are due, in groups: who is sent to in one exchange, and which groups are under way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::Arc;

use angarium_domain::adapter::{Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
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

/// What came of a group: an outcome for each of its places.
pub(super) type Ended = (Group, Vec<Outcome>);

/// The groups that are being sent to, and the receivers that were sent to in this attempt.
#[derive(Default)]
pub(super) struct UnderWay {
    sending: JoinSet<Vec<Outcome>>,
    groups: HashMap<tokio::task::Id, Group>,
    been_at: HashSet<String>,
}

impl UnderWay {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether another group may be sent to this receiver now.
    pub(super) fn has_room(&self, receiver: &str, way: &Way) -> bool {
        self.count_at(receiver) < way.settings.max_parallel_per_receiver.max(1)
    }

    /// Whether a group is being sent to this receiver.
    pub(super) fn is_at(&self, receiver: &str) -> bool {
        self.count_at(receiver) > 0
    }

    /// Whether this attempt has sent to this receiver.
    pub(super) fn has_been_at(&self, receiver: &str) -> bool {
        self.been_at.contains(receiver)
    }

    fn count_at(&self, receiver: &str) -> usize {
        self.groups.values().filter(|group| group.receiver == receiver).count()
    }

    pub(super) fn begin(
        &mut self,
        group: Group,
        sending: impl Future<Output = Vec<Outcome>> + Send + 'static,
    ) {
        self.been_at.insert(group.receiver.clone());
        let task = self.sending.spawn(sending).id();
        self.groups.insert(task, group);
    }

    /// The next group that comes to an end; none if nothing is under way.
    pub(super) async fn next(&mut self) -> Option<Ended> {
        let (task, outcomes) = match self.sending.join_next_with_id().await? {
            Ok((task, outcomes)) => (task, Some(outcomes)),
            Err(error) => {
                tracing::error!(cause = %error, "sending to members of a list broke off");
                (error.id(), None)
            }
        };
        let group = self.groups.remove(&task)?;
        let outcomes = outcomes.unwrap_or_else(|| vec![broken_off(); group.places.len()]);
        Some((group, outcomes))
    }
}

/// Of a sending that broke off it is not known how far it came.
fn broken_off() -> Outcome {
    let failure = Failure::new(FailureClass::Internal, "the sending broke off");
    Outcome::Failed(Failure { duplicate_risk: true, ..failure })
}

/// The members that are due, in groups as large as one exchange allows; those behind receivers that failed
/// lately come last, and of them those first that failed less themselves: where some addresses of a receiver fail and
/// others work, it is not always one of the former that shows how the receiver does. Where one message goes to many, no
/// failures are held against receivers, and the order is the list's.
pub(super) fn due_groups(
    context: &Context,
    way: &Way,
    targets: &[Target],
    now: Timestamp,
) -> VecDeque<Group> {
    let is_due = |target: &Target| matches!(target.state, TargetState::Waiting { due, .. } if due <= now);
    let mut due: Vec<(u32, u32, usize, String)> = (0..)
        .zip(targets)
        .filter(|(_, target)| is_due(target))
        .map(|(place, target)| {
            let address = Address::stored(way.settings.kind, target.address.clone());
            let failures = context.receivers.failures(address.receiver());
            let its_own = if failures > 0 { target.progress.budget_used } else { 0 };
            (failures, its_own, place, address.receiver().to_owned())
        })
        .collect();
    due.sort_unstable();
    due.chunks(way.adapter.addresses_per_send().max(1))
        .map(|members| Group {
            places: members.iter().map(|(_, _, place, _)| *place).collect(),
            receiver: members.first().map(|(_, _, _, receiver)| receiver.clone()).unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// DD-07: whatever ends a sending, each of its members has an outcome; else it would be sent to again at once.
    #[tokio::test]
    async fn a_sending_that_breaks_off_is_a_failure_of_each() {
        let mut under_way = UnderWay::default();
        let group = Group { places: vec![4, 7], receiver: "a.example:443".to_owned() };
        under_way.begin(group, async { panic!("as the test says") });
        let (group, outcomes) = under_way.next().await.unwrap();
        assert_eq!((group.places, outcomes), (vec![4, 7], vec![broken_off(), broken_off()]));
        let Outcome::Failed(failure) = broken_off() else { panic!("it failed") };
        assert_eq!((failure.class, failure.duplicate_risk), (FailureClass::Internal, true));
        assert!(under_way.is_empty() && under_way.has_been_at("a.example:443"));
    }
}
