//! `event publish` and `event try`: one event from the arguments, or those of a file.
//!
//! As with `send`, an event from the arguments gets its id here, so that it is stored once however often it is handed
//! over. An event of a file without an id gets one from the server, under a key that is made here for each request.

use std::collections::BTreeMap;
use std::path::Path;

use angarium_domain::chance::SystemChance;
use angarium_domain::id::EventId;
use angarium_domain::time::{SystemClock, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::args::{EventArgs, Globals};
use super::client::Api;
use super::exit::{Exit, Failure, counted, say};
use super::listing::{text, unreadable};
use super::output::{Format, Out};
use super::send::{is_duplicate, told_again};
use super::table::escape;
use super::{input, planned, rendered};

/// Events of one request, at most: as many as a server takes unless it is configured for fewer.
const BATCH_EVENTS: usize = 1000;
/// Bytes of the events of one request, at most, unless one event alone has more.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

#[derive(Serialize)]
struct Event<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    feed: &'a Option<String>,
    #[serde(rename = "type")]
    kind: &'a Option<String>,
    key: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<Entity<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supersede_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<bool>,
}

#[derive(Serialize)]
struct Entity<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
}

/// Publishes.
pub(super) fn run(globals: &Globals, args: &EventArgs, out: &mut Out) -> Result<Exit, Failure> {
    let Some(path) = &args.file else {
        let id = args.id.clone().unwrap_or_else(new_id);
        let request = request(args, Some(&id))?;
        let answer = Api::connect(globals)?.post_repeatable(&["events"], request);
        show_one(&answer.map_err(|failure| told_again(failure, &id))?, out)?;
        return Ok(Exit::Fine);
    };
    let events = input::read_values(path)?;
    let api = Api::connect(globals)?;
    if let [event] = events.as_slice() {
        show_one(&api.post_keyed(&["events"], &[], event.get().to_owned(), &new_id())?, out)?;
        return Ok(Exit::Fine);
    }
    let mut results =
        Results::new(out, |answer, out| out.line(&outcome(answer)), |answer| vec![text(answer, &["id"])]);
    let ended = publish_many(&api, &events, &mut results);
    let exit = results.finish("published");
    ended.map(|()| exit)
}

fn publish_many(api: &Api, events: &[Box<RawValue>], results: &mut Results<'_>) -> Result<(), Failure> {
    for batch in batches(events) {
        let items: Vec<&str> = batch.iter().map(|event| event.get()).collect();
        let body = format!("{{\"events\":[{}]}}", items.join(","));
        let answer = api
            .post_keyed(&["events", "batch"], &[], body, &new_id())
            .map_err(|failure| results.broken_off(failure))?;
        let answer: Batch<'_> = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
        for result in answer.results {
            results.take(result)?;
        }
    }
    Ok(())
}

/// Asks what would become of the events. Nothing is stored.
pub(super) fn dry_run(globals: &Globals, args: &EventArgs, out: &mut Out) -> Result<Exit, Failure> {
    let events = match &args.file {
        Some(path) => input::read_values(path)?,
        None => vec![raw(request(args, args.id.as_deref())?)?],
    };
    let api = Api::connect(globals)?;
    let query = [("dry_run", "true".to_owned())];
    let ask = |event: &RawValue| api.post_keyed(&["events"], &query, event.get().to_owned(), &new_id());
    let mut results = Results::new(out, show_trial, told);
    let [event] = events.as_slice() else {
        let ended = events.iter().try_for_each(|event| match ask(event) {
            Err(failure) if failure.exit() == Exit::Unreachable => Err(failure),
            Err(failure) => results.refused(&failure),
            Ok(answer) => results.take(&raw(answer)?),
        });
        let exit = results.finish("looked at");
        return ended.map(|()| exit);
    };
    let answer = ask(event)?;
    match out.format() {
        Format::Json => out.line(&answer),
        Format::Ids => told(&value(&answer)?).iter().for_each(|id| out.line(&escape(id))),
        Format::Table => show_trial(&value(&answer)?, out),
    }
    Ok(Exit::Fine)
}

/// The answer to one event that was handed in.
pub(super) fn show_one(answer: &str, out: &mut Out) -> Result<(), Failure> {
    match out.format() {
        Format::Json => out.line(answer),
        Format::Ids => out.line(&escape(&text(&value(answer)?, &["id"]))),
        Format::Table => {
            planned::show(&value(answer)?, out);
            if is_duplicate(answer) {
                say("the same was handed in before: nothing was stored anew\n");
            }
        }
    }
    Ok(())
}

/// What would become of an event: who would be told, who not, and the texts.
fn show_trial(answer: &Value, out: &mut Out) {
    let would = &answer["would"];
    let count = planned::items(would, "notifications").len();
    let matched = text(answer, &["matched"]);
    let more = if would["planning"] == true { ", and more" } else { "" };
    out.line(&format!(
        "{} would go out{more}; matching subscriptions: {matched}",
        counted(count, "notification")
    ));
    planned::skipped_rows(would, out);
    for text in planned::items(answer, "texts") {
        out.text("\n");
        rendered::show_for(text, out);
    }
}

/// The subscriptions that would be told.
fn told(answer: &Value) -> Vec<String> {
    planned::items(answer, "texts").iter().map(|text_of| text(text_of, &["subscription"])).collect()
}

