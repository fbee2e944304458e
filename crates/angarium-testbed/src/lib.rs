//! Real servers for tests: PostgreSQL, PgBouncer, and a proxy that breaks connections on purpose.
//!
//! What a database does when it is killed, frozen, promoted or cut off is proven against the database itself. A
//! server started here lives in a folder of its own on a free port of 127.0.0.1 and knows nothing of a server that
//! the machine may run anyway. It ends when its value is dropped, and also when the process that started it dies,
//! however that comes about ([`guard`]).
//!
//! Nothing here skips: a test whose server cannot be had panics, and says what to install.
//!
//! Deliberately absent: an asynchronous runtime and a database driver. `cargo xtask test` starts its server with
//! this crate and is compiled before anything else is; SQL goes through `psql`.

#![expect(clippy::panic, reason = "a test that cannot have its server has failed, and the panic says why")]

mod folder;
pub mod guard;
mod looking;
pub mod pgbouncer;
pub mod postgres;
pub mod programs;
pub mod proxy;
