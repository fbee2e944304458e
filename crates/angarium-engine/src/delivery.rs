//! The path of one claimed notification, step by step: load it (which shows that the claim still stands), find
//! out whom it goes to, send, decide what follows.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use angarium_domain::adapter::{Adapter, Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::chance::Chance;
use angarium_domain::channel::{ChannelKind, ChannelSettings, OnAmbiguous};
use angarium_domain::disposition::{Disposition, Next, Progress, Rules, Scope, decide};
use angarium_domain::outcome::{Failure, FailureClass, LastError, Outcome};
use angarium_domain::presentation::Presentation;
use angarium_domain::state::{Refused, SkipReason, State};
use angarium_domain::text::{ChannelName, Locale};
use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{AttemptRecord, Claim, Payload, ScopeChange, ScopedLane, Settlement, Store, StoreError};

use crate::catalog::Catalog;
use crate::dispatcher::Observer;
use crate::leases::Leases;
use crate::permits::Spare;
use crate::receivers::Receivers;
use crate::registry::Registry;
use crate::render::Renderings;
use crate::{list, sending, telling};

/// What every delivery shares.
pub(crate) struct Context {
    pub(crate) store: Arc<Store>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) adapters: Registry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Arc<dyn Chance>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) node: String,
    pub(crate) observer: Observer,
    pub(crate) receivers: Receivers,
    pub(crate) renderings: Arc<Renderings>,
    pub(crate) default_locale: Locale,
    /// Event types and channels that were warned of: there is no template for them.
    pub(crate) untemplated: Mutex<HashSet<(String, String)>>,
    /// Nothing new is to be begun.
    pub(crate) stopping: AtomicBool,
}

/// How long a row is left alone that could not be read.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// A way out: the channel, its settings and its adapter.
pub(crate) struct Way {
    pub(crate) channel: ChannelName,
    pub(crate) settings: ChannelSettings,
    pub(crate) adapter: Arc<dyn Adapter>,
}

impl Way {
    pub(crate) fn rules(&self) -> Rules {
        Rules::from(&self.settings)
    }

    /// Whether each exchange goes to one address, so that how it ends tells how the receiver behind that address
    /// does. Where one message goes to many, what stands between us and them would be blamed on them.
    pub(crate) fn one_to_each(&self) -> bool {
        self.adapter.addresses_per_send() <= 1
    }
}

/// Why nothing is sent.
pub(crate) enum Stop {
    /// The claim no longer stands, or cannot be relied on; whoever claims next decides.
    Lost,
    /// The list is on another channel by now; the row goes back to be claimed from that one's lane.
    Moved,
    /// The notification is parked without a try.
    Park(LastError),
    /// Nobody is to be told any more.
    Skip(SkipReason),
    /// The database did not answer; the row goes back and is left alone for a while.
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Store(error)
    }
}

pub(crate) fn park(class: FailureClass, detail: impl Into<String>) -> Stop {
    Stop::Park(LastError { class, detail: detail.into() })
}

impl Context {
    /// Delivers a claimed notification and says what to write down; nothing if the claim was lost.
    pub(crate) async fn deliver(self: &Arc<Self>, claim: &Claim, spare: Spare) -> Option<Settlement> {
        let stop = match self.attempt(claim, spare).await {
            Ok(settlement) => return Some(settlement),
            Err(stop) => stop,
        };
        let now = self.clock.now();
        let not_before = match stop {
            Stop::Park(error) => return self.without_a_try(claim, |state, now| state.park(now, error)),
            Stop::Skip(reason) => return self.without_a_try(claim, |state, now| state.skip(now, reason)),
            Stop::Moved => now,
            Stop::Lost => {
                tracing::info!(notification.id = %claim.id, "a claim was dropped before anything was sent");
                now
            }
            Stop::Store(error) => {
                tracing::warn!(notification.id = %claim.id, store.error = %error, "a notification could not be read");
                now.plus(LEFT_ALONE)
            }
        };
        // Nothing was sent. If this fails, the lease ends by itself.
        if let Err(error) = self.store.release(claim, not_before).await {
            tracing::warn!(notification.id = %claim.id, store.error = %error, "a claim could not be given back");
        }
        None
    }

