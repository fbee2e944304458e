//! The configuration file `angarium.toml`: read once, checked as a whole, turned into the domain's types.
//!
//! A file with a fault in it is never half used: every problem is reported with its line, and nothing
//! starts. Parsing touches neither the environment nor the disk by itself: both come in through [`Source`],
//! so that `config check`, the start of the server and the tests run the same code.
//!
//! Feeds, templates, lists and subscriptions are judged by the domain, as those are that come in through the API. What
//! stands in the file must be right by itself: it names nothing that does not stand in it too.
//!
//! Deliberately absent: reloading while running, and bindings, which are refused by name rather than ignored.

mod channels;
mod client;
mod database;
mod email;
mod feeds;
mod lists;
mod reader;
mod retry;
mod secret;
mod settings;
mod subscriptions;
mod templates;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
pub mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use angarium_domain::feed::Feed;
use angarium_domain::limits::Limits;
use angarium_domain::list::List;
use angarium_domain::subscription::Subscription;
use angarium_domain::template::Template;
use angarium_domain::text::{ChannelName, FeedId, ListName, SubscriptionId};
use angarium_store::Database;
use toml::de::DeTable;

pub use channels::{Channel, Setting, Topology, Transport, Webhook};
pub use client::ClientSettings;
pub use email::{Dkim, Email, Login, Oauth, Proof};
pub(crate) use lists::blocked;
pub use secret::Secret;
pub(crate) use secret::drop_line_end;
pub use settings::{Outbox, Security, Server};

use reader::{Reader, Section};

/// The file that is read when none is named and one stands in the working directory.
pub const DEFAULT_FILE: &str = "angarium.toml";

/// Bytes of a configuration file, and of a file that a reference names.
const FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Everything an operator can decide, complete and checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where the server listens and what it stores in.
    pub server: Server,
    /// How the outbox is worked.
    pub outbox: Outbox,
    /// How large things may be.
    pub limits: Limits,
    /// The ways out, by name.
    pub channels: BTreeMap<ChannelName, Channel>,
    /// Who belongs together, by name. The channel of each is one of `channels`.
    pub lists: BTreeMap<ListName, List>,
    /// Where events come from.
    pub feeds: BTreeMap<FeedId, Feed>,
    /// What people read of events, by [`Template::name`]. Each compiles.
    pub templates: BTreeMap<String, Template>,
    /// Who is told of which events, by their keys. Whatever one names is in this configuration.
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// What deliveries may reach.
    pub security: Security,
}

/// A configuration and what is odd about it.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What does not stop a start but should be known.
    pub warnings: Vec<Problem>,
    /// The file it was read from; none if everything is as by default.
    pub file: Option<PathBuf>,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named.
    pub file: String,
    /// Line and column, both from 1, the column in characters; none where the whole file is meant.
    pub position: Option<(usize, usize)>,
    /// What is wrong, without any value that stands in the file.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// What surrounds a configuration text: its name, and where its references lead.
pub struct Source<'a> {
    /// The file's name for messages.
    pub name: &'a str,
    /// The folder that relative paths start from, so that a configuration means the same database wherever
    /// it is started.
    pub folder: &'a Path,
    /// Whether others than its owner can read the file.
    pub readable_by_others: bool,
    /// Looks an environment variable up.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a whole file as UTF-8.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl Config {
    /// Reads the file at `path`, or [`DEFAULT_FILE`] where it exists, or else nothing: the defaults.
    /// Fails with every problem found.
    pub fn load(path: Option<&Path>) -> Result<Loaded, Vec<Problem>> {
        let Some((mut loaded, file)) = with_file(path, Config::parse)? else { return Ok(Loaded::default()) };
        let server = &mut loaded.config.server;
        server.config_epoch = server.config_epoch.or_else(|| changed_at(&file));
        Ok(Loaded { file: Some(file), ..loaded })
    }

    /// Reads of the same file which database it names, and nothing else. Fails with every problem in that.
    pub fn load_database(path: Option<&Path>) -> Result<Database, Vec<Problem>> {
        database::load(path)
    }

    /// Reads a configuration text. Fails with every problem found, in the order of the file.
    pub fn parse(text: &str, source: &Source<'_>) -> Result<Loaded, Vec<Problem>> {
        let (config, warnings) = read_text(text, source, |root| read_document(root, source.folder))?;
        Ok(Loaded { config, warnings, file: None })
    }
}

