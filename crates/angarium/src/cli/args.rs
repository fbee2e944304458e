//! The arguments of every command, as clap reads them; the texts are the help.

use std::path::PathBuf;
use std::time::Duration;

use angarium_domain::text::{ChannelName, TextError};
use angarium_domain::time::Timestamp;
use clap::{Args, Parser, Subcommand};
use url::Url;

use super::output::Output;
use crate::config::units::{self, UnitError};

mod events;
mod notifications;
mod routes;

pub(super) use events::{AnnounceArgs, EventArgs, EventCommand, EventListArgs};
pub(super) use notifications::{ActionArgs, ListArgs, NotificationCommand, SendArgs};
pub(super) use routes::{
    ExportArgs, MergeArgs, ObjectCommand, ReplaceArgs, RuleArgs, SubscriptionArgs, SubscriptionCommand,
    TemplateCommand,
};

const EXAMPLES: &str = "\
Examples:
  angarium serve --config angarium.toml
  angarium send --list ops --subject 'Pump 3 stopped' --body 'Pressure fell below 2 bar.'
  angarium notification list --status parked
  angarium notification list --status parked --all -o ids | xargs -r angarium notification retry
  angarium event publish --feed outages --type NewOutage --key 42 --field area='Bakakeng Central'
  angarium event explain 01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59
  angarium config check

Exit codes: 0 fine, 1 failed, 2 usage or configuration, 3 an action matched nothing, 4 the server, or the database, cannot be reached.";

const GLOBAL: &str = "Options of every command";

/// Angarium, a durable notification server
#[derive(Debug, Parser)]
#[command(name = "angarium", version, after_help = EXAMPLES, propagate_version = true)]
pub struct Invocation {
    /// What holds for every command.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for every command.
#[derive(Clone, Debug, Default, Args)]
pub struct Globals {
    /// Configuration file [default: angarium.toml in the working directory, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub config: Option<PathBuf>,
    /// Server to talk to [default: the address in the configuration]
    #[arg(long, global = true, value_name = "URL", env = "ANGARIUM_SERVER", hide_env_values = true, value_parser = server,
        help_heading = GLOBAL)]
    pub server: Option<Url>,
    /// File with the API key [default: the variable ANGARIUM_KEY, or the admin key that the server left]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub key_file: Option<PathBuf>,
    /// How results are shown
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table, help_heading = GLOBAL)]
    pub output: Output,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    Serve,
    /// Run everything on this machine's loopback: server, receivers, sample traffic
    Demo {
        /// Stop when the samples have been delivered
        #[arg(long)]
        exit: bool,
    },
    /// Print the description of the HTTP API (OpenAPI)
    Openapi,
    /// A command that talks to a server, or needs none.
    #[command(flatten)]
    Client(ClientCommand),
}

