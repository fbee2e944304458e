//! The store's face for what decides who is told.

use angarium_domain::subscription::Subscription;
use angarium_domain::text::SubscriptionId;
use angarium_domain::time::Timestamp;

use crate::Store;
use crate::error::Result;
use crate::routes::types::*;
use crate::routes::{declared, objects, subscriptions};

impl Store {
    /// Stores a feed, a template or a list made through the API. Durable when this returns. `spec` is what the domain's
    /// type wrote (`to_json`), checked by whoever calls. What is so already takes no number.
    pub async fn put_object(
        &self,
        kind: ObjectKind,
        name: &str,
        spec: String,
        expect: Expect,
        now: Timestamp,
    ) -> Result<Changed<StoredObject>> {
        let changed = self.db.write(objects::Put { kind, name: name.to_owned(), spec, expect, now }).await?;
        Ok(self.known_here(changed).await)
    }
    /// Deletes one that was made through the API; what is needed elsewhere stays ([`Changed::InUse`]).
    pub async fn delete_object(
        &self,
        kind: ObjectKind,
        name: &str,
        expect: Expect,
        now: Timestamp,
    ) -> Result<Changed<()>> {
        let changed = self.db.write(objects::Delete { kind, name: name.to_owned(), expect, now }).await?;
        Ok(self.known_here(changed).await)
    }
    /// One of them; none if there is none, or it was deleted.
    pub async fn object(&self, kind: ObjectKind, name: &str) -> Result<Option<StoredObject>> {
        self.db.read(objects::Get { kind, name: name.to_owned() }).await
    }
    /// Up to `limit` of a kind by name, after `after`.
    pub async fn objects(
        &self,
        kind: ObjectKind,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<StoredObject>> {
        self.db.read(objects::List { kind, after: after.unwrap_or_default(), limit }).await
    }
    /// Stores a subscription made through the API. Its feed must be known and active, and its filter make sense there.
    pub async fn put_subscription(
        &self,
        id: SubscriptionId,
        subscription: Subscription,
        expect: Expect,
        now: Timestamp,
    ) -> Result<Changed<StoredSubscription>> {
        let changed = self.db.write(subscriptions::Put { id, subscription, expect, now }).await?;
        Ok(self.known_here(changed).await)
    }
    /// Stores many, up to about 1,000, each on its own, in one commit and under one number; what is there under the same id
    /// is replaced if the API made it. Of an id that stands twice the first is taken, the others are
    /// [`Changed::Conflict`].
    pub async fn import_subscriptions(
        &self,
        items: Vec<(SubscriptionId, Subscription)>,
        now: Timestamp,
    ) -> Result<Vec<Changed<()>>> {
        let changed = self.db.write(subscriptions::Import { items, now }).await?;
        Ok(self.known_here(changed).await)
    }
    /// Deletes one that was made through the API. Made again under the same id, it goes on where it was.
    pub async fn delete_subscription(
        &self,
        id: &SubscriptionId,
        expect: Expect,
        now: Timestamp,
    ) -> Result<Changed<()>> {
        let changed = self.db.write(subscriptions::Delete { id: id.clone(), expect, now }).await?;
        Ok(self.known_here(changed).await)
    }
    /// One of them; none if there is none, or it was deleted.
    pub async fn subscription(&self, id: &SubscriptionId) -> Result<Option<StoredSubscription>> {
        self.db.read(subscriptions::Get(id.clone())).await
    }
    /// Up to `limit` that match, in the order in which they were made.
    pub async fn subscriptions(
        &self,
        filter: SubscriptionFilter,
        limit: usize,
    ) -> Result<Vec<StoredSubscription>> {
        self.db.read(subscriptions::List { filter, limit }).await
    }
    /// Makes what is stored agree with a configuration file. Idempotent; one commit.
    pub async fn apply_declared(&self, declared: Declared, now: Timestamp) -> Result<Applied> {
        self.db.write(declared::Apply { declared, now }).await
    }

    /// Lets this node know at once what was just committed. If it cannot be read now, the next event looks again.
    async fn known_here<T>(&self, changed: T) -> T {
        if let Err(error) = self.learn_for(true).await {
            tracing::warn!(store.error = %error, "a change is stored and not known here yet");
        }
        changed
    }
}
