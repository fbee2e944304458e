//! What a configuration file declares, made so: at every start, by every node, and only once.
//!
//! Files have epochs, so that a node that starts with an old one takes nothing back that a newer one declared. What the API
//! made keeps its name. What vanishes from the file no longer counts, and is as it was once it comes back.

use std::collections::HashSet;
use std::hash::Hash;

use angarium_domain::subscription::Subscription;
use angarium_domain::text::SubscriptionId;
use angarium_domain::time::Timestamp;

use crate::db::{Op, Tx, params, statements};
use crate::error::Result;
use crate::routes::change::Change;
use crate::routes::subscriptions::Written;
use crate::routes::types::{Applied, Declared, ManagedBy, ObjectKind, StoredObject, StoredSubscription};
use crate::routes::{objects, subscriptions};

statements! {
    EPOCH = "SELECT value FROM meta WHERE name = 'config_epoch'";

    SET_EPOCH = "INSERT INTO meta (name, value) VALUES ('config_epoch', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
}

/// Makes what is stored agree with a configuration file.
pub(crate) struct Apply {
    pub(crate) declared: Declared,
    pub(crate) now: Timestamp,
}

impl Op for Apply {
    type Output = Applied;

    fn weight(&self) -> usize {
        (self.declared.objects.len() + self.declared.subscriptions.len()) * 2
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Applied> {
        let mut change = Change::begin(tx).await?;
        let epoch = tx.query_opt(&EPOCH, &[], |row| row.text(0)).await?.and_then(|epoch| epoch.parse().ok());
        if epoch.is_some_and(|epoch: i64| epoch > self.declared.epoch) {
            return Ok(Applied { outdated: true, ..Applied::default() });
        }
        let subscriptions = self.declare_subscriptions(tx, &mut change).await?;
        let objects = self.declare_objects(tx, &mut change).await?;
        // What subscriptions needed until now may go after them.
        let retired = self.retire_subscriptions(tx, &mut change).await?;
        let retired = retired + self.retire_objects(tx, &mut change).await?;
        if epoch != Some(self.declared.epoch) {
            tx.execute(&SET_EPOCH, params![&self.declared.epoch.to_string()]).await?;
        }
        Ok(Applied {
            outdated: false,
            created: subscriptions.created + objects.created,
            changed: subscriptions.changed + objects.changed,
            retired,
            taken: subscriptions.taken + objects.taken,
        })
    }
}

impl Apply {
    async fn declare_subscriptions(&self, tx: &mut Tx<'_>, change: &mut Change) -> Result<Applied> {
        let declared = first_of_each(&self.declared.subscriptions, |(id, _)| id);
        let ids: Vec<&SubscriptionId> = declared.iter().map(|(id, _)| id).collect();
        let there = subscriptions::find(tx, &ids).await?;
        let mut applied = Applied::default();
        let mut writes = Vec::new();
        for (id, subscription) in declared {
            let before = there.get(id);
            let standing = before.map(|before| (before.managed_by, before.subscription == *subscription));
            if applied.counts(standing) {
                writes.push(Written { id, subscription, before, managed_by: ManagedBy::File });
            }
        }
        if !writes.is_empty() {
            let version = change.number(tx).await?;
            subscriptions::write(tx, &writes, version, self.now).await?;
        }
        Ok(applied)
    }

    /// Says how many vanished.
    async fn retire_subscriptions(&self, tx: &mut Tx<'_>, change: &mut Change) -> Result<usize> {
        let named: HashSet<&SubscriptionId> = self.declared.subscriptions.iter().map(|(id, _)| id).collect();
        let prune = self.declared.prune;
        let mut vanished = subscriptions::of_file(tx).await?;
        vanished.retain(|it| !named.contains(&it.id) && (prune || it.subscription.active));
        if vanished.is_empty() {
            return Ok(0);
        }
        let version = change.number(tx).await?;
        if prune {
            subscriptions::bury(tx, &vanished.iter().collect::<Vec<_>>(), version, self.now).await?;
            return Ok(vanished.len());
        }
        let off = |it: &StoredSubscription| Subscription { active: false, ..it.subscription.clone() };
        let off: Vec<Subscription> = vanished.iter().map(off).collect();
        let writes = vanished.iter().zip(&off).map(|(before, subscription)| Written {
            id: &before.id,
            subscription,
            before: Some(before),
            managed_by: ManagedBy::File,
        });
        subscriptions::write(tx, &writes.collect::<Vec<_>>(), version, self.now).await?;
        Ok(vanished.len())
    }

    async fn declare_objects(&self, tx: &mut Tx<'_>, change: &mut Change) -> Result<Applied> {
        let declared = first_of_each(&self.declared.objects, |(kind, name, _)| (kind, name));
        let names: Vec<_> = declared.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
        let mut there = objects::find(tx, &names).await?;
        let mut applied = Applied::default();
        let (mut before, mut writes) = (Vec::new(), Vec::new());
        for (kind, name, spec) in declared {
            let standing = there.remove(&(*kind, name.clone()));
            let same = |it: &StoredObject| (it.managed_by, it.active && it.spec == *spec);
            if applied.counts(standing.as_ref().map(same)) {
                writes.push(StoredObject {
                    kind: *kind,
                    name: name.clone(),
                    spec: spec.clone(),
                    managed_by: ManagedBy::File,
                    active: true,
                    version: change.number(tx).await?,
                    created_at: standing.as_ref().map_or(self.now, |it| it.created_at),
                    updated_at: self.now,
                });
                before.extend(standing);
            }
        }
        if !writes.is_empty() {
            let version = change.number(tx).await?;
            objects::write(tx, &before, &writes, version).await?;
        }
        Ok(applied)
    }

    /// Says how many vanished. What is deleted is so for good, and stays while something needs it.
    async fn retire_objects(&self, tx: &mut Tx<'_>, change: &mut Change) -> Result<usize> {
        let named: HashSet<(ObjectKind, &str)> =
            self.declared.objects.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
        let (mut off, mut gone) = (Vec::new(), Vec::new());
        for object in objects::of_file(tx).await? {
            if named.contains(&(object.kind, &*object.name)) {
                continue;
            }
            if self.declared.prune && objects::user_of(tx, &object).await?.is_none() {
                gone.push(object);
            } else if object.active {
                off.push(object);
            }
        }
        if off.is_empty() && gone.is_empty() {
            return Ok(0);
        }
        let version = change.number(tx).await?;
        let retired = |it: &StoredObject| {
            let it = it.clone();
            StoredObject { active: false, version, updated_at: self.now, ..it }
        };
        let writes: Vec<StoredObject> = off.iter().map(retired).collect();
        objects::write(tx, &off, &writes, version).await?;
        objects::bury(tx, &gone, version, self.now).await?;
        Ok(off.len() + gone.len())
    }
}

impl Applied {
    /// Counts what is declared, of which `standing` says whose it is and whether it is so already. Whether it is to be
    /// written down.
    fn counts(&mut self, standing: Option<(ManagedBy, bool)>) -> bool {
        match standing {
            None => self.created += 1,
            Some((ManagedBy::File, false)) => self.changed += 1,
            Some((ManagedBy::File, true)) => return false,
            Some((ManagedBy::Api, _)) => {
                self.taken += 1;
                return false;
            }
        }
        true
    }
}

/// Of those with the same name, the first.
fn first_of_each<'a, T, K: Hash + Eq>(all: &'a [T], name: impl Fn(&'a T) -> K) -> Vec<&'a T> {
    let mut seen = HashSet::new();
    all.iter().filter(|it| seen.insert(name(it))).collect()
}
