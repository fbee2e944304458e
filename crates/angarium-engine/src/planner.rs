//! Plans what was not planned when an event was answered: the rest of events that concern many, and what a notification
//! that was given up had stood in the way of. Step by step, each its own transaction, and any node may take any step; it
//! looks whenever it is woken, and on an interval regardless.

use std::sync::Arc;
use std::time::Duration;

use angarium_store::Step;

use crate::delivery::Context;
use crate::wake::Wake;

/// Steps in a row that fail before it waits a while.
const FAILURES: u32 = 3;

/// Plans for as long as it runs.
pub(crate) async fn keep_planning(context: Arc<Context>, wake: Wake, interval: Duration) {
    let channels = Arc::new(context.catalog.facts());
    loop {
        let _whichever_comes_first = tokio::time::timeout(interval, wake.wait_to_plan()).await;
        let mut failed = 0;
        while failed < FAILURES {
            match context.store.plan_step(Arc::clone(&channels), context.clock.now()).await {
                Ok(Step::Idle) => break,
                Ok(Step::Planned { notifications }) => {
                    failed = 0;
                    if notifications > 0 {
                        wake.now();
                    }
                }
                // The next step is about something else.
                Err(error) => {
                    failed += 1;
                    tracing::warn!(store.error = %error, "an event could not be planned further; it is tried again");
                }
            }
        }
    }
}
