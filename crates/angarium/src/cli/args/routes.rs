//! The arguments of `feed`, `list`, `template` and `subscription`: of what decides who is told.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::{named, span};

/// What can be done with feeds and lists, and with templates too.
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// List all
    List,
    /// Show one
    Show {
        /// Its id, as list shows it
        id: String,
    },
    /// Make a new one of what a file says
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// File with its JSON; - for stdin
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace one by what a file says, or change members of it
    #[command(after_help = UPDATE_EXAMPLES)]
    Update(ReplaceArgs),
    /// Delete some
    Delete {
        /// Their ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

const CREATE_EXAMPLES: &str = "\
Examples:
  angarium feed create --file feed.json
  echo '{\"name\": \"ops\", \"channel\": \"mail\", \"members\": [\"a@example.com\"]}' | angarium list create --file -";

const UPDATE_EXAMPLES: &str = "\
What stands in the server's configuration file is changed there and not here.

Examples:
  angarium feed update outages --file feed.json --if-match 17
  echo '{\"enabled\": false}' | angarium feed update outages --merge --file -";

/// What replaces what.
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    /// Its id
    pub id: String,
    /// File with its JSON; - for stdin
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// What else holds for the change.
    #[command(flatten)]
    pub how: MergeArgs,
}

/// How something that stands is changed.
#[derive(Debug, Default, Args)]
pub struct MergeArgs {
    /// Of a file: change only the members that it has; null removes one (RFC 7396)
    #[arg(long)]
    pub merge: bool,
    /// Only if it is still at this version, as show and create told it
    #[arg(long, value_name = "VERSION")]
    pub if_match: Option<String>,
}

/// What can be done with templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// What can be done with every object.
    #[command(flatten)]
    Object(ObjectCommand),
    /// Show what people would read; nothing is stored and nothing is sent
    #[command(after_help = PREVIEW_EXAMPLES)]
    #[command(group = ArgGroup::new("template").required(true).args(["id", "file"]))]
    Preview {
        /// Id of a template
        id: Option<String>,
        /// File with a template's JSON; - for stdin
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// File with an event's JSON [default: the template's own sample]
        #[arg(long, value_name = "FILE")]
        event: Option<PathBuf>,
    },
}

const PREVIEW_EXAMPLES: &str = "\
Examples:
  angarium template preview --file template.json --event event.json
  angarium template list -o ids";

/// What can be done with subscriptions.
#[derive(Debug, Subcommand)]
pub enum SubscriptionCommand {
    /// List subscriptions
    List(SubscriptionListArgs),
    /// Show one subscription
    Show {
        /// Its id
        id: String,
    },
    /// Subscribe an address or a list to a feed
    #[command(after_help = SUBSCRIBE_EXAMPLES)]
    #[command(group = ArgGroup::new("named").required(true).args(["file", "name"]))]
    #[command(group = ArgGroup::new("about").required(true).args(["file", "feed"]))]
    #[command(group = ArgGroup::new("whom").required(true).args(["file", "address", "list"]))]
    Create(Box<RuleArgs>),
    /// Change a subscription: what the flags say, or with --file all of it
    #[command(after_help = RESUBSCRIBE_EXAMPLES)]
    Update(Box<SubscriptionArgs>),
    /// Delete subscriptions
    Delete {
        /// Their ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Store many subscriptions, one a line
    #[command(after_help = IMPORT_HELP)]
    Import {
        /// File with one subscription as JSON on each line (NDJSON); - for stdin
        file: PathBuf,
    },
    /// Write all subscriptions as import reads them, one a line
    Export(ExportArgs),
}

const SUBSCRIBE_EXAMPLES: &str = "\
Examples:
  angarium subscription create --name 'All outages' --feed outages --channel hooks --address https://example.com/outages
  angarium subscription create --name Bakakeng --feed outages --list ops --type NewOutage --keyword area=Bakakeng --cooldown 30m
  angarium subscription create --file subscription.json";

const RESUBSCRIBE_EXAMPLES: &str = "\
What is not named stays. A condition on a field, or keywords for it, take the place of those on the same field; with --file
the whole subscription is replaced.

Examples:
  angarium subscription update ns_4Zk1xY0bQw8e --inactive
  angarium subscription update ns_4Zk1xY0bQw8e --cooldown 1h --daily-cap 20 --if-match 17";

const IMPORT_HELP: &str = "\
A line that is refused harms no other. The first 20 of them are shown with their reasons, with -o json all. Ctrl-C stops after
the lines that are being stored, and says how many are; a second one stops at once.

Exit codes: 0 all stored, 1 one or more refused, or stopped, 4 the server cannot be reached.

Examples:
  angarium subscription import subscriptions.ndjson
  angarium subscription export > subscriptions.ndjson";

/// Which subscriptions to list.
#[derive(Debug, Args)]
pub struct SubscriptionListArgs {
    /// Which ones.
    #[command(flatten)]
    pub which: ExportArgs,
    /// At most so many, 1 to 500 (with --all: so many at a time)
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Go on where an earlier listing ended
    #[arg(long)]
    pub cursor: Option<String>,
    /// All of them, page after page
    #[arg(long)]
    pub all: bool,
}

/// Which subscriptions.
#[derive(Debug, Default, Args)]
pub struct ExportArgs {
    /// Id of a feed
    #[arg(long)]
    pub feed: Option<String>,
    /// Name of a channel
    #[arg(long)]
    pub channel: Option<String>,
    /// Whose they are
    #[arg(long)]
    pub owner: Option<String>,
    /// Text in the name
    #[arg(long, value_name = "TEXT")]
    pub q: Option<String>,
    /// Only those that are switched on
    #[arg(long)]
    pub active: bool,
    /// Only those that are switched off
    #[arg(long, conflicts_with = "active")]
    pub inactive: bool,
}

/// How a subscription changes.
#[derive(Debug, Args)]
#[command(override_usage = "angarium subscription update [OPTIONS] <ID>")]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["file", "name", "feed", "channel", "address",
    "list", "types", "fields", "keywords", "matching", "cooldown", "daily_cap", "at_most_once", "inactive", "active",
    "at_least_once", "no_daily_cap"]))]
