//! How a command fails.

use std::fmt;
use std::process::ExitCode;

/// What to tell the terminal, and whose turn it is now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Something in the repository is wrong.
    Wrong(String),
    /// The command was called wrongly, or this machine lacks a program.
    Usage(String),
}

impl Failure {
    /// A failure that says how many problems were printed; none when there are none.
    pub(crate) fn unless_clean(problems: usize, what: &str) -> Result<(), Failure> {
        match problems {
            0 => Ok(()),
            1 => Err(Failure::Wrong(format!("{what}: 1 problem"))),
            _ => Err(Failure::Wrong(format!("{what}: {problems} problems"))),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Wrong(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Wrong(message) | Failure::Usage(message)) = self;
        f.write_str(message.trim_end())
    }
}
