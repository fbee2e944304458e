//! What Angarium talks about: notifications, their states, attempts and what follows from them.
//!
//! Everything here is pure. A value that exists is valid: text is parsed into types with private fields at
//! the edge ([`text`], [`address`], [`json`]), a state changes only through a transition that consumes it
//! and may refuse ([`state`]), and what an attempt's outcome means for its row and for the receiver behind
//! it is decided in one table ([`disposition`]). Time and chance are parameters ([`time`], [`chance`]).
//!
//! Deliberately absent: a runtime, SQL, HTTP, and every form of I/O.

pub mod adapter;
pub mod address;
pub mod bounce;
pub mod chance;
pub mod channel;
pub mod complaints;
pub mod content;
pub mod disposition;
pub mod event;
pub mod feed;
pub mod filter;
pub mod fold;
pub mod id;
pub mod json;
pub mod limits;
pub mod list;
pub mod matching;
pub mod outcome;
pub mod presentation;
pub mod retry;
pub mod state;
pub mod subscription;
pub mod targets;
pub mod template;
pub mod text;
pub mod time;
pub mod transcript;
pub mod trim;
