//! `subscription import`: many subscriptions, one a line, in requests of some thousand lines.
//!
//! The file is read line by line and never stands in memory as a whole. A thread of its own reads it, so that Ctrl-C is
//! heard while stdin has nothing to say. After each request it is known which lines are stored, and that is told,
//! however the work ends.

mod lines;

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use serde_json::{Value, json};

use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::input;
use super::interrupt::Interrupt;
use super::listing::text;
use super::output::{Format, Out};
use super::planned::items;
use super::progress::Progress;
use super::table::escape;
use lines::{Chunk, LINE_BYTES, Next};

/// Lines that were refused, shown at most.
const SHOWN: usize = 20;

pub(super) fn run(api: &Api, path: &Path, out: &mut Out) -> Result<Exit, Failure> {
    let reader =
        input::open(path).map_err(|error| Failure::usage(&format!("{}: {error}", path.display())))?;
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let (send, next) = sync_channel(1);
    let wake = send.clone();
    // A full channel wakes whoever reads from it just as well.
    let interrupt = Interrupt::watch(move || drop(wake.try_send(Next::Interrupted)))?;
    std::thread::spawn(move || lines::read(reader, &mut |next| send.send(next).is_ok()));
    let mut progress = Progress::start(out, metadata.map(|metadata| metadata.len()));
    let mut tally = Tally::new(out);
    let ended = import(api, &next, &interrupt, &mut tally, &mut progress);
    progress.clear();
    let (exit, advice) = (tally.exit(), tally.advice(path));
    tally.finish(ended.is_ok());
    match ended {
        Ok(()) => Ok(exit),
        Err(failure) => Err(failure.with_advice(&advice)),
    }
}

/// Stores chunk after chunk, until there is no more or something ends it.
fn import(
    api: &Api,
    next: &Receiver<Next>,
    interrupt: &Interrupt,
    tally: &mut Tally<'_>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    loop {
        let chunk = match next.recv() {
            Ok(Next::Lines(chunk)) if !interrupt.is_asked() => chunk,
            Ok(Next::Lines(_) | Next::Interrupted) => {
                return Err(Failure::failed("interrupted", "interrupted"));
            }
            Ok(Next::Fault(detail)) => return Err(Failure::failed("input_failed", &detail)),
            Ok(Next::End) | Err(_) => return Ok(()),
        };
        chunk.too_long.iter().for_each(|line| tally.refused(*line, &too_long()));
        if !chunk.numbers.is_empty() {
            let answer = api.post_lines(&["subscriptions", "import"], chunk.lines.clone())?;
            tally.take(&chunk, &answer)?;
        }
        tally.done_to = chunk.last;
        tally.out.flush();
        progress.at(chunk.read, tally.stored + tally.refused, &tally.words());
    }
}

fn too_long() -> Value {
    let detail = format!("has more than {} MiB", LINE_BYTES / (1024 * 1024));
    json!({"title": "The line is too long", "code": "line_too_long", "detail": detail})
}

/// What became of the lines so far.
struct Tally<'o> {
    out: &'o mut Out,
    stored: u64,
    refused: u64,
    /// The first ones that were refused, with the reason.
    first: Vec<(u64, String)>,
    /// What became of all lines up to this one is known.
    done_to: u64,
}

impl<'o> Tally<'o> {
    fn new(out: &'o mut Out) -> Self {
        if out.format() == Format::Json {
            out.text("{\"problems\":[");
        }
        Tally { out, stored: 0, refused: 0, first: Vec::new(), done_to: 0 }
    }

    /// Takes the answer to a chunk: lines about its lines, which it counts from 1, and at last that it is done.
    fn take(&mut self, chunk: &Chunk, answer: &str) -> Result<(), Failure> {
        for told in answer.lines().map_while(|line| serde_json::from_str::<Value>(line).ok()) {
            let place = told["line"].as_u64().and_then(|line| usize::try_from(line).ok()?.checked_sub(1));
            let line = place.and_then(|place| chunk.numbers.get(place)).copied();
            match (line, told.get("problem")) {
                (Some(line), Some(problem)) => {
                    self.refused(line, problem);
                    self.done_to = line;
                }
                (Some(line), None) => {
                    self.stored(&told);
                    self.done_to = line;
                }
                (None, Some(problem)) => return Err(Failure::answered(0, &problem.to_string())),
                (None, None) if told.get("code").is_some() => {
                    return Err(Failure::answered(0, &told.to_string()));
                }
                (None, None) if told["done"] == true => return Ok(()),
                (None, None) => {}
            }
        }
        Err(Failure::failed("answer_cut_off", "the answer broke off"))
    }

    fn stored(&mut self, told: &Value) {
        self.stored += 1;
        if self.out.format() == Format::Ids {
            self.out.line(&escape(&text(told, &["id"])));
        }
    }

    fn refused(&mut self, line: u64, problem: &Value) {
        if self.out.format() == Format::Json {
            let comma = if self.refused == 0 { "" } else { ",\n" };
            self.out.text(&format!("{comma}{}", json!({"line": line, "problem": problem})));
        } else if self.first.len() < SHOWN {
            self.first.push((line, reason(problem)));
        }
        self.refused += 1;
    }

    fn words(&self) -> String {
        format!("{} stored, {} refused", self.stored, self.refused)
    }

    fn exit(&self) -> Exit {
        if self.refused == 0 { Exit::Fine } else { Exit::Failed }
    }

    /// How it goes on after it ended too early.
    fn advice(&self, path: &Path) -> String {
        let (words, from) = (self.words(), self.done_to + 1);
        if path == Path::new("-") {
            return format!("{words}; to go on, begin with line {from}");
        }
        let path = quoted(&path.to_string_lossy());
        format!("{words}; to go on: tail -n +{from} {path} | angarium subscription import -")
    }

    /// Tells what was refused, and if all lines were looked at, how many are stored.
    fn finish(self, complete: bool) {
        for (line, reason) in &self.first {
            say(&format!("line {line}: {}\n", escape(reason)));
        }
        let shown = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        let hidden = self.refused.saturating_sub(shown);
        match self.out.format() {
            Format::Json => {
                self.out.line(&format!("],\"stored\":{},\"refused\":{}}}", self.stored, self.refused));
                return;
            }
            Format::Table if complete => self.out.line(&self.words()),
            Format::Table | Format::Ids => {}
        }
        if hidden > 0 {
            say(&format!("and {hidden} more\n"));
        }
    }
}

/// A file's name as a shell takes it for one word.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Why a line was refused, in one line.
fn reason(problem: &Value) -> String {
    let errors: Vec<String> = items(problem, "errors")
        .iter()
        .map(|error| format!("{} {}", text(error, &["field"]), text(error, &["message"])))
        .collect();
    if !errors.is_empty() {
        return errors.join("; ");
    }
    let detail = text(problem, &["detail"]);
    if detail.is_empty() { text(problem, &["title"]) } else { detail }
}

#[cfg(test)]
mod tests;
