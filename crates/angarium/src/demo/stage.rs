//! What the play stands on: a scratch folder with a configuration as users write it, the log, the signals, and
//! the words at the beginning and the end.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use angarium_domain::chance::Chance;
use angarium_domain::text::one_line;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tracing_subscriber::EnvFilter;

use super::failed;
use super::mail::{ADA, DUTY, MAIL, MEMBERS};
use super::outage::{self, Outage};
use super::traffic::{Letter, Traffic};
use crate::cli::Failure;
use crate::config::Config;

/// The channel to the receivers.
pub(super) const HOOKS: &str = "hooks";
/// The list whose members are receivers.
pub(super) const OPS: &str = "ops";

/// Lines of the log that are shown when something went wrong.
const LOG_LINES: usize = 20;

/// A folder that only its owner can look into. Dropping it removes it and all that is in it.
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes the folder among the system's temporary ones. Its name has the process's number in it, and a part
    /// by chance: another process may have had the number before and left its folder behind.
    pub(super) fn make(chance: &dyn Chance) -> io::Result<Scratch> {
        let mut part = [0; 4];
        chance.fill(&mut part);
        let name = format!("angarium-demo-{}-{:08x}", std::process::id(), u32::from_ne_bytes(part));
        let folder = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => Ok(Scratch { folder }),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
        }
    }

    /// Writes the configuration and its secret, and reads it as the server would.
    pub(super) fn configure(&self, text: &str, secret: &str) -> Result<Config, Failure> {
        self.write("hooks.secret", secret)?;
        self.write("angarium.toml", text)?;
        let loaded = Config::load(Some(&self.configuration()));
        loaded.map(|loaded| loaded.config).map_err(|problems| Failure::configuration(&problems))
    }

    /// Starts to log, warnings only unless `ANGARIUM_LOG` says otherwise, to a file, so that the picture is
    /// not disturbed.
    pub(super) fn start_logging(&self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.log())?;
        let filter = EnvFilter::try_from_env("ANGARIUM_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        let started = log.with_writer(std::sync::Mutex::new(file)).try_init();
        // Another part of the same process, a test for one, logs already.
        drop(started);
        Ok(())
    }

    /// The last lines of the log, under a title; nothing if there are none.
    pub(super) fn end_of_log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        if lines.is_empty() {
            return Vec::new();
        }
        let end = lines.iter().skip(lines.len().saturating_sub(LOG_LINES));
        let title = [String::new(), "The end of the log:".to_owned()];
        title.into_iter().chain(end.map(|line| format!("  {}", one_line(line, 400)))).collect()
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("angarium.toml")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("angarium.log")
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| failed(&path.display().to_string(), &error))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_to_the_system = fs::remove_dir_all(&self.folder);
    }
}

/// A signing secret in the form of Standard Webhooks.
pub(super) fn make_secret(chance: &dyn Chance) -> String {
    let mut key = [0; 32];
    chance.fill(&mut key);
    format!("whsec_{}", STANDARD.encode(key))
}

/// The configuration. The list of receivers has the members `ops`; `subscribers` are told of outages; mail goes to `relay`.
pub(super) fn configuration(ops: &[String], subscribers: &[String], relay: &str) -> String {
    let ops = array(ops.iter().map(String::as_str));
    let duty = array(MEMBERS);
    let outages = outage::configuration(HOOKS, subscribers);
    format!(
        r#"[server]
listen = "127.0.0.1:0"
database = "sqlite:angarium.db"
shutdown_grace = "5s"

[outbox]
dispatch_interval = "100ms"

[channels.{HOOKS}]
kind = "webhook"
secret = "${{file:hooks.secret}}"
retry = {{ policy = "exponential", backoff = "300ms", base = 2, max_retries = 3 }}
max_parallel_per_receiver = 2

[channels.{MAIL}]
kind = "email"
url = "{relay}"
from = "Angarium <angarium@example.com>"
retry = {{ policy = "fixed", interval = "300ms", max_retries = 5 }}

[lists.{OPS}]
channel = "{HOOKS}"
members = {ops}

[lists.{DUTY}]
channel = "{MAIL}"
members = {duty}
{outages}
[security]
allow_private_addresses = ["127.0.0.0/8"]
"#
    )
}

/// As TOML writes it.
fn array<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    format!("[{}]", items.join(", "))
}

