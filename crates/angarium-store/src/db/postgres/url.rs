//! Where a PostgreSQL server is, as the configuration says it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// `postgres://user:password@host:5432/database?sslmode=verify-full&sslrootcert=/etc/ca.pem`. Neither `Debug` nor
/// [`PostgresUrl::place`] shows the password.
#[derive(Clone)]
pub struct PostgresUrl {
    /// One for each host.
    pub(super) servers: Vec<Config>,
    /// The one that took writes last.
    pub(super) preferred: Arc<AtomicUsize>,
    /// The newest timeline that was seen; 0 before the first connection. Whatever is on an older one is not used: of two
    /// servers that both take writes, one has been left behind.
    pub(super) timeline: Arc<watch::Sender<i64>>,
    /// None: the connection is not encrypted.
    pub(super) tls: Option<Tls>,
}

impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        self.servers == other.servers && self.tls == other.tls
    }
}

impl Eq for PostgresUrl {}

/// Encrypted, and the server's certificate is checked against its name.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Tls {
    /// The file with the authority's certificate; none for the public ones.
    pub(super) root_certificate: Option<PathBuf>,
}

/// How long a connection may take to come about, unless the URL says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_PORT: u16 = 5432;
/// A server whose machine does not acknowledge what was sent is given up after this.
const SILENCE: Duration = Duration::from_secs(4);
/// A connection that nobody uses is tried after this.
const UNUSED: Duration = Duration::from_secs(10);

impl PostgresUrl {
    /// Reads a URL. The error is fit to be shown, and repeats nothing of the text.
    ///
    /// Several hosts may stand in it (`host1:5432,host2:5432`); the one that takes writes is used. `sslmode` is
    /// `disable` or `verify-full` (`require` and `verify-ca` mean the same here: a certificate is checked or it is
    /// worth nothing). Without it a server on this machine is spoken to in the clear, every other one encrypted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (server, query) = text.split_once('?').unwrap_or((text, ""));
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (mut mode, mut root_certificate, mut others) = (None, None, Vec::new());
        for (name, value) in pairs {
            match name {
                "sslmode" => mode = Some(value.to_owned()),
                "sslrootcert" => root_certificate = Some(PathBuf::from(decoded(value)?)),
                "user" | "password" | "dbname" | "host" | "port" | "connect_timeout" | "application_name" => {
                    others.push(format!("{name}={value}"));
                }
                _ => {
                    return Err(format!(
                        "{name} cannot be chosen: what is not asked for here is set as Angarium needs it"
                    ));
                }
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let config = Config::from_str(&format!("{server}{rest}")).map_err(|error| why(&error))?;
        if config.get_hosts().is_empty() {
            return Err("names no host".into());
        }
        // The driver ends the password at the first.
        let holds_at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(holds_at) {
            return Err("has more than one @ before the host: write it as %40 in user and password".into());
        }
        if config.get_dbname().is_none() {
            return Err("names no database".into());
        }
        let tls = match mode.as_deref() {
            None if config.get_hosts().iter().all(is_here) => None,
            Some("disable") => None,
            None | Some("verify-full" | "verify-ca" | "require") => {
                Some(Tls { root_certificate: root_certificate.clone() })
            }
            Some(_) => return Err("sslmode must be \"verify-full\" or \"disable\"".into()),
        };
        if tls.is_none() && root_certificate.is_some() {
            return Err("sslrootcert has no use without sslmode=verify-full".into());
        }
        Ok(PostgresUrl {
            servers: one_by_one(&config, tls.is_some())?,
            preferred: Arc::default(),
            timeline: Arc::new(watch::Sender::new(0)),
            tls,
        })
    }

    /// The host at this place did not answer: the next one is tried first, unless another was found already.
    pub(super) fn turn_away_from(&self, host: usize) {
        let next = (host + 1) % self.servers.len().max(1);
        let _another_was_found =
            self.preferred.compare_exchange(host, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the text is meant for PostgreSQL.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// What an operator should know about it.
    pub fn warnings(&self) -> Vec<String> {
        let elsewhere = self.servers.iter().flat_map(Config::get_hosts).any(|host| !is_here(host));
        if self.tls.is_none() && elsewhere {
            vec!["the database is on another machine, and the connection to it is not encrypted (sslmode=disable)".into()]
        } else {
            Vec::new()
        }
    }

    /// Hosts and database, for people.
    pub fn place(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(host_of).collect();
        let database = self.servers.first().and_then(Config::get_dbname).unwrap_or_default();
        format!("{}/{database}", hosts.join(","))
    }
}

/// The host of a configuration that has one, for people.
pub(super) fn host_of(server: &Config) -> String {
    let port = server.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    match server.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("{name}:{port}"),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({})", self.place())
    }
}

/// A configuration for each host. The driver would try one after the other by itself, but a host that takes the
/// connection and then says nothing would keep it from the next one.
fn one_by_one(config: &Config, encrypted: bool) -> Result<Vec<Config>, String> {
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err("must name one port, or one for each host".into());
    }
    let server = |(n, host): (usize, &Host)| {
        let mut server = Config::new();
        match host {
            Host::Tcp(name) => server.host(name),
            Host::Unix(path) => server.host_path(path),
        };
        server.port(ports.get(n).or(ports.first()).copied().unwrap_or(DEFAULT_PORT));
        config.get_user().map(|user| server.user(user));
        config.get_password().map(|password| server.password(password));
        config.get_dbname().map(|database| server.dbname(database));
        server.application_name(config.get_application_name().unwrap_or("angarium"));
        server.connect_timeout(config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT));
        server.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        server.keepalives_idle(UNUSED).keepalives_interval(UNUSED / 3).keepalives_retries(3);
        server.tcp_user_timeout(SILENCE);
        server
    };
    Ok(hosts.iter().enumerate().map(server).collect())
}

