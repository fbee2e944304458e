//! Figures for a monitoring system, in the OpenMetrics text format.
//!
//! Counters are kept here as things happen, and are this node's own; gauges are read from the store at each scrape, and
//! so are the same at every node: to be looked at, not added up. Labels have few
//! values, all of them ours: nothing that a sender chooses becomes a label.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::FailureClass;
use angarium_domain::time::Timestamp;
use angarium_engine::vitals::Vitals;
use angarium_store::{Kpi, NODE_LOST_AFTER, NodeView};
use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::exchange::Asked;
use super::problem::{Code, Problem};
use super::{Shared, query};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the buckets for how long a request took, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Everything that is counted. Clones share it.
#[derive(Clone)]
pub struct Metrics(Arc<Counted>);

struct Counted {
    registry: Registry,
    accepted: Counter,
    duplicate: Counter,
    refused: Family<ByCode, Counter>,
    events_accepted: Counter,
    events_duplicate: Counter,
    events_refused: Family<ByCode, Counter>,
    requests: Family<ByStatus, Counter>,
    request_seconds: Family<ByRoute, Histogram>,
    attempts: Family<ByClass, Counter>,
    keys_refused: Counter,
    failed_audit_writes: Counter,
    failed_heartbeats: Counter,
    lost_acknowledgements: Counter,
    gauges: Gauges,
}

