//! What goes into the store about events, and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use angarium_domain::channel::ChannelKind;
use angarium_domain::content::ContentHash;
use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::id::{EventId, NotificationId};
use angarium_domain::state::{SkipReason, Status};
use angarium_domain::subscription::Subscription;
use angarium_domain::text::{Actor, ChannelName, SubscriptionId};
use angarium_domain::time::Timestamp;

use crate::types::Key;

/// An event as it is handed in, all of it checked.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// The id that it gets here, if it is new.
    pub id: EventId,
    /// What was said.
    pub event: Event,
    /// What was said, as one hash.
    pub hash: ContentHash,
    /// Who hands it in.
    pub accepted_by: Actor,
}

impl NewEvent {
    /// How many bytes of text it brings.
    pub(crate) fn text_bytes(&self) -> usize {
        let fields: usize = self.event.fields.values().map(String::len).sum();
        fields + self.event.data.as_ref().map_or(0, String::len)
    }
}

/// The channels that are configured, as far as planning must know them.
pub type Channels = BTreeMap<ChannelName, ChannelFacts>;

/// What planning must know of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFacts {
    /// What delivers on it.
    pub kind: ChannelKind,
    /// While it is off, nothing is planned on it.
    pub enabled: bool,
}

/// What became of an event that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventAcceptance {
    /// It is durable, now (`duplicate` is false) or already before.
    Accepted(Planned),
    /// Its source had used the id before for something else. Nothing was stored.
    IdReused {
        /// Our id of what it was used for.
        id: EventId,
    },
    /// There is no such feed.
    UnknownFeed,
    /// The feed has no events of this type.
    UnknownType,
    /// This one could not be stored, through a fault of ours; the others were.
    Failed {
        /// What the database said.
        detail: String,
    },
}

/// What an event led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Our id of the event.
    pub id: EventId,
    /// It had been handed in before, and what follows is as it is now.
    pub duplicate: bool,
    /// Not all whom it concerns have been looked at yet.
    pub planning: bool,
    /// What is sent, at most the first hundred.
    pub notifications: Vec<PlannedNotification>,
    /// Who is not told although it concerns them, at most the first hundred.
    pub skipped: Vec<SkippedMatch>,
}

/// A notification that an event led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNotification {
    /// Its id.
    pub id: NotificationId,
    /// The subscription that asked for it.
    pub subscription: SubscriptionId,
    /// The channel that it goes out on; none if its list is not known.
    pub channel: Option<ChannelName>,
    /// The address or the list that it goes to.
    pub target: String,
    /// Where it stands.
    pub status: Status,
    /// Why it was skipped, if it was.
    pub skip_reason: Option<SkipReason>,
}

/// A match of which nobody was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedMatch {
    /// The subscription that matched.
    pub subscription: SubscriptionId,
    /// Why.
    pub reason: SuppressReason,
    /// The notification that stands in the way, where one does.
    pub by: Option<NotificationId>,
    /// The notification that it was planned as later, once the way was free.
    pub told_by: Option<NotificationId>,
    /// When this was decided last.
    pub at: Timestamp,
}

/// Why a match leads to no notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuppressReason {
    /// The subscription was told, or is being told, of something else just now (FP-06).
    Cooldown,
    /// It was told, or is being told, of the same thing (FP-05).
    AlreadyTold,
    /// It was told as often as it wants to be in a day.
    DailyCap,
    /// Another subscription leads to the same address, which is told once.
    SameTarget,
    /// The channel is switched off.
    ChannelDisabled,
    /// The channel is not configured.
    ChannelUnknown,
    /// The subscription's time had ended.
    SubscriptionExpired,
    /// The event's time had ended.
    Expired,
    /// A later event made it untrue before it could be planned.
    Superseded,
    /// The feed is switched off.
    FeedDisabled,
}

impl SuppressReason {
    /// Every reason.
    pub const ALL: [SuppressReason; 10] = [
        SuppressReason::Cooldown,
        SuppressReason::AlreadyTold,
        SuppressReason::DailyCap,
        SuppressReason::SameTarget,
        SuppressReason::ChannelDisabled,
        SuppressReason::ChannelUnknown,
        SuppressReason::SubscriptionExpired,
        SuppressReason::Expired,
        SuppressReason::Superseded,
        SuppressReason::FeedDisabled,
    ];

    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            SuppressReason::Cooldown => "cooldown",
            SuppressReason::AlreadyTold => "already_told",
            SuppressReason::DailyCap => "daily_cap",
            SuppressReason::SameTarget => "same_target",
            SuppressReason::ChannelDisabled => "channel_disabled",
            SuppressReason::ChannelUnknown => "channel_unknown",
            SuppressReason::SubscriptionExpired => "subscription_expired",
            SuppressReason::Expired => "expired",
            SuppressReason::Superseded => "superseded",
            SuppressReason::FeedDisabled => "feed_disabled",
        }
    }
}