/// Whether a host is this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn decoded(value: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| "sslrootcert is no UTF-8".into())
}

/// What the driver says, without what it may repeat of the text.
fn why(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    match cause.split_once('`') {
        Some((before, _)) => format!("cannot be read: {}", before.trim()),
        None => format!("cannot be read: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PostgresUrl {
        PostgresUrl::parse(text).unwrap()
    }

    #[test]
    fn the_password_is_never_shown() {
        let url = read("postgres://ang:canary%20secret@db.example:6432,db2.example/notes");
        assert_eq!(url.place(), "db.example:6432,db2.example:5432/notes");
        assert_eq!(format!("{url:?}"), "PostgresUrl(db.example:6432,db2.example:5432/notes)");
        for broken in [
            "postgres://u:canary@h:notaport/d",
            "postgres://u:canary@h/d?sslmode=canary",
            "postgres://u:canary@",
        ] {
            let error = PostgresUrl::parse(broken).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_told_otherwise() {
        for (text, encrypted, warned) in [
            ("postgres://u@127.0.0.1/d", false, false),
            ("postgres://u@localhost/d", false, false),
            ("postgres:///d?host=/run/postgresql", false, false),
            ("postgres://u@db.example/d", true, false),
            ("postgres://u@127.0.0.1,db.example/d", true, false),
            ("postgres://u@127.0.0.1/d?sslmode=verify-full&sslrootcert=/a%20b.pem", true, false),
            ("postgres://u@db.example/d?sslmode=require", true, false),
            ("postgres://u@db.example/d?sslmode=disable", false, true),
        ] {
            let url = read(text);
            assert_eq!((url.tls.is_some(), !url.warnings().is_empty()), (encrypted, warned), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, told) in [
            ("postgres://u@h/d?sslmode=prefer", "sslmode"),
            ("postgres://u@h/d?options=-csearch_path%3Da", "options"),
            ("postgres://u@127.0.0.1/d?sslrootcert=/a.pem", "sslrootcert"),
            ("postgres://u@h/d?channel_binding=require", "channel_binding"),
            ("postgres://u:pa@ss@h/d", "%40"),
            ("postgres:///d", "no host"),
            ("postgres://u@h", "no database"),
        ] {
            let error = PostgresUrl::parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
