//! `subscription`: a rule from the arguments or from a file, and all of them as lines.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::args::{ExportArgs, Globals, MergeArgs, RuleArgs, SubscriptionArgs, SubscriptionCommand};
use super::client::Api;
use super::exit::{Exit, Failure};
use super::import;
use super::listing::{go_on_at, read_page, text, time, unreadable};
use super::objects::{self, Noun, standing};
use super::output::{Format, Out};
use super::table::escape;

const SUBSCRIPTIONS: Noun = Noun {
    path: "subscriptions",
    columns: &[
        ("ID", 40),
        ("NAME", 40),
        ("FEED", 40),
        ("TARGET", 60),
        ("OWNER", 30),
        ("STATE", 5),
        ("MANAGED BY", 10),
        ("LAST SENT", 20),
    ],
    row,
};

/// Members that the server adds to what was said; import does not take them.
const ADDED: [&str; 6] = ["managed_by", "version", "created_at", "updated_at", "last_sent_at", "warnings"];

pub(super) fn run(globals: &Globals, command: SubscriptionCommand, out: &mut Out) -> Result<Exit, Failure> {
    let api = || Api::connect(globals);
    match command {
        SubscriptionCommand::List(args) => {
            let mut query = filters(&args.which);
            query.push(("limit", args.limit.to_string()));
            query.extend(args.cursor.map(|cursor| ("cursor", cursor)));
            SUBSCRIPTIONS.list(&api()?, query, args.all, out)
        }
        SubscriptionCommand::Show { id } => SUBSCRIPTIONS.show(&api()?, &id, out),
        SubscriptionCommand::Create(args) => {
            let body = match &args.file {
                Some(file) => objects::read(file)?,
                None => created(&args)?.to_string(),
            };
            SUBSCRIPTIONS.create(&api()?, body, out)
        }
        SubscriptionCommand::Update(args) => {
            let (body, how) = update(&args)?;
            SUBSCRIPTIONS.update(&api()?, &args.id, body, &how, out)
        }
        SubscriptionCommand::Delete { ids } => SUBSCRIPTIONS.delete(&api()?, &ids, out),
        SubscriptionCommand::Import { file } => import::run(&api()?, &file, out),
        SubscriptionCommand::Export(args) => export(&api()?, filters(&args), out),
    }
}

fn row(value: &Value) -> Vec<String> {
    let [state, managed_by] = standing(value);
    let mut row: Vec<String> = ["id", "name", "feed"].map(|member| text(value, &[member])).into();
    let list = text(value, &["target", "list"]);
    let target = if list.is_empty() {
        format!("{}:{}", text(value, &["target", "channel"]), text(value, &["target", "address"]))
    } else {
        list
    };
    row.extend([target, text(value, &["owner"]), state, managed_by, time(value, "last_sent_at")]);
    row
}

fn filters(args: &ExportArgs) -> Vec<(&'static str, String)> {
    let switched = match (args.active, args.inactive) {
        (true, _) => Some("true".to_owned()),
        (_, true) => Some("false".to_owned()),
        _ => None,
    };
    let filters = [
        ("feed", args.feed.clone()),
        ("channel", args.channel.clone()),
        ("owner", args.owner.clone()),
        ("q", args.q.clone()),
        ("active", switched),
    ];
    filters.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// A new subscription of what the arguments say.
fn created(args: &RuleArgs) -> Result<Value, Failure> {
    if args.address.is_some() && args.channel.is_none() {
        return Err(Failure::usage("say with --channel how the address is reached"));
    }
    Ok(rule(args).into())
}

/// What a change sends, and how: the whole that a file says, or the members that the arguments name.
fn update(args: &SubscriptionArgs) -> Result<(String, MergeArgs), Failure> {
    let if_match = args.how.if_match.clone();
    if let Some(file) = &args.rule.file {
        return Ok((objects::read(file)?, MergeArgs { merge: args.how.merge, if_match }));
    }
    let mut change = rule(&args.rule);
    if let Some(Value::Object(target)) = change.get_mut("target") {
        // One form of target takes the place of the other.
        let others: &[&str] = if target.contains_key("list") { &["channel", "address"] } else { &["list"] };
        target.extend(others.iter().map(|name| ((*name).to_owned(), Value::Null)));
    }
    let flags = [
        ("active", args.active, json!(true)),
        ("delivery", args.at_least_once, json!("at_least_once")),
        ("daily_cap", args.no_daily_cap, Value::Null),
    ];
    change.extend(
        flags.into_iter().filter(|(_, said, _)| *said).map(|(name, _, value)| (name.to_owned(), value)),
    );
    Ok((Value::from(change).to_string(), MergeArgs { merge: true, if_match }))
}

/// The members that the arguments name, and no others.
fn rule(args: &RuleArgs) -> Map<String, Value> {
    let target = object([
        ("channel", args.channel.clone().map(Value::from)),
        ("address", args.address.clone().map(Value::from)),
        ("list", args.list.clone().map(Value::from)),
    ]);
    let filter = object([
        ("event_types", (!args.types.is_empty()).then(|| json!(args.types))),
        ("fields", by_name(&args.fields)),
        ("keywords", by_name(&args.keywords)),
        ("match", args.matching.clone().map(Value::from)),
    ]);
    object([
        ("name", args.name.clone().map(Value::from)),
        ("feed", args.feed.clone().map(Value::from)),
        ("target", (!target.is_empty()).then(|| target.into())),
        ("filter", (!filter.is_empty()).then(|| filter.into())),
        ("cooldown", args.cooldown.clone().map(Value::from)),
        ("daily_cap", args.daily_cap.map(Value::from)),
        ("delivery", args.at_most_once.then(|| json!("at_most_once"))),
        ("active", args.inactive.then_some(Value::Bool(false))),
    ])
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The values of each name, in the order in which they were given.
fn by_name(given: &[(String, String)]) -> Option<Value> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in given {
        values.entry(name).or_default().push(value);
    }
    (!values.is_empty()).then(|| json!(values))
}

/// Writes one subscription a line, whatever form was asked for but ids: as import takes it, each value word for word.
fn export(api: &Api, mut query: Vec<(&'static str, String)>, out: &mut Out) -> Result<Exit, Failure> {
    query.push(("limit", "500".to_owned()));
    while !out.is_closed() {
        let answer = api.get(&[SUBSCRIPTIONS.path], &query)?;
        let page = read_page(&answer)?;
        for item in &page.items {
            out.line(&line(item, out.format())?);
        }
        out.flush();
        match page.next {
            Some(cursor) => go_on_at(&mut query, cursor)?,
            None => break,
        }
    }
    Ok(Exit::Fine)
}

fn line(item: &RawValue, format: Format) -> Result<String, Failure> {
    let mut members: BTreeMap<String, &RawValue> =
        serde_json::from_str(item.get()).map_err(|error| unreadable(&error))?;
    if format == Format::Ids {
        let id = members.get("id").and_then(|id| serde_json::from_str::<String>(id.get()).ok());
        return Ok(escape(&id.unwrap_or_default()));
    }
    members.retain(|name, member| !ADDED.contains(&name.as_str()) && member.get() != "null");
    serde_json::to_string(&members).map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests;
