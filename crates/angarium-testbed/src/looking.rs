//! Waiting for what another process does, which has no way to tell.

use std::time::Duration;

/// A minute of looks. Nothing here takes so long unless it is broken.
const LOOKS: u32 = 6000;
const PAUSE: Duration = Duration::from_millis(10);

/// What `look` finds, or nothing if it finds nothing for a minute.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(PAUSE);
    }
    None
}
