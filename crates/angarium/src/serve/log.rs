//! Where the log goes: standard error, one line an event, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts to log, once. `ANGARIUM_LOG` says what (`info` unless told otherwise, `angarium_engine=debug`, …),
/// `ANGARIUM_LOG_FORMAT=json` how.
pub fn start_logging() {
    let filter = EnvFilter::try_from_env("ANGARIUM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let json = std::env::var("ANGARIUM_LOG_FORMAT").is_ok_and(|format| format == "json");
    // A log that cannot be written (a full disk, a reader that went away) must not end the server.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let started = if json {
        log.json().flatten_event(true).try_init()
    } else {
        log.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
    // Another part of the same process, a test for one, has started it before.
    drop(started);
}
