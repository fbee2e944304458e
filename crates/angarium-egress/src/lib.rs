//! The one way out: every connection that is made to the outside is made here and passes the address guard. For
//! HTTP/1.1 there is a [`Client`], and this is the only crate that names one; for what speaks otherwise, such as
//! SMTP, a [`Connector`] gives the bare stream.
//!
//! A request goes through the steps of [`Client::send`]: resolve, guard, connect, TLS, write, wait, read. We
//! pool connections ourselves, because each step must be known. The [`guard`] stands where an address is dialled,
//! for names and literal addresses alike, and a [`Fault`] says exactly whether the receiver can have the request.
//!
//! Deliberately absent: redirects, proxies and proxy variables, cookies, compression, HTTP/2, and repeats. A
//! request leaves once; whoever wants it sent again decides so.

mod client;
mod connection;
mod connector;
mod dial;
mod fault;
pub mod guard;
mod pool;
mod wire;

pub use client::{Client, Options, Request, Response};
pub use connector::{Connector, Unprotected};
pub use dial::{BadRoot, roots_from_pem};
pub use fault::{Fault, FaultKind};
pub use guard::{Blocked, Guard, Trust};
pub use wire::Stream;
