//! What goes into the store and comes out of it.

use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::content::ContentHash;
use angarium_domain::disposition::{Progress, Scope};
use angarium_domain::id::NotificationId;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::{State, Status};
use angarium_domain::targets::TargetState;
use angarium_domain::text::{Actor, Body, ChannelName, Provenance, Subject};
use angarium_domain::time::Timestamp;

/// Our own key of a notification: ordered by arrival, never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(crate) i64);

/// The key of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey(pub(crate) i64);

/// Who is behind a delivery, for fairness: a channel, and a receiver on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneName {
    /// The channel's name; empty while it is not known (an unknown list).
    pub channel: String,
    /// The receiver: of a webhook its host and port, of a list `list:`, or once it was tried
    /// `list again:`, and its name.
    pub receiver: String,
}

impl LaneName {
    /// The lane of a list, for first attempts: whoever its members are, it is one receiver here.
    pub(crate) fn of_list(channel: &str, list: &str) -> Self {
        LaneName { channel: channel.to_owned(), receiver: format!("list:{list}") }
    }

    /// The lane of a list's notifications once their members are written down, so that those that wait for a dead
    /// member do not stand before new ones.
    pub(crate) fn of_tried_list(channel: &str, list: &str) -> Self {
        LaneName { channel: channel.to_owned(), receiver: format!("list again:{list}") }
    }
}

/// A notification as it is handed in, all of it checked.
#[derive(Clone, Debug)]
pub struct NewNotification {
    /// The producer's id.
    pub id: NotificationId,
    /// What it says and to whom, as one hash.
    pub hash: ContentHash,
    /// The kind of channel, stamped now (OB-04).
    pub kind: ChannelKind,
    /// The channel, where it is known.
    pub channel: Option<ChannelName>,
    /// Whom to tell.
    pub recipient: angarium_domain::content::Recipient,
    /// One line.
    pub subject: Subject,
    /// Plain text.
    pub body: Body,
    /// The producer's JSON, word for word.
    pub data: Option<String>,
    /// Where it came from.
    pub provenance: Provenance,
    /// When the producer made it.
    pub enqueued_at: Option<Timestamp>,
    /// Who hands it in.
    pub accepted_by: Actor,
}

impl NewNotification {
    /// How many bytes of text it brings.
    pub(crate) fn text_bytes(&self) -> usize {
        let data = self.data.as_ref().map_or(0, String::len);
        self.subject.as_str().len() + self.body.as_str().len() + data
    }
}

/// What became of a notification that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is stored: just now, or already before (`duplicate`).
    Accepted {
        /// The producer's id.
        id: NotificationId,
        /// Its present status.
        status: Status,
        /// The same id with the same content was stored before.
        duplicate: bool,
    },
    /// The id was used before for something else. Nothing was stored.
    IdReused {
        /// The producer's id.
        id: NotificationId,
    },
    /// This one could not be stored, through a fault of ours; the others were.
    Failed {
        /// The producer's id.
        id: NotificationId,
        /// What the database said.
        detail: String,
    },
}

/// A lane that has something waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingLane {
    /// Its key.
    pub lane: LaneKey,
    /// Its name.
    pub name: LaneName,
    /// When its first row is due.
    pub due: Timestamp,
    /// Until when the receiver or the whole channel is left alone.
    pub waits_until: Timestamp,
    /// The channel is suspended; after `waits_until` one delivery may probe it.
    pub suspended: bool,
}

/// How many rows may be claimed from a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The lane.
    pub lane: LaneKey,
    /// At most so many rows.
    pub rows: usize,
}

/// A row held under a lease: the durable intent to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Our key of the row.
    pub key: Key,
    /// The producer's id.
    pub id: NotificationId,
    /// The fence: a result counts only while the row still has this generation.
    pub generation: i64,
    /// The lane it came from.
    pub lane: LaneKey,
    /// Where it is in its life.
    pub state: State,
    /// How far it has come.
    pub progress: Progress,
    /// The kind of channel that was stamped when it was accepted.
    pub kind: ChannelKind,
    /// The channel, where it is known.
    pub channel: Option<ChannelName>,
    /// The list, if it was addressed to one.
    pub list: Option<String>,
    /// The address, if it was addressed to one.
    pub address: Option<Address>,
    /// Whether the list's members stand in the store.
    pub resolved: bool,
    /// When the producer made it.
    pub enqueued_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// It tells of an event, and its text is made when it is sent.
    pub tells: bool,
    /// It is never sent twice, whatever happens (WH-03).
    pub at_most_once: bool,
}

/// What is read right before sending; that it can be read says that the claim still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// One line.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// The producer's JSON, word for word.
    pub data: Option<String>,
    /// The members of the list, once resolved.
    pub targets: Vec<Target>,
    /// The address wants no more messages, and why. For a list see [`Target::suppressed`].
    pub suppressed: Option<String>,
    /// How a provider shows it, as JSON.
    pub presentation: Option<String>,
}

