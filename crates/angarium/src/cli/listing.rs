//! Listings: pages of `{"items": […], "next": cursor}`, one or all of them, as a table, JSON or ids.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::output::{Format, Out};
use super::table::{Column, Table, escape};

/// What is listed, and how a row of it looks.
pub(super) struct Listing<'a> {
    pub(super) path: &'a [&'a str],
    pub(super) query: Vec<(&'static str, String)>,
    /// Page after page, or one page.
    pub(super) all: bool,
    pub(super) columns: &'static [Column],
    pub(super) row: fn(&Value) -> Vec<String>,
    pub(super) id: fn(&Value) -> String,
}

/// One page as it came.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow)]
    pub(super) items: Vec<&'a RawValue>,
    #[serde(default)]
    pub(super) next: Option<String>,
}

impl Listing<'_> {
    /// Lists. What a page holds is shown before the next one is asked for, and when nobody reads any more
    /// no further one is.
    pub(super) fn run(mut self, api: &Api, out: &mut Out) -> Result<Exit, Failure> {
        let mut writer = Writer::new(&self, out);
        loop {
            let text = api.get(self.path, &self.query)?;
            let page = read_page(&text)?;
            writer.page(&page.items)?;
            match page.next {
                Some(cursor) if self.all && !writer.out.is_closed() => go_on_at(&mut self.query, cursor)?,
                next => return Ok(writer.finish(next.filter(|_| !self.all))),
            }
        }
    }
}

/// Turns the query for a page into the query for the one after it.
pub(super) fn go_on_at(query: &mut Vec<(&'static str, String)>, cursor: String) -> Result<(), Failure> {
    let before = query.iter().position(|(key, _)| *key == "cursor").map(|i| query.remove(i).1);
    if before.as_ref() == Some(&cursor) {
        return Err(Failure::failed("no_progress", "the server gave the same cursor twice"));
    }
    query.push(("cursor", cursor));
    Ok(())
}

pub(super) fn read_page(text: &str) -> Result<Page<'_>, Failure> {
    serde_json::from_str(text).map_err(|error| unreadable(&error))
}

/// A success whose body is not what the API promises.
pub(super) fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::failed("unexpected_answer", &format!("the answer is not of the form expected: {error}"))
}

/// Writes pages in the form that was asked for.
struct Writer<'o> {
    out: &'o mut Out,
    table: Table,
    row: fn(&Value) -> Vec<String>,
    id: fn(&Value) -> String,
    written: usize,
}

impl<'o> Writer<'o> {
    fn new(listing: &Listing<'_>, out: &'o mut Out) -> Self {
        Writer { out, table: Table::new(listing.columns), row: listing.row, id: listing.id, written: 0 }
    }

    fn page(&mut self, items: &[&RawValue]) -> Result<(), Failure> {
        match self.out.format() {
            Format::Json if self.out.has_lines() => {
                items.iter().for_each(|item| self.out.line(item.get()));
                self.written += items.len();
            }
            Format::Json => {
                for item in items {
                    self.out.text(if self.written == 0 { "{\"items\":[" } else { ",\n" });
                    self.out.text(item.get());
                    self.written += 1;
                }
            }
            Format::Ids => {
                for item in values(items)? {
                    self.out.line(&escape(&(self.id)(&item)));
                }
                self.written += items.len();
            }
            Format::Table => {
                let rows: Vec<Vec<String>> = values(items)?.iter().map(self.row).collect();
                self.table.write(&rows, self.out);
                self.written += items.len();
            }
        }
        self.out.flush();
        Ok(())
    }

    fn finish(self, next: Option<String>) -> Exit {
        match self.out.format() {
            Format::Json if !self.out.has_lines() => {
                let next = serde_json::Value::from(next);
                self.out.text(if self.written == 0 { "{\"items\":[" } else { "" });
                self.out.line(&format!("],\"next\":{next}}}"));
            }
            Format::Table if self.written == 0 => say("nothing matches\n"),
            Format::Table | Format::Json | Format::Ids => {
                if let Some(next) = next {
                    say(&format!("there are more: --all, or --cursor {}\n", escape(&next)));
                }
            }
        }
        Exit::Fine
    }
}

