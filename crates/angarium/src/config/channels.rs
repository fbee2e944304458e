//! The tables `channels.<name>`: what every kind has in common, and what each kind needs of its own.
//!
//! Every kind's keys are known, so that one file can be written today and checked; webhooks and e-mail have an
//! adapter in this build, and a channel of another kind is a warning.

use std::collections::BTreeMap;

use angarium_channels::webhook::SigningSecret;
use angarium_domain::channel::{ChannelKind, ChannelSettings, OnAmbiguous, OnSuspended};
use angarium_domain::text::ChannelName;

use super::email::{self, Email};
use super::reader::{Field, Section};
use super::retry;
use super::secret::Secret;

/// The most deliveries at once that a channel can be given.
const MOST_PARALLEL: usize = 65_536;

/// The most secrets a webhook is signed with at once.
const MOST_SECRETS: usize = 10;

/// One configured way out.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// What every kind of channel has.
    pub settings: ChannelSettings,
    /// Which routes may use the channel, where its kind or the file says so.
    pub topology: Option<Topology>,
    /// What its kind needs of its own.
    pub transport: Transport,
}

/// Whether a channel leads to people or to shared places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each person has an address on it.
    Personal,
    /// It leads to places that many share.
    Destination,
}

/// What one kind of channel needs of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// HTTP POST.
    Webhook(Webhook),
    /// SMTP.
    Email(Box<Email>),
    /// A kind without an adapter in this build: what the file says, checked in form only.
    Other(BTreeMap<&'static str, Setting>),
}

/// How webhooks are signed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Webhook {
    /// The secrets in the form of Standard Webhooks, `whsec_` and base64; every one of them signs, so that
    /// receivers can change from one to the next. Empty: not signed.
    pub secrets: Vec<Secret>,
}

/// One value of a kind without an adapter.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A text.
    Text(String),
    /// A text that is not shown.
    Secret(Secret),
    /// A number.
    Count(usize),
}

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Url,
    Secret,
    Count,
}