/// One of many in a line.
fn outcome(answer: &Value) -> String {
    let before = if answer["duplicate"] == true { " (handed in before)" } else { "" };
    escape(&format!("{}{before}", planned::sentence(answer)))
}

fn request(args: &EventArgs, id: Option<&str>) -> Result<String, Failure> {
    let data = args.data.as_deref().map(data).transpose()?;
    let given = (!args.fields.is_empty()).then(|| fields(&args.fields)).transpose()?;
    let event = Event {
        id,
        source: args.source.as_deref(),
        feed: &args.feed,
        kind: &args.kind,
        key: &args.key,
        time: args.time,
        locale: args.locale.as_deref(),
        fields: given,
        data,
        entity: args.entity.as_ref().map(|(kind, id)| Entity { kind, id }),
        ttl: args.ttl.as_deref(),
        supersede_key: args.supersede_key.as_deref(),
        test: args.test.then_some(true),
    };
    serde_json::to_string(&event).map_err(|error| Failure::usage(&error.to_string()))
}

/// Named values as an object. A name that stands twice is refused: one of the values would be lost.
pub(super) fn fields(given: &[(String, String)]) -> Result<Value, Failure> {
    let mut fields = BTreeMap::new();
    for (name, value) in given {
        if fields.insert(name, value).is_some() {
            return Err(Failure::usage(&format!("--field {name} stands twice: a field has one value")));
        }
    }
    serde_json::to_value(fields).map_err(|error| Failure::usage(&error.to_string()))
}

/// JSON as it is, or after `@` the name of a file that holds it.
fn data(text: &str) -> Result<Box<RawValue>, Failure> {
    match text.strip_prefix('@') {
        Some(path) => input::read_json(Path::new(path)),
        None => serde_json::from_str(text).map_err(|error| Failure::usage(&format!("--data {error}"))),
    }
}

fn raw(text: String) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(text).map_err(|error| unreadable(&error))
}

fn value(answer: &str) -> Result<Value, Failure> {
    serde_json::from_str(answer).map_err(|error| unreadable(&error))
}

fn new_id() -> String {
    EventId::generate(&SystemClock::new(), &SystemChance).to_string()
}

/// Events in as few requests as they fit into, in their order.
fn batches(events: &[Box<RawValue>]) -> impl Iterator<Item = &[Box<RawValue>]> {
    let mut rest = events;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |length: &usize| {
            bytes += length;
            bytes <= BATCH_BYTES
        };
        let lengths = rest.iter().map(|event| event.get().len());
        let count = lengths.take(BATCH_EVENTS).take_while(fits).count().max(1);
        let (batch, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(batch)
    })
}

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

/// What became of many events, told as it comes in.
struct Results<'o> {
    out: &'o mut Out,
    show: fn(&Value, &mut Out),
    ids: fn(&Value) -> Vec<String>,
    count: usize,
    refused: usize,
}

impl<'o> Results<'o> {
    fn new(out: &'o mut Out, show: fn(&Value, &mut Out), ids: fn(&Value) -> Vec<String>) -> Self {
        Results { out, show, ids, count: 0, refused: 0 }
    }

    /// Takes the result of the next event: its answer, or `{"problem": …}`.
    fn take(&mut self, result: &RawValue) -> Result<(), Failure> {
        let told = value(result.get())?;
        if let Some(problem) = told.get("problem") {
            return self.refused(&Failure::answered(0, &problem.to_string()));
        }
        self.count += 1;
        match self.out.format() {
            Format::Json => self.json(result.get()),
            Format::Ids => (self.ids)(&told).iter().for_each(|id| self.out.line(&escape(id))),
            Format::Table => (self.show)(&told, self.out),
        }
        Ok(())
    }

    fn refused(&mut self, failure: &Failure) -> Result<(), Failure> {
        self.count += 1;
        self.refused += 1;
        let shown = failure.shown(self.out.format());
        match self.out.format() {
            Format::Json => self.json(&format!("{{\"problem\":{}}}", shown.trim_end())),
            Format::Table | Format::Ids => say(&format!("event {}: {shown}", self.count)),
        }
        Ok(())
    }

    fn json(&mut self, result: &str) {
        if !self.out.has_lines() {
            self.out.text(if self.count == 1 { "{\"results\":[" } else { ",\n" });
        }
        self.out.text(result);
        if self.out.has_lines() {
            self.out.text("\n");
        }
    }

    /// A failure that ends it all, and what was done before it.
    fn broken_off(&self, failure: Failure) -> Failure {
        let done = counted(self.count - self.refused, "event");
        if self.count == 0 { failure } else { failure.with_advice(&format!("{done} before it are stored")) }
    }

    fn finish(self, done: &str) -> Exit {
        match self.out.format() {
            Format::Json if self.out.has_lines() => {}
            Format::Json => self.out.line(if self.count == 0 { "{\"results\":[]}" } else { "]}" }),
            Format::Table => {
                let refused =
                    if self.refused == 0 { String::new() } else { format!(", {} refused", self.refused) };
                say(&format!("{} {done}{refused}\n", counted(self.count - self.refused, "event")));
            }
            Format::Ids => {}
        }
        if self.refused == 0 { Exit::Fine } else { Exit::Failed }
    }
}

#[cfg(test)]
mod tests;
