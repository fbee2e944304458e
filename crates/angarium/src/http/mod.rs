//! The HTTP API: everything outside that talks to the outbox comes through here.
//!
//! [`routes`] is the one table of what there is; the router and the OpenAPI document are both built from it.
//! Around every exchange stands [`exchange`], before the protected routes [`auth`]. [`ingest`] parses into
//! domain types, so that nothing behind it checks again; [`query`] and [`actions`] ask the store and show what
//! it says through [`views`]. [`manage`] changes what decides who is told of events. [`channels`] lets an operator test a way out, [`bounces`] takes in what came back
//! by mail, and [`nodes`] tells of the servers that share the database. Whatever fails is a [`problem`].
//!
//! Deliberately absent: TLS (a proxy's work, or another listener's), compression, HTTP/2, and any state
//! between requests but the keys that fitted lately.

mod actions;
mod admin_key;
mod auth;
mod body;
mod bounces;
mod channels;
mod cursor;
pub mod dto;
pub mod events;
mod exchange;
mod fields;
mod health;
mod ingest;
mod items;
mod keys;
mod manage;
mod metrics;
mod nodes;
mod openapi;
mod problem;
mod query;
mod routes;
mod server;
mod stall;
#[cfg(test)]
mod tests;
mod views;

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::chance::Chance;
use angarium_domain::limits::Limits;
use angarium_domain::text::Locale;
use angarium_domain::time::Clock;
use angarium_egress::Guard;
use angarium_engine::catalog::Catalog;
use angarium_engine::registry::Registry;
use angarium_engine::render::Renderings;
use angarium_engine::wake::Wake;
use angarium_store::{Channels, Store};

pub use admin_key::{ADMIN_KEY_NAME, AdminKey, AdminKeyError, ensure_admin_key};
pub use auth::{Keys, Scope, UnknownScope};
pub use channels::Tests;
pub use health::Health;
pub use metrics::Metrics;
pub use openapi::openapi_json;
pub use server::{Bounds, serve};

/// Everything the API needs.
#[derive(Clone)]
pub struct App {
    /// Where notifications are kept.
    pub store: Arc<Store>,
    /// Which channels there are.
    pub catalog: Arc<Catalog>,
    /// The same channels, as planning sees them.
    pub channels: Arc<Channels>,
    /// Texts that were rendered, and templates that were compiled. Shared with whoever delivers.
    pub renderings: Arc<Renderings>,
    /// The language of templates where there is none in the one that was asked for.
    pub default_locale: Locale,
    /// Who delivers, when a channel is tested.
    pub adapters: Registry,
    /// How large things may be.
    pub limits: Limits,
    /// Whom deliveries may reach.
    pub guard: Guard,
    /// How long things may take.
    pub bounds: Bounds,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Makes keys and ids; fit for secrets.
    pub chance: Arc<dyn Chance>,
    /// Wakes the dispatcher.
    pub wake: Wake,
    /// The age from which a notification that is pending or retrying is stuck.
    pub stuck_after: Duration,
    /// What the lifecycle says about the process.
    pub health: Health,
    /// What is counted.
    pub metrics: Metrics,
    /// Channels that are being tested.
    pub tests: Arc<Tests>,
    /// The keys that fitted lately. Every clone of an app must share them.
    pub keys: Arc<Keys>,
}

type Shared = Arc<App>;
