//! What the process asks of the system before it serves.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Descriptors that the database, the log and listeners need.
const OTHERS: usize = 128;

/// SIGXFSZ on Linux.
const FILE_SIZE_EXCEEDED: i32 = 25;

/// Raises the limit of open descriptors as far as the system allows, and says how many client connections that
/// leaves room for, at most `most`, beside `deliveries` and their idle connections: what clients open must not be
/// what deliveries lack.
pub(super) fn room_for_connections(most: usize, deliveries: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let Some(limit) = (if raised { maximum } else { current }) else { return most };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let reserved = deliveries.saturating_mul(2).saturating_add(OTHERS);
    limit.saturating_sub(reserved).clamp(FEWEST, most.max(FEWEST))
}

/// Connections that there is always room for.
const FEWEST: usize = 16;

/// With somebody listening, writing past a file size limit is an error like any other instead of the end.
pub(super) fn survive_file_size_limits() -> std::io::Result<Signal> {
    signal(SignalKind::from_raw(FILE_SIZE_EXCEEDED))
}
