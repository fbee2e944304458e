//! The arguments of `event`.

use std::path::PathBuf;

use angarium_domain::id::EventId;
use angarium_domain::time::Timestamp;
use clap::{Args, Subcommand};

use super::{named, span};

/// What can be done with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// Hand events to the server and show whom they are told to
    Publish(Box<PublishArgs>),
    /// Show who would be told of an event, and in which words; nothing is stored (publish --dry-run)
    Try(Box<EventArgs>),
    /// List events, the newest first
    List(EventListArgs),
    /// Show one event and what it led to
    Show {
        /// Its id, as publish printed it
        id: EventId,
    },
    /// Say why an event was told, and why not
    #[command(after_help = EXPLAIN_HELP)]
    Explain {
        /// The event's id
        id: EventId,
        /// What became of it for this subscription [default: for all that it concerned]
        #[arg(long, value_name = "ID")]
        subscription: Option<String>,
    },
    /// Tell the subscribers of a feed something by hand
    Announce(AnnounceArgs),
    /// Say that what events told of is gone: what is still queued about it is not sent
    Gone {
        /// The feed
        feed: String,
        /// The key of what is gone
        key: String,
    },
}

const EXPLAIN_HELP: &str = "\
The first line says what became of it; below it stands every step up to there, marked ✓ (let it through), ✗ (stopped it)
or ? (that cannot be said, or not yet).

Examples:
  angarium event explain 01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59
  angarium event explain 01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59 --subscription ns_4Zk1xY0bQw8e";

const PUBLISH_EXAMPLES: &str = "\
A file holds JSON: one event, or several, one after the other (NDJSON). An event in it that has no id of its own gets a new
one each time the file is published. Several are published in order; one that is refused harms no other, and is named on
stderr with its place in the file.

Exit codes: 0 all published, 1 one or more refused, 2 the arguments or the file make no sense, 4 the server cannot be reached.

Examples:
  angarium event publish --feed outages --type NewOutage --key 42 --field feeder=14 --field area='Bakakeng Central'
  angarium event publish --feed outages --type NewOutage --key 42 --data @outage.json --id outage-42-1
  angarium event publish --file events.ndjson
  angarium event try --feed outages --type NewOutage --key 42 --field area='Bakakeng Central'";

/// Which events to publish.
#[derive(Debug, Args)]
#[command(after_help = PUBLISH_EXAMPLES)]
pub struct PublishArgs {
    /// The events.
    #[command(flatten)]
    pub event: EventArgs,
    /// Store nothing: show who would be told, and in which words
    #[arg(long)]
    pub dry_run: bool,
}

/// One event, or a file with events.
#[derive(Debug, Default, Args)]
pub struct EventArgs {
    /// Feed that it belongs to
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    pub feed: Option<String>,
    /// What sort of thing happened
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "file")]
    pub kind: Option<String>,
    /// Key of what it happened to
    #[arg(long, required_unless_present = "file")]
    pub key: Option<String>,
    /// A field and its value (several times for several fields)
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = named)]
    pub fields: Vec<(String, String)>,
    /// JSON that travels along; @FILE for a file, @- for stdin
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Id of your own: publishing the same again stores nothing [default: a new one]
    #[arg(long)]
    pub id: Option<String>,
    /// Who says so [default: the name of the API key]
    #[arg(long)]
    pub source: Option<String>,
    /// When it happened, such as 2026-07-07T01:02:03Z [default: now]
    #[arg(long)]
    pub time: Option<Timestamp>,
    /// Language of whoever is told, such as nl-NL
    #[arg(long, value_name = "TAG")]
    pub locale: Option<String>,
    /// The thing that people share, such as PurchaseOrder/po-1
    #[arg(long, value_name = "TYPE/ID", value_parser = entity)]
    pub entity: Option<(String, String)>,
    /// How long it is worth telling, such as 6h [default: as the feed has it]
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub ttl: Option<String>,
    /// A later event with the same one replaces what of this one is not sent yet
    #[arg(long, value_name = "KEY")]
    pub supersede_key: Option<String>,
    /// Only test subscriptions are told
    #[arg(long)]
    pub test: bool,
    /// File with one event or several, as JSON; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["feed", "kind", "key", "fields", "data", "id", "source", "time",
        "locale", "entity", "ttl", "supersede_key", "test"])]
    pub file: Option<PathBuf>,
}

const LIST_EXAMPLES: &str = "\
Examples:
  angarium event list --feed outages --since 24h
  angarium event list --feed outages --key 42 -o json";

/// Which events to list.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct EventListArgs {
    /// Id of a feed
    #[arg(long)]
    pub feed: Option<String>,
    /// Type of event
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Key of what they are about
    #[arg(long)]
    pub key: Option<String>,
    /// Who said so
    #[arg(long)]
    pub source: Option<String>,
    /// Accepted at or after: a time such as 2026-07-07T01:02:03Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Accepted before: a time, or how long ago
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
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

const ANNOUNCE_EXAMPLES: &str = "\
Each call is an announcement of its own: where no answer came, look with `angarium event list` before you repeat it.

Examples:
  angarium event announce outages --subject 'Work on Sunday' --body 'From 8:00 until 12:00.'
  angarium event announce outages --subject 'Work on Sunday' --body-file notice.txt --field area=Bakakeng";

/// What to announce.
#[derive(Debug, Args)]
#[command(after_help = ANNOUNCE_EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["body", "body_file"]))]
pub struct AnnounceArgs {
    /// The feed whose subscribers are told
    pub feed: String,
    /// One line
    #[arg(long)]
    pub subject: String,
    /// Plain text
    #[arg(long)]
    pub body: Option<String>,
    /// File with the plain text; - for stdin
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// A field and its value, by which filters choose (several times for several fields)
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = named)]
    pub fields: Vec<(String, String)>,
    /// Only test subscriptions are told
    #[arg(long)]
    pub test: bool,
}

fn entity(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('/') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => Ok((kind.to_owned(), id.to_owned())),
        _ => Err("is not of the form TYPE/ID"),
    }
}
