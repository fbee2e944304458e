//! Events and what they lead to: accepted with their plan ([`accept`], [`plan`]), who is told counted in one place
//! ([`ledger`]), planned further in steps ([`steps`]), judged again before each attempt ([`signal`]), and shown
//! ([`views`]).

pub(crate) mod accept;
pub(crate) mod ledger;
pub(crate) mod plan;
mod rows;
pub(crate) mod signal;
pub(crate) mod steps;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod types;
pub(crate) mod views;
