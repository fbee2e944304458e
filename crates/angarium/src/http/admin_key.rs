//! The first key: made at the first start and left in a file that only the operator can read, where the
//! command line on the same machine finds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use angarium_domain::chance::Chance;
use angarium_domain::time::Clock;
use angarium_store::{ApiKey, Store, StoreError};

use super::auth::{Scope, Token, read_scopes};

/// The name of the key that is made here.
pub const ADMIN_KEY_NAME: &str = "admin";

/// The fewest characters of a key that an operator chooses.
const FEWEST_CHARS: usize = 16;
/// The most characters of a key that an operator chooses.
const MOST_CHARS: usize = 512;

/// Whether the admin key was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminKey {
    /// It was made, or replaced by the one that was given; the file holds it.
    Made,
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
    /// The database did not take the key in the place of the one before.
    #[error("the admin key could not take the place of the one before")]
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
/// key that may administer is live. A key that is made, replaced or given is written to `file`, with mode 0600,
/// before it is stored: a crash in between leaves a file that the next start writes again, never a key that
/// nobody knows. Where both say the same already, nothing is written, so that a full disk does not keep the
/// server from starting; nor does a file that cannot be written while the stored key is right.
pub async fn ensure_admin_key(
    store: &Store,
    clock: &dyn Clock,
    chance: &dyn Chance,
    given: Option<String>,
    file: &Path,
) -> Result<AdminKey, AdminKeyError> {
    let now = clock.now();
    let administers = |key: &ApiKey| {
        key.revoked_at.is_none()
            && key.expires_at.is_none_or(|end| now < end)
            && read_scopes(&key.scopes).contains(&Scope::Admin)
    };
    let (token, text) = match given.filter(|text| !text.is_empty()) {
        None if store.list_keys().await?.iter().any(administers) => return Ok(AdminKey::Kept),
        None => Token::make(chance),
        Some(text) => (Token::read(fit(&text)?), text),
    };
    let known = store.find_key(&token.id).await?.filter(|key| key.hash == token.hash);
    if known.as_ref().is_some_and(|key| key.revoked_at.is_some()) {
        return Err(AdminKeyError::Revoked);
    }
    let stored = known.is_some_and(|key| key.name == ADMIN_KEY_NAME && administers(&key));
    if !(stored && holds(file, &text)) {
        match write_secret(file, &text) {
            Err(error) if stored => {
                tracing::warn!(cause = %error, "the file of the admin key cannot be written; the key is good");
            }
            Err(source) => return Err(AdminKeyError::File { path: file.to_owned(), source }),
            Ok(()) => {}
        }
    }
    if stored {
        return Ok(AdminKey::Kept);
    }
    let key = ApiKey {
        id: token.id,
        name: ADMIN_KEY_NAME.to_owned(),
        hash: token.hash.to_vec(),
        scopes: Scope::Admin.as_str().to_owned(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
    };
    if store.replace_key(key).await? { Ok(AdminKey::Made) } else { Err(AdminKeyError::NotStored) }
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
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&fresh)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