#[derive(Default)]
struct Gauges {
    queue_depth: Gauge,
    stuck: Gauge,
    parked: Gauge,
    in_flight: Gauge,
    oldest_pending_seconds: Gauge<f64, AtomicU64>,
    store_up: Gauge,
    nodes: Gauge,
    leads: Gauge,
    database_seconds: Gauge<f64, AtomicU64>,
    database_dead_rows: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCode {
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByRoute {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByStatus {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByClass {
    kind: &'static str,
    class: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut counted = Counted {
            registry: Registry::with_prefix("angarium"),
            accepted: Counter::default(),
            duplicate: Counter::default(),
            refused: Family::default(),
            events_accepted: Counter::default(),
            events_duplicate: Counter::default(),
            events_refused: Family::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            attempts: Family::default(),
            keys_refused: Counter::default(),
            failed_audit_writes: Counter::default(),
            failed_heartbeats: Counter::default(),
            lost_acknowledgements: Counter::default(),
            gauges: Gauges::default(),
        };
        counted.register();
        Metrics(Arc::new(counted))
    }
}

impl Metrics {
    /// An attempt was made on a channel of `kind`; `class` is nothing if it was delivered.
    pub fn attempt(&self, kind: ChannelKind, class: Option<FailureClass>) {
        let class = class.map_or("delivered", FailureClass::as_str);
        self.0.attempts.get_or_create(&ByClass { kind: kind.as_str(), class }).inc();
    }

    /// A notification was accepted, or had been before.
    pub(super) fn accepted(&self, duplicate: bool) {
        if duplicate {
            self.0.duplicate.inc()
        } else {
            self.0.accepted.inc()
        };
    }

    /// A notification, or a whole request to hand some in, was refused.
    pub(super) fn refused(&self, code: Code) {
        self.0.refused.get_or_create(&ByCode { code: code.as_str() }).inc();
    }

    /// An event was accepted, or had been before.
    pub(super) fn event_accepted(&self, duplicate: bool) {
        if duplicate {
            self.0.events_duplicate.inc()
        } else {
            self.0.events_accepted.inc()
        };
    }

    /// An event, or a whole request to hand some in, was refused.
    pub(super) fn event_refused(&self, code: Code) {
        self.0.events_refused.get_or_create(&ByCode { code: code.as_str() }).inc();
    }

    /// A request came with a key that does not fit.
    pub(super) fn key_refused(&self) {
        self.0.keys_refused.inc();
    }

    /// A request was answered.
    pub(super) fn request(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let route = route.to_owned();
        let by_route = ByRoute { method, route: route.clone() };
        self.0.requests.get_or_create(&ByStatus { method, route, status }).inc();
        self.0.request_seconds.get_or_create(&by_route).observe(took.as_secs_f64());
    }
}

impl Counted {
    fn register(&mut self) {
        self.register_events();
        let registry = &mut self.registry;
        registry.register("notifications_accepted", "Notifications stored", self.accepted.clone());
        registry.register(
            "notifications_duplicate",
            "Notifications that had been stored before",
            self.duplicate.clone(),
        );
        registry.register(
            "notifications_refused",
            "Notifications and requests refused",
            self.refused.clone(),
        );
        registry.register("http_requests", "Requests answered", self.requests.clone());
        registry.register("http_request_seconds", "Time until the answer", self.request_seconds.clone());
        registry.register("attempts", "Attempts at delivering, by what came of them", self.attempts.clone());
        registry.register("keys_refused", "Requests with a key that does not fit", self.keys_refused.clone());
        registry.register(
            "audit_writes_failed",
            "Audit entries that could not be written with their facts; they are made up for",
            self.failed_audit_writes.clone(),
        );
        registry.register(
            "heartbeats_failed",
            "Heartbeats of this node that did not reach the database",
            self.failed_heartbeats.clone(),
        );
        registry.register(
            "acknowledgements_lost",
            "Notifications acknowledged by this node that a failover of the database lost",
            self.lost_acknowledgements.clone(),
        );
        self.gauges.register(registry);
    }

    fn register_events(&mut self) {
        let registry = &mut self.registry;
        registry.register("events_accepted", "Events stored", self.events_accepted.clone());
        let duplicate = self.events_duplicate.clone();
        registry.register("events_duplicate", "Events that had been stored before", duplicate);
        registry.register("events_refused", "Events and requests refused", self.events_refused.clone());
    }

    /// Takes over what this node knows of itself.
    fn take_in(&self, vitals: &Vitals) {
        self.failed_heartbeats.inner().store(vitals.failed_heartbeats(), Ordering::Relaxed);
        self.lost_acknowledgements.inner().store(vitals.lost_acknowledgements(), Ordering::Relaxed);
        self.gauges.leads.set(i64::from(vitals.leads()));
        self.gauges.database_seconds.set(vitals.round_trip().as_secs_f64());
        self.gauges.database_dead_rows.set(vitals.dead_rows());
    }
}

impl Gauges {
    fn register(&self, registry: &mut Registry) {
        let gauges = self;
        registry.register("queue_depth", "Notifications pending or retrying", gauges.queue_depth.clone());
        registry.register("stuck", "Of these, waiting for too long", gauges.stuck.clone());
        registry.register("parked", "Notifications parked", gauges.parked.clone());
        registry.register("in_flight", "Notifications being tried", gauges.in_flight.clone());
        registry.register(
            "oldest_pending_seconds",
            "Age of the oldest that is pending or retrying; 0 if there is none",
            gauges.oldest_pending_seconds.clone(),
        );
        registry.register("store_up", "Whether the gauges could be read", gauges.store_up.clone());
        registry.register("nodes", "Nodes that gave a sign of life lately", gauges.nodes.clone());
        registry.register("leads", "Whether this node does what one does for all", gauges.leads.clone());
        registry.register(
            "database_seconds",
            "How long the database's server took to answer this node last; 0 on SQLite",
            gauges.database_seconds.clone(),
        );
        registry.register(
            "database_dead_rows",
            "Versions of notifications that PostgreSQL has not cleared away yet",
            gauges.database_dead_rows.clone(),
        );
    }

    fn set_nodes(&self, nodes: &[NodeView], now: Timestamp) {
        let alive = nodes.iter().filter(|node| now.since(node.seen_at) < NODE_LOST_AFTER).count();
        self.nodes.set(i64::try_from(alive).unwrap_or(i64::MAX));
    }

    fn set(&self, kpi: &Kpi, oldest: Duration) {
        self.queue_depth.set(kpi.queue_depth);
        self.stuck.set(kpi.stuck_count);
        self.parked.set(kpi.parked_count);
        self.in_flight.set(kpi.in_flight);
        self.oldest_pending_seconds.set(oldest.as_secs_f64());
    }
}

/// `GET /metrics`. Answers even when the database does not: then the gauges stand as they were last read,
/// and `store_up` says 0.
pub(super) async fn scrape(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
) -> Result<impl IntoResponse, Problem> {
    let counted = &app.metrics.0;
    let kpis = app.store.kpis(asked.now, app.stuck_after, query::INTERVAL).await;
    counted.gauges.store_up.set(i64::from(kpis.is_ok()));
    match kpis {
        Ok(kpis) => {
            let oldest = kpis.global.oldest_pending.map(|oldest| asked.now.since(oldest));
            counted.gauges.set(&kpis.global, oldest.unwrap_or_default());
        }
        Err(error) => tracing::warn!(cause = %error, "the gauges could not be read"),
    }
    // If the figures could be read, so can these; else they stand as they are too.
    if let Ok(nodes) = app.store.nodes(asked.now).await {
        counted.gauges.set_nodes(&nodes, asked.now);
    }
    if let Some(vitals) = app.health.vitals() {
        counted.take_in(vitals);
    }
    counted.failed_audit_writes.inner().store(app.store.failed_audit_writes(), Ordering::Relaxed);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &counted.registry)
        .map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