/// One address of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its place in the list, from 0.
    pub ordinal: i64,
    /// Where to.
    pub address: String,
    /// Where it stands.
    pub state: TargetState,
    /// How far it has come.
    pub progress: Progress,
    /// The address wants no more messages, and why.
    pub suppressed: Option<String>,
    /// It came back from this address, and why: `bounced: 5.1.1 no such mailbox`.
    pub bounced: Option<String>,
    /// Until when the receiver behind it is left alone.
    pub waits_until: Timestamp,
}

/// A lease that ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The claim as it stood.
    pub claim: Claim,
    /// Who held it.
    pub node: String,
    /// The first byte may have left.
    pub on_wire: bool,
    /// When it was claimed.
    pub claimed_at: Timestamp,
}

/// How one address of a list fared in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetResult {
    /// Its place in the list.
    pub ordinal: i64,
    /// Where it stands now.
    pub state: TargetState,
    /// How far it has come now.
    pub progress: Progress,
    /// The receiver's own id for the message.
    pub provider_message_id: Option<String>,
}

/// One try, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// When it began.
    pub started_at: Timestamp,
    /// When its outcome was known.
    pub ended_at: Timestamp,
    /// The node that made it.
    pub node: String,
    /// Nothing if it was delivered.
    pub class: Option<FailureClass>,
    /// One line about a failure.
    pub detail: Option<String>,
    /// The receiver's status code.
    pub status_code: Option<u16>,
    /// The receiver may have the message although no answer came.
    pub duplicate_risk: bool,
    /// The wait that the receiver asked for, in seconds.
    pub retry_after_s: Option<i64>,
    /// What the receiver answered.
    pub response_excerpt: Option<String>,
    /// For a list: how each address that was tried fared, as JSON.
    pub targets: Option<String>,
    /// The template that its text came from, with its version.
    pub template: Option<String>,
}

/// An attempt's result and the state that follows from it, to be written together.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The row.
    pub key: Key,
    /// The producer's id.
    pub id: NotificationId,
    /// The generation under which the attempt was made.
    pub generation: i64,
    /// Only if the lease ended before this instant: set when a lost claim is taken back.
    pub lease_ended_by: Option<Timestamp>,
    /// The attempt; none when nothing was tried (parked or skipped before sending).
    pub attempt: Option<AttemptRecord>,
    /// The state that follows.
    pub state: State,
    /// The counters that follow.
    pub progress: Progress,
    /// The receiver's own id for the message.
    pub provider_message_id: Option<String>,
    /// What follows for the lane, the channel or addresses.
    pub scopes: Vec<ScopeChange>,
    /// The row tells of an event: its end is also that of what it holds in the ledger.
    pub tells: bool,
    /// Nobody is told again of what it may have told.
    pub at_most_once: bool,
}

impl Settlement {
    /// What settles `claim` with this state and these counters, and nothing more: no attempt, no consequence
    /// beyond the row.
    pub fn of(claim: &Claim, state: State, progress: Progress) -> Self {
        Settlement {
            key: claim.key,
            id: claim.id,
            generation: claim.generation,
            lease_ended_by: None,
            attempt: None,
            state,
            progress,
            provider_message_id: None,
            scopes: Vec::new(),
            tells: claim.tells,
            at_most_once: claim.at_most_once,
        }
    }
}

/// Which lane a change is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopedLane {
    /// A lane whose key is known.
    Key(LaneKey),
    /// The lane with this name, which may not exist yet.
    Name(LaneName),
}

/// What a settlement changes beyond its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeChange {
    /// What changes.
    pub scope: Scope,
    /// The lane that is meant: the row's own, or that of the receiver behind one address of a list.
    pub lane: ScopedLane,
    /// The channel.
    pub channel: Option<ChannelName>,
    /// The address to suppress, if that is what follows.
    pub address: Option<String>,
    /// Why, in one line.
    pub reason: String,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It counts.
    Applied,
    /// The claim had ended; the attempt is kept as evidence and changed nothing.
    Late,
    /// The claim had ended, but the receiver took the message and the row was still live: it is delivered.
    LateDelivered,
    /// Somebody else had settled or renewed it: nothing was written.
    Superseded,
    /// The row is gone.
    Gone,
    /// It could not be written, through a fault of ours; the lease will end by itself.
    Failed,
}

/// What an operator can do to one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try a parked one again, with a fresh budget.
    Retry,
    /// Give a parked one up for good; the row stays.
    Discard,
    /// Stop one that is waiting.
    Cancel,
}

impl Action {
    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Discard => "discard",
            Action::Cancel => "cancel",
        }
    }
}

/// An operator's wish about one notification.
#[derive(Clone, Debug)]
pub struct ActionRequest {
    /// The producer's id.
    pub id: NotificationId,
    /// What to do.
    pub action: Action,
    /// Who wants it.
    pub actor: Actor,
    /// Why, in one line.
    pub reason: Option<String>,
}

