//! The command line: `angarium NOUN VERB`, data on stdout, everything else on stderr.
//!
//! [`parse`] reads the arguments and [`run_client`] runs what talks to a server, to the database, or to
//! neither. The commands
//! that are the server (`serve`, `demo`, `openapi`) are handed back to whoever called, so that this module
//! knows nothing of them.
//!
//! A broken pipe ends a listing quietly; an action finishes its work whoever listens. Deliberately absent:
//! colours, and secrets as arguments, which every other process on the machine could read.

mod actions;
mod args;
mod bounce;
mod channels;
mod check;
mod client;
mod connect;
mod db;
mod events;
mod exit;
mod explain;
mod feeds;
mod import;
mod input;
mod interrupt;
mod keys;
mod kpi;
mod listing;
mod lists;
mod members;
mod nodes;
mod notifications;
mod objects;
mod output;
mod planned;
mod progress;
mod publish;
mod rendered;
mod send;
mod subscriptions;
mod suppressions;
mod table;
mod templates;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

pub use args::{ClientCommand, Command, Globals, Invocation};
pub use exit::{Exit, Failure, report};
pub use output::{Format, Output};

use args::{
    ChannelCommand, ConfigCommand, DbCommand, KeyCommand, NodeCommand, NotificationCommand,
    SuppressionCommand,
};
use client::Api;
use output::Out;

/// Reads the arguments, the program's name first. Where there is nothing left to do (help was asked for and
/// shown, the arguments make no sense and it was said why) it fails with the code to exit with.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, ExitCode> {
    let args: Vec<OsString> = args.into_iter().collect();
    Invocation::try_parse_from(&args).map_err(|mut error| {
        hide_credentials(&mut error);
        if error.use_stderr() && asks_for_json(&args) {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            return report(&Failure::usage(text.trim_end()), Format::Json);
        }
        // Nobody may be listening any more; the code says all the same what happened.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Fine.into() }
    })
}

/// A URL that was refused for the password in it is not repeated with the password.
fn hide_credentials(error: &mut clap::Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    if !text(ContextKind::InvalidArg).starts_with("--server") {
        return;
    }
    if let Some((_, host)) = text(ContextKind::InvalidValue).rsplit_once('@') {
        let hidden = ContextValue::String(format!("...@{host}"));
        error.insert(ContextKind::InvalidValue, hidden);
    }
}

/// Whether the arguments, which could not be parsed as a whole, ask for JSON.
fn asks_for_json(args: &[OsString]) -> bool {
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let is_json = |value: &str| matches!(value, "json" | "ndjson");
    let split = args.windows(2).any(|pair| matches!(pair, ["-o" | "--output", value] if is_json(value)));
    let joined = |arg: &&str| {
        let value = arg.strip_prefix("--output=").or_else(|| arg.strip_prefix("-o"));
        value.is_some_and(|value| is_json(value.strip_prefix('=').unwrap_or(value)))
    };
    split || args.iter().any(joined)
}

/// Runs a command to its end and says on stderr what went wrong, if anything did.
pub fn run_client(globals: &Globals, command: ClientCommand) -> ExitCode {
    let mut out = Out::stdout(globals.output);
    let done = run(globals, command, &mut out);
    let written = out.finish();
    match done.and_then(|exit| written.map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, globals.output),
    }
}

/// Writes a text to stdout. That it could not be written is a failure, as it is for every command.
pub fn print(globals: &Globals, text: &str) -> ExitCode {
    let mut out = Out::stdout(globals.output);
    out.text(text);
    match out.finish() {
        Ok(()) => Exit::Fine.into(),
        Err(failure) => report(&failure, globals.output),
    }
}

fn run(globals: &Globals, command: ClientCommand, out: &mut Out) -> Result<Exit, Failure> {
    let api = || Api::connect(globals);
    match command {
        ClientCommand::Send(args) => send::run(globals, args, out),
        ClientCommand::Notification(command) => match command {
            NotificationCommand::List(args) => notifications::list(&api()?, args, out),
            NotificationCommand::Show { id } => notifications::show(&api()?, id, out),
            NotificationCommand::Retry(args) => actions::run(&api()?, "retry", &args, out),
            NotificationCommand::Discard(args) => actions::run(&api()?, "discard", &args, out),
            NotificationCommand::Cancel(args) => actions::run(&api()?, "cancel", &args, out),
        },
        ClientCommand::Event(command) => events::run(globals, command, out),
        ClientCommand::Subscription(command) => subscriptions::run(globals, command, out),
        ClientCommand::Feed(command) => feeds::FEEDS.run(&api()?, command, out),
        ClientCommand::List(command) => lists::LISTS.run(&api()?, command, out),
        ClientCommand::Template(command) => templates::run(globals, command, out),
        ClientCommand::Kpi => kpi::run(&api()?, out),
        ClientCommand::Key(command) => match command {
            KeyCommand::Create(args) => keys::create(&api()?, &args, out),
            KeyCommand::List => keys::list(&api()?, out),
            KeyCommand::Revoke { ids } => keys::revoke(&api()?, &ids, out),
        },
        ClientCommand::Suppression(command) => match command {
            SuppressionCommand::List => suppressions::list(&api()?, out),
            SuppressionCommand::Lift { channel, address } => {
                suppressions::lift(&api()?, &channel, &address, out)
            }
        },
        ClientCommand::Channel(command) => match command {
            ChannelCommand::List => channels::list(&api()?, out),
            ChannelCommand::Test { channel, address } => channels::test(&api()?, &channel, &address, out),
            ChannelCommand::Reopen { channel } => channels::reopen(&api()?, &channel, out),
        },
        ClientCommand::Node(NodeCommand::List) => nodes::list(&api()?, out),
        ClientCommand::Db(command) => match command {
            DbCommand::Status => db::status(globals.config.as_deref(), out),
            DbCommand::Migrate => db::migrate(globals.config.as_deref(), out),
        },
        ClientCommand::Bounce { file } => bounce::run(globals, file.as_deref(), out),
        ClientCommand::Config(ConfigCommand::Check) => check::run(globals.config.as_deref(), out),
        ClientCommand::Completions { shell } => Ok(completions(shell, out)),
    }
}

fn completions(shell: clap_complete::Shell, out: &mut Out) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Invocation::command(), "angarium", &mut script);
    out.text(&String::from_utf8_lossy(&script));
    Exit::Fine
}

#[cfg(test)]
mod tests;
