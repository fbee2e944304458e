//! Makes up for audit entries that could not be written when their facts were.

use std::sync::Arc;
use std::time::Duration;

use angarium_store::Store;

/// Looks at once, and then again and again.
pub(crate) async fn run(store: Arc<Store>, every: Duration) {
    loop {
        match store.reemit_audit().await {
            Ok(0) => tokio::time::sleep(every).await,
            Ok(rows) => tracing::info!(audit.rows = rows, "missing audit entries were written"),
            Err(error) => {
                tracing::warn!(store.error = %error, "missing audit entries still cannot be written");
                tokio::time::sleep(every).await;
            }
        }
    }
}