    async fn attempt(self: &Arc<Self>, claim: &Claim, spare: Spare) -> Result<Settlement, Stop> {
        let payload = self.store.load(claim, self.clock.now()).await?.ok_or(Stop::Lost)?;
        let payload = match claim.tells {
            true if payload.suppressed.is_some() => return Err(Stop::Skip(SkipReason::Unsubscribed)),
            true => telling::prepare(self, claim, payload).await?,
            false => payload,
        };
        let message = Arc::new(message_of(claim, &payload));
        match (&claim.list, &claim.address) {
            (None, Some(address)) => self.attempt_address(claim, payload, message, address).await,
            (Some(name), _) => list::attempt(self, claim, payload, message, name, spare).await,
            (None, None) => Err(park(FailureClass::Internal, "the notification names nobody")),
        }
    }

    async fn attempt_address(
        &self,
        claim: &Claim,
        payload: Payload,
        message: Arc<Message>,
        address: &Address,
    ) -> Result<Settlement, Stop> {
        let channel =
            claim.channel.as_ref().ok_or_else(|| park(FailureClass::PermanentConfig, "no channel"))?;
        let way = self.way(channel)?;
        if let Some(reason) = payload.suppressed {
            return Err(park(FailureClass::PermanentRecipient, suppressed(&reason)));
        }
        self.last_look(claim, &way).await?;
        let started_at = self.clock.now();
        let template = template_of(&message);
        let delivery = Delivery {
            channel: way.channel.clone(),
            message,
            addresses: vec![address.clone()],
            attempted_at: started_at,
            transcript: None,
        };
        let outcome = self.send(&way, &delivery).await.pop();
        let outcome =
            outcome.unwrap_or_else(|| Outcome::Failed(Failure::new(FailureClass::Internal, "no outcome")));
        let tried = Tried { outcome, started_at, template };
        self.settle_address(claim, &way, address, tried)
            .ok_or_else(|| park(FailureClass::Internal, "the notification was not live when it was claimed"))
    }

    fn settle_address(
        &self,
        claim: &Claim,
        way: &Way,
        address: &Address,
        tried: Tried,
    ) -> Option<Settlement> {
        let now = self.clock.now();
        let Tried { outcome, started_at, template } = tried;
        let follows = self.follows(claim, &outcome, claim.progress, way);
        let attempt = AttemptRecord { template, ..record(&outcome, started_at, now, &self.node) };
        let (error, class, provider_message_id) = match outcome {
            Outcome::Delivered(receipt) => (None, None, receipt.provider_message_id),
            Outcome::Failed(failure) => (Some(failure.as_last_error()), Some(failure.class), None),
        };
        let scope = ScopeChange {
            scope: match follows.scope {
                // Who stands behind the address was not asked: all goes through one.
                Scope::LaneWaits(_) if !way.one_to_each() => Scope::Unchanged,
                scope => scope,
            },
            lane: ScopedLane::Key(claim.lane),
            channel: Some(way.channel.clone()),
            address: (follows.scope == Scope::SuppressAddress).then(|| address.as_str().to_owned()),
            reason: error.as_ref().map(|error| error.detail.clone()).unwrap_or_default(),
        };
        let state = claim.state.clone().after(&follows.next, error, now).ok()?;
        let progress = claim.progress.after(&follows.next, class);
        Some(Settlement {
            attempt: Some(attempt),
            provider_message_id,
            scopes: vec![scope],
            ..Settlement::of(claim, state, progress)
        })
    }

    /// What follows from an outcome. What may be sent once at most is never sent again, whatever the reason.
    pub(crate) fn follows(
        &self,
        claim: &Claim,
        outcome: &Outcome,
        progress: Progress,
        way: &Way,
    ) -> Disposition {
        let follows = decide(outcome, progress, &way.rules(), self.clock.now(), self.chance.as_ref());
        match follows.next {
            Next::Deliver => follows,
            _ if claim.at_most_once => Disposition { next: Next::Park, ..follows },
            _ => follows,
        }
    }

    /// It ended before anything was tried: no attempt, no budget.
    fn without_a_try(
        &self,
        claim: &Claim,
        end: impl FnOnce(State, Timestamp) -> Result<State, Refused>,
    ) -> Option<Settlement> {
        let state = end(claim.state.clone(), self.clock.now()).ok()?;
        Some(Settlement::of(claim, state, claim.progress))
    }

