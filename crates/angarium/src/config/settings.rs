//! The tables `server`, `outbox`, `limits` and `security`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::limits::Limits;
use angarium_domain::text::Locale;
use angarium_egress::{BadRoot, Client, Guard, Options, roots_from_pem};
use angarium_engine::nodes::LEDGER_RETENTION;
use angarium_store::Database;
use ipnet::IpNet;

use super::reader::{Field, Section};
use super::units::write_duration;
use super::{Config, database};

/// How much longer than any delivery a lease must be, so that a delivery that uses all of its time is
/// settled before another node may claim the row.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// The database where nothing else is said.
const DATABASE_FILE: &str = "angarium.db";

/// The language of templates where nothing else is said.
const DEFAULT_LOCALE: &str = "en-US";

/// The most characters of a node's name.
const NODE_CHARS: usize = 64;

/// The shortest lease on a database that other nodes work on as well: shorter ones end while they are renewed.
const SHORTEST_SHARED_LEASE: Duration = Duration::from_secs(2);

/// The nesting at which the JSON parser itself gives up, less one.
const DEEPEST_JSON: usize = 126;

/// Where the server listens, what it stores in, how long it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The address to accept connections on.
    pub listen: SocketAddr,
    /// What it stores in.
    pub database: Database,
    /// The folder of the configuration file. What belongs to this server alone stands there if the database is no file.
    pub folder: PathBuf,
    /// By what name attempts and other nodes know this server; the machine's if none is given.
    pub node: Option<String>,
    /// How long a soft stop waits for deliveries that are under way.
    pub shutdown_grace: Duration,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send the body of a request.
    pub body_timeout: Duration,
    /// The language of templates where there is none in the one that was asked for.
    pub default_locale: Locale,
    /// How new the configuration is: what an older one declares is not applied after a newer one. A file that does not
    /// say it is as new as the second, since 1970, in which it was last changed.
    pub config_epoch: Option<i64>,
}

impl Server {
    /// The file in which the first start leaves the admin key: a SQLite file's name with `.admin-key` after it, or
    /// `angarium.admin-key` in the configuration's folder.
    pub fn admin_key_file(&self) -> PathBuf {
        database::admin_key_file(&self.database, &self.folder)
    }
}

impl Default for Server {
    fn default() -> Self {
        Server {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7180),
            database: Database::Sqlite(PathBuf::from(DATABASE_FILE)),
            folder: PathBuf::new(),
            node: None,
            shutdown_grace: Duration::from_secs(30),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            default_locale: Locale::parse(DEFAULT_LOCALE).expect("a language tag"),
            config_epoch: None,
        }
    }
}

/// How the outbox is worked (OB-23).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    /// How often the dispatcher looks for due rows when nothing wakes it.
    pub dispatch_interval: Duration,
    /// Deliveries at once over all channels, at least 1; 1 is strictly sequential.
    pub max_parallel_deliveries: usize,
    /// How long a claimed row belongs to its claimer without renewal.
    pub lease: Duration,
    /// From which age a row that is not done counts as stuck.
    pub stuck_after: Duration,
    /// How long terminal rows are kept.
    pub retention: Duration,
    /// How long it is remembered what a subscription was told of, so that it is not told again.
    pub ledger_retention: Duration,
    /// Whether PostgreSQL is only asked at intervals, never listened to.
    pub poll_only: bool,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox {
            dispatch_interval: Duration::from_secs(1),
            max_parallel_deliveries: 256,
            lease: Duration::from_secs(60),
            stuck_after: Duration::from_secs(600),
            retention: Duration::from_secs(365 * 86_400),
            ledger_retention: LEDGER_RETENTION,
            poll_only: false,
        }
    }
}

/// What deliveries may reach besides public networks over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Networks that are allowed although they are private.
    pub allow_private_addresses: Vec<IpNet>,
    /// Whether plain http may go to public addresses.
    pub allow_plain_http: bool,
    /// A file of PEM certificates to trust besides the public authorities.
    pub ca_file: Option<PathBuf>,
}

