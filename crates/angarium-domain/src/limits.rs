//! How large things may be. Everything that comes from outside is held against these before it is stored.

/// The bounds of what a producer may hand in. All can be set in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Characters (Unicode scalar values) of a subject.
    pub subject_chars: usize,
    /// Bytes of a body, as UTF-8.
    pub body_bytes: usize,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// Bytes of one batch request.
    pub batch_bytes: usize,
    /// Notifications in one batch request.
    pub batch_items: usize,
    /// How deep arrays and objects may be nested in JSON.
    pub json_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            subject_chars: 998,
            body_bytes: 256 * 1024,
            request_bytes: 1024 * 1024,
            batch_bytes: 16 * 1024 * 1024,
            batch_items: 1000,
            json_depth: 64,
        }
    }
}

/// Characters of a name: a list, a channel, a site, an API key.
pub const NAME_CHARS: usize = 200;

/// Characters of a producer's own name for an event, its source or its subject.
pub const LINE_CHARS: usize = 1024;

/// Bytes of an address.
pub const ADDRESS_BYTES: usize = 2048;

/// Characters of an error that is kept with a row.
pub const ERROR_CHARS: usize = 1000;

/// Bytes of a receiver's answer that are read, and that are kept.
pub const RESPONSE_READ_BYTES: usize = 64 * 1024;
/// Bytes of a receiver's answer that are kept with the attempt.
pub const RESPONSE_KEPT_BYTES: usize = 4 * 1024;

/// How often in a row a process may die while it holds the same notification before the notification is
/// parked, so that a message that kills its process cannot do so for ever.
pub const MAX_INTERRUPTIONS: u32 = 5;
