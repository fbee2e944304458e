//! Which adapter delivers for which kind of channel (OB-08).

use std::collections::BTreeMap;
use std::sync::Arc;

use angarium_domain::adapter::Adapter;
use angarium_domain::channel::ChannelKind;

/// One adapter for each kind; the last one registered for a kind wins.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<ChannelKind, Arc<dyn Adapter>>);

impl Registry {
    /// Makes this adapter the one of its kind.
    pub fn register(&mut self, adapter: Arc<dyn Adapter>) {
        self.0.insert(adapter.kind(), adapter);
    }

    /// The adapter for a kind, if there is one.
    pub fn get(&self, kind: ChannelKind) -> Option<&Arc<dyn Adapter>> {
        self.0.get(&kind)
    }

    /// The kinds that have an adapter.
    pub fn kinds(&self) -> impl Iterator<Item = ChannelKind> + '_ {
        self.0.keys().copied()
    }
}