impl Security {
    /// The guard that every delivery passes.
    pub fn guard(&self) -> Guard {
        Guard::public_only().allowing(self.allow_private_addresses.clone()).plain_http(self.allow_plain_http)
    }
}

/// The settings where the table says nothing. The database stands beside the file.
pub(super) fn default_server(folder: &Path) -> Server {
    let database = Database::Sqlite(folder.join(DATABASE_FILE));
    Server { database, folder: folder.to_owned(), ..Server::default() }
}

pub(super) fn server(section: Section<'_, '_>, default: Server) -> Server {
    let duration = |key, default| section.field(key).and_then(|f| f.duration()).unwrap_or(default);
    let database = section.field("database").and_then(|f| database::read(&f));
    let locale = section.field("default_locale").and_then(|f| f.parse(Locale::parse));
    let server = Server {
        listen: address(&section).unwrap_or(default.listen),
        database: database.unwrap_or(default.database),
        folder: default.folder,
        node: section.field("node").and_then(|f| node(&f)),
        shutdown_grace: duration("shutdown_grace", default.shutdown_grace),
        header_timeout: duration("header_timeout", default.header_timeout),
        body_timeout: duration("body_timeout", default.body_timeout),
        default_locale: locale.unwrap_or(default.default_locale),
        config_epoch: section.field("config_epoch").and_then(|f| f.integer()),
    };
    section.finish();
    server
}

/// The address that the server listens on, if the table says one.
pub(super) fn address(section: &Section<'_, '_>) -> Option<SocketAddr> {
    section.field("listen").and_then(|f| listen(&f))
}

fn node(field: &Field<'_, '_>) -> Option<String> {
    field.parse(|text| {
        let visible = text.bytes().all(|b| b.is_ascii_graphic());
        if visible && (1..=NODE_CHARS).contains(&text.len()) {
            Ok(text.to_owned())
        } else {
            Err(format!("must have 1 to {NODE_CHARS} visible ASCII characters and no white space"))
        }
    })
}

fn listen(field: &Field<'_, '_>) -> Option<SocketAddr> {
    let address: SocketAddr = field.parse(|text| {
        text.parse().map_err(|_| "is not an address and port such as \"127.0.0.1:7180\" or \"[::1]:7180\"")
    })?;
    if !address.ip().is_loopback() {
        field.warning("is reachable from other machines, and Angarium speaks plain HTTP: keys travel in the clear unless a proxy with TLS stands in front");
    }
    Some(address)
}

pub(super) fn outbox(section: Section<'_, '_>) -> Outbox {
    let default = Outbox::default();
    let duration = |key, default| section.field(key).and_then(|f| f.duration()).unwrap_or(default);
    let parallel = section.field("max_parallel_deliveries").and_then(|f| f.count(1..=65_536));
    let outbox = Outbox {
        dispatch_interval: duration("dispatch_interval", default.dispatch_interval),
        max_parallel_deliveries: parallel.unwrap_or(default.max_parallel_deliveries),
        lease: duration("lease", default.lease),
        stuck_after: duration("stuck_after", default.stuck_after),
        retention: duration("retention", default.retention),
        ledger_retention: section
            .field("ledger_retention")
            .and_then(|f| a_day(&f))
            .unwrap_or(default.ledger_retention),
        poll_only: section.field("poll_only").and_then(|f| f.flag()).unwrap_or(default.poll_only),
    };
    section.unsupported("purge_at", "is not supported by this build");
    section.finish();
    outbox
}

/// Daily caps are counted from the ledger.
fn a_day(field: &Field<'_, '_>) -> Option<Duration> {
    let duration = field.duration()?;
    if duration < Duration::from_secs(86_400) {
        field.problem("must be at least 24h, since daily caps are counted over that");
    }
    Some(duration)
}

