//! What decides who is told: feeds, templates, lists and subscriptions, as they are stored.

use angarium_domain::subscription::Subscription;
use angarium_domain::text::SubscriptionId;
use angarium_domain::time::Timestamp;

/// What a stored object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// An entry of the feed catalogue, named by its id.
    Feed,
    /// A template, named by its event type, channel and locale ([`angarium_domain::template::Template::name`]).
    Template,
    /// A list, named by its name.
    List,
}

impl ObjectKind {
    /// The word used in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Feed => "feed",
            ObjectKind::Template => "template",
            ObjectKind::List => "list",
        }
    }
}

/// The text is no word for a kind of object, or for who changes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names neither a kind of object nor who changes one")]
pub struct UnknownWord;

impl std::str::FromStr for ObjectKind {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let kinds = [ObjectKind::Feed, ObjectKind::Template, ObjectKind::List];
        kinds.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownWord)
    }
}

/// Who changes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedBy {
    /// The configuration file; through the API it is only read.
    File,
    /// The API.
    Api,
}

impl ManagedBy {
    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ManagedBy::File => "file",
            ManagedBy::Api => "api",
        }
    }
}

impl std::str::FromStr for ManagedBy {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [ManagedBy::File, ManagedBy::Api].into_iter().find(|by| by.as_str() == text).ok_or(UnknownWord)
    }
}

/// A feed, a template or a list, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name, unique among its kind.
    pub name: String,
    /// What it says: the JSON object that its type in the domain parses.
    pub spec: String,
    /// Who changes it.
    pub managed_by: ManagedBy,
    /// Whether it counts: what vanished from the file does not.
    pub active: bool,
    /// The change that made it what it is; its entity tag.
    pub version: i64,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSubscription {
    /// Its public id.
    pub id: SubscriptionId,
    /// What it says.
    pub subscription: Subscription,
    /// Who changes it.
    pub managed_by: ManagedBy,
    /// The change that made it what it is; its entity tag.
    pub version: i64,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When something was last delivered for it.
    pub last_sent_at: Option<Timestamp>,
    /// Its place in the order of listings.
    pub cursor: i64,
}

/// What must be so for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Anything,
    /// There is none yet.
    Absent,
    /// It is there, whatever it says.
    Present,
    /// It is there, and was last changed by this change.
    Version(i64),
}

impl Expect {
    /// What keeps the API from changing something, of which `known` is the version and who changes it; none if it is not
    /// there.
    pub(crate) fn refuses<T>(self, known: Option<(i64, ManagedBy)>) -> Option<Changed<T>> {
        match (self, known) {
            (Expect::Present, None) => Some(Changed::NotFound),
            (Expect::Version(_), None) => Some(Changed::Conflict(None)),
            (Expect::Anything | Expect::Absent, None) => None,
            (Expect::Absent, Some((version, _))) => Some(Changed::Conflict(Some(version))),
            (Expect::Version(expected), Some((version, _))) if expected != version => {
                Some(Changed::Conflict(Some(version)))
            }
            (_, Some((_, ManagedBy::File))) => Some(Changed::ReadOnly),
            (_, Some((_, ManagedBy::Api))) => None,
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed<T> {
    /// It is durable, and this is how it stands. What was asked for may have been so before.
    Done {
        /// As it stands now.
        now: T,
        /// It was not there before.
        created: bool,
    },
    /// There is none of this name.
    NotFound,
    /// It is there, or is not what was expected; its version, if it is there.
    Conflict(Option<i64>),
    /// It stands in the configuration file and is changed there.
    ReadOnly,
    /// Something else needs it: what, in words.
    InUse(String),
    /// A subscription stays on its feed.
    FeedFixed,
    /// The feed that it names is not known.
    UnknownFeed,
    /// It makes no sense on its feed, and why.
    Senseless(Vec<angarium_domain::complaints::Complaint>),
}

impl<T> Changed<T> {
    /// The same answer, with what `f` makes of how it stands.
    pub(crate) fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Changed<U>, E> {
        Ok(match self {
            Changed::Done { now, created } => Changed::Done { now: f(now)?, created },
            Changed::NotFound => Changed::NotFound,
            Changed::Conflict(version) => Changed::Conflict(version),
            Changed::ReadOnly => Changed::ReadOnly,
            Changed::InUse(by) => Changed::InUse(by),
            Changed::FeedFixed => Changed::FeedFixed,
            Changed::UnknownFeed => Changed::UnknownFeed,
            Changed::Senseless(why) => Changed::Senseless(why),
        })
    }
}

/// Which subscriptions to list. Empty matches all.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionFilter {
    /// Only of this feed.
    pub feed: Option<String>,
    /// Only on this channel.
    pub channel: Option<String>,
    /// Only of this owner.
    pub owner: Option<String>,
    /// Only those that are switched on, or off.
    pub active: Option<bool>,
    /// Only with this text in their name, in either case of ASCII letters.
    pub name: Option<String>,
    /// Only those after this place.
    pub after: Option<i64>,
}

/// All that a configuration file declares.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// How new the file is: an older one changes nothing that a newer one declared.
    pub epoch: i64,
    /// Feeds, templates and lists: kind, name, spec. Of a name that stands twice the first counts.
    pub objects: Vec<(ObjectKind, String, String)>,
    /// Subscriptions by their stable ids, of which the same is true. Whether they make sense was judged before.
    pub subscriptions: Vec<(SubscriptionId, Subscription)>,
    /// What is not declared any more is deleted, and not only switched off; unless something else needs it.
    pub prune: bool,
}

/// What applying a configuration file did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// A newer file had been applied, and nothing was done.
    pub outdated: bool,
    /// What is there now and was not.
    pub created: usize,
    /// What says something else now.
    pub changed: usize,
    /// What vanished from the file and no longer counts.
    pub retired: usize,
    /// What the file declares although the API had made it: left as it was.
    pub taken: usize,
}
