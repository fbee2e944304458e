//! What goes wrong with PostgreSQL, done to a real server: whatever happens, nothing is acknowledged that is not
//! stored, nothing is stored twice, nothing hangs, and everything works again once the fault is over.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation must end the test")]

mod commit;
mod durability;
mod encodings;
mod encryption;
mod failover;
mod locks;
mod network;
mod outages;
mod poolers;
mod rights;
mod sessions;
mod snapshots;
mod standby;
mod support;
mod upgrade;
