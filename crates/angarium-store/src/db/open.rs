//! Opening a SQLite file: whose it is, how it is set, which schema it has, and that no one else has it open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::options::{DatabaseStatus, Migrated};
use crate::error::{Result, StoreError};

/// "ANGA", in the header of every file that is ours.
const APPLICATION_ID: i64 = 0x414E_4741;

/// One text for each schema version, in order; `user_version` counts those that were applied.
const MIGRATIONS: [&str; 3] = [
    include_str!("../../migrations/sqlite/0001_outbox.sql"),
    include_str!("../../migrations/sqlite/0002_nodes.sql"),
    include_str!("../../migrations/sqlite/0003_events.sql"),
];

/// Held for as long as the process has the database open. The system lets go of it when the process dies.
pub(super) struct ProcessLock {
    _file: File,
}

impl ProcessLock {
    /// Takes the lock beside the database at `path`, or says who has it.
    pub(super) fn take(path: &Path) -> Result<Self> {
        let lock_path = beside(path, ".lock");
        let cannot = |error: std::io::Error| {
            StoreError::Unavailable(format!("{} cannot be opened: {error}", lock_path.display()))
        };
        let mut file = private(OpenOptions::new().read(true).write(true).create(true).truncate(false))
            .open(&lock_path)
            .map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _unreadable_is_unknown = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "unknown" } else { holder.trim() };
                return Err(StoreError::Locked(format!(
                    "another Angarium process (pid {holder}) has {} open; one file serves one process",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| {
            write!(file, "{}", std::process::id())?;
            file.flush()
        });
        written.map_err(cannot)?;
        Ok(ProcessLock { _file: file })
    }
}

/// A file that is made is its owner's alone.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// One name for one file, however it is spelt and whatever links lead to it: the lock stands beside that name.
pub(super) fn one_name(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// The path of a file that stands beside the database: `angarium.db` and `.lock` give `angarium.db.lock`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses to make a new database where an old one has gone astray: its log still holds what was acknowledged.
pub(super) fn refuse_orphaned_log(path: &Path) -> Result<()> {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let log = beside(path, "-wal");
    if bytes(path) == 0 && bytes(&log) > 0 {
        let lost = format!("{} is missing or empty, but its log {} is not", path.display(), log.display());
        return Err(StoreError::Corrupt(format!(
            "{lost}; restore the file, or move the log away to begin anew"
        )));
    }
    Ok(())
}

/// Whether the database's log is there.
pub(super) fn has_log(path: &Path) -> bool {
    beside(path, "-wal").exists()
}

/// What tells one file from another under the same name.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Opens the one connection that writes, brings the schema up to date and checks every setting that
/// durability rests on by reading it back. Says which schema there was before.
pub(super) fn writer(path: &Path) -> Result<(Connection, i64)> {
    // Made here so that nobody else can read it; SQLite gives its log and index the same mode.
    let made = private(OpenOptions::new().create(true).append(true)).open(path);
    made.map_err(|error| StoreError::Unavailable(format!("{} cannot be opened: {error}", path.display())))?;
    let connection = connect(path)?;
    refuse_foreign_files(&connection, path)?;
    settings(&connection)?;
    let before = migrate(&connection, path)?;
    Ok((connection, before))
}

/// Opens it anew while the process runs. The file must be there and ours: an empty one in its place (a volume
/// that went away) must not be taken for the database.
pub(super) fn writer_again(path: &Path) -> Result<Connection> {
    let connection = connect(path)?;
    let (id, version) = (pragma(&connection, "application_id")?, pragma(&connection, "user_version")?);
    if id != APPLICATION_ID || version != MIGRATIONS.len() as i64 {
        return Err(StoreError::NotOurs(path.display().to_string()));
    }
    settings(&connection)?;
    Ok(connection)
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Unavailable(format!("{} cannot be opened: {error}", path.display())))
}

/// Opens a connection that can only read.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Says whether the process before this one closed the database, and notes that this one has not yet.
pub(super) fn note_opened(connection: &Connection) -> Result<bool> {
    use rusqlite::OptionalExtension;
    const CLEAN: &str = "SELECT value FROM meta WHERE name = 'closed'";
    let closed: Option<String> = connection.query_row(CLEAN, [], |row| row.get(0)).optional()?;
    note(connection, "no")?;
    Ok(closed.as_deref() != Some("no"))
}

/// Notes that everything was written and the database is about to be closed.
pub(super) fn note_closed(connection: &Connection) -> Result<()> {
    note(connection, "yes")
}

fn note(connection: &Connection, closed: &str) -> Result<()> {
    const NOTE: &str =
        "INSERT INTO meta (name, value) VALUES ('closed', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1";
    connection.execute(NOTE, [closed])?;
    Ok(())
}

/// Reads the whole file and says whether it is sound. Takes as long as that takes.
pub(super) fn quick_check(path: &Path) -> Result<()> {
    let verdict: String = reader(path)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(StoreError::Corrupt(verdict)) }
}

