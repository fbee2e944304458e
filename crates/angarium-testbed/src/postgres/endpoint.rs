//! A server as its clients see it.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use super::{expect, judge};
use crate::programs;

/// Where a server listens, and how to speak to it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    address: SocketAddr,
    password: Option<String>,
}

impl Endpoint {
    pub(super) fn on_loopback(port: u16, password: Option<String>) -> Self {
        Endpoint { address: (Ipv4Addr::LOCALHOST, port).into(), password }
    }

    /// A server that lets roles `angarium` and `postgres` in without a password.
    pub(super) fn at(address: SocketAddr) -> Self {
        Endpoint { address, password: None }
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What role `angarium` has to say.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The URL of a database for role `angarium`.
    pub fn url(&self, database: &str) -> String {
        self.url_by_way_of(self.address, database)
    }

    /// The URL of a database for role `angarium` where something else stands before the server: a proxy, a pooler.
    pub fn url_by_way_of(&self, address: SocketAddr, database: &str) -> String {
        let password = self.password().map(|password| format!(":{}", escaped(password))).unwrap_or_default();
        format!("postgres://angarium{password}@{address}/{database}")
    }

    /// The URL of a database for role `postgres`, which may do everything.
    pub fn admin_url(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }

    /// Creates a database that belongs to role `angarium`; returns its name.
    pub fn create_database(&self) -> String {
        // Each of these is seeded afresh.
        let name = format!("test_{:016x}", RandomState::new().hash_one(()));
        self.sql("postgres", &format!("CREATE DATABASE {name} OWNER angarium"));
        name
    }

    /// Runs SQL statements as role `postgres`, each in a transaction of its own, and returns what they output: columns
    /// between `|`, rows in lines. Panics with what the server says if one fails; waits as long as the server does.
    pub fn sql(&self, database: &str, text: &str) -> String {
        expect(self.try_sql(database, text))
    }

    /// As [`sql`](Self::sql).
    ///
    /// # Errors
    ///
    /// A statement fails; the message is what the server says.
    pub fn try_sql(&self, database: &str, text: &str) -> io::Result<String> {
        psql(&self.admin_url(database), text)
    }
}

/// Runs SQL statements, each in a transaction of its own, as whom and where `url` says; returns what they output, as
/// [`Endpoint::sql`] does.
///
/// # Errors
///
/// There is no connection, or a statement fails; the message is what `psql` says.
pub fn psql(url: &str, text: &str) -> io::Result<String> {
    let mut psql = Command::new(programs::of_postgres("psql")?);
    psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url]).env_clear().env("LC_ALL", "C");
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut psql = psql.spawn()?;
    let input = psql.stdin.take();
    let output = std::thread::scope(|scope| {
        // What it cannot take any more, it has said why.
        scope.spawn(move || input.map(|mut input| input.write_all(text.as_bytes())));
        psql.wait_with_output()
    })?;
    let output = judge(&format!("{text:?} on {url}"), output)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A text as a URL spells it.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
