//! The folder of one server, which belongs to the user that the server runs as.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::guard::User;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    user: Option<User>,
    /// Removes the folder until a guard does.
    removal: Option<TempDir>,
}

impl Folder {
    /// A fresh folder. Neither PostgreSQL nor PgBouncer runs as root: if this process does, the folder belongs to
    /// `postgres`, a user that comes with Debian's package.
    pub(crate) fn create() -> io::Result<Self> {
        let removal = tempfile::Builder::new().prefix("angarium-test-").tempdir()?;
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        let user = if is_root { Some(find_user("postgres")?) } else { None };
        let folder = Folder { path: removal.path().to_owned(), user, removal: Some(removal) };
        folder.give(&folder.path)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn user(&self) -> Option<User> {
        self.user
    }

    /// Writes a file that its owner alone can read. Who reads it meanwhile sees the old one or the new one.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path.join(name);
        let new = self.path.join("new");
        fs::write(&new, text)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        self.give(&new)?;
        fs::rename(new, path)
    }

    /// From here on somebody else removes the folder.
    pub(crate) fn keep(&mut self) {
        if let Some(folder) = self.removal.take() {
            let _same_path = folder.keep();
        }
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| chown(path, Some(user.uid), Some(user.gid)))
    }
}

fn find_user(name: &str) -> io::Result<User> {
    let users = fs::read_to_string("/etc/passwd")?;
    let number = |line: &str, at| line.split(':').nth(at)?.parse().ok();
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let user = line.and_then(|line| Some(User { uid: number(line, 2)?, gid: number(line, 3)? }));
    user.ok_or_else(|| io::Error::other(format!("there is no user {name}: {}", crate::programs::INSTALL)))
}