/// A lease that ends while its delivery may still be under way would let the message go out twice. Handing over a
/// mail may take longer than any lease should; its lease is renewed meanwhile, and that is all that guards it.
pub(super) fn check_lease(root: &Section<'_, '_>, config: &Config) {
    let lease = config.outbox.lease;
    if matches!(config.server.database, Database::Postgres(_)) && lease < SHORTEST_SHARED_LEASE {
        let shortest = write_duration(SHORTEST_SHARED_LEASE);
        let message = format!("`outbox.lease` must be at least {shortest} on PostgreSQL");
        root.problem_at(&[&["outbox", "lease"]], message);
    }
    for (name, channel) in &config.channels {
        let timeout = channel.settings.timeout;
        if !channel.settings.enabled
            || channel.settings.kind == ChannelKind::Email
            || lease >= timeout.saturating_add(LEASE_MARGIN)
        {
            continue;
        }
        let message = format!(
            "`outbox.lease` ({}) must be at least {} longer than `channels.{name}.timeout` ({})",
            write_duration(lease),
            write_duration(LEASE_MARGIN),
            write_duration(timeout),
        );
        root.problem_at(&[&["outbox", "lease"], &["channels", name.as_str(), "timeout"]], message);
    }
}

pub(super) fn limits(section: Section<'_, '_>) -> Limits {
    let default = Limits::default();
    let size = |key, default| section.field(key).and_then(|f| f.size(1..=1 << 30)).unwrap_or(default);
    let count = |key, most, default| section.field(key).and_then(|f| f.count(1..=most)).unwrap_or(default);
    let limits = Limits {
        subject_chars: count("subject_chars", 100_000, default.subject_chars),
        body_bytes: size("body_bytes", default.body_bytes),
        request_bytes: size("request_bytes", default.request_bytes),
        batch_bytes: size("batch_bytes", default.batch_bytes),
        batch_items: count("batch_items", 100_000, default.batch_items),
        json_depth: count("json_depth", DEEPEST_JSON, default.json_depth),
    };
    if limits.body_bytes > limits.request_bytes || limits.request_bytes > limits.batch_bytes {
        section
            .problem("must have body_bytes ≤ request_bytes ≤ batch_bytes, or what is allowed cannot be sent");
    }
    section.finish();
    limits
}

pub(super) fn security(section: Section<'_, '_>) -> Security {
    let networks =
        section.field("allow_private_addresses").and_then(|field| field.items()).unwrap_or_default();
    let security = Security {
        allow_private_addresses: networks.iter().filter_map(network).collect(),
        allow_plain_http: section.field("allow_plain_http").and_then(|f| f.flag()).unwrap_or(false),
        ca_file: section.field("ca_file").and_then(|f| ca_file(&f)),
    };
    section.finish();
    security
}

fn network(field: &Field<'_, '_>) -> Option<IpNet> {
    field.parse(|text| {
        let alone = text.parse::<IpAddr>().map(IpNet::from);
        alone.or_else(|_| text.parse()).map_err(|_| "is not a network such as \"10.0.0.0/8\" or \"fd00::/8\"")
    })
}

fn ca_file(field: &Field<'_, '_>) -> Option<PathBuf> {
    let path = field.source().folder.join(field.text()?);
    let pem = (field.source().read)(&path)
        .map_err(|error| field.problem(format_args!("names a file that cannot be read: {error}")))
        .ok()?;
    check_roots(&pem).map_err(|error| field.problem(format_args!("names a file that {error}"))).ok()?;
    Some(path)
}

/// Tries what a start does, so that a file that passes here does not stop one.
fn check_roots(pem: &str) -> Result<(), BadRoot> {
    let mut options = Options::new(Guard::public_only());
    options.extra_roots = roots_from_pem(pem.as_bytes())?;
    Client::new(options).map(drop)
}
