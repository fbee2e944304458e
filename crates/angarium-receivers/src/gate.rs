//! A gate that answers wait at until a test opens it.

use std::sync::Arc;

use tokio::sync::watch;

/// Open or closed; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A gate that holds whoever comes.
    pub fn closed() -> Gate {
        Gate(Arc::new(watch::Sender::new(false)))
    }

    /// A gate that lets everyone through until it is closed.
    pub fn opened() -> Gate {
        Gate(Arc::new(watch::Sender::new(true)))
    }

    /// Lets everyone through who waits, and whoever comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Holds whoever comes from now on.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    /// Returns once the gate is open.
    pub(crate) async fn pass(&self) {
        let mut state = self.0.subscribe();
        // The sender lives in `self`, so this wait cannot fail.
        let _ = state.wait_for(|open| *open).await;
    }
}
