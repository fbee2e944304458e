//! Channels: the kinds there are, and the name an operator gives to one configured way out.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::retry::RetryPolicy;

/// The kind of a channel decides what an address is and which adapter delivers. A notification's `kind` is
/// stamped when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChannelKind {
    /// Electronic mail over SMTP.
    Email,
    /// Text messages through a provider.
    Sms,
    /// HTTP POST to an address of the receiver's choosing.
    Webhook,
    /// Push through an ntfy server.
    Ntfy,
    /// Posts in a Slack channel.
    Slack,
    /// Posts in a Microsoft Teams channel.
    Teams,
    /// Messages kept for a person to read in an application.
    InApp,
}

impl ChannelKind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [ChannelKind; 7] = [
        ChannelKind::Email,
        ChannelKind::Sms,
        ChannelKind::Webhook,
        ChannelKind::Ntfy,
        ChannelKind::Slack,
        ChannelKind::Teams,
        ChannelKind::InApp,
    ];

    /// The word used in configuration, in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            ChannelKind::Email => "email",
            ChannelKind::Sms => "sms",
            ChannelKind::Webhook => "webhook",
            ChannelKind::Ntfy => "ntfy",
            ChannelKind::Slack => "slack",
            ChannelKind::Teams => "teams",
            ChannelKind::InApp => "in_app",
        }
    }

    /// How failed deliveries are tried again unless the channel says otherwise (OB-13, WH-04, DD-08).
    pub fn default_retry(self) -> RetryPolicy {
        match self {
            ChannelKind::Email | ChannelKind::Sms => RetryPolicy::fixed(Duration::from_secs(60), 10),
            ChannelKind::Webhook | ChannelKind::Ntfy => RetryPolicy::webhook_default(),
            ChannelKind::Slack | ChannelKind::Teams | ChannelKind::InApp => RetryPolicy::None,
        }
    }

    /// Deliveries at once on one channel of this kind, and to one receiver.
    pub fn default_parallel(self) -> (usize, usize) {
        match self {
            ChannelKind::Email | ChannelKind::Sms => (4, 4),
            ChannelKind::Webhook | ChannelKind::Ntfy | ChannelKind::InApp => (64, 8),
            ChannelKind::Slack | ChannelKind::Teams => (1, 1),
        }
    }

    /// How long a delivery may take; with e-mail, each command of it.
    pub fn default_timeout(self) -> Duration {
        match self {
            ChannelKind::Email => Duration::from_secs(60),
            _ => Duration::from_secs(20),
        }
    }

    /// What becomes of a delivery whose outcome is unknown, unless the channel says otherwise.
    pub fn default_on_ambiguous(self) -> OnAmbiguous {
        match self {
            ChannelKind::Email | ChannelKind::Webhook | ChannelKind::Ntfy | ChannelKind::InApp => {
                OnAmbiguous::Retry
            }
            ChannelKind::Slack | ChannelKind::Teams => OnAmbiguous::Park,
            ChannelKind::Sms => OnAmbiguous::Lookup,
        }
    }

    /// What becomes of deliveries while the channel is suspended: destinations fail, others hold.
    pub fn default_on_suspended(self) -> OnSuspended {
        match self {
            ChannelKind::Slack | ChannelKind::Teams => OnSuspended::Fail,
            _ => OnSuspended::Hold,
        }
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of email, sms, webhook, ntfy, slack, teams, in_app")]
pub struct UnknownKind;

impl FromStr for ChannelKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        ChannelKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

/// What to do when it is not known whether the receiver took the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAmbiguous {
    /// Send again; the receiver may see it twice, under the same id.
    Retry,
    /// Never send again by itself; an operator decides.
    Park,
    /// Ask the provider where it can be asked; where it cannot, or cannot tell, as [`OnAmbiguous::Park`].
    Lookup,
}

/// What to do with the deliveries of a channel that is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSuspended {
    /// Keep them waiting until the channel works again.
    Hold,
    /// Park them.
    Fail,
}

/// Settings that every kind of channel has.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSettings {
    /// What the channel is.
    pub kind: ChannelKind,
    /// A disabled channel delivers nothing: its notifications are parked.
    pub enabled: bool,
    /// How failed deliveries are tried again.
    pub retry: RetryPolicy,
    /// Deliveries at once over the whole channel, at least 1.
    pub max_parallel: usize,
    /// Deliveries at once to one receiver, at least 1.
    pub max_parallel_per_receiver: usize,
    /// What an unknown outcome leads to.
    pub on_ambiguous: OnAmbiguous,
    /// What a suspended channel leads to.
    pub on_suspended: OnSuspended,
    /// The longest that one delivery may take, all in all; with e-mail, the longest that one command may.
    pub timeout: Duration,
}

impl ChannelSettings {
    /// The settings of a channel about which nothing but its kind was said.
    pub fn of(kind: ChannelKind) -> Self {
        let (max_parallel, max_parallel_per_receiver) = kind.default_parallel();
        ChannelSettings {
            kind,
            enabled: true,
            retry: kind.default_retry(),
            max_parallel,
            max_parallel_per_receiver,
            on_ambiguous: kind.default_on_ambiguous(),
            on_suspended: kind.default_on_suspended(),
            timeout: kind.default_timeout(),
        }
    }
}
