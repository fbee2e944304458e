//! `send`: one notification to a list or to one address.
//!
//! A notification without an id gets one here, before anything is sent: when the connection breaks before
//! the answer, the same is handed over again and stored once.

use std::fmt::Display;

use angarium_domain::chance::SystemChance;
use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::text::ChannelName;
use angarium_domain::time::SystemClock;
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{Globals, SendArgs};
use super::client::Api;
use super::connect;
use super::exit::{Exit, Failure, say};
use super::input;
use super::output::{Format, Out};
use crate::config::ClientSettings;

#[derive(Serialize)]
struct Notification<'a> {
    id: NotificationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<To>,
    subject: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Source::is_empty")]
    source: Source<'a>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct To {
    channel: String,
    address: String,
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

impl Source<'_> {
    fn is_empty(&self) -> bool {
        [self.site, self.instance, self.script, self.node].iter().all(Option::is_none)
    }
}

pub(super) fn run(globals: &Globals, args: Box<SendArgs>, out: &mut Out) -> Result<Exit, Failure> {
    let to = match &args.to {
        Some(text) => Some(resolve(parse_to(text, args.channel.as_ref())?, globals)?),
        None => None,
    };
    let body = match (&args.body, &args.body_file) {
        (Some(body), _) => body.clone(),
        (None, Some(path)) => input::read(path)?,
        (None, None) => return Err(Failure::usage("give --body or --body-file")),
    };
    let id = args.id.unwrap_or_else(|| NotificationId::generate(&SystemClock::new(), &SystemChance));
    let request = request(&args, id, to, &body)?;
    let api = Api::connect(globals)?;
    let answer =
        api.post_repeatable(&["notifications"], request).map_err(|failure| told_again(failure, id))?;
    match out.format() {
        Format::Json => out.line(&answer),
        Format::Table | Format::Ids => out.line(&id.to_string()),
    }
    if out.format() == Format::Table && is_duplicate(&answer) {
        say("the same was handed in before: nothing was stored anew\n");
    }
    Ok(Exit::Fine)
}

/// Where no answer came, whoever tries again should know under which id.
pub(super) fn told_again(failure: Failure, id: impl Display) -> Failure {
    match failure.exit() {
        Exit::Unreachable => failure.with_advice(&format!("to try again safely, add --id {id}")),
        _ => failure,
    }
}

pub(super) fn is_duplicate(answer: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(answer).is_ok_and(|answer| answer["duplicate"] == true)
}

fn request(args: &SendArgs, id: NotificationId, to: Option<To>, body: &str) -> Result<String, Failure> {
    let notification = Notification {
        id,
        list: args.list.as_deref(),
        to,
        subject: &args.subject,
        body,
        data: args.data.as_deref(),
        source: Source {
            site: args.site.as_deref(),
            instance: args.instance.as_deref(),
            script: args.script.as_deref(),
            node: args.node.as_deref(),
        },
    };
    serde_json::to_string(&notification).map_err(|error| Failure::usage(&error.to_string()))
}

/// What `--to` says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// A channel by name.
    Channel(To),
    /// A kind of address; the channel is still to be found.
    Kind(ChannelKind, String),
}

fn parse_to(text: &str, channel: Option<&ChannelName>) -> Result<Said, Failure> {
    let (prefix, rest) = text.split_once(':').unwrap_or(("", text));
    match (channel, kind_of(text)) {
        (Some(channel), kind) => {
            let address = kind.map_or(text, |(_, address)| address);
            Ok(Said::Channel(To { channel: channel.to_string(), address: address.to_owned() }))
        }
        (None, Some((kind, address))) => Ok(Said::Kind(kind, address.to_owned())),
        (None, None) => match ChannelName::parse(prefix) {
            Ok(channel) => Ok(Said::Channel(To { channel: channel.to_string(), address: rest.to_owned() })),
            Err(_) => Err(Failure::usage(
                "say which channel: --to CHANNEL:ADDRESS, or --channel CHANNEL --to ADDRESS",
            )),
        },
    }
}

/// The kind of channel that an address is said to be for, and the address without what says it.
pub(super) fn kind_of(text: &str) -> Option<(ChannelKind, &str)> {
    let (prefix, rest) = text.split_once(':')?;
    match prefix {
        "mailto" => Some((ChannelKind::Email, rest)),
        "tel" | "sms" => Some((ChannelKind::Sms, rest)),
        "http" | "https" => Some((ChannelKind::Webhook, text)),
        _ => None,
    }
}

