//! The trait behind which every kind of channel delivers. An adapter reports what happened; it never decides
//! what follows, and keeps no state between deliveries beyond shared connections and token caches.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::channel::ChannelKind;
use crate::id::NotificationId;
use crate::outcome::Outcome;
use crate::text::ChannelName;
use crate::time::Timestamp;
use crate::transcript::Transcript;

/// One message as it is to be sent. The same on every attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The producer's id: the receiver's idempotency key.
    pub id: NotificationId,
    /// One line, possibly empty.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// The producer's own JSON, word for word.
    pub data: Option<String>,
    /// The list it was addressed to.
    pub list: Option<String>,
    /// When it happened: the producer's time where it told one, else when it was accepted.
    pub at: Timestamp,
}

/// One call of an adapter: a message, and the addresses it goes to in one exchange.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The configured channel whose settings apply.
    pub channel: ChannelName,
    /// What to send.
    pub message: Arc<Message>,
    /// Whom to: at least one, at most [`Adapter::addresses_per_send`].
    pub addresses: Vec<Address>,
    /// When this attempt began.
    pub attempted_at: Timestamp,
    /// Where the conversation is written down, if somebody wants to see it.
    pub transcript: Option<Arc<Transcript>>,
}

/// A future that an adapter returns.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>>;

/// Delivers messages on channels of one kind.
pub trait Adapter: Send + Sync {
    /// The kind of channel this delivers on.
    fn kind(&self) -> ChannelKind;

    /// How many addresses one exchange may carry: 1, or more where the protocol has one message for many.
    fn addresses_per_send(&self) -> usize {
        1
    }

    /// The longest that sending this may take on a channel with this `timeout`; whoever takes longer is cut off.
    fn longest(&self, _delivery: &Delivery, timeout: Duration) -> Duration {
        timeout
    }

    /// Sends, and reports one outcome for each address, in order. Takes no longer than [`Self::longest`]; being
    /// dropped at any point must be safe.
    fn send<'a>(&'a self, delivery: &'a Delivery) -> Sending<'a>;
}
