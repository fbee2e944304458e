//! The first key: made at the first start and left in a file that only the operator can read, where the
//! command line on the same machine finds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use angarium_domain::chance::Chance;
use angarium_domain::time::{Clock, Timestamp};
use angarium_store::{ApiKey, Store, StoreError};

use super::auth::{Scope, Token, read_scopes};

/// The name of the key that is made here.
pub const ADMIN_KEY_NAME: &str = "admin";

/// How often it is tried to store a key that was given, while other nodes store theirs.
const TAKES: usize = 3;

/// The fewest characters of a key that an operator chooses.
const FEWEST_CHARS: usize = 16;
/// The most characters of a key that an operator chooses.
const MOST_CHARS: usize = 512;

/// Whether the admin key was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminKey {
    /// It was made, or replaced by the one that was given; the file holds it.
    Made,
    /// It was replaced by the one that was given, and the file could not be written.
    Given,
    /// There is one already.
    Kept,
}

/// Why there is no admin key.
#[derive(Debug, thiserror::Error)]
pub enum AdminKeyError {
    /// The key that was given cannot be one. The text is not repeated.
    #[error(
        "ANGARIUM_ADMIN_KEY must have {FEWEST_CHARS} to {MOST_CHARS} visible ASCII characters and no white space"
    )]
    Unfit,
    /// The key that was given had been revoked.
    #[error("ANGARIUM_ADMIN_KEY is a key that was revoked; revoked keys do not come back")]
    Revoked,
    /// The database did not take the key.
    #[error("the admin key could not be stored: its name was taken each time")]
    NotStored,
    /// The file could not be written.
    #[error("{} cannot be written: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sees to it that somebody can administer the server.
///
/// With `given` (the text of `ANGARIUM_ADMIN_KEY`) that text is the key named `admin`, whatever was before and
/// whatever other key it was, unless that was revoked. Without it, or with nothing in it, a key is made if no
/// key that may administer is live. What is made here is written down before it is stored, with mode 0600: a crash in
/// between leaves a file, never a key that nobody knows. A given key is known without its file: where that cannot be
/// written (a full disk, a folder that is read-only) the server starts all the same, unless a file stands there that
/// says something else. Where file and database say the same already, nothing is written.
///
/// Other nodes may do the same at the same time, with a `file` of their own or with this one: there is one key in the
/// end, and whatever file is there holds it.
pub async fn ensure_admin_key(
    store: &Store,
    clock: &dyn Clock,
    chance: &dyn Chance,
    given: Option<String>,
    file: &Path,
) -> Result<AdminKey, AdminKeyError> {
    let now = clock.now();
    if let Some(text) = given.filter(|text| !text.is_empty()) {
        return take(store, chance, now, &text, file).await;
    }
    let known = store.list_keys().await?;
    let live: Vec<&ApiKey> = known.iter().filter(|key| administers(key, now)).collect();
    if live.is_empty() {
        return make(store, chance, now, &known, file).await;
    }
    live.iter().for_each(|key| finish(&key.id, file));
    Ok(AdminKey::Kept)
}

fn administers(key: &ApiKey, now: Timestamp) -> bool {
    key.revoked_at.is_none()
        && key.expires_at.is_none_or(|end| now < end)
        && read_scopes(&key.scopes).contains(&Scope::Admin)
}

/// Stores the key that was given. Whoever finds, when about to, that another node was first, looks again.
async fn take(
    store: &Store,
    chance: &dyn Chance,
    now: Timestamp,
    text: &str,
    file: &Path,
) -> Result<AdminKey, AdminKeyError> {
    let token = Token::read(fit(text)?);
    for _ in 0..TAKES {
        let known = store.find_key(&token.id).await?.filter(|key| key.hash == token.hash);
        if known.as_ref().is_some_and(|key| key.revoked_at.is_some()) {
            return Err(AdminKeyError::Revoked);
        }
        let stored = known.is_some_and(|key| key.name == ADMIN_KEY_NAME && administers(&key, now));
        let in_file = (stored && holds(file, text)) || write_given(chance, file, text, stored)?;
        if stored {
            return Ok(AdminKey::Kept);
        }
        if store.replace_key(admin_key(&token, ADMIN_KEY_NAME.to_owned(), now)).await? {
            return Ok(if in_file { AdminKey::Made } else { AdminKey::Given });
        }
    }
    Err(AdminKeyError::NotStored)
}

