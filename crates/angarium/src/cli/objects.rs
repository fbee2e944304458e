//! What feeds, lists, templates and subscriptions have in common: they are listed, shown, made, changed and deleted.

use std::path::Path;

use http::Method;
use serde_json::Value;

use super::actions::each;
use super::args::{MergeArgs, ObjectCommand, ReplaceArgs};
use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::listing::{Listing, text, unreadable};
use super::output::{Format, Out};
use super::planned::items;
use super::table::{Column, escape};
use super::{input, members};

/// Objects of one sort.
pub(super) struct Noun {
    /// Where they stand in the API: `feeds`.
    pub(super) path: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) row: fn(&Value) -> Vec<String>,
}

impl Noun {
    pub(super) fn run(&self, api: &Api, command: ObjectCommand, out: &mut Out) -> Result<Exit, Failure> {
        match command {
            ObjectCommand::List => self.list(api, Vec::new(), true, out),
            ObjectCommand::Show { id } => self.show(api, &id, out),
            ObjectCommand::Create { file } => self.create(api, read(&file)?, out),
            ObjectCommand::Update(ReplaceArgs { id, file, how }) => {
                self.update(api, &id, read(&file)?, &how, out)
            }
            ObjectCommand::Delete { ids } => self.delete(api, &ids, out),
        }
    }

    pub(super) fn list(
        &self,
        api: &Api,
        query: Vec<(&'static str, String)>,
        all: bool,
        out: &mut Out,
    ) -> Result<Exit, Failure> {
        let listing = Listing { path: &[self.path], query, all, columns: self.columns, row: self.row, id };
        listing.run(api, out)
    }

    pub(super) fn show(&self, api: &Api, id: &str, out: &mut Out) -> Result<Exit, Failure> {
        let answer = api.get(&[self.path, id], &[])?;
        match out.format() {
            Format::Json => out.line(&answer),
            Format::Ids => out.line(&escape(id)),
            Format::Table => members::show(&value(&answer)?, &[], out),
        }
        Ok(Exit::Fine)
    }

    pub(super) fn create(&self, api: &Api, body: String, out: &mut Out) -> Result<Exit, Failure> {
        let answer = api.post(&[self.path], body)?;
        tell(&answer, "is made", out)
    }

    /// Replaces the whole, or with `merge` changes what the body names.
    pub(super) fn update(
        &self,
        api: &Api,
        id: &str,
        body: String,
        how: &MergeArgs,
        out: &mut Out,
    ) -> Result<Exit, Failure> {
        let method = if how.merge { Method::PATCH } else { Method::PUT };
        let answer = api.change(method, &[self.path, id], body, how.if_match.as_deref())?;
        tell(&answer, "is changed", out)
    }

    pub(super) fn delete(&self, api: &Api, ids: &[String], out: &mut Out) -> Result<Exit, Failure> {
        each(ids, |id| api.delete(&[self.path, id], &[]), "is deleted", out)
    }
}

/// The JSON that a file says of an object, word for word.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    Ok(input::read_json(file)?.get().to_owned())
}

/// Shows what stands now, and on stderr what whoever asked for it may not have meant.
fn tell(answer: &str, done: &str, out: &mut Out) -> Result<Exit, Failure> {
    if out.format() == Format::Json {
        out.line(answer);
        return Ok(Exit::Fine);
    }
    let now = value(answer)?;
    let version = text(&now, &["version"]);
    let version = if version.is_empty() { version } else { format!(" (version {version})") };
    match out.format() {
        Format::Ids => out.line(&escape(&id(&now))),
        _ => out.line(&escape(&format!("{} {done}{version}", id(&now)))),
    }
    for warning in items(&now, "warnings").iter().filter_map(Value::as_str) {
        say(&format!("careful: {}\n", escape(warning)));
    }
    Ok(Exit::Fine)
}

fn id(value: &Value) -> String {
    text(value, &["id"])
}

fn value(answer: &str) -> Result<Value, Failure> {
    serde_json::from_str(answer).map_err(|error| unreadable(&error))
}

/// Whether an object counts, and where it is changed.
pub(super) fn standing(value: &Value) -> [String; 2] {
    let off = value["active"] == false || value["enabled"] == false;
    let state = if off { "off" } else { "on" };
    [state.to_owned(), text(value, &["managed_by"])]
}

