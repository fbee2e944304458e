//! `config check`: what is wrong with the file, and what is odd about it.

use std::path::Path;

use serde_json::{Value, json};

use super::exit::{Exit, Failure, counted, say};
use super::output::{Format, Out};
use super::table::escape;
use crate::config::{Config, Loaded, Problem};

pub(super) fn run(path: Option<&Path>, out: &mut Out) -> Result<Exit, Failure> {
    let loaded = Config::load(path).map_err(|problems| Failure::configuration(&problems))?;
    match out.format() {
        Format::Json => out.line(&as_json(&loaded).to_string()),
        Format::Ids => {
            let Config { channels, lists, feeds, templates, subscriptions, .. } = &loaded.config;
            channels.keys().for_each(|name| out.line(name.as_str()));
            lists.keys().for_each(|name| out.line(name.as_str()));
            feeds.keys().for_each(|id| out.line(id.as_str()));
            templates.keys().for_each(|name| out.line(name));
            subscriptions.keys().for_each(|key| out.line(key.as_str()));
        }
        Format::Table => {
            for warning in &loaded.warnings {
                say(&format!("warning: {}\n", escape(&warning.to_string())));
            }
            out.line(&summary(&loaded));
        }
    }
    Ok(Exit::Fine)
}

fn summary(loaded: &Loaded) -> String {
    let file = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no file, the defaults".to_owned(),
    };
    let config = &loaded.config;
    let parts = [
        counted(config.channels.len(), "channel"),
        counted(config.lists.len(), "list"),
        counted(config.feeds.len(), "feed"),
        counted(config.templates.len(), "template"),
        counted(config.subscriptions.len(), "subscription"),
    ];
    format!("{}: fine ({})", escape(&file), parts.join(", "))
}

fn as_json(loaded: &Loaded) -> Value {
    let warning = |warning: &Problem| {
        let (line, column) = warning.position.unzip();
        json!({"line": line, "column": column, "message": warning.message})
    };
    json!({
        "file": loaded.file.as_ref().map(|file| file.display().to_string()),
        "channels": loaded.config.channels.len(),
        "lists": loaded.config.lists.len(),
        "feeds": loaded.config.feeds.len(),
        "templates": loaded.config.templates.len(),
        "subscriptions": loaded.config.subscriptions.len(),
        "warnings": loaded.warnings.iter().map(warning).collect::<Vec<_>>(),
    })
}
