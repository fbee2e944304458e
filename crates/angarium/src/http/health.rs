//! Whether the process lives, and whether it should be given work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use angarium_domain::time::Clock;
use angarium_engine::vitals::Vitals;
use angarium_store::Store;
use axum::Json;
use axum::extract::State;

use super::Shared;
use super::dto::HealthAnswer;
use super::problem::{Code, Problem};

/// How long the database may take to say that it takes writes.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// How long its answer stands, so that asking often costs it nothing.
const PING_STANDS: Duration = Duration::from_secs(1);

/// What the lifecycle knows about the process. Clones share it.
#[derive(Clone, Default)]
pub struct Health(Arc<Known>);

#[derive(Default)]
struct Known {
    ready: AtomicBool,
    stopping: AtomicBool,
    faults: Mutex<BTreeMap<&'static str, String>>,
    vitals: OnceLock<Arc<Vitals>>,
    /// When the database was last asked, and what is wrong with it.
    pinged: tokio::sync::Mutex<Option<(Duration, Option<&'static str>)>>,
}

impl Health {
    /// The process has started and can take work.
    pub fn set_ready(&self) {
        self.0.ready.store(true, Ordering::Release);
    }

    /// The process is about to end and wants no more work.
    pub fn set_stopping(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }

    /// Something is wrong, told under `what`, until it is called again with no reason. The reason is shown
    /// to anybody, so that it must hold no secret, path or address.
    pub fn set_fault(&self, what: &'static str, reason: Option<String>) {
        let mut faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => faults.insert(what, reason),
            None => faults.remove(what),
        };
    }

    /// From here on what this node knows of itself counts too. Only the first call has an effect.
    pub fn heed(&self, vitals: Arc<Vitals>) {
        let _heeded_already = self.0.vitals.set(vitals);
    }

    /// What this node knows of itself, once it has signed in.
    pub(super) fn vitals(&self) -> Option<&Vitals> {
        self.0.vitals.get().map(Arc::as_ref)
    }

    /// Why the process should not be given work; nothing if it should.
    async fn reasons(&self, store: &Store, clock: &dyn Clock) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.0.stopping.load(Ordering::Acquire) {
            reasons.push("the server is stopping".to_owned());
        } else if !self.0.ready.load(Ordering::Acquire) {
            reasons.push("the server is starting".to_owned());
        }
        {
            let faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner);
            reasons.extend(faults.iter().map(|(what, reason)| format!("{what}: {reason}")));
        }
        reasons.extend(self.vitals().and_then(Vitals::trouble).map(|trouble| format!("clock: {trouble}")));
        reasons.extend(self.ask_database(store, clock).await.map(str::to_owned));
        reasons
    }

    async fn ask_database(&self, store: &Store, clock: &dyn Clock) -> Option<&'static str> {
        let mut pinged = self.0.pinged.lock().await;
        if let Some((at, wrong)) = *pinged
            && clock.monotonic() < at + PING_STANDS
        {
            return wrong;
        }
        let wrong = match tokio::time::timeout(PING_LIMIT, store.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::warn!(cause = %error, "the database does not take writes");
                Some("the database does not take writes")
            }
            Err(_) => Some("the database does not answer in time"),
        };
        *pinged = Some((clock.monotonic(), wrong));
        wrong
    }
}

/// `GET /healthz`
pub(super) async fn alive() -> Json<HealthAnswer> {
    Json(HealthAnswer { status: "alive".to_owned() })
}

/// `GET /readyz`. What was lost in a failover is no reason not to take what comes; it is told until the next start.
pub(super) async fn ready(State(app): State<Shared>) -> Result<Json<HealthAnswer>, Problem> {
    let reasons = app.health.reasons(&app.store, &*app.clock).await;
    if !reasons.is_empty() {
        return Err(Problem::new(Code::NotReady, reasons.join("; ")));
    }
    let lost = app.health.vitals().map_or(0, Vitals::lost_acknowledgements);
    let status = match lost {
        0 => "ready".to_owned(),
        lost => format!(
            "ready; durability_regression: {lost} acknowledged notifications were lost in a failover of the database, \
             the log names them"
        ),
    };
    Ok(Json(HealthAnswer { status }))
}
