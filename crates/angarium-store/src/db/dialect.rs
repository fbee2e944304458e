//! The places where the two databases need different text, each with its reason.

/// Appended to the inner select of a claim. SQLite has one writer and needs nothing; PostgreSQL needs
/// `FOR UPDATE SKIP LOCKED`, so that two nodes that claim at once choose different rows.
pub(crate) const LOCK_CHOSEN: &str = "";

/// Appended to the select of one row that is changed later in the same transaction. SQLite has one writer and needs
/// nothing; PostgreSQL needs `FOR UPDATE`, so that whoever changes a notification, and then what hangs on it, locks
/// the notification first.
pub(crate) const LOCK_FOUND: &str = "";
