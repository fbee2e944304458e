//! The repository's own chores, each one command: `cargo xtask <command>`.
//!
//! What a machine can check about this repository is checked here and nowhere else; `.ci/run` only puts the
//! commands in a row. Exit codes: 0 fine, 1 something is wrong, 2 wrong usage or a program is missing.
//!
//! Deliberately absent: argument parsing beyond what seven commands need, and dependencies beyond what the testbed
//! needs to start a server; this program is compiled before anything else is.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks to its terminal")]

mod deps;
mod failure;
mod interop;
mod lock;
mod openapi;
mod repo;
mod test;
mod tidy;

use std::process::ExitCode;

use failure::Failure;

const USAGE: &str = "\
cargo xtask <command>

  test [-- ARGS]      install or name what the tests need, then run them all; ARGS go to cargo test
  long                every test once more, the binary's with nothing ever woken up; then the tests that take too
                      long for every day, which are named long_*
  interop [-- ARGS]   the tests against Debian's own mail servers, which are unpacked, not installed; ARGS go to
                      the tests. Needs Debian, root and, once, the network
  tidy                sizes of functions and files, proofs named by tests, text that must not stand here
  deps                who may know whom, among the crates here and beyond
  lock-budget         how many packages Cargo.lock holds, against the budget
  openapi [--check]   write openapi.json, or check that it is up to date
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    match words {
        ["test"] => test::run(&[]),
        ["test", "--", arguments @ ..] => test::run(arguments),
        ["long"] => test::run_long(),
        ["interop"] => interop::run(&[]),
        ["interop", "--", arguments @ ..] => interop::run(arguments),
        ["tidy"] => tidy::run(),
        ["deps"] => deps::run(),
        ["lock-budget"] => lock::run(),
        ["openapi"] => openapi::write(),
        ["openapi", "--check"] => openapi::check(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(Failure::Usage(USAGE.to_owned())),
    }
}