fn resolve(said: Said, globals: &Globals) -> Result<To, Failure> {
    match said {
        Said::Channel(to) => Ok(to),
        Said::Kind(kind, address) => {
            let channel = only_channel(kind, &connect::load(globals.config.as_deref())?)?;
            Ok(To { channel, address })
        }
    }
}

/// The one channel of a kind, where the configuration has exactly one that is enabled.
fn only_channel(kind: ChannelKind, settings: &ClientSettings) -> Result<String, Failure> {
    let mut of_kind = settings.channels.iter().filter(|(_, its)| *its == kind).map(|(name, _)| name);
    match (of_kind.next(), of_kind.next()) {
        (Some(name), None) => Ok(name.to_string()),
        (found, _) => {
            let count = if found.is_some() { "more than one" } else { "no" };
            let detail =
                format!("the configuration has {count} channel of kind {kind}: name one with --channel");
            Err(Failure::usage(&detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::args::{ClientCommand, Command, Invocation};
    use clap::Parser;
    use serde_json::{Value, json};

    fn args_of(args: &[&str]) -> Box<SendArgs> {
        let args = ["angarium", "send"].iter().chain(args);
        let Command::Client(ClientCommand::Send(args)) = Invocation::try_parse_from(args).unwrap().command
        else {
            panic!("a sending")
        };
        args
    }

    #[test]
    fn the_request_says_what_was_said_and_no_more() {
        let id: NotificationId = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59".parse().unwrap();
        let args = args_of(&["--list", "ops", "--subject", "S", "--body", ""]);
        let sent: Value = serde_json::from_str(&request(&args, id, None, "").unwrap()).unwrap();
        assert_eq!(sent, json!({"id": id, "list": "ops", "subject": "S", "body": ""}));

        let args = args_of(&[
            "--to",
            "hooks:https://h/",
            "--subject",
            "S",
            "--body",
            "B",
            "--data",
            "{\"n\":1.50}",
            "--site",
            "plant-7",
        ]);
        let to = To { channel: "hooks".into(), address: "https://h/".into() };
        let sent = request(&args, id, Some(to), "B").unwrap();
        assert!(sent.contains("\"data\":{\"n\":1.50}"), "{sent}");
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(sent["to"], json!({"channel": "hooks", "address": "https://h/"}));
        assert_eq!(sent["source"], json!({"site": "plant-7"}));
    }

    #[test]
    fn addresses_as_they_are_written() {
        let mail = ChannelName::parse("mail").unwrap();
        let to = |channel: &str, address: &str| {
            Said::Channel(To { channel: channel.into(), address: address.into() })
        };
        let table = [
            ("hooks:https://h/a:b", None, to("hooks", "https://h/a:b")),
            ("https://h/", None, Said::Kind(ChannelKind::Webhook, "https://h/".into())),
            ("mailto:a@example.com", None, Said::Kind(ChannelKind::Email, "a@example.com".into())),
            ("tel:+15005550006", None, Said::Kind(ChannelKind::Sms, "+15005550006".into())),
            ("mailto:a@example.com", Some(&mail), to("mail", "a@example.com")),
            ("a@example.com", Some(&mail), to("mail", "a@example.com")),
            ("a:b@example.com", Some(&mail), to("mail", "a:b@example.com")),
        ];
        for (text, channel, expected) in table {
            assert_eq!(parse_to(text, channel).unwrap(), expected, "{text}");
        }
        for text in ["a@example.com", "", ":x", "two words:x"] {
            assert_eq!(parse_to(text, None).unwrap_err().exit(), Exit::Usage, "{text}");
        }
    }

    #[test]
    fn the_only_channel_of_a_kind_needs_no_name() {
        let source = crate::config::Source {
            name: "t",
            folder: Path::new(""),
            readable_by_others: false,
            env: &|_| None,
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let one = "[channels.a]\nkind = \"webhook\"\n[channels.b]\nkind = \"webhook\"\nenabled = false\n";
        let only =
            |text: &str| only_channel(ChannelKind::Webhook, &ClientSettings::parse(text, &source).unwrap());
        assert_eq!(only(one).unwrap(), "a");
        assert!(only(&one.replace("enabled = false", "")).is_err());
        assert!(only("").is_err());
    }

    #[test]
    fn a_duplicate_is_known() {
        assert!(is_duplicate("{\"duplicate\":true}"));
        assert!(!is_duplicate("{\"duplicate\":false}") && !is_duplicate(""));
    }
}
