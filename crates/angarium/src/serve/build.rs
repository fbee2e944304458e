//! From the configuration to the parts that work by it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use angarium_channels::email::dkim::Signer;
use angarium_channels::email::message::Letterhead;
use angarium_channels::email::token::{Grant, TokenSource};
use angarium_channels::email::{self, Credential, EmailAdapter, EmailChannel};
use angarium_channels::webhook::{SigningSecret, WebhookAdapter, WebhookChannel};
use angarium_domain::text::ChannelName;
use angarium_egress::{Client, Connector, Options, roots_from_pem};
use angarium_engine::catalog::Catalog;
use angarium_engine::registry::Registry;
use angarium_store::{Declared, NewNode, ObjectKind};

use super::StartError;
use crate::config::{Config, Login, Proof, Secret, Transport};

/// Channels as the engine sees them. Lists are in the store, whoever made them.
pub(super) fn catalog(config: &Config) -> Catalog {
    let channels = config.channels.iter().map(|(name, channel)| (name.clone(), channel.settings.clone()));
    Catalog { channels: channels.collect(), ..Catalog::default() }
}

/// What the configuration says that is kept in the store.
pub(super) fn declared(config: &Config) -> Declared {
    let feeds = config.feeds.iter().map(|(id, feed)| (ObjectKind::Feed, id.to_string(), feed.to_json()));
    let templates = config
        .templates
        .iter()
        .map(|(name, template)| (ObjectKind::Template, name.clone(), template.to_json()));
    let lists = config.lists.iter().map(|(name, list)| (ObjectKind::List, name.to_string(), list.to_json()));
    Declared {
        epoch: config.server.config_epoch.unwrap_or_default(),
        objects: feeds.chain(templates).chain(lists).collect(),
        subscriptions: config.subscriptions.clone().into_iter().collect(),
        prune: false,
    }
}

/// One adapter for each kind that this program can deliver on.
pub(super) fn adapters(config: &Config) -> Result<Registry, StartError> {
    let options = options(config)?;
    let unusable = |error: angarium_egress::BadRoot| StartError::Setting(error.to_string());
    let client = Arc::new(Client::new(options.clone()).map_err(unusable)?);
    let connector = Arc::new(Connector::new(options).map_err(unusable)?);
    let mut registry = Registry::default();
    registry.register(Arc::new(WebhookAdapter::new(Arc::clone(&client), webhooks(config)?)));
    registry.register(Arc::new(EmailAdapter::new(connector, client, mailboxes(config)?)));
    Ok(registry)
}

fn webhooks(config: &Config) -> Result<HashMap<ChannelName, WebhookChannel>, StartError> {
    let mut channels = HashMap::new();
    for (name, channel) in &config.channels {
        let Transport::Webhook(webhook) = &channel.transport else { continue };
        let parse = |secret: &Secret| {
            secret
                .expose()
                .parse::<SigningSecret>()
                .map_err(|error| StartError::Setting(format!("channels.{name}.secret {error}")))
        };
        let secrets = webhook.secrets.iter().map(parse).collect::<Result<_, _>>()?;
        channels.insert(name.clone(), WebhookChannel { secrets, timeout: channel.settings.timeout });
    }
    Ok(channels)
}

fn mailboxes(config: &Config) -> Result<HashMap<ChannelName, EmailChannel>, StartError> {
    let mut channels = HashMap::new();
    for (name, channel) in &config.channels {
        let Transport::Email(email) = &channel.transport else { continue };
        let signer = email.dkim.as_ref().map(|dkim| {
            Signer::new(&dkim.domain, &dkim.selector, dkim.key.expose())
                .map_err(|error| StartError::Setting(format!("channels.{name}.dkim {error}")))
        });
        let letterhead = Letterhead {
            from: email.from.clone(),
            id_domain: email.id_domain.clone(),
            reply_to: email.reply_to.clone(),
            unsubscribe: email.unsubscribe.clone(),
            signer: signer.transpose()?,
        };
        let settings = &channel.settings;
        channels.insert(
            name.clone(),
            EmailChannel {
                relay: email.relay.clone(),
                login: email.login.as_ref().map(login),
                letterhead,
                return_path: email.return_path.clone(),
                hello: email.hello.clone().or_else(full_host_name),
                timeout: settings.timeout,
                final_timeout: email.final_timeout,
                greylist_wait: email.greylist_wait,
                max_idle: settings.max_parallel,
            },
        );
    }
    Ok(channels)
}

fn login(login: &Login) -> email::Login {
    let shown = |secret: &Secret| secret.expose().to_owned();
    let credential = match &login.proof {
        Proof::Password(password) => Credential::Password(shown(password)),
        Proof::Token(oauth) => Credential::Token(Arc::new(TokenSource::new(Grant {
            url: oauth.url.clone(),
            client_id: oauth.client_id.clone(),
            client_secret: oauth.client_secret.as_ref().map(shown),
            scope: oauth.scope.clone(),
            refresh_token: oauth.refresh_token.as_ref().map(shown),
        }))),
    };
    email::Login { user: login.user.clone(), credential, mechanism: login.mechanism }
}

/// The machine's name if it is one that a relay takes: with a domain, and without characters that no host has.
fn full_host_name() -> Option<String> {
    let name = machine_name();
    let host = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let inside = name.trim_matches(['.', '-']).len() == name.len();
    (host && inside && name.contains('.')).then_some(name)
}

fn options(config: &Config) -> Result<Options, StartError> {
    let security = &config.security;
    let mut options = Options::new(security.guard());
    if let Some(file) = &security.ca_file {
        let wrong = |error: &dyn std::fmt::Display| {
            StartError::Setting(format!("ca_file {}: {error}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        options.extra_roots = roots_from_pem(&pem).map_err(|error| wrong(&error))?;
    }
    Ok(options)
}

/// The name of this server, as attempts and other nodes show it: the machine's unless the configuration gives one.
pub(super) fn node_name(config: &Config) -> String {
    config.server.node.clone().unwrap_or_else(machine_name)
}

/// This server, as the others see it.
pub(super) fn node(config: &Config, address: SocketAddr) -> NewNode {
    let (name, version) = (node_name(config), env!("CARGO_PKG_VERSION").to_owned());
    NewNode { name, version, address: address.to_string() }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".to_owned() } else { name.trim().to_owned() }
}
