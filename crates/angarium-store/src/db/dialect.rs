//! The places where the two databases need different text, each with its reason.

/// Appended to the inner select of a claim. SQLite has one writer and needs nothing; PostgreSQL needs
/// `FOR UPDATE SKIP LOCKED`, so that two nodes that claim at once choose different rows.
pub(crate) const LOCK_CHOSEN: &str = "";
