//! Ctrl-C for a work that should end between two steps: the first one asks it to, the second one ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Exit, Failure};

/// Whether the work should end.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Waits for Ctrl-C from now on, to the end of the program. `wake` is called after the first one: whoever waits for
    /// something else then looks.
    pub(super) fn watch(wake: impl Fn() + Send + 'static) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed("no_runtime", &error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let interrupt = Interrupt::default();
        let asked = interrupt.clone();
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || {
                // Where signals cannot be waited for, Ctrl-C ends the program as it always does.
                if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                    asked.ask();
                    wake();
                    if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                        std::process::exit(Exit::Failed.code().into());
                    }
                }
            })
            .map_err(failed)?;
        Ok(interrupt)
    }

    /// Whether the work should end.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks the work to end.
    pub(super) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
