//! The repository on disk, and the programs that are run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// The top folder of the repository: the one that `cargo run` was called in, even if another clone shares
/// this program through a common target folder.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A command that runs the same cargo as this program was started by, in the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs `command` with this terminal; anything but success is a failure.
pub(crate) fn run(mut command: Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::Usage(format!("{command:?}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::Wrong(format!("{command:?}: {status}"))) }
}

/// Runs `command` and returns what it wrote to its output; its errors go to this terminal.
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::Usage(format!("{command:?}: {error}")))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Failure::Wrong(format!("{command:?}: {}", output.status)))
    }
}

/// Paths, relative to the top folder, of every file that git tracks or would track.
pub(crate) fn files() -> Result<Vec<String>, Failure> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listing = output(git)?;
    let mut paths: Vec<String> = listing
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Reads a file of the repository as text.
pub(crate) fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(root().join(path)).map_err(|error| Failure::Wrong(format!("{path}: {error}")))
}
