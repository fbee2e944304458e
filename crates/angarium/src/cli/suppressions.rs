//! `suppression list` and `lift`: addresses that said, or whose provider said, that they want no more.

use serde_json::{Value, json};

use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{Listing, text, time};
use super::output::{Format, Out};
use super::table::{Column, escape};

const COLUMNS: &[Column] = &[("CHANNEL", 20), ("ADDRESS", 60), ("SINCE", 20), ("REASON", 80)];

pub(super) fn list(api: &Api, out: &mut Out) -> Result<Exit, Failure> {
    let listing =
        Listing { path: &["suppressions"], query: Vec::new(), all: true, columns: COLUMNS, row, id };
    listing.run(api, out)
}

fn row(value: &Value) -> Vec<String> {
    vec![text(value, &["channel"]), text(value, &["address"]), time(value, "since"), text(value, &["reason"])]
}

/// What `suppression lift` takes: the channel and the address.
fn id(value: &Value) -> String {
    format!("{} {}", text(value, &["channel"]), text(value, &["address"]))
}

pub(super) fn lift(api: &Api, channel: &str, address: &str, out: &mut Out) -> Result<Exit, Failure> {
    let query = [("channel", channel.to_owned()), ("address", address.to_owned())];
    api.delete(&["suppressions"], &query)?;
    match out.format() {
        Format::Table => out.line(&format!("{} is sent to again", escape(address))),
        Format::Ids => out.line(&escape(&format!("{channel} {address}"))),
        Format::Json => out.line(&json!({"channel": channel, "address": address}).to_string()),
    }
    Ok(Exit::Fine)
}
