//! Scripted receivers that speak the real protocols over real sockets, for tests and the demo.
//!
//! A receiver listens on loopback, does to each request exactly what its script says (answer, stall, hang
//! up, babble), and keeps a journal of what reached it. The journal counts *effects* apart from requests: a
//! request whose answer got lost was still acted upon, and that is what a promise of "at most once" or
//! "at least once" is about.
//!
//! One module per protocol: [`http`], [`mail`].
//!
//! Deliberately absent: the protocol libraries the product itself uses. A receiver built on them would share
//! their mistakes, and could not misbehave at the level of bytes.

mod gate;
pub mod http;
#[cfg(feature = "identity")]
pub mod identity;
pub mod mail;