/// Writes the key that was given to its file; false if that cannot be and need not: nobody could be misled by what is
/// there.
fn write_given(chance: &dyn Chance, file: &Path, text: &str, stored: bool) -> Result<bool, AdminKeyError> {
    match write_secret(chance, file, text) {
        Err(error) if stored || !file.exists() => {
            tracing::warn!(cause = %error, "the file of the admin key cannot be written; the key is good");
            Ok(false)
        }
        written => written.map(|()| true).map_err(at(file)),
    }
}

/// Makes a key beside those that are `known`, of which none administers. Another node that does the same chooses the
/// same name, and the database gives a name once. Until the name is ours, the key waits in a file of its own.
pub(super) async fn make(
    store: &Store,
    chance: &dyn Chance,
    now: Timestamp,
    known: &[ApiKey],
    file: &Path,
) -> Result<AdminKey, AdminKeyError> {
    let (token, text) = Token::make(chance);
    let waiting = waiting(&token.id, file);
    write_secret(chance, &waiting, &text).map_err(at(file))?;
    if store.add_key(admin_key(&token, free_name(known), now)).await? {
        put_in_place(&waiting, file).map_err(at(file))?;
        return Ok(AdminKey::Made);
    }
    let _nothing_depends_on_it = fs::remove_file(&waiting);
    let somebody = store.list_keys().await?.iter().any(|key| administers(key, now));
    if somebody { Ok(AdminKey::Kept) } else { Err(AdminKeyError::NotStored) }
}

/// `admin`, or if keys of that name came to an end, `admin-2` and so on.
fn free_name(known: &[ApiKey]) -> String {
    let is_free = |name: &String| known.iter().all(|key| key.name != *name);
    let later = (2..).map(|number: usize| format!("{ADMIN_KEY_NAME}-{number}"));
    std::iter::once(ADMIN_KEY_NAME.to_owned()).chain(later).find(is_free).unwrap_or_default()
}

fn admin_key(token: &Token, name: String, now: Timestamp) -> ApiKey {
    ApiKey {
        id: token.id.clone(),
        name,
        hash: token.hash.to_vec(),
        scopes: Scope::Admin.as_str().to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    }
}

/// Where the key with this id waits while it is being stored.
fn waiting(id: &str, file: &Path) -> PathBuf {
    beside(file, &format!(".{id}"))
}

/// Puts a key in its place that was stored just before its node died.
fn finish(id: &str, file: &Path) {
    let waiting = waiting(id, file);
    if waiting.exists()
        && let Err(error) = put_in_place(&waiting, file)
    {
        tracing::warn!(cause = %error, "the file of the admin key cannot be put in its place");
    }
}

/// Gives a key that waits the name under which it is looked for. That there is none waiting is no failure: another
/// start did it.
fn put_in_place(waiting: &Path, file: &Path) -> io::Result<()> {
    match fs::rename(waiting, file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.and_then(|()| sync_folder(file)),
    }
}

fn at(file: &Path) -> impl Fn(io::Error) -> AdminKeyError {
    let path = file.to_owned();
    move |source| AdminKeyError::File { path: path.clone(), source }
}

fn fit(text: &str) -> Result<&str, AdminKeyError> {
    let visible = text.bytes().all(|b| b.is_ascii_graphic());
    if visible && (FEWEST_CHARS..=MOST_CHARS).contains(&text.len()) {
        Ok(text)
    } else {
        Err(AdminKeyError::Unfit)
    }
}

/// Whether a file is as [`write_secret`] would leave it.
fn holds(path: &Path, text: &str) -> bool {
    let says = |mut file: File| {
        #[cfg(unix)]
        let private = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o077 == 0;
        #[cfg(not(unix))]
        let private = true;
        let mut held = String::new();
        Read::by_ref(&mut file).take(MOST_CHARS as u64 + 2).read_to_string(&mut held)?;
        Ok::<_, io::Error>(private && held.strip_suffix('\n') == Some(text))
    };
    File::open(path).and_then(says).unwrap_or(false)
}

/// Writes a line to a file that only its owner can read: whole or not at all, and durably.
/// Another node may write the same one, so that what is not whole yet has a name that nobody else chooses.
fn write_secret(chance: &dyn Chance, path: &Path, text: &str) -> io::Result<()> {
    let mut random = [0; 8];
    chance.fill(&mut random);
    let fresh = beside(path, &format!(".{:016x}.new", u64::from_le_bytes(random)));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&fresh)?;
    let written =
        writeln!(file, "{text}").and_then(|()| file.sync_all()).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _nobody_looks_for_it = fs::remove_file(&fresh);
    }
    written?;
    sync_folder(path)
}

/// The path with something more at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Makes durable what a file is called.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
