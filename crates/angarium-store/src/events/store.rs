//! The store's face for events.

use std::sync::Arc;

use angarium_domain::feed::Feed;
use angarium_domain::id::EventId;
use angarium_domain::list::List;
use angarium_domain::template::Template;
use angarium_domain::text::{EventType, FeedId, ListName, Locale, SourceKey, SubscriptionId};
use angarium_domain::time::Timestamp;

use super::plan::Planner;
use super::types::{
    Channels, EventAcceptance, EventFilter, EventListing, EventView, Evidence, NewEvent, RenderedText,
    Signal, Step, Trial,
};
use super::{accept, ledger, signal, steps, views};
use crate::Store;
use crate::error::Result;
use crate::nodes::Tenure;
use crate::routes::known::CatchUp;
use crate::types::Claim;

impl Store {
    /// Says which channels are configured, before anything is learned.
    pub fn configure(&self, channels: Arc<Channels>) {
        self.routes.configure(channels);
    }

    /// Learns every feed, template, list and subscription. Until then the first event waits for that.
    pub async fn learn_routes(&self) -> Result<()> {
        self.db.read_for_dispatch(CatchUp(Arc::clone(&self.routes))).await
    }

    pub(crate) async fn learn_for(&self, fresh: bool) -> Result<()> {
        if fresh { self.db.read_for_ingest(CatchUp(Arc::clone(&self.routes))).await } else { Ok(()) }
    }

    /// The feed with this id, as this node knows it; `fresh` looks at the database first.
    pub async fn feed(&self, id: &FeedId, fresh: bool) -> Result<Option<Arc<Feed>>> {
        self.learn_for(fresh).await?;
        Ok(self.routes.feed(id))
    }

    /// The feed whose `sources` hold the longest beginning of a CloudEvent's `source`, as this node knows it; `fresh` looks
    /// at the database first.
    pub async fn feed_of_source(&self, source: &str, fresh: bool) -> Result<Option<Arc<Feed>>> {
        self.learn_for(fresh).await?;
        Ok(self.routes.feed_of_source(source))
    }

    /// The list with this name, as this node knows it; `fresh` looks at the database first.
    pub async fn known_list(&self, name: &ListName, fresh: bool) -> Result<Option<Arc<List>>> {
        self.learn_for(fresh).await?;
        Ok(self.routes.list(name))
    }

    /// The templates for an event type on a channel, as this node knows them, each with its locale and version.
    pub fn templates(&self, kind: &EventType, channel: &str) -> Vec<(Locale, (Arc<Template>, i64))> {
        self.routes.templates(kind, channel)
    }

    fn planner(&self, channels: Arc<Channels>) -> Arc<Planner> {
        Arc::new(Planner { known: Arc::clone(&self.routes), keys: Arc::clone(&self.keys), channels })
    }

    /// Stores events, each on its own, in one durable commit, with the first hundred notifications that each leads to,
    /// and says in order what became of them. When this returns, what is `Accepted` survives a power cut.
    pub async fn accept_events(
        &self,
        events: Vec<NewEvent>,
        channels: Arc<Channels>,
        now: Timestamp,
    ) -> Result<Vec<EventAcceptance>> {
        let room = self.room_for(events.iter().map(NewEvent::text_bytes).sum(), events.len())?;
        let planner = self.planner(channels);
        let accepted = self.db.write_for_ingest(accept::AcceptEvents { items: events, planner, now }).await;
        drop(room);
        self.hint();
        accepted
    }

    /// What an event would lead to. Nothing is stored.
    pub async fn try_event(&self, item: NewEvent, channels: Arc<Channels>, now: Timestamp) -> Result<Trial> {
        let planner = self.planner(channels);
        self.db.write(accept::TryEvent { item, planner, now }).await
    }

    /// One step of planning: a chunk of an event that concerns many, or what was in the way of a reservation that was
    /// given back.
    pub async fn plan_step(&self, channels: Arc<Channels>, now: Timestamp) -> Result<Step> {
        let (planner, plans) = (self.planner(channels), Arc::clone(&self.plans));
        let step = self.db.write_for_dispatch(steps::PlanStep { planner, plans, now }).await?;
        if step != Step::Idle {
            self.hint();
        }
        Ok(step)
    }

    /// Forgets a thousand of the places in the ledger that were told before `before`, so that the same may be told again;
    /// says how many there were.
    pub async fn forget_told(&self, before: Timestamp, tenure: &Tenure) -> Result<usize> {
        let forget = ledger::Forget { before, limit: 1000, tenure: tenure.clone() };
        self.db.write_for_dispatch(forget).await
    }

    /// One event with what it led to, at most a hundred of each.
    pub async fn event(&self, id: EventId) -> Result<Option<EventView>> {
        self.db.read(views::Get { id, known: Arc::clone(&self.routes) }).await
    }

    /// Up to `limit` events that match, the newest first.
    pub async fn events(&self, filter: EventFilter, limit: usize) -> Result<EventListing> {
        self.db.read(views::List { filter, limit }).await
    }

    /// All that is known of an event and a subscription.
    pub async fn evidence(&self, id: EventId, subscription: &SubscriptionId) -> Result<Option<Evidence>> {
        let (subscription, known) = (subscription.clone(), Arc::clone(&self.routes));
        self.db.read(views::Look { id, subscription, known }).await
    }

    /// What a subject's events told of is gone: what is queued about it is skipped. False if nothing was known of it.
    pub async fn source_gone(&self, feed: &FeedId, key: &SourceKey, now: Timestamp) -> Result<bool> {
        let (feed, subject) = (feed.clone(), key.as_str().to_owned());
        self.db.write(accept::SourceGone { feed, subject, now }).await
    }

    /// What a claimed notification of an event is about, now; none if it is of no event, or the claim no longer stands.
    pub async fn signal(&self, claim: &Claim, now: Timestamp) -> Result<Option<Signal>> {
        let (key, generation) = (claim.key, claim.generation);
        self.db
            .read_for_dispatch(signal::ReadSignal { key, generation, known: Arc::clone(&self.routes), now })
            .await
    }

    /// Keeps the text that is about to be sent under this claim. Says whether the claim still stood.
    pub async fn pin(
        &self,
        claim: &Claim,
        text: RenderedText,
        hash: [u8; 32],
        now: Timestamp,
    ) -> Result<bool> {
        let (key, generation, keys) = (claim.key, claim.generation, Arc::clone(&self.keys));
        self.db.write_for_dispatch(signal::Pin { key, generation, text, hash, keys, now }).await
    }
}
