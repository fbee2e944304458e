//! A wake-up says nothing but "look": whoever wakes looks for itself, and polls regardless.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes the dispatcher and the planner. Many wake-ups before one of them looks are one.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    dispatcher: Arc<Notify>,
    planner: Arc<Notify>,
}

impl Wake {
    /// There may be something to deliver.
    pub fn now(&self) {
        self.dispatcher.notify_one();
    }

    /// There may be something to plan.
    pub fn plan(&self) {
        self.planner.notify_one();
    }

    /// Returns after the next wake-up, or at once if there was one since the last return: for the dispatcher.
    pub async fn wait(&self) {
        self.dispatcher.notified().await;
    }

    /// The same for the planner.
    pub async fn wait_to_plan(&self) {
        self.planner.notified().await;
    }
}