/// Has the file at `path`, or [`DEFAULT_FILE`] where it exists, parsed; none if there is no file to read.
fn with_file<T>(
    path: Option<&Path>,
    parse: impl FnOnce(&str, &Source<'_>) -> Result<T, Vec<Problem>>,
) -> Result<Option<(T, PathBuf)>, Vec<Problem>> {
    let path = match path {
        Some(path) => path,
        None if Path::new(DEFAULT_FILE).exists() => Path::new(DEFAULT_FILE),
        None => return Ok(None),
    };
    let name = path.display().to_string();
    let unreadable = |error: io::Error| {
        vec![Problem { file: name.clone(), position: None, message: format!("cannot be read: {error}") }]
    };
    let bytes = read_bytes(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| vec![not_utf8(&name, &error)])?;
    let source = Source {
        name: &name,
        folder: path.parent().unwrap_or(Path::new("")),
        readable_by_others: readable_by_others(path),
        env: &|name| std::env::var(name).ok(),
        read: &read_file,
    };
    parse(&text, &source).map(|parsed| Some((parsed, path.to_owned())))
}

/// What `read` makes of a text, and the warnings; or every problem found.
fn read_text<T>(
    text: &str,
    source: &Source<'_>,
    read: impl FnOnce(Section<'_, '_>) -> T,
) -> Result<(T, Vec<Problem>), Vec<Problem>> {
    let reader = Reader::new(text, source);
    let (document, faults) = DeTable::parse_recoverable(text);
    let mut legible = true;
    for fault in faults {
        legible &= fault.message() == "duplicate key";
        reader.problem(&fault.span().unwrap_or(0..0), fault.message());
    }
    // What stands beside a syntax error may be read wrongly; complaints about it would mislead.
    let read = legible.then(|| read(Section::root(&reader, document.get_ref())));
    let (problems, warnings) = reader.into_findings();
    match read {
        Some(read) if problems.is_empty() => Ok((read, warnings)),
        _ => Err(problems),
    }
}

fn read_document(root: Section<'_, '_>, folder: &Path) -> Config {
    let mut server = settings::default_server(folder);
    if let Some(section) = root.section("server") {
        server = settings::server(section, server);
    }
    let security = root.section("security").map(settings::security).unwrap_or_default();
    let channels = root.section("channels").map(|section| channels::read(&section)).unwrap_or_default();
    let mut config = Config {
        server,
        outbox: root.section("outbox").map(settings::outbox).unwrap_or_default(),
        limits: root.section("limits").map(settings::limits).unwrap_or_default(),
        security,
        channels,
        ..Config::default()
    };
    settings::check_lease(&root, &config);
    read_objects(&root, &mut config);
    root.unsupported("bindings", "cannot be declared: this version knows no bindings");
    root.finish();
    config
}

/// What decides who is told, each sort after those that it names.
fn read_objects(root: &Section<'_, '_>, config: &mut Config) {
    let feeds = root.section("feeds").map(|section| feeds::read(&section)).unwrap_or_default();
    let lists = root.section("lists").map(|section| lists::read(&section, config)).unwrap_or_default();
    if let Some(field) = root.field("templates") {
        config.templates = templates::read(&field, config, &feeds);
    }
    if let Some(field) = root.field("subscriptions") {
        config.subscriptions = subscriptions::read(&field, config, &feeds, &lists);
    }
    config.feeds = sound(feeds);
    config.lists = sound(lists);
}

/// What a file declares under a name; none if there is a fault in it, so that whatever names it is not at fault too.
type Declared<N, T> = BTreeMap<N, Option<T>>;

fn sound<N: Ord, T>(declared: Declared<N, T>) -> BTreeMap<N, T> {
    declared.into_iter().filter_map(|(name, object)| Some((name, object?))).collect()
}

/// The second since 1970 in which a file was last changed.
fn changed_at(file: &Path) -> Option<i64> {
    let changed = std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?;
    let since = changed.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

fn read_file(path: &Path) -> io::Result<String> {
    let not_utf8 = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(read_bytes(path)?).map_err(not_utf8)
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)?.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if read as u64 > FILE_BYTES {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    Ok(bytes)
}

/// Where the first byte stands that is not UTF-8.
fn not_utf8(name: &str, error: &FromUtf8Error) -> Problem {
    let (good, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
    let good = String::from_utf8_lossy(good);
    let last = good.rsplit('\n').next().unwrap_or_default();
    let position = (good.matches('\n').count() + 1, last.chars().count() + 1);
    Problem { file: name.to_owned(), position: Some(position), message: "the file is not UTF-8".to_owned() }
}

#[cfg(unix)]
fn readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> bool {
    false
}
