//! The arguments of `send` and of `notification`.

use std::path::PathBuf;

use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::state::Status;
use angarium_domain::text::ChannelName;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::channel;

const SEND_EXAMPLES: &str = "\
Examples:
  angarium send --list ops --subject 'Pump 3 stopped' --body 'Pressure fell below 2 bar.'
  angarium send --to hooks:https://example.com/alarms --subject Test --body Test
  angarium send --channel mail --to a@example.com --subject Report --body-file report.txt
  uptime | angarium send --list ops --subject Uptime --body-file -";

/// What to send, and to whom.
#[derive(Debug, Args)]
#[command(after_help = SEND_EXAMPLES)]
#[command(group = clap::ArgGroup::new("whom").required(true).args(["list", "to"]))]
#[command(group = clap::ArgGroup::new("what").required(true).args(["body", "body_file"]))]
pub struct SendArgs {
    /// List whose members are told
    #[arg(long, value_name = "NAME")]
    pub list: Option<String>,
    /// One address: CHANNEL:ADDRESS, mailto:ADDRESS or a URL; with --channel the address alone
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
    /// Channel that leads to the address
    #[arg(long, value_name = "NAME", requires = "to", conflicts_with = "list", value_parser = channel)]
    pub channel: Option<ChannelName>,
    /// One line
    #[arg(long)]
    pub subject: String,
    /// Plain text
    #[arg(long)]
    pub body: Option<String>,
    /// File with the plain text; - for stdin
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// JSON that travels along
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub data: Option<Box<RawValue>>,
    /// Id of your own (a UUID): sending the same again stores nothing [default: a new one]
    #[arg(long, value_name = "UUID")]
    pub id: Option<NotificationId>,
    /// Site it comes from
    #[arg(long)]
    pub site: Option<String>,
    /// Instance of the producer at that site
    #[arg(long)]
    pub instance: Option<String>,
    /// Script or program it comes from
    #[arg(long)]
    pub script: Option<String>,
    /// Node of the site it comes from
    #[arg(long)]
    pub node: Option<String>,
}

/// What can be done with notifications.
#[derive(Debug, Subcommand)]
pub enum NotificationCommand {
    /// List notifications, the newest first
    List(ListArgs),
    /// Show one notification with its attempts and its trail
    Show {
        /// Its id
        id: NotificationId,
    },
    /// Try parked notifications again, with a fresh count of retries
    Retry(ActionArgs),
    /// Give parked notifications up for good
    Discard(ActionArgs),
    /// Stop notifications that are still waiting
    Cancel(ActionArgs),
}

const LIST_EXAMPLES: &str = "\
Examples:
  angarium notification list --status parked --since 24h
  angarium notification list --stuck -o json
  angarium notification list --list ops --q pump --all";

/// Which notifications to list.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    /// pending, retrying, delivered, parked, discarded or skipped
    #[arg(long)]
    pub status: Option<Status>,
    /// email, sms, webhook, ntfy, slack, teams or in_app
    #[arg(long)]
    pub kind: Option<ChannelKind>,
    /// Name of a channel
    #[arg(long)]
    pub channel: Option<String>,
    /// Name of a list
    #[arg(long)]
    pub list: Option<String>,
    /// Site they come from
    #[arg(long)]
    pub site: Option<String>,
    /// Node they come from
    #[arg(long)]
    pub node: Option<String>,
    /// Text in the subject
    #[arg(long, value_name = "TEXT")]
    pub q: Option<String>,
    /// Accepted at or after: a time such as 2026-07-07T01:02:03Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Accepted before: a time, or how long ago
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only those that are not done and older than the server's limit
    #[arg(long)]
    pub stuck: bool,
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

/// Which notifications to act on, and why.
#[derive(Debug, Args)]
pub struct ActionArgs {
    /// Their ids
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<NotificationId>,
    /// Why; kept in the trail of each
    #[arg(long)]
    pub reason: Option<String>,
}

fn json(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::from_str(text)
}