    /// The channel, if it is configured, switched on, and there is an adapter for its kind (OB-08).
    pub(crate) fn way(&self, channel: &ChannelName) -> Result<Way, Stop> {
        let settings = self.catalog.channels.get(channel).cloned().ok_or_else(|| {
            park(
                FailureClass::PermanentConfig,
                format!("channel_unknown: no channel {channel} is configured"),
            )
        })?;
        if !settings.enabled {
            let detail = format!("channel_disabled: the channel {channel} is switched off");
            return Err(park(FailureClass::PermanentConfig, detail));
        }
        let adapter = self.adapter(settings.kind)?;
        Ok(Way { channel: channel.clone(), settings, adapter })
    }

    fn adapter(&self, kind: ChannelKind) -> Result<Arc<dyn Adapter>, Stop> {
        let found = self.adapters.get(kind).cloned();
        found.ok_or_else(|| park(FailureClass::PermanentConfig, format!("no adapter for kind {kind}")))
    }

    /// The last look before the first byte: is the lease still to be trusted, and, where a second send would
    /// be worse than none, does the store know that we are about to send?
    pub(crate) async fn last_look(&self, claim: &Claim, way: &Way) -> Result<(), Stop> {
        let may_begin = || self.leases.may_begin(claim, self.clock.monotonic());
        if !may_begin() {
            return Err(Stop::Lost);
        }
        let marked = match way.settings.on_ambiguous {
            OnAmbiguous::Retry if !claim.at_most_once => true,
            _ => self.store.mark_on_wire(claim, self.clock.now()).await?,
        };
        if marked && may_begin() { Ok(()) } else { Err(Stop::Lost) }
    }

    /// One call of the adapter, observed.
    pub(crate) async fn send(&self, way: &Way, delivery: &Delivery) -> Vec<Outcome> {
        let outcomes = sending::send(way.adapter.as_ref(), delivery, way.settings.timeout).await;
        for (outcome, address) in outcomes.iter().zip(&delivery.addresses) {
            if let Some(failed) = receiver_failed(outcome).filter(|_| way.one_to_each()) {
                self.receivers.note(address.receiver(), failed, self.clock.now());
            }
            let class = match outcome {
                Outcome::Delivered(_) => None,
                Outcome::Failed(failure) => Some(failure.class),
            };
            (self.observer)(way.settings.kind, class);
        }
        outcomes
    }
}

/// A send, and how it ended.
struct Tried {
    outcome: Outcome,
    started_at: Timestamp,
    template: Option<String>,
}

/// The template that a message's text came from.
pub(crate) fn template_of(message: &Message) -> Option<String> {
    message.presentation.as_ref()?.template.clone()
}

/// Whether the receiver failed or worked; nothing if the outcome does not tell. Whoever answers works.
fn receiver_failed(outcome: &Outcome) -> Option<bool> {
    match outcome {
        Outcome::Delivered(_) => Some(false),
        Outcome::Failed(failure) if failure.whole_channel => None,
        Outcome::Failed(failure) => match failure.class {
            FailureClass::Transient => Some(true),
            FailureClass::Interrupted | FailureClass::Internal => None,
            _ => Some(false),
        },
    }
}

pub(crate) fn suppressed(reason: &str) -> String {
    format!("the address is suppressed: {reason}")
}

fn message_of(claim: &Claim, payload: &Payload) -> Message {
    Message {
        id: claim.id,
        subject: payload.subject.clone(),
        body: payload.body.clone(),
        data: payload.data.clone(),
        list: claim.list.clone(),
        presentation: payload.presentation.as_deref().and_then(Presentation::from_json),
        at: claim.enqueued_at.unwrap_or(claim.created_at),
    }
}

/// The attempt as it is kept.
pub(crate) fn record(
    outcome: &Outcome,
    started_at: Timestamp,
    ended_at: Timestamp,
    node: &str,
) -> AttemptRecord {
    let mut kept = AttemptRecord {
        started_at,
        ended_at,
        node: node.to_owned(),
        class: None,
        detail: None,
        status_code: None,
        duplicate_risk: false,
        retry_after_s: None,
        response_excerpt: None,
        targets: None,
        template: None,
    };
    match outcome {
        Outcome::Delivered(receipt) => {
            kept.status_code = receipt.status_code;
            kept.response_excerpt = receipt.response_excerpt.clone();
        }
        Outcome::Failed(failure) => {
            kept.class = Some(failure.class);
            kept.detail = Some(failure.detail.clone());
            kept.status_code = failure.status_code;
            kept.duplicate_risk = failure.duplicate_risk;
            kept.retry_after_s = failure.retry_after.and_then(|wait| i64::try_from(wait.as_secs()).ok());
            kept.response_excerpt = failure.response_excerpt.clone();
        }
    }
    kept
}
