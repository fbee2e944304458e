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
use crate::presentation::Presentation;
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
    /// How it is shown, and the event that it is about, if it is about one.
    pub presentation: Option<Presentation>,
    /// When it happened: the producer's time where it told one, else when it was accepted.
    pub at: Timestamp,
}

impl Message {
    /// What says how the message is to be delivered, as JSON: the producer's data of a notification that was handed in; of
    /// one that tells of an event, what its subscription says, since that event's data is nothing but data.
    pub fn options(&self) -> Option<&str> {
        match &self.presentation {
            Some(presentation) => presentation.options.as_deref(),
            None => self.data.as_deref(),
        }
    }

    /// The text as HTML, where the event's template has one.
    pub fn html(&self) -> Option<&str> {
        self.presentation.as_ref()?.html.as_deref()
    }
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
