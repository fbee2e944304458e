//! All tests, by one command, on a machine that has nothing but Debian and Rust.
//!
//! A test never skips itself because something is missing: what the tests need is installed here, or named.
//! A C compiler (the bundled SQLite wants one) is not among the needs: without its linker, cargo could not
//! have built this program.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::failure::Failure;
use crate::repo;

/// A program that some test starts.
struct Need {
    program: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    reason: &'static str,
}

const NEEDS: [Need; 2] = [
    Need { program: "strace", package: "strace", reason: "shows in which order the store writes and syncs" },
    Need { program: "gzip", package: "gzip", reason: "unpacks what the scripted receivers pack" },
];

pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !installed(need.program)).collect();
    if !missing.is_empty() {
        supply(&missing)?;
    }
    let mut tests = repo::cargo(&["test", "--workspace", "--locked"]);
    tests.args(arguments);
    repo::run(tests)
}

/// Installs what is missing where that is possible; otherwise says what to install.
fn supply(missing: &[&Need]) -> Result<(), Failure> {
    if !(is_root() && installed("apt-get")) {
        return Err(Failure::Usage(request(missing)));
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    println!("installing what the tests need: {}", packages.join(" "));
    apt(&["update", "--quiet"])?;
    apt(&[["install", "--quiet", "--yes", "--no-install-recommends"].as_slice(), &packages].concat())
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
        let need = Need { program: "psql", package: "postgresql-client", reason: "talks to the database" };
        let text = request(&[&need]);
        assert!(text.contains("psql (talks to the database)"), "{text}");
        assert!(text.ends_with("sudo apt-get install postgresql-client"), "{text}");
    }
}
