//! Templates in a row, and `template preview`: what people would read of an event.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::args::{Globals, TemplateCommand};
use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{text, time, unreadable};
use super::objects::{Noun, standing};
use super::output::{Format, Out};
use super::table::escape;
use super::{input, rendered};

const TEMPLATES: Noun = Noun {
    path: "templates",
    columns: &[
        ("ID", 60),
        ("EVENT TYPE", 30),
        ("CHANNEL", 20),
        ("LOCALE", 12),
        ("SUBJECT", 40),
        ("STATE", 5),
        ("MANAGED BY", 10),
        ("UPDATED", 20),
    ],
    row,
};

fn row(value: &Value) -> Vec<String> {
    let [state, managed_by] = standing(value);
    let mut row: Vec<String> =
        ["id", "event_type", "channel", "locale", "subject"].map(|member| text(value, &[member])).into();
    row.extend([state, managed_by, time(value, "updated_at")]);
    row
}

pub(super) fn run(globals: &Globals, command: TemplateCommand, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        TemplateCommand::Object(command) => TEMPLATES.run(&Api::connect(globals)?, command, out),
        TemplateCommand::Preview { id, file, event } => {
            let request = request(id.as_deref(), file.as_deref(), event.as_deref())?;
            preview(&Api::connect(globals)?, request, out)
        }
    }
}

/// What is to be rendered, word for word as it stands in the files.
#[derive(Serialize)]
struct Preview<'a> {
    template: Which<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Which<'a> {
    Stored(&'a str),
    Given(Box<RawValue>),
}

fn request(id: Option<&str>, file: Option<&Path>, event: Option<&Path>) -> Result<String, Failure> {
    if file == Some(Path::new("-")) && event == file {
        return Err(Failure::usage("stdin holds the template or the event, not both"));
    }
    let template = match (id, file) {
        (Some(id), _) => Which::Stored(id),
        (None, Some(file)) => Which::Given(input::read_json(file)?),
        (None, None) => return Err(Failure::usage("give the id of a template, or --file")),
    };
    let event = event.map(input::read_json).transpose()?;
    serde_json::to_string(&Preview { template, event }).map_err(|error| Failure::usage(&error.to_string()))
}

fn preview(api: &Api, request: String, out: &mut Out) -> Result<Exit, Failure> {
    let answer = api.post(&["templates", "preview"], request)?;
    if out.format() == Format::Json {
        out.line(&answer);
        return Ok(Exit::Fine);
    }
    let text_of: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    match out.format() {
        Format::Ids => out.line(&escape(&text(&text_of, &["sequence_id"]))),
        _ => rendered::show(&text_of, out),
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::client::tests::{api, server};
    use crate::cli::output::tests::Captured;

    #[test]
    fn a_template_in_a_row() {
        let value = json!({"id": "t", "event_type": "NewOutage", "channel": "hooks", "locale": "en-US", "subject": "S",
            "active": true, "managed_by": "api", "updated_at": "2026-07-07T01:02:03Z"});
        let expected = ["t", "NewOutage", "hooks", "en-US", "S", "on", "api", "2026-07-07T01:02:03Z"];
        assert_eq!(row(&value), expected);
        assert_eq!(row(&value).len(), TEMPLATES.columns.len());
    }

    #[test]
    fn what_is_rendered_is_what_the_files_say() {
        let folder = tempfile::tempdir().unwrap();
        let [template, event] = [("t.json", "{\"body\": \"B\"}"), ("e.json", "{\"data\": {\"n\": 1.50}}")]
            .map(|(name, text)| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            });
        assert_eq!(request(Some("a~b~c"), None, None).unwrap(), "{\"template\":\"a~b~c\"}");
        assert_eq!(
            request(None, Some(&template), Some(&event)).unwrap(),
            "{\"template\":{\"body\": \"B\"},\"event\":{\"data\": {\"n\": 1.50}}}"
        );
        let stdin = Some(Path::new("-"));
        assert_eq!(request(None, stdin, stdin).unwrap_err().exit(), Exit::Usage);
    }

    #[test]
    fn a_preview_is_what_people_would_read() {
        let (url, requests) =
            server(&[Some("200 {\"title\":\"T\",\"body\":\"one\\ntwo\",\"sequence_id\":\"s-1\"}")]);
        let captured = Captured::default();
        assert_eq!(preview(&api(url), "{}".into(), &mut captured.out(Format::Table)), Ok(Exit::Fine));
        assert_eq!(captured.text(), "  T\n  one\n  two\nsequence_id          s-1\n");
        let requests = requests.join().unwrap();
        assert!(requests[0].starts_with("POST /v1/templates/preview HTTP/1.1\r\n"), "{}", requests[0]);
    }
}