/// What became of an operator's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// Done, and recorded with it.
    Done {
        /// The status now.
        status: Status,
        /// An attempt was under way; it may still reach the receiver, but will not change the row.
        in_flight: bool,
    },
    /// There is no such notification.
    NotFound,
    /// The notification is not in a state that allows it.
    Refused(Status),
    /// Another notification told the same subscription of the same thing, or is about to.
    AlreadyTold(NotificationId),
    /// The notification may be sent once at most, and may have been.
    AtMostOnce,
}

/// One notification as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Our key, for paging.
    pub key: Key,
    /// The producer's id.
    pub id: NotificationId,
    /// Where it is in its life.
    pub status: Status,
    /// How it came to be: `direct`.
    pub route: String,
    /// The kind of channel.
    pub kind: ChannelKind,
    /// The channel.
    pub channel: Option<String>,
    /// The list it was addressed to.
    pub list: Option<String>,
    /// The address it was addressed to.
    pub address: Option<String>,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// The producer's JSON.
    pub data: Option<String>,
    /// Retries scheduled so far.
    pub retry_count: u32,
    /// The last thing that went wrong; if it came back from addresses, these come first.
    pub last_error: Option<LastError>,
    /// It came back from the address that it was addressed to, and why. For a list see [`Target::bounced`].
    pub bounced: Option<String>,
    /// Why it was skipped.
    pub skip_reason: Option<String>,
    /// Who it really went to, or goes to.
    pub targets: Vec<Target>,
    /// The receiver's own id for the message.
    pub provider_message_id: Option<String>,
    /// What the receiver answered last.
    pub provider_response: Option<String>,
    /// Where it came from, word for word: site, instance, script, node.
    pub source: [Option<String>; 4],
    /// When the producer made it.
    pub enqueued_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was last tried.
    pub last_attempt_at: Option<Timestamp>,
    /// When it will be tried next.
    pub next_attempt_at: Option<Timestamp>,
    /// When the receiver took it.
    pub delivered_at: Option<Timestamp>,
    /// When it came to its end.
    pub completed_at: Option<Timestamp>,
    /// A process holds it right now.
    pub in_flight: bool,
    /// The event that it tells of.
    pub event: Option<crate::events::types::EventOf>,
    /// How a provider shows it, as JSON.
    pub presentation: Option<String>,
}

/// Which notifications to list. Empty matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only with this status.
    pub status: Option<Status>,
    /// Only of this kind.
    pub kind: Option<ChannelKind>,
    /// Only on this channel.
    pub channel: Option<String>,
    /// Only to this list.
    pub list: Option<String>,
    /// Only from this site.
    pub site: Option<String>,
    /// Only from this node of a site.
    pub node: Option<String>,
    /// Only with this text in the subject, in either case of ASCII letters.
    pub subject: Option<String>,
    /// Only accepted at or after this instant.
    pub since: Option<Timestamp>,
    /// Only accepted before this instant.
    pub until: Option<Timestamp>,
    /// Only pending or retrying ones that were accepted before this instant.
    pub stuck_before: Option<Timestamp>,
    /// Only older ones than this: the last of the page before.
    pub before: Option<Key>,
}

/// One page of notifications, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The rows.
    pub items: Vec<View>,
    /// There are further ones after the last of these.
    pub more: bool,
}

impl Key {
    /// The key as the number that stands in a paging cursor.
    pub fn to_cursor(self) -> i64 {
        self.0
    }

    /// The key from a paging cursor.
    pub fn from_cursor(number: i64) -> Self {
        Key(number)
    }
}

/// One try as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Counted from 1, never reset.
    pub number: i64,
    /// What was recorded.
    pub record: AttemptRecord,
    /// The status after it.
    pub led_to: Status,
    /// It came in after its claim had ended.
    pub late: bool,
}

/// One entry of a notification's trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// The entry's own id: the same however often it is written.
    pub event_id: uuid::Uuid,
    /// `enqueued`, `accepted`, `attempt`, `submitted`, `terminal` or `bounced`.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// More about it, as JSON.
    pub detail: String,
}

/// The figures of one scope: everything, a site, or a node of a site (OB-18).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kpi {
    /// Pending and retrying.
    pub queue_depth: i64,
    /// Of these, waiting for longer than the threshold.
    pub stuck_count: i64,
    /// Parked.
    pub parked_count: i64,
    /// Delivered during the last interval.
    pub delivered_last_interval: i64,
    /// When the oldest that is pending or retrying was accepted.
    pub oldest_pending: Option<Timestamp>,
    /// Held by a process right now.
    pub in_flight: i64,
}

/// The figures of everything, of each site, and of each node (site, node).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kpis {
    /// Everything.
    pub global: Kpi,
    /// By site.
    pub sites: std::collections::BTreeMap<String, Kpi>,
    /// By site and node.
    pub nodes: std::collections::BTreeMap<(String, String), Kpi>,
}

/// An API key as it is stored: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The part of the key that is no secret.
    pub id: String,
    /// Its holder.
    pub name: String,
    /// SHA-256 of the secret part.
    pub hash: Vec<u8>,
    /// What it may do, separated by spaces.
    pub scopes: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An address that wants no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// The channel.
    pub channel: String,
    /// The address.
    pub address: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}