/// The commands that talk to a server, or need none.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Hand a notification to the server and print its id
    Send(Box<SendArgs>),
    /// Look at notifications and act on them
    #[command(subcommand, alias = "notifications")]
    Notification(NotificationCommand),
    /// Publish events, look at them, and ask why somebody was told or was not
    #[command(subcommand, alias = "events")]
    Event(EventCommand),
    /// Manage subscriptions: who is told of which events
    #[command(subcommand, alias = "subscriptions")]
    Subscription(SubscriptionCommand),
    /// Manage feeds: where events come from, of which types, and by which fields they are filtered
    #[command(subcommand, alias = "feeds")]
    Feed(ObjectCommand),
    /// Manage lists: addresses on one channel that belong together
    #[command(subcommand, alias = "lists")]
    List(ObjectCommand),
    /// Manage templates: what people read of an event
    #[command(subcommand, alias = "templates")]
    Template(TemplateCommand),
    /// Show queue depth, stuck and parked counts: global, per site, per node
    #[command(alias = "kpis")]
    Kpi,
    /// Manage API keys
    #[command(subcommand, alias = "keys")]
    Key(KeyCommand),
    /// Look at suppressed addresses and lift them
    #[command(subcommand, alias = "suppressions")]
    Suppression(SuppressionCommand),
    /// Look at channels, test them, and let them send again
    #[command(subcommand, alias = "channels")]
    Channel(ChannelCommand),
    /// Look at the nodes that work on the database together
    #[command(subcommand, alias = "nodes")]
    Node(NodeCommand),
    /// Look at the database itself and prepare it, without a running node
    #[command(subcommand)]
    Db(DbCommand),
    /// Hand in a mail server's report about a mail that came back
    #[command(after_help = BOUNCE_HELP)]
    Bounce {
        /// File with the whole mail; - for stdin [default: stdin]
        file: Option<PathBuf>,
    },
    /// Check the configuration file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// What can be done with API keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, this once
    Create(NewKeyArgs),
    /// List keys, without their secrets
    List,
    /// End keys
    Revoke {
        /// Their ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// Which key to make.
#[derive(Debug, Args)]
pub struct NewKeyArgs {
    /// Name it is known by: letters, digits, dot, hyphen and underscore
    pub name: String,
    /// What it may do: publish, read, operate, admin (several with commas)
    #[arg(long = "scope", required = true, value_delimiter = ',', value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// How long it is valid, such as 30d [default: until it is revoked]
    #[arg(long, value_name = "DURATION", conflicts_with = "expires_at", value_parser = duration)]
    pub expires_in: Option<Duration>,
    /// When it ends: a time such as 2026-07-07T01:02:03Z
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<Timestamp>,
}

/// What can be done with suppressed addresses.
#[derive(Debug, Subcommand)]
pub enum SuppressionCommand {
    /// List addresses that are not sent to any more
    List,
    /// Send to an address again
    Lift {
        /// Name of the channel
        channel: String,
        /// The address
        address: String,
    },
}

/// What can be done with channels.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// List the channels of the server and what stands in their way
    List,
    /// Send a test message now and show the conversation with the receiver
    #[command(after_help = TEST_HELP)]
    Test {
        /// Name of the channel
        #[arg(value_parser = channel)]
        channel: ChannelName,
        /// Whom to send it to: a URL, an e-mail address (with mailto: or without)
        address: String,
    },
    /// Let a channel send again that is suspended or waits
    Reopen {
        /// Name of the channel
        #[arg(value_parser = channel)]
        channel: ChannelName,
    },
}

const TEST_HELP: &str = "\
Nothing of a test is stored and nothing is tried again. In the conversation, lines of this server begin with >,
lines of the receiver with <, remarks with *. If the message is delivered, a channel that was suspended or waiting
sends again.

Exit codes: 0 delivered, 1 not delivered, 3 there is no such channel.

Examples:
  angarium channel test mail mailto:me@example.com
  angarium channel test hooks https://example.com/alarms";

/// What can be done with the nodes themselves.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes on this database, when each was last seen, and which one leads
    List,
}

/// What can be done with the database itself.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Show where the database is, its schema, and the settings that durability rests on
    #[command(after_help = STATUS_HELP)]
    Status,
    /// Bring the schema up to date, as the start of a node does
    Migrate,
}

const STATUS_HELP: &str = "\
Nothing is changed.

Exit codes: 0 the schema is this program's, 1 it is not (empty, older or newer) or the database is refused, 4 the database
is not available.

Examples:
  angarium db status --config angarium.toml || angarium db migrate --config angarium.toml";

const BOUNCE_HELP: &str = "\
The report (a delivery status notification) is written down with its notification, and an address that will never
take mail gets no more. Handing the same report in again does no harm. The key needs the scope operate.

Exit codes: 0 written down, 1 refused, 3 no report or about a notification that is not known, 4 the server cannot
be reached.

Examples:
  angarium bounce report.eml

In the aliases of Postfix, under the name that the channel's return_path has there:
  bounces: \"|angarium bounce --server http://127.0.0.1:7180 --key-file /etc/angarium/bounces.key || test $? -eq 3 || exit 75\"

The key is made with `angarium key create --scope operate bounces`; the user under whom Postfix runs the command must be
able to read it. Postfix keeps a mail for which a command ends with 75, and tries again.";

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report every problem in the file, with its line
    Check,
}

fn server(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "not a URL such as http://127.0.0.1:7180")?;
    let plain = url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "http" | "https" if plain && url.query().is_none() && url.fragment().is_none() => Ok(url),
        "http" | "https" => Err("must be a URL without user name, password and parameters"),
        _ => Err("must begin with http:// or https://"),
    }
}

fn channel(text: &str) -> Result<ChannelName, TextError> {
    ChannelName::parse(text)
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    units::duration(text).map_err(UnitError::of_duration)
}

/// A duration that the server reads itself: the text stays as it was written.
fn span(text: &str) -> Result<String, &'static str> {
    duration(text).map(|_| text.to_owned())
}

/// `NAME=VALUE`; the value may be empty, and may hold further signs of equality.
fn named(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("is not of the form NAME=VALUE"),
    }
}
