//! Stories of dispatching: a real SQLite file, a clock that is moved by hand, an adapter that does as told.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation must end the test")]

mod bounds;
mod crashes;
mod lists;
mod outcomes;
mod support;
