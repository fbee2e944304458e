//! A wake-up says nothing but "look": whoever wakes looks for itself, and polls regardless.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes the dispatcher. Many wake-ups before it looks are one.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// There may be new work.
    pub fn now(&self) {
        self.0.notify_one();
    }

    /// Returns after the next wake-up, or at once if there was one since the last return.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
