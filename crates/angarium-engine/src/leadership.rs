//! The work that one node does for all, and who that is.
//!
//! Whoever leads holds one job in the store, for a limited time, and keeps it at every heartbeat. It trusts that only
//! for nine tenths of the time, counted on its monotonic clock from before it asked. A leader that was paused for
//! longer and does not know it yet changes nothing either: the store looks at the job in the same transaction, and
//! refuses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use angarium_domain::time::Clock;
use angarium_store::{Store, StoreError, Tenure};

use crate::leases;

/// The name of the job.
const JOB: &str = "housekeeping";
/// How long the job is held unless it is kept.
pub const TENURE: Duration = Duration::from_secs(20);
/// How often the leader looks for what is to be made up for.
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// Whether this node leads.
pub struct Leadership {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    held: Mutex<Option<Held>>,
    /// Until when (monotonic) the job is not taken.
    standing_back: Mutex<Duration>,
}

#[derive(Clone)]
struct Held {
    tenure: Tenure,
    trusted_until: Duration,
}

impl Leadership {
    /// Of a node that does not lead yet.
    pub(crate) fn new(store: Arc<Store>, clock: Arc<dyn Clock>) -> Self {
        Leadership { store, clock, held: Mutex::new(None), standing_back: Mutex::default() }
    }

    /// What to write under, if this node leads as far as it can know.
    pub fn tenure(&self) -> Option<Tenure> {
        let now = self.clock.monotonic();
        self.held().as_ref().filter(|held| now < held.trusted_until).map(|held| held.tenure.clone())
    }

    /// Keeps the job, or takes it if nobody has it. Returns what this node leads under from now on.
    pub(crate) async fn renew(&self) -> Result<Option<Tenure>, StoreError> {
        let (asked, until) = (self.clock.monotonic(), self.clock.now().plus(TENURE));
        let held = self.held().clone();
        if let Some(Held { tenure, .. }) = held {
            if self.store.keep_job(&tenure, until).await? {
                self.hold(Some(tenure.clone()), asked);
                return Ok(Some(tenure));
            }
            tracing::warn!("another node does the work that one does for all by now");
            self.hold(None, asked);
        }
        if asked < *self.standing_back.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(None);
        }
        let taken = self.store.take_job(JOB, self.clock.now(), until).await?;
        if taken.is_some() {
            tracing::info!("this node does the work that one does for all");
        }
        self.hold(taken.clone(), asked);
        Ok(taken)
    }

    /// Lets another node lead, at once.
    pub(crate) async fn resign(&self) -> Result<(), StoreError> {
        let held = self.held().take();
        match held {
            Some(Held { tenure, .. }) => self.store.resign(&tenure).await,
            None => Ok(()),
        }
    }

    /// Leaves the job to whoever has it, for as long as it is held: the clock was set back, by which it may look as if
    /// nobody had it, and whoever does has to find out about the clock first.
    pub(crate) fn stand_back(&self) {
        let until = self.clock.monotonic() + TENURE;
        *self.standing_back.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Something under the tenure failed: it is not trusted any more until it could be kept.
    pub(crate) fn doubt(&self) {
        if let Some(held) = self.held().as_mut() {
            held.trusted_until = Duration::ZERO;
        }
    }

    /// Writes audit entries that could not be written when their facts were; only if this node leads.
    pub async fn make_up_for_audit(&self) {
        while let Some(tenure) = self.tenure() {
            match self.store.reemit_audit(&tenure).await {
                Ok(0) => return,
                Ok(rows) => tracing::info!(audit.rows = rows, "missing audit entries were written"),
                Err(error) => {
                    tracing::warn!(store.error = %error, "missing audit entries still cannot be written");
                    self.doubt();
                }
            }
        }
    }

    /// Forgets what was told longer ago than `retention`; only if this node leads.
    pub async fn forget_told(&self, retention: Duration) {
        let mut forgotten = 0;
        while let Some(tenure) = self.tenure() {
            match self.store.forget_told(self.clock.now().minus(retention), &tenure).await {
                Ok(0) if forgotten > 0 => {
                    tracing::info!(ledger.places = forgotten, "places in the ledger were forgotten by age");
                    return;
                }
                Ok(0) => return,
                Ok(places) => forgotten += places,
                Err(error) => {
                    tracing::warn!(store.error = %error, "old places in the ledger could not be forgotten");
                    self.doubt();
                }
            }
        }
    }

    /// Does the work, again and again, whenever this node leads.
    pub(crate) async fn keep_house(self: Arc<Self>, ledger_retention: Duration) {
        loop {
            self.make_up_for_audit().await;
            self.forget_told(ledger_retention).await;
            tokio::time::sleep(HOUSEKEEPING).await;
        }
    }

    fn hold(&self, tenure: Option<Tenure>, asked: Duration) {
        let trusted_until = asked + leases::trusted(TENURE);
        *self.held() = tenure.map(|tenure| Held { tenure, trusted_until });
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
