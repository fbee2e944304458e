//! Stories of the shipped binary: started, spoken to over real sockets, killed, restarted.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed expectation must end the test"
)]

mod command_line;
mod crashes;
mod durability;
mod fairness;
mod fates;
mod mail;
mod operators;
mod support;
mod trouble;
