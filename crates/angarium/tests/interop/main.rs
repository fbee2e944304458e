//! The shipped binary against Debian's own mail servers, which `cargo xtask interop` starts. It says in the
//! environment where they listen, and where the mailboxes are.
//!
//! Postfix has TLS of both kinds, logins and limits; OpenSMTPD has neither PIPELINING nor SMTPUTF8, and its TLS is
//! broken in Debian 12.

#![allow(missing_docs, reason = "a test binary has no public interface")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failed expectation must end the test"
)]

mod bounces;
mod login;
mod opensmtpd;
mod postfix;
mod relay;
#[allow(dead_code, reason = "shared with the other test binary, which uses all of it")]
#[path = "../it/support.rs"]
mod support;