fn values(items: &[&RawValue]) -> Result<Vec<Value>, Failure> {
    items.iter().map(|item| serde_json::from_str(item.get()).map_err(|error| unreadable(&error))).collect()
}

/// A member of a JSON object as text: a string as it is, nothing for null, anything else as JSON.
pub(super) fn text(value: &Value, path: &[&str]) -> String {
    match path.iter().try_fold(value, |value, key| value.get(key)) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// An instant to the second, which is what fits a table.
pub(super) fn time(value: &Value, key: &str) -> String {
    let full = text(value, &[key]);
    match full.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;
    use crate::cli::output::tests::Captured;
    use serde_json::json;

    const ITEMS: [&str; 3] = [r#"{"id":"a","n":1.50}"#, r#"{"id":"b\u001b"}"#, r#"{"id":"c"}"#];

    /// What is shown of the three items, in pages of two and one, with a cursor left over or not.
    fn shown(output: Output, count: usize, next: Option<&str>) -> String {
        let listing = Listing {
            path: &["things"],
            query: Vec::new(),
            all: true,
            columns: &[("ID", 10), ("N", 4)],
            row: |value| vec![text(value, &["id"]), text(value, &["n"])],
            id: |value| text(value, &["id"]),
        };
        let captured = Captured::default();
        let mut out = captured.out_as(output);
        let items: Vec<&RawValue> =
            ITEMS.iter().take(count).map(|item| serde_json::from_str(item).unwrap()).collect();
        let mut writer = Writer::new(&listing, &mut out);
        for page in items.chunks(2) {
            writer.page(page).unwrap();
        }
        writer.finish(next.map(str::to_owned));
        captured.text()
    }

    #[test]
    fn pages_join_into_one() {
        assert_eq!(shown(Output::Table, 3, None), "ID       N\na        1.5\nb\\u{1b}\nc\n");
        assert_eq!(shown(Output::Ids, 3, Some("x")), "a\nb\\u{1b}\nc\n");
        assert_eq!(shown(Output::Ids, 0, None), "");
        assert_eq!(shown(Output::Table, 0, None), "");
    }

    #[test]
    fn json_is_kept_word_for_word() {
        for (count, next) in [(0, None), (1, Some("c2")), (3, None)] {
            let text = shown(Output::Json, count, next);
            let page = read_page(&text).unwrap();
            assert_eq!(page.items.iter().map(|item| item.get()).collect::<Vec<_>>(), ITEMS[..count]);
            assert_eq!(page.next.as_deref(), next);
        }
    }

    #[test]
    fn a_line_is_a_whole_item() {
        assert_eq!(shown(Output::Ndjson, 3, None), format!("{}\n", ITEMS.join("\n")));
        assert_eq!(shown(Output::Ndjson, 0, None), "");
    }

    #[test]
    fn a_server_that_goes_in_circles_is_left() {
        let mut query = vec![("limit", "2".into())];
        assert!(go_on_at(&mut query, "one".into()).is_ok());
        assert!(go_on_at(&mut query, "two".into()).is_ok());
        assert_eq!(query, [("limit", "2".into()), ("cursor", "two".into())]);
        assert!(go_on_at(&mut query, "two".into()).is_err());
    }

    #[test]
    fn members_as_text() {
        let value = json!({"a": {"b": "c"}, "n": null, "t": "2026-07-07T01:02:03.123456Z", "u": "2026-07-07T01:02:03Z"});
        assert_eq!(text(&value, &["a", "b"]), "c");
        assert_eq!(text(&value, &["a"]), "{\"b\":\"c\"}");
        assert_eq!(text(&value, &["n"]) + &text(&value, &["x", "y"]), "");
        assert_eq!(time(&value, "t"), "2026-07-07T01:02:03Z");
        assert_eq!(time(&value, "u"), "2026-07-07T01:02:03Z");
    }
}