/// The text names no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names no reason for which a match is suppressed")]
pub struct UnknownSuppressReason;

impl std::str::FromStr for SuppressReason {
    type Err = UnknownSuppressReason;

    fn from_str(text: &str) -> Result<Self, UnknownSuppressReason> {
        SuppressReason::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownSuppressReason)
    }
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Our key, for paging.
    pub key: Key,
    /// Our id.
    pub id: EventId,
    /// What was said.
    pub event: Event,
    /// Who handed it in.
    pub accepted_by: String,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The change of routes as of which it is planned.
    pub plan_version: i64,
    /// Not all whom it concerns have been looked at yet.
    pub planning: bool,
    /// How many subscriptions matched when it was accepted.
    pub matched: u32,
}

/// An event with what it led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    /// The event.
    pub stored: StoredEvent,
    /// What it led to.
    pub planned: Planned,
    /// How many notifications it led to in all.
    pub notifications: u32,
    /// How many matches were suppressed in all.
    pub suppressed: u32,
    /// What it told of is gone.
    pub source_gone: bool,
    /// The later event that made it untrue, if one did.
    pub superseded_by: Option<EventId>,
}

/// Which events to list. Empty matches all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only of this feed.
    pub feed: Option<String>,
    /// Only of this type.
    pub kind: Option<String>,
    /// Only about this subject.
    pub key: Option<String>,
    /// Only from this source.
    pub source: Option<String>,
    /// Only accepted at or after this instant.
    pub since: Option<Timestamp>,
    /// Only accepted before this instant.
    pub until: Option<Timestamp>,
    /// Only older ones than this: the last of the page before.
    pub before: Option<Key>,
}

/// One page of events, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventListing {
    /// The events.
    pub items: Vec<StoredEvent>,
    /// There are further ones after the last of these.
    pub more: bool,
}

/// All that is known of an event and one subscription, as of the change that the event was planned with.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The event.
    pub view: EventView,
    /// Its feed as it was then; none if there was none.
    pub feed: Option<Arc<Feed>>,
    /// The subscription as it was then; none if there was none, or it had been deleted.
    pub subscription: Option<Subscription>,
    /// It exists now, or did; what of it has changed since then is not told here.
    pub known: bool,
    /// The match was suppressed, or had been.
    pub skipped: Option<SkippedMatch>,
    /// The notification that it led to, or is tied to.
    pub notification: Option<PlannedNotification>,
}

/// What an event would lead to if it were handed in now. Nothing was stored.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What became of it.
    pub acceptance: EventAcceptance,
    /// The subscriptions that would be told.
    pub told: Vec<(SubscriptionId, Subscription)>,
    /// How many subscriptions match.
    pub matched: usize,
}

/// What the planner did in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// It planned; there may be more to do.
    Planned {
        /// How many notifications it made.
        notifications: usize,
    },
}

/// What a notification of an event is about, as it stands right before sending.
#[derive(Clone, Debug)]
pub struct Signal {
    /// The event that was planned.
    pub event: StoredEvent,
    /// The newest event about the same subject; none if that is gone.
    pub row: Option<StoredEvent>,
    /// A later event made it untrue.
    pub superseded: bool,
    /// Nobody wants it any more: the subscription is gone, switched off, or its time has ended.
    pub unsubscribed: bool,
    /// The subscription's name.
    pub subscription: Option<String>,
    /// What the subscription says about how its channel is to deliver, as JSON.
    pub options: Option<String>,
    /// An earlier attempt may have arrived: what was sent then is sent again, to the letter.
    pub in_doubt: bool,
    /// The text that was rendered for the last attempt, by its hash.
    pub pinned: Option<[u8; 32]>,
}

/// A text that was rendered for an attempt, to be kept before it is sent.
#[derive(Clone, Debug)]
pub struct RenderedText {
    /// The title.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The JSON that goes with it.
    pub data: Option<String>,
    /// How a provider shows it, as JSON.
    pub presentation: String,
}

/// The event that a notification tells of, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventOf {
    /// Our id of the event.
    pub id: EventId,
    /// Its type.
    pub kind: String,
    /// What it happened to: type and id.
    pub entity: Option<(String, String)>,
    /// The public id of the subscription.
    pub subscription: Option<String>,
}
