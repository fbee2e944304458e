//! What a reader may rely on in every file, checked by a machine.
//!
//! - Functions have up to 70 lines; Rust files up to 400 lines of code and 600 lines in all ([`size`]).
//! - A requirement or case that a test names exists ([`proofs`]).
//! - Nothing stands in a file that means something on one machine only; no stray blanks ([`text`]).
//! - Tests wait for signals, not for time to pass ([`text`]).
//! - Every decision record is linked from the list of them ([`decisions`]).
//!
//! Each check is a function from files to problems. `xtask/tidy-exceptions.txt` lists what may be longer
//! ([`exceptions`]); the list can only shrink.

mod decisions;
mod exceptions;
mod proofs;
mod rust;
mod size;
mod text;

use std::fmt;
use std::fs;

use exceptions::Exceptions;

use crate::failure::Failure;
use crate::repo;

/// A text file of the repository.
struct File {
    /// Relative to the top folder.
    path: String,
    text: String,
}

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

pub(crate) fn run() -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in repo::files()? {
        files.extend(open(path)?);
    }
    let mut problems = check(&files);
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    Failure::unless_clean(problems.len(), "tidy")
}

/// The file at `path`, unless it is gone, a link, or not text.
fn open(path: String) -> Result<Option<File>, Failure> {
    let full = repo::root().join(&path);
    if !fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    let bytes = fs::read(&full).map_err(|error| Failure::Wrong(format!("{path}: {error}")))?;
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(|text| File { path, text }))
}

fn check(files: &[File]) -> Vec<Problem> {
    let (exceptions, mut problems) = Exceptions::among(files);
    problems.extend(size::check(files, &exceptions));
    problems.extend(proofs::check(files));
    problems.extend(text::check(files));
    problems.extend(decisions::check(files));
    problems
}

impl File {
    fn problem(&self, line: usize, message: impl Into<String>) -> Problem {
        Problem { path: self.path.clone(), line, message: message.into() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is compiled for tests only, as far as its name tells.
    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Made-up files and what the checks say about them, as `path:line: message`.
#[cfg(test)]
mod made_up {
    use super::{File, Problem};

    pub(super) fn file(path: &str, text: impl Into<String>) -> File {
        File { path: path.to_owned(), text: text.into() }
    }

    pub(super) fn lines(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }
}