/// The items of a member in one cell, with commas.
pub(super) fn joined(value: &Value, member: &str) -> String {
    match &value[member] {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        Value::Object(members) => members.keys().map(String::as_str).collect::<Vec<_>>().join(","),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::tests::{api, server};
    use crate::cli::feeds::FEEDS;
    use crate::cli::output::tests::Captured;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed.json");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn an_object_from_its_making_to_its_end() {
        let (url, requests) = server(&[
            Some("201 {\"id\":\"a.b\",\"version\":7}"),
            Some("200 {\"id\":\"a.b\",\"version\":8}"),
            Some("200 {\"id\":\"a.b\",\"version\":9}"),
            Some("200 {\"id\":\"a.b\",\"name\":\"A\"}"),
            Some("204 "),
            Some("409 {\"code\":\"in_use\",\"detail\":\"used.\"}"),
            Some("404 {\"code\":\"feed_not_found\"}"),
        ]);
        let (api, captured) = (api(url), Captured::default());
        let (_folder, path) = file("\n{\"id\": \"a.b\", \"n\": 1.50}\n");
        let mut out = captured.out(Format::Table);
        let mut run = |command| FEEDS.run(&api, command, &mut out);
        let update = |merge, if_match: Option<&str>| {
            let how = MergeArgs { merge, if_match: if_match.map(str::to_owned) };
            ObjectCommand::Update(ReplaceArgs { id: "a.b".into(), file: path.clone(), how })
        };
        let delete = || ObjectCommand::Delete { ids: vec!["a/b".into()] };
        assert_eq!(run(ObjectCommand::Create { file: path.clone() }), Ok(Exit::Fine));
        assert_eq!(run(update(false, Some("7"))), Ok(Exit::Fine));
        assert_eq!(run(update(true, None)), Ok(Exit::Fine));
        assert_eq!(run(ObjectCommand::Show { id: "a.b".into() }), Ok(Exit::Fine));
        assert_eq!(run(delete()), Ok(Exit::Fine));
        assert_eq!(run(delete()), Ok(Exit::Failed), "something needs it");
        assert_eq!(run(delete()), Ok(Exit::NothingMatched));
        assert_eq!(
            captured.text(),
            "a.b is made (version 7)\na.b is changed (version 8)\na.b is changed (version 9)\n\
             id                   a.b\nname                 A\na/b is deleted\n"
        );
        let requests = requests.join().unwrap();
        let heads: Vec<&str> = requests.iter().filter_map(|request| request.lines().next()).collect();
        let expected = [
            "POST /v1/feeds",
            "PUT /v1/feeds/a.b",
            "PATCH /v1/feeds/a.b",
            "GET /v1/feeds/a.b",
            "DELETE /v1/feeds/a%2Fb",
        ];
        for (head, expected) in heads.iter().zip(expected) {
            assert_eq!(*head, format!("{expected} HTTP/1.1"));
        }
        assert!(
            requests[0].ends_with("\r\n{\"id\": \"a.b\", \"n\": 1.50}"),
            "word for word: {}",
            requests[0]
        );
        assert!(requests[1].contains("if-match: \"7\"\r\n") && !requests[2].contains("if-match"));
    }

    #[test]
    fn what_is_no_json_is_not_sent() {
        let (url, requests) = server(&[]);
        let (_folder, path) = file("{\"id\": }");
        let captured = Captured::default();
        let failure =
            FEEDS.run(&api(url), ObjectCommand::Create { file: path }, &mut captured.out(Format::Table));
        assert_eq!(failure.unwrap_err().exit(), Exit::Usage);
        assert!(requests.join().unwrap().is_empty());
    }

    #[test]
    fn what_was_done_is_told_in_each_form() {
        let told = |format| {
            let captured = Captured::default();
            tell(
                "{\"id\":\"ns_a\",\"warnings\":[\"it is for every event\"]}",
                "is made",
                &mut captured.out(format),
            )
            .unwrap();
            captured.text()
        };
        assert_eq!(told(Format::Table), "ns_a is made\n");
        assert_eq!(told(Format::Ids), "ns_a\n");
        assert_eq!(told(Format::Json), "{\"id\":\"ns_a\",\"warnings\":[\"it is for every event\"]}\n");
    }
}
