//! The parts of the binary `angarium`: configuration, command line, HTTP API, the server's life, and the demo.

pub mod cli;
pub mod config;
pub mod demo;
pub mod http;
pub mod serve;
