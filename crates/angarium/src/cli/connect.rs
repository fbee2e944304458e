//! Which server to talk to, and with which key.
//!
//! The admin key that a server leaves on its machine is for that server alone: it is sent to the
//! address in the configuration and to this machine, never to another host that was named.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use url::{Host, Url};

use super::args::Globals;
use super::exit::Failure;
use crate::config::{ClientSettings, Secret, drop_line_end};

/// Where keys are looked for; shown when the server wants one.
pub(super) const KEY_ADVICE: &str = "give a key with ANGARIUM_KEY or --key-file, or run this as the user of the server with its configuration";

/// The most bytes of a file with a key.
const KEY_FILE_BYTES: u64 = 64 * 1024;

/// A server, and how to talk to it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) server: Url,
    pub(super) key: Option<Secret>,
    /// Certificates (PEM) to trust besides the public authorities.
    pub(super) ca_file: Option<PathBuf>,
}

/// Decides from the arguments, the environment and, where these leave something open, the configuration.
pub(super) fn connection(globals: &Globals) -> Result<Connection, Failure> {
    let given = match (&globals.key_file, std::env::var("ANGARIUM_KEY").ok()) {
        (Some(path), _) => Some(read_key(path).map_err(|detail| Failure::usage(&detail))?),
        (None, Some(text)) => Some(clean_key(text).map_err(Failure::usage)?),
        (None, None) => None,
    };
    let settings = match &globals.server {
        Some(_) if given.is_some() && globals.config.is_none() => ClientSettings::default(),
        _ => load(globals.config.as_deref())?,
    };
    let server = match &globals.server {
        Some(server) => server.clone(),
        None => server_at(settings.listen)?,
    };
    let local = globals.server.is_none() || is_this_machine(&server);
    let key = given.or_else(|| local.then(|| read_key(&settings.admin_key_file).ok())?);
    Ok(Connection { server, key, ca_file: settings.ca_file })
}

/// What the configuration tells a client, or every problem in that as one failure.
pub(super) fn load(path: Option<&Path>) -> Result<ClientSettings, Failure> {
    ClientSettings::load(path).map_err(|problems| Failure::configuration(&problems))
}

/// The URL under which a server that listens on `listen` is reached from this machine.
fn server_at(listen: SocketAddr) -> Result<Url, Failure> {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    if listen.port() == 0 {
        return Err(Failure::usage("the configuration leaves the port open: name the server with --server"));
    }
    let text = format!("http://{}", SocketAddr::new(ip, listen.port()));
    Url::parse(&text).map_err(|error| Failure::usage(&format!("{text}: {error}")))
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn read_key(path: &Path) -> Result<Secret, String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(KEY_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() as u64 > KEY_FILE_BYTES {
        return Err(format!("{}: it has more than 64 KiB and is no key", path.display()));
    }
    clean_key(text).map_err(|fault| format!("{}: {fault}", path.display()))
}

fn clean_key(mut text: String) -> Result<Secret, &'static str> {
    drop_line_end(&mut text);
    let printable = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if printable { Ok(Secret::new(text)) } else { Err("the key is empty or holds what no key holds") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_on_this_machine() {
        let at = |listen: &str| server_at(listen.parse().unwrap()).map(String::from);
        assert_eq!(at("127.0.0.1:7180").unwrap(), "http://127.0.0.1:7180/");
        assert_eq!(at("0.0.0.0:80").unwrap(), "http://127.0.0.1/");
        assert_eq!(at("[::]:7180").unwrap(), "http://[::1]:7180/");
        assert_eq!(at("10.0.0.1:7180").unwrap(), "http://10.0.0.1:7180/");
        assert!(at("127.0.0.1:0").is_err());
    }

    #[test]
    fn the_admin_key_stays_on_this_machine() {
        for (url, local) in [
            ("http://127.0.0.1:7180", true),
            ("http://[::1]:7180", true),
            ("http://localhost:7180", true),
            ("https://angarium.example.com", false),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_this_machine(&url.parse().unwrap()), local, "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_without_end_is_refused() {
        let detail = read_key(Path::new("/dev/zero")).unwrap_err();
        assert!(detail.contains("more than 64 KiB"), "{detail}");
    }

    #[test]
    fn keys_are_one_word() {
        assert_eq!(clean_key("ak_1\n".into()).unwrap().expose(), "ak_1");
        for text in ["", "\n", "a b", "a\nb", "é"] {
            assert!(clean_key(text.into()).is_err(), "{text:?}");
        }
    }
}