/// What stands where, and the configuration as a user could write it.
pub(super) fn introduction(scratch: &Scratch, server: SocketAddr, configuration: &str) -> Vec<String> {
    let mut lines = vec![
        "A server, its database and its receivers, all on this machine's loopback.".to_owned(),
        String::new(),
        format!("  server          http://{server}"),
        format!("  scratch folder  {} (removed at the end)", scratch.folder.display()),
        format!("  log             {} (warnings only)", scratch.log().display()),
        format!("  configuration   {}:", scratch.configuration().display()),
        String::new(),
    ];
    lines.extend(
        configuration.lines().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") }),
    );
    lines
}

/// Commands to go on with, word for word, about what was sent.
pub(super) fn what_next(
    scratch: &Scratch,
    server: SocketAddr,
    key_file: &Path,
    traffic: &Traffic,
    outage: &Outage,
) -> Vec<String> {
    let program = std::env::args().next().unwrap_or_else(|| "angarium".to_owned());
    let program = quoted(&program);
    let Letter { id: retried, .. } = &traffic.retried;
    let Letter { id: duty, .. } = &traffic.duty;
    let address = traffic.retried.address();
    let (again, subscription) = outage.untold();
    let text = format!(
        r#"
The server stays up until you press ctrl-C. In another terminal:

  export ANGARIUM_SERVER=http://{server}
  export ANGARIUM_KEY="$(cat {key_file})"

  {program} notification list
  {program} notification list --status parked
  {program} notification show {retried}
  {program} notification show {duty}
  {program} notification list --status parked -o ids | xargs -r {program} notification retry
  {program} send --list {OPS} --subject 'Pump 3 stopped' --body 'Pressure fell below 2 bar.'
  {program} send --to {HOOKS}:{address} --subject Test --body Test
  {program} send --to {MAIL}:{ADA} --subject Test --body Test
  {program} event explain {again} --subscription {subscription}
  {program} event publish --feed outages --type NewOutage --key 43 \
    --field feeder='Feeder 14' --field area=Bakakeng --field cause='a blown fuse'
  {program} kpi

  curl -s -H "Authorization: Bearer $ANGARIUM_KEY" $ANGARIUM_SERVER/v1/kpis
  curl -s -H "Authorization: Bearer $ANGARIUM_KEY" -H 'Content-Type: application/json' \
    -d '{{"list":"{OPS}","subject":"Pump 3 stopped","body":"Pressure fell below 2 bar."}}' \
    $ANGARIUM_SERVER/v1/notifications

The database is {database}."#,
        key_file = quoted(&key_file.display().to_string()),
        database = scratch.folder.join("angarium.db").display(),
    );
    text.lines().map(str::to_owned).collect()
}

/// As a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use angarium_domain::chance::SeededChance;

    use super::*;

    #[test]
    fn the_configuration_that_is_shown_is_one_that_works() {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap().keep() };
        let members = ["http://127.0.0.1:1/ops", "http://127.0.0.1:2/ops"].map(str::to_owned);
        let subscribers = ["http://127.0.0.1:1/outages", "http://127.0.0.1:2/outages"].map(str::to_owned);
        let secret = make_secret(&SeededChance::new(7));
        let config =
            scratch.configure(&configuration(&members, &subscribers, "smtp://127.0.0.1:1"), &secret).unwrap();
        let list =
            config.lists.iter().find_map(|(name, list)| (name.as_str() == OPS).then_some(list)).unwrap();
        let shown: Vec<&str> = list.members.iter().map(|member| member.address.as_str()).collect();
        assert_eq!(shown, members);
        assert!(config.server.listen.ip().is_loopback());
        let file = scratch.folder.join("angarium.db");
        assert_eq!(config.server.database, angarium_store::Database::Sqlite(file));
    }

    #[test]
    fn what_a_killed_demo_left_is_in_nobodys_way() {
        let chance = SeededChance::new(7);
        let [one, other] = [(); 2].map(|()| Scratch::make(&chance).unwrap());
        assert_ne!(one.folder, other.folder);
    }

    #[test]
    fn nothing_stays_behind() {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap().keep() };
        let folder = scratch.folder.clone();
        scratch.write("angarium.db", "x").unwrap();
        drop(scratch);
        assert!(!folder.exists());
    }

    #[test]
    fn a_shell_reads_words_back() {
        assert_eq!(quoted("./target/debug/angarium"), "./target/debug/angarium");
        assert_eq!(quoted("/tmp/my folder/$x"), "'/tmp/my folder/$x'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