fn refuse_foreign_files(connection: &Connection, path: &Path) -> Result<()> {
    let not_ours = || StoreError::NotOurs(path.display().to_string());
    let id = pragma(connection, "application_id").map_err(|error| match error {
        StoreError::NotOurs(_) => not_ours(),
        other => other,
    })?;
    if id == APPLICATION_ID {
        return Ok(());
    }
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if id != 0 || tables != 0 || pragma(connection, "user_version")? != 0 { Err(not_ours()) } else { Ok(()) }
}

fn settings(connection: &Connection) -> Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA mmap_size = 0;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    connection.set_prepared_statement_cache_capacity(128);
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::Unavailable(format!(
            "journal_mode is {mode}, not wal (a network file system?)"
        )));
    }
    match pragma(connection, "synchronous")? {
        2 => Ok(()),
        level => Err(StoreError::Unavailable(format!(
            "synchronous is {level}, not FULL: commits would not be durable"
        ))),
    }
}

/// Brings the schema up to date, each version in a transaction of its own; says which it was before. What was there
/// is copied beside the file first.
fn migrate(connection: &Connection, path: &Path) -> Result<i64> {
    let known = MIGRATIONS.len() as i64;
    let found = pragma(connection, "user_version")?;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    if found > 0 && found < known {
        keep_copy(connection, path, found)?;
    }
    for (version, text) in (1..).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; {text} PRAGMA user_version = {version}; COMMIT;"
        ))?;
    }
    Ok(found)
}

/// Copies the database to `angarium.db.v1`, say, for whoever must go back. One that stands there from an earlier try is
/// replaced: the file itself has not changed since.
fn keep_copy(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let copy = beside(path, &format!(".v{version}"));
    let cannot = |error: &dyn std::fmt::Display| {
        StoreError::Unavailable(format!("the copy {} cannot be written: {error}", copy.display()))
    };
    match std::fs::remove_file(&copy) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(&error)),
        _ => {}
    }
    private(OpenOptions::new().create_new(true).write(true)).open(&copy).map_err(|error| cannot(&error))?;
    let name = copy.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [&*name]).map_err(|error| cannot(&error))?;
    File::open(&copy).and_then(|file| file.sync_all()).map_err(|error| cannot(&error))?;
    tracing::info!(store.copy = %copy.display(), "the database as it was before its schema is brought up to date");
    Ok(())
}

/// Brings the schema of a file up to date, and closes it again.
pub(super) fn migrate_file(path: &Path) -> Result<Migrated> {
    let (_connection, from) = writer(path)?;
    Ok(Migrated { from, to: MIGRATIONS.len() as i64 })
}

/// What can be told of a file without changing it.
pub(super) fn status(path: &Path) -> Result<DatabaseStatus> {
    let mut status = DatabaseStatus {
        database: "sqlite",
        place: path.display().to_string(),
        schema: None,
        known: MIGRATIONS.len() as i64,
        server_version: rusqlite::version().to_owned(),
        settings: Vec::new(),
        standbys: Vec::new(),
        warnings: Vec::new(),
    };
    if std::fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        let connection = reader(path)?;
        refuse_foreign_files(&connection, path)?;
        let version = pragma(&connection, "user_version")?;
        status.schema = (version > 0).then_some(version);
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        status.settings = vec![("journal_mode".to_owned(), mode)];
    }
    Ok(status)
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    Ok(connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?)
}
