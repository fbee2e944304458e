//! One module per kind of channel: how a message becomes a request and an answer becomes an outcome.
//!
//! An adapter knows one protocol. It turns a delivery into what goes over the wire, and what comes back into an
//! [`Outcome`](angarium_domain::outcome::Outcome), with every secret masked. What follows from that outcome is
//! decided elsewhere. What several protocols share stands beside them: how an answer is made fit to be kept,
//! and how a wish to wait is read.
//!
//! Deliberately absent: retries, state between deliveries, and any HTTP client but the egress crate's.

pub mod email;
mod mask;
mod retry_after;
pub mod webhook;
