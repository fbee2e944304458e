//! What the process asks of the system before it serves.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Descriptors that deliveries, the database and the log need, whatever clients do.
const RESERVED: u64 = 512;

/// SIGXFSZ on Linux.
const FILE_SIZE_EXCEEDED: i32 = 25;

/// Raises the limit of open descriptors as far as the system allows, and says how many client connections that
/// leaves room for, at most `most`: what clients open must never be what deliveries lack.
pub(super) fn room_for_connections(most: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let limit = if raised { maximum } else { current };
    let Some(limit) = limit else { return most };
    let half = limit.saturating_sub(RESERVED).max(limit / 2);
    usize::try_from(half).unwrap_or(most).clamp(16, most)
}

/// With somebody listening, writing past a file size limit is an error like any other instead of the end.
pub(super) fn survive_file_size_limits() -> std::io::Result<Signal> {
    signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED))
}
