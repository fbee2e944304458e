//! From the configuration to the parts that work by it.

use std::collections::HashMap;
use std::sync::Arc;

use angarium_channels::webhook::{SigningSecret, WebhookAdapter, WebhookChannel};
use angarium_egress::{Client, Options, roots_from_pem};
use angarium_engine::catalog::{Catalog, List};
use angarium_engine::registry::Registry;

use super::StartError;
use crate::config::{Config, Transport};

/// Channels and lists as the engine sees them.
pub(super) fn catalog(config: &Config) -> Catalog {
    let channels = config.channels.iter().map(|(name, channel)| (name.clone(), channel.settings.clone()));
    let lists = config.lists.iter().map(|(name, list)| {
        let members = list.members.iter().map(|member| member.address.clone()).collect();
        (name.clone(), List { channel: list.channel.clone(), members })
    });
    Catalog { channels: channels.collect(), lists: lists.collect() }
}

/// One adapter for each kind that this program can deliver on.
pub(super) fn adapters(config: &Config) -> Result<Registry, StartError> {
    let client = Arc::new(client(config)?);
    let mut channels = HashMap::new();
    for (name, channel) in &config.channels {
        let Transport::Webhook(webhook) = &channel.transport else { continue };
        let parse = |secret: &crate::config::Secret| {
            secret
                .expose()
                .parse::<SigningSecret>()
                .map_err(|error| StartError::Setting(format!("channels.{name}.secret {error}")))
        };
        let secrets = webhook.secrets.iter().map(parse).collect::<Result<_, _>>()?;
        channels.insert(name.clone(), WebhookChannel { secrets, timeout: channel.settings.timeout });
    }
    let mut registry = Registry::default();
    registry.register(Arc::new(WebhookAdapter::new(client, channels)));
    Ok(registry)
}

fn client(config: &Config) -> Result<Client, StartError> {
    let security = &config.security;
    let mut options = Options::new(security.guard());
    if let Some(file) = &security.ca_file {
        let wrong = |error: &dyn std::fmt::Display| {
            StartError::Setting(format!("ca_file {}: {error}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
        options.extra_roots = roots_from_pem(&pem).map_err(|error| wrong(&error))?;
    }
    Client::new(options).map_err(|error| StartError::Setting(error.to_string()))
}

/// The machine's name, as attempts show it.
pub(super) fn node_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "node".to_owned() } else { name.trim().to_owned() }
}
