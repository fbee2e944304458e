//! The little of the file that a command needs which only talks to a server.
//!
//! Whoever asks a server how it is doing need not hold its secrets, nor be kept from asking by a fault in a
//! table that is the server's own: nothing else is read, and unknown keys are left to `config check`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use angarium_domain::channel::ChannelKind;
use angarium_domain::text::ChannelName;

use super::reader::Section;
use super::settings::{self, Server};
use super::{Problem, Source, database, read_text, with_file};

/// Where the server is, and by what names its channels go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// The address that the server listens on.
    pub listen: SocketAddr,
    /// The file in which the server leaves the admin key.
    pub admin_key_file: PathBuf,
    /// A file of PEM certificates to trust besides the public authorities; not read yet.
    pub ca_file: Option<PathBuf>,
    /// The enabled channels, as far as their names and kinds can be read.
    pub channels: Vec<(ChannelName, ChannelKind)>,
}

impl ClientSettings {
    /// Reads the file that [`Config::load`](super::Config::load) would. Fails with every problem in what is
    /// needed here.
    pub fn load(path: Option<&Path>) -> Result<Self, Vec<Problem>> {
        Ok(with_file(path, ClientSettings::parse)?.map(|(settings, _)| settings).unwrap_or_default())
    }

    /// Reads a configuration text. Fails with every problem in what is needed here.
    pub fn parse(text: &str, source: &Source<'_>) -> Result<Self, Vec<Problem>> {
        read_text(text, source, |root| read(&root, source.folder)).map(|(settings, _)| settings)
    }

    fn of(server: &Server) -> Self {
        let (listen, admin_key_file) = (server.listen, server.admin_key_file());
        ClientSettings { listen, admin_key_file, ca_file: None, channels: Vec::new() }
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        ClientSettings::of(&Server::default())
    }
}

fn read(root: &Section<'_, '_>, folder: &Path) -> ClientSettings {
    let default = ClientSettings::of(&settings::default_server(folder));
    let server = root.section("server");
    let listen = server.as_ref().and_then(settings::address);
    let database = server.as_ref().and_then(|section| section.field("database"));
    let admin_key_file = database.and_then(|field| database::admin_key_file_of(&field));
    let ca_file = root.section("security").and_then(|section| section.field("ca_file")?.text());
    let channels = root.section("channels");
    ClientSettings {
        listen: listen.unwrap_or(default.listen),
        admin_key_file: admin_key_file.unwrap_or(default.admin_key_file),
        ca_file: ca_file.map(|file| folder.join(file)),
        channels: channels
            .iter()
            .flat_map(Section::entries)
            .filter_map(|(name, field)| {
                let section = field.is_table().then(|| field.table())??;
                let kind = section.field("kind")?;
                let kind =
                    ChannelKind::ALL.into_iter().find(|known| kind.is_text() == Some(known.as_str()))?;
                let enabled = section.field("enabled").and_then(|field| field.is_flag()) != Some(false);
                enabled.then_some((ChannelName::parse(name).ok()?, kind))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn parse(text: &str) -> Result<ClientSettings, Vec<Problem>> {
        let source = Source {
            name: "angarium.toml",
            folder: Path::new("/etc/angarium"),
            readable_by_others: false,
            env: &|_| None,
            read: &|_| Err(io::ErrorKind::NotFound.into()),
        };
        ClientSettings::parse(text, &source)
    }

    /// Whoever runs a client has none of the server's secrets, and its faults are not theirs.
    #[test]
    fn what_a_client_does_not_need_is_not_read() {
        let text = r#"
[server]
listen = "127.0.0.1:8000"
database = "sqlite:data/a.db"
body_timeout = "for ever"
[security]
ca_file = "ca.pem"
[channels.hooks]
kind = "webhook"
secret = "${env:HOOKS_SECRET}"
[channels.mail]
kind = "email"
url = "smtps://u:${file:smtp.secret}@mail.example.com"
[channels.off]
kind = "webhook"
enabled = false
[channels.odd]
kind = "pigeon"
[unheard-of]
"#;
        let channel = |name, kind| (ChannelName::parse(name).unwrap(), kind);
        let expected = ClientSettings {
            listen: "127.0.0.1:8000".parse().unwrap(),
            admin_key_file: "/etc/angarium/data/a.db.admin-key".into(),
            ca_file: Some("/etc/angarium/ca.pem".into()),
            channels: vec![channel("hooks", ChannelKind::Webhook), channel("mail", ChannelKind::Email)],
        };
        assert_eq!(parse(text), Ok(expected));
    }

    /// Where the admin key stands is told without what the server alone knows.
    #[test]
    fn the_key_of_a_server_on_postgresql() {
        for database in [
            "postgres://angarium:${env:DB_PASSWORD}@db/angarium",
            "postgresql://db/angarium?sslmode=whatever",
            "${env:DATABASE_URL}",
            "${file:database.url}",
        ] {
            let settings = parse(&format!("[server]\ndatabase = \"{database}\"")).unwrap();
            assert_eq!(settings.admin_key_file, Path::new("/etc/angarium/angarium.admin-key"), "{database}");
        }
    }

    #[test]
    fn what_a_client_needs_must_be_right() {
        for text in [
            "[server]\nlisten = \"here\"",
            "[server]\ndatabase = \"a.db\"",
            "[server]\ndatabase = \"sqlite:${env:DIR}/a.db\"",
            "[server",
        ] {
            assert_eq!(parse(text).unwrap_err().len(), 1, "{text}");
        }
    }
}
