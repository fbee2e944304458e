//! The parts of the binary `angarium` that tests use as well: its configuration and its command line.

pub mod cli;
pub mod config;
pub mod demo;
pub mod http;
pub mod serve;
