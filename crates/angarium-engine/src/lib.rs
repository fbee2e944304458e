//! The engine: claims what is due, checks again, sends, and settles.
//!
//! The path of a claimed notification can be read in [`delivery`]. [`dispatcher`] takes permits first and
//! claims only what it has permits for; [`settler`] writes outcomes in batches and gives the permits back;
//! [`leases`] renews what is held and says until when something may be begun under it; [`recovery`] takes back
//! what a node held that let its lease end. Restart, another node's death and the ordinary day are the same path: claim
//! what is due.
//!
//! [`nodes`] is this process among the others that use the database: its heartbeat, the clock that all follow
//! ([`clock`]), and the work that one does for all ([`leadership`]).
//!
//! Deliberately absent: SQL, HTTP, any decision about what follows from an outcome (that is
//! [`angarium_domain::disposition`]), and any state that a restart would lose and miss.

pub mod catalog;
pub mod clock;
mod delivery;
pub mod dispatcher;
pub mod explain;
pub mod leadership;
mod leases;
mod list;
pub mod nodes;
mod permits;
mod planner;
mod receivers;
mod recovery;
pub mod registry;
pub mod render;
pub mod sending;
mod settler;
mod symptoms;
mod telling;
pub mod vitals;
pub mod wake;
