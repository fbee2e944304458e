//! All tests, by one command, on a machine that has nothing but Debian and Rust.
//!
//! A test never skips itself because something is missing: what the tests need is installed here, or named.
//! A C compiler (the bundled SQLite wants one) is not among the needs: without its linker, cargo could not
//! have built this program.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use angarium_testbed::postgres::{SHARED_SERVER, Server, Setup};
use angarium_testbed::programs;

use crate::failure::Failure;
use crate::repo;

/// Tells the tests of the binary, and no others, to configure it so that it is never woken up and only looks for itself.
const POLL_ONLY: &str = "ANGARIUM_TEST_POLL_ONLY";

/// A program that some test starts.
struct Need {
    program: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    reason: &'static str,
    is_here: fn() -> bool,
}

const NEEDS: [Need; 5] = [
    Need {
        program: "strace",
        package: "strace",
        reason: "shows in which order the store writes and syncs",
        is_here: || installed("strace"),
    },
    Need {
        program: "gzip",
        package: "gzip",
        reason: "unpacks what the scripted receivers pack",
        is_here: || installed("gzip"),
    },
    Need {
        program: "postgres",
        package: POSTGRESQL,
        reason: "is the other database",
        is_here: || programs::of_postgres("initdb").is_ok(),
    },
    Need {
        program: "pgbouncer",
        package: "pgbouncer",
        reason: "stands before many a PostgreSQL",
        is_here: || programs::pgbouncer().is_ok(),
    },
    Need {
        program: "faketime",
        package: "faketime",
        reason: "gives a server a wrong clock",
        is_here: || programs::libfaketime().is_ok(),
    },
];

const POSTGRESQL: &str = "postgresql";

/// Runs all tests but those that are too slow for every day.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    supply()?;
    let server = start_server()?;
    let mut tests = tests(&server);
    tests.args(arguments);
    repo::run(tests)
}

/// Runs all tests once more, the binary's while nothing is woken up, and then those that are too slow for every day.
pub(crate) fn run_long() -> Result<(), Failure> {
    supply()?;
    let server = start_server()?;
    let mut polling = tests(&server);
    polling.env(POLL_ONLY, "1");
    repo::run(polling)?;
    let mut long = tests(&server);
    long.args(["--", "--ignored", "long_"]);
    repo::run(long)
}

fn tests(server: &Server) -> Command {
    let mut tests = repo::cargo(&["test", "--workspace", "--locked"]);
    tests.env(SHARED_SERVER, server.address().to_string());
    tests
}

/// The PostgreSQL that the tests share. It ends with its value.
fn start_server() -> Result<Server, Failure> {
    Server::try_start(&Setup::default()).map_err(|error| Failure::Wrong(error.to_string()))
}

/// Installs what is missing where that is possible; otherwise says what to install.
fn supply() -> Result<(), Failure> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_here)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && installed("apt-get")) {
        return Err(Failure::Usage(request(&missing)));
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    println!("installing what the tests need: {}", packages.join(" "));
    apt(&["update", "--quiet"])?;
    if packages.contains(&POSTGRESQL) {
        return without_a_cluster(|| install(&packages));
    }
    install(&packages)
}

/// Debian's package starts a database of its own. The tests want its programs only, so it is told not to, for this
/// once.
fn without_a_cluster(install_all: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    install(&["postgresql-common"])?;
    let folder = Path::new("/etc/postgresql-common/createcluster.d");
    let file = folder.join("angarium-tests.conf");
    let wrong = |error| Failure::Wrong(format!("{}: {error}", file.display()));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, "create_main_cluster = false\n"))
        .map_err(wrong)?;
    let installed = install_all();
    fs::remove_file(&file).map_err(wrong)?;
    installed
}

fn install(packages: &[&str]) -> Result<(), Failure> {
    apt(&[["install", "--quiet", "--yes", "--no-install-recommends"].as_slice(), packages].concat())
}

fn apt(arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    repo::run(command)
}

fn request(missing: &[&Need]) -> String {
    let mut text = String::from("the tests need programs that this machine lacks:\n");
    for need in missing {
        text.push_str(&format!("  {} ({})\n", need.program, need.reason));
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    text.push_str(&format!("install them: sudo apt-get install {}", packages.join(" ")));
    text
}

/// Whether `program` stands in one of the folders of `PATH`.
fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_in_the_path() {
        assert!(installed("sh"));
        assert!(!installed("no-program-has-this-name"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let (package, reason) = ("postgresql-client", "talks to the database");
        let need = Need { program: "psql", package, reason, is_here: || false };
        let text = request(&[&need]);
        assert!(text.contains("psql (talks to the database)"), "{text}");
        assert!(text.ends_with("sudo apt-get install postgresql-client"), "{text}");
    }
}
