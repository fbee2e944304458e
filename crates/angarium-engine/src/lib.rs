//! The engine: claims what is due, checks again, sends, and settles.

pub mod catalog;
pub mod wake;
