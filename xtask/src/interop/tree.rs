//! A folder that is all a server sees of the machine: its packages, the libraries they need, its users, its files.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Certificate;
use crate::failure::Failure;
use crate::repo;

/// A user or group of the tree; the machine need not know it.
pub(crate) type Id = u32;

/// Where the shared libraries of Postfix lie in its tree.
const OWN_LIBRARIES: &str = "usr/lib/postfix";

pub(crate) struct Tree(PathBuf);

impl Tree {
    /// Unpacks Debian's packages into `folder/name`, which is emptied before, with what they need to run.
    pub(crate) fn grow(folder: &Path, name: &str, packages: &[&str]) -> Result<Self, Failure> {
        let tree = Tree(folder.join(name));
        if tree.0.exists() {
            fs::remove_dir_all(&tree.0).map_err(at(&tree.0))?;
        }
        let archives = archives(folder, packages)?;
        for archive in &archives {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("--extract").arg(archive).arg(&tree.0);
            repo::run(unpack)?;
        }
        for folder in ["bin", "dev", "etc", "tmp", "var/log", "var/mail", "var/run"] {
            create_folder(&tree.path(folder))?;
        }
        copy(Path::new("/bin/sh"), &tree.path("bin/sh"))?;
        tree.add_libraries(&archives)?;
        for (device, minor) in [("dev/null", "3"), ("dev/urandom", "9")] {
            let mut mknod = Command::new("mknod");
            mknod.args(["-m", "666"]).arg(tree.path(device)).args(["c", "1", minor]);
            repo::run(mknod)?;
        }
        tree.write("etc/hosts", "127.0.0.1 localhost\n")?;
        tree.write("etc/nsswitch.conf", "hosts: files\n")?;
        Ok(tree)
    }

    /// Where `path`, relative to the tree, lies on this machine.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        let path = self.path(path);
        fs::write(&path, text).map_err(at(&path))
    }

    /// The users besides root, with their homes, and groups besides theirs.
    pub(crate) fn write_users(
        &self,
        users: &[(&str, Id, &str)],
        groups: &[(&str, Id)],
    ) -> Result<(), Failure> {
        let mut passwd = "root:x:0:0::/:/bin/sh\n".to_owned();
        let mut group = "root:x:0:\n".to_owned();
        for (name, id, home) in users {
            passwd += &format!("{name}:x:{id}:{id}::{home}:/bin/sh\n");
            group += &format!("{name}:x:{id}:\n");
        }
        group.extend(groups.iter().map(|(name, id)| format!("{name}:x:{id}:\n")));
        self.write("etc/passwd", &passwd)?;
        self.write("etc/group", &group)
    }

    /// A folder that belongs to `user` and `group`; `mode` are its permissions.
    pub(crate) fn give(&self, path: &str, user: Id, group: Id, mode: u32) -> Result<(), Failure> {
        let path = self.path(path);
        create_folder(&path)?;
        chown(&path, Some(user), Some(group)).map_err(at(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))
    }

    /// Puts certificate and key into a folder of the tree.
    pub(crate) fn certify(&self, folder: &str, certificate: &Certificate) -> Result<(), Failure> {
        let key = self.path(folder).join("key.pem");
        copy(&certificate.certificate, &self.path(folder).join("cert.pem"))?;
        copy(&certificate.key, &key)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).map_err(at(&key))
    }

    /// A program of the tree that sees nothing else.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.0).arg(program);
        command
    }

    /// Copies the machine's libraries that programs of the tree need to where they look for them.
    fn add_libraries(&self, archives: &[PathBuf]) -> Result<(), Failure> {
        let mut ldd = Command::new("ldd");
        ldd.args(programs(&self.0)?).env("LD_LIBRARY_PATH", self.path(OWN_LIBRARIES));
        let output = ldd.output().map_err(|error| Failure::Usage(format!("ldd: {error}")))?;
        let listing = String::from_utf8_lossy(&output.stdout);
        let mut missing: Vec<&str> =
            listing.lines().filter_map(|line| line.trim().strip_suffix(" => not found")).collect();
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            return Err(lacking(&missing, archives));
        }
        for line in listing.lines().filter(|line| line.starts_with('\t')) {
            let words = line.split_whitespace();
            let Some(library) = words.map(Path::new).find(|word| word.is_absolute()) else { continue };
            let inside = library.strip_prefix("/").map(|library| self.0.join(library));
            let Ok(inside) = inside else { continue };
            if !library.starts_with(&self.0) && !inside.exists() {
                copy(library, &inside)?;
            }
        }
        Ok(())
    }
}

/// The packages' archives, downloaded if they are not there yet.
fn archives(folder: &Path, packages: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let folder = folder.join("packages");
    create_folder(&folder)?;
    if let Some(archives) = find_all(&folder, packages)? {
        return Ok(archives);
    }
    println!("downloading {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(["--quiet", "-o", "APT::Sandbox::User=root"]).args(arguments).current_dir(&folder);
        repo::run(apt)
    };
    let download = [&["download"], packages].concat();
    // A fresh machine knows no packages.
    apt(&download).or_else(|_| apt(&["update"]).and_then(|()| apt(&download)))?;
    let missing = || Failure::Wrong(format!("apt-get brought not all of {}", packages.join(" ")));
    find_all(&folder, packages)?.ok_or_else(missing)
}

fn find_all(folder: &Path, packages: &[&str]) -> Result<Option<Vec<PathBuf>>, Failure> {
    let files = files(folder)?;
    let find = |package: &&str| {
        let begins = |file: &&PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.split_once('_').is_some_and(|(name, _)| name == *package)
        };
        files.iter().find(begins).cloned()
    };
    Ok(packages.iter().map(find).collect())
}

/// What to install, as the packages themselves name it.
fn lacking(missing: &[&str], archives: &[PathBuf]) -> Failure {
    let mut libraries = Vec::new();
    for archive in archives {
        let mut field = Command::new("dpkg-deb");
        field.arg("--field").arg(archive).arg("Depends");
        let depends = repo::output(field).unwrap_or_default();
        let depends = String::from_utf8_lossy(&depends).into_owned();
        let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
        libraries.extend(names.filter(|name| name.starts_with("lib")).map(str::to_owned));
    }
    libraries.sort_unstable();
    libraries.dedup();
    let (missing, libraries) = (missing.join(", "), libraries.join(" "));
    Failure::Usage(format!("the mail servers need {missing}\ninstall them: sudo apt-get install {libraries}"))
}

/// Programs and libraries below `folder`.
fn programs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_elf = |file: &PathBuf| {
        let mut magic = [0; 4];
        fs::File::open(file).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && &magic == b"\x7fELF"
    };
    Ok(files(folder)?.into_iter().filter(is_elf).collect())
}

/// Every file below `folder`, links left out.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            let kind = entry.file_type().map_err(at(&folder))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    create_folder(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop).map_err(at(from))
}

pub(crate) fn create_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(at(path))
}

/// Says which path an error is about.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Wrong(format!("{}: {error}", path.display()))
}
