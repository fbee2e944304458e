//! What decides who is told, and the numbers of its changes.

pub(crate) mod as_of;
pub(crate) mod change;
pub(crate) mod declared;
pub(crate) mod known;
pub(crate) mod objects;
mod store;
pub(crate) mod subscriptions;
pub(crate) mod types;
