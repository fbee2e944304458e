//! Where Debian puts the servers' programs: not on the path.

use std::fs;
use std::io;
use std::path::PathBuf;

/// What to do when they are missing.
pub(crate) const INSTALL: &str =
    "install postgresql: sudo apt-get install postgresql pgbouncer faketime, or run cargo xtask test";

/// A program of the newest PostgreSQL. What stands on Debian's path is a slow script that chooses a version.
///
/// # Errors
///
/// It is missing; the message says what to install.
pub fn of_postgres(name: &str) -> io::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| folder.join("postgres").is_file())
        .collect();
    folders.sort();
    first(
        folders.into_iter().rev().map(|(_, folder)| folder).chain(path()).map(|folder| folder.join(name)),
        name,
    )
}

/// The program of PgBouncer.
///
/// # Errors
///
/// It is missing; the message says what to install.
pub fn pgbouncer() -> io::Result<PathBuf> {
    first(path().chain(["/usr/sbin".into()]).map(|folder| folder.join("pgbouncer")), "pgbouncer")
}

/// The library that lies about the time to the program it is loaded into.
///
/// # Errors
///
/// It is missing; the message says what to install.
pub fn libfaketime() -> io::Result<PathBuf> {
    let machines = fs::read_dir("/usr/lib")?.flatten();
    first(machines.map(|entry| entry.path().join("faketime/libfaketime.so.1")), "libfaketime")
}

fn path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn first(mut places: impl Iterator<Item = PathBuf>, name: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("{name} is missing: {INSTALL}"));
    places.find(|place| place.is_file()).ok_or_else(missing)
}
