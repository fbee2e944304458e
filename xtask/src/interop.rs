//! Debian's own mail servers as relays: what they do to a mail, and what they answer, no scripted receiver proves.
//!
//! Each server gets a tree of its own under `target/interop` and runs in it by `chroot`, on free ports of
//! 127.0.0.1: its packages are unpacked there, not installed, its users exist in that tree's `/etc/passwd` alone,
//! and the machine's own mail, if it has any, is left alone. The tests get addresses and folders in environment
//! variables. When this program ends, however it ends, its servers end with it.
//!
//! Deliberately absent: TLS by OpenSMTPD. The one in Debian 12 breaks off every handshake (it was written for an
//! older OpenSSL), which is a test of its own. Logging in is proven with Postfix.

mod opensmtpd;
mod postfix;
mod server;
mod tree;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::repo;

/// Whom the tests log in as, and with what.
pub(crate) const USER: &str = "angarium";
pub(crate) const PASSWORD: &str = "canary pass:w%rd";

/// The domain whose mailboxes the servers have, and those mailboxes.
pub(crate) const DOMAIN: &str = "example.com";
pub(crate) const MAILBOXES: [&str; 7] = ["anna", "bert", "carla", "dora", "busy", "grey", "alerts"];

pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || !Path::new("/etc/debian_version").exists() {
        let needs =
            "interop unpacks Debian's mail servers and runs them by chroot: it needs Debian, and root";
        return Err(Failure::Usage(needs.to_owned()));
    }
    let folder = repo::root().join("target/interop");
    tree::create_folder(&folder)?;
    let certificate = Certificate::issue(&folder)?;
    let postfix = postfix::start(&folder, &certificate)?;
    let opensmtpd = opensmtpd::start(&folder, &certificate)?;

    let mut tests = repo::cargo(&["test", "--locked", "--package", "angarium", "--test", "interop", "--"]);
    tests.arg("--ignored").args(arguments);
    tests.env("INTEROP_CA", &certificate.authority);
    tests.env("INTEROP_USER", USER).env("INTEROP_PASSWORD", PASSWORD);
    tests.envs(postfix.environment.iter().chain(&opensmtpd.environment).map(|(name, value)| (name, value)));
    println!("the servers' trees and logs are in {}", folder.display());
    repo::run(tests)
}

/// A certificate for `localhost`, and the authority that signed it.
pub(crate) struct Certificate {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn issue(folder: &Path) -> Result<Self, Failure> {
        let file = |name: &str| folder.join(name);
        let (authority, authority_key) = (file("ca.pem"), file("ca.key"));
        let (certificate, key) = (file("cert.pem"), file("key.pem"));
        let mut openssl = request(&authority, &authority_key, "/CN=Authority of the interop tests");
        openssl.args(["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"]);
        run_quietly(openssl)?;
        let mut openssl = request(&certificate, &key, "/CN=localhost");
        openssl.arg("-CA").arg(&authority).arg("-CAkey").arg(&authority_key);
        openssl.args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"]);
        run_quietly(openssl)?;
        Ok(Certificate { authority, certificate, key })
    }
}

fn request(certificate: &Path, key: &Path, subject: &str) -> Command {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "2", "-subj", subject]);
    openssl.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.arg("-keyout").arg(key).arg("-out").arg(certificate);
    openssl
}

/// Shows what a program says only if it fails; this one draws dots.
fn run_quietly(mut command: Command) -> Result<(), Failure> {
    let output = command.output().map_err(|error| Failure::Usage(format!("{command:?}: {error}")))?;
    let told = || Failure::Wrong(format!("{command:?}:\n{}", String::from_utf8_lossy(&output.stderr)));
    if output.status.success() { Ok(()) } else { Err(told()) }
}
