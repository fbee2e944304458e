//! Angarium, a durable notification server: the binary.

use std::process::ExitCode;

use angarium::cli::{self, Command, Failure, Globals};
use angarium::config::Config;
use angarium::{http, serve};

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(code) => return code,
    };
    let globals = invocation.globals;
    let done = match invocation.command {
        Command::Client(command) => return cli::run_client(&globals, command),
        Command::Serve => start(&globals),
        Command::Demo { exit } => angarium::demo::run(exit),
        Command::Openapi => return cli::print(&globals, &http::openapi_json()),
    };
    done.unwrap_or_else(|failure| cli::report(&failure, globals.output))
}

fn start(globals: &Globals) -> Result<ExitCode, Failure> {
    let loaded =
        Config::load(globals.config.as_deref()).map_err(|problems| Failure::configuration(&problems))?;
    serve::run(loaded)
}