/// A key of a kind without an adapter: its name, its shape, whether it must be there.
type Key = (&'static str, Shape, bool);

const SMS: &[Key] = &[
    ("provider", Shape::Text, true),
    ("account_sid", Shape::Text, true),
    ("auth_token", Shape::Secret, true),
    ("from", Shape::Text, false),
    ("messaging_service_sid", Shape::Text, false),
    ("base_url", Shape::Url, false),
    ("max_segments", Shape::Count, false),
];
const NTFY: &[Key] = &[("url", Shape::Url, true), ("token", Shape::Secret, false)];
const SLACK: &[Key] = &[("token", Shape::Secret, true), ("base_url", Shape::Url, false)];
const TEAMS: &[Key] = &[("url", Shape::Secret, true)];

/// Reads every channel. A channel with faults in it is still there, so that its lists can be checked.
pub(super) fn read(section: &Section<'_, '_>) -> BTreeMap<ChannelName, Channel> {
    let mut channels = BTreeMap::new();
    for (name, field) in section.entries() {
        let parsed = ChannelName::parse(name).map_err(|error| field.problem_at_key(error)).ok();
        let channel = field.table().and_then(channel);
        if let (Some(name), Some(channel)) = (parsed, channel) {
            channels.insert(name, channel);
        }
    }
    channels
}

fn channel(section: Section<'_, '_>) -> Option<Channel> {
    let kind: ChannelKind =
        section.required("kind")?.word(&ChannelKind::ALL.map(|kind| (kind.as_str(), kind)))?;
    let settings = settings(&section, kind);
    let topology = topology(&section, kind);
    let transport = match kind {
        ChannelKind::Webhook => Transport::Webhook(webhook(&section)),
        ChannelKind::Email => email::read(&section)
            .map_or(Transport::Other(BTreeMap::new()), |email| Transport::Email(Box::new(email))),
        ChannelKind::Sms => Transport::Other(others(&section, SMS)),
        ChannelKind::Ntfy => Transport::Other(others(&section, NTFY)),
        ChannelKind::Slack => Transport::Other(others(&section, SLACK)),
        ChannelKind::Teams => Transport::Other(others(&section, TEAMS)),
        ChannelKind::InApp => Transport::Other(BTreeMap::new()),
    };
    if !matches!(kind, ChannelKind::Webhook | ChannelKind::Email) && settings.enabled {
        section.warning(format_args!(
            "is of kind {kind}, for which this build has no adapter: its notifications are parked"
        ));
    }
    section.unsupported("rate", "is not supported by this build");
    section.finish();
    Some(Channel { settings, topology, transport })
}

fn settings(section: &Section<'_, '_>, kind: ChannelKind) -> ChannelSettings {
    let default = ChannelSettings::of(kind);
    let count = |key| section.field(key).and_then(|field| field.count(1..=MOST_PARALLEL));
    let max_parallel = count("max_parallel").unwrap_or(default.max_parallel);
    let per_receiver = count("max_parallel_per_receiver");
    ChannelSettings {
        kind,
        enabled: section.field("enabled").and_then(|f| f.flag()).unwrap_or(default.enabled),
        retry: section.field("retry").and_then(|f| retry::read(&f, kind)).unwrap_or(default.retry),
        max_parallel,
        max_parallel_per_receiver: per_receiver.unwrap_or(match kind {
            // Whoever a mail is for, it is the relay that takes it.
            ChannelKind::Email => max_parallel,
            _ => default.max_parallel_per_receiver.min(max_parallel),
        }),
        on_ambiguous: on_ambiguous(section, kind).unwrap_or(default.on_ambiguous),
        on_suspended: on_suspended(section).unwrap_or(default.on_suspended),
        timeout: section.field("timeout").and_then(|f| f.duration()).unwrap_or(default.timeout),
    }
}

fn on_ambiguous(section: &Section<'_, '_>, kind: ChannelKind) -> Option<OnAmbiguous> {
    let field = section.field("on_ambiguous")?;
    let words = [("retry", OnAmbiguous::Retry), ("park", OnAmbiguous::Park), ("lookup", OnAmbiguous::Lookup)];
    let chosen = field.word(&words)?;
    if chosen == OnAmbiguous::Lookup && kind != ChannelKind::Sms {
        field.problem(format_args!("cannot be \"lookup\": a channel of kind {kind} has nobody to ask"));
        return None;
    }
    Some(chosen)
}

fn on_suspended(section: &Section<'_, '_>) -> Option<OnSuspended> {
    section.field("on_suspended")?.word(&[("hold", OnSuspended::Hold), ("fail", OnSuspended::Fail)])
}

fn topology(section: &Section<'_, '_>, kind: ChannelKind) -> Option<Topology> {
    let fixed = match kind {
        ChannelKind::Email | ChannelKind::Sms | ChannelKind::InApp => Some(Topology::Personal),
        ChannelKind::Slack | ChannelKind::Teams => Some(Topology::Destination),
        ChannelKind::Webhook | ChannelKind::Ntfy => None,
    };
    let Some(field) = section.field("topology") else { return fixed };
    let chosen = field.word(&[("personal", Topology::Personal), ("destination", Topology::Destination)]);
    if chosen.is_some() && fixed.is_some() && chosen != fixed {
        field.problem(format_args!("cannot be chosen for a channel of kind {kind}"));
    }
    fixed.or(chosen)
}

fn webhook(section: &Section<'_, '_>) -> Webhook {
    if let Some(format) = section.field("format") {
        webhook_format(&format);
    }
    let secrets = match section.field("secret") {
        Some(field) if field.is_array() => secret_list(&field),
        Some(field) => vec![field],
        None => Vec::new(),
    };
    Webhook { secrets: secrets.iter().filter_map(signing_secret).collect() }
}

fn webhook_format(field: &Field<'_, '_>) {
    const LATER: [&str; 3] = ["cloudevents-structured", "cloudevents-binary", "notificaties"];
    match field.text() {
        Some(format) if LATER.contains(&format.as_str()) => {
            field.problem("asks for a format that this build does not support: only \"angarium\" is");
        }
        Some(format) if format != "angarium" => field.problem("must be \"angarium\""),
        _ => {}
    }
}

fn secret_list<'r, 'd>(field: &Field<'r, 'd>) -> Vec<Field<'r, 'd>> {
    let items = field.items().unwrap_or_default();
    if items.is_empty() || items.len() > MOST_SECRETS {
        field.problem(format_args!("must hold 1 to {MOST_SECRETS} secrets"));
    }
    items
}

/// The text of a secret that the adapter takes.
fn signing_secret(field: &Field<'_, '_>) -> Option<Secret> {
    let secret = field.secret()?;
    match secret.expose().parse::<SigningSecret>() {
        Ok(_) => Some(secret),
        Err(error) => {
            field.problem(error);
            None
        }
    }
}

fn others(section: &Section<'_, '_>, keys: &[Key]) -> BTreeMap<&'static str, Setting> {
    let mut settings = BTreeMap::new();
    for &(key, shape, required) in keys {
        let field = if required { section.required(key) } else { section.field(key) };
        let setting = field.and_then(|field| match shape {
            Shape::Text => field.text().map(Setting::Text),
            Shape::Url => base_url(&field).map(Setting::Text),
            Shape::Secret => field.secret().map(Setting::Secret),
            Shape::Count => field.count(1..=MOST_PARALLEL).map(Setting::Count),
        });
        settings.extend(setting.map(|setting| (key, setting)));
    }
    settings
}

fn base_url(field: &Field<'_, '_>) -> Option<String> {
    field.parse(|text| match url::Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("must not contain a user name or password")
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url.to_string()),
        _ => Err("is not a URL such as \"https://example.com\""),
    })
}