pub struct SubscriptionArgs {
    /// Its id
    pub id: String,
    /// What it says from now on.
    #[command(flatten)]
    pub rule: RuleArgs,
    /// Switched on again
    #[arg(long, conflicts_with_all = ["inactive", "file"])]
    pub active: bool,
    /// May be sent again where it is not known whether it arrived
    #[arg(long, conflicts_with_all = ["at_most_once", "file"])]
    pub at_least_once: bool,
    /// Any number in 24 hours
    #[arg(long, conflicts_with_all = ["daily_cap", "file"])]
    pub no_daily_cap: bool,
    /// What else holds for the change.
    #[command(flatten)]
    pub how: MergeArgs,
}

/// What a subscription says, or a file that says it.
#[derive(Debug, Default, Args)]
pub struct RuleArgs {
    /// For people
    #[arg(long)]
    pub name: Option<String>,
    /// Feed whose events it is for
    #[arg(long, value_name = "ID")]
    pub feed: Option<String>,
    /// Channel that leads to the address
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Address that is told
    #[arg(long, conflicts_with = "list")]
    pub address: Option<String>,
    /// List whose members are told
    #[arg(long, value_name = "NAME", conflicts_with = "channel")]
    pub list: Option<String>,
    /// Only events of this type (several times, or with commas, for several)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub types: Vec<String>,
    /// The field is this value (several times for several values, or several fields)
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = named)]
    pub fields: Vec<(String, String)>,
    /// The field holds this text; *=TEXT for any field (several times for several)
    #[arg(long = "keyword", value_name = "NAME=TEXT", value_parser = named)]
    pub keywords: Vec<(String, String)>,
    /// Whether any of the fields and keywords is enough, or all must hold [default: any]
    #[arg(long = "match", value_name = "any|all", value_parser = ["any", "all"])]
    pub matching: Option<String>,
    /// How long after a delivery further events are kept back, such as 30m
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub cooldown: Option<String>,
    /// How many may be told in 24 hours, counted by recipients
    #[arg(long, value_name = "NUMBER")]
    pub daily_cap: Option<u32>,
    /// Never sent twice, even where it may not have arrived
    #[arg(long)]
    pub at_most_once: bool,
    /// Switched off
    #[arg(long)]
    pub inactive: bool,
    /// File with the whole subscription's JSON; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "feed", "channel", "address", "list", "types", "fields",
        "keywords", "matching", "cooldown", "daily_cap", "at_most_once", "inactive"])]
    pub file: Option<PathBuf>,
}
