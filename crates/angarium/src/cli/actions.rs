//! `notification retry`, `discard` and `cancel`: one call for each id, all of them tried.

use serde_json::json;

use super::args::ActionArgs;
use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::output::{Format, Out};

pub(super) fn run(api: &Api, action: &str, args: &ActionArgs, out: &mut Out) -> Result<Exit, Failure> {
    let body = match &args.reason {
        Some(reason) => json!({"reason": reason}).to_string(),
        None => json!({}).to_string(),
    };
    let ids: Vec<String> = args.ids.iter().map(ToString::to_string).collect();
    let act = |id: &str| api.post(&["notifications", id, action], body.clone());
    each(&ids, act, past(action), out)
}

fn past(action: &str) -> &'static str {
    match action {
        "retry" => "will be tried again",
        "discard" => "is discarded",
        _ => "is cancelled",
    }
}

/// Does the same with every id. What fails is said at once, each with its own problem and id, and the rest is done
/// all the same, unless no server answers. Ends with 1 if anything failed, with 3 if it failed only because
/// there is no such thing.
pub(super) fn each(
    ids: &[String],
    act: impl Fn(&str) -> Result<String, Failure>,
    done: &str,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Fine;
    let mut answers = Vec::new();
    let mut lost = None;
    for id in ids {
        match act(id).map_err(|failure| failure.about(id)) {
            Ok(answer) => match out.format() {
                Format::Table => out.line(&format!("{id} {done}{}", afterthought(&answer))),
                Format::Ids => out.line(id),
                Format::Json => {
                    answers.push(if answer.is_empty() { json!({"id": id}).to_string() } else { answer })
                }
            },
            Err(failure) if failure.exit() == Exit::Unreachable => {
                lost = Some(failure);
                break;
            }
            Err(failure) => {
                let subject = if ids.len() > 1 && out.format() != Format::Json {
                    format!("{id}: ")
                } else {
                    String::new()
                };
                say(&format!("{subject}{}", failure.shown(out.format())));
                exit = if exit == Exit::Failed { exit } else { failure.exit() };
            }
        }
    }
    if out.format() == Format::Json {
        out.line(&format!("{{\"items\":[{}]}}", answers.join(",")));
    }
    lost.map_or(Ok(exit), Err)
}

/// What an operator should know who stops something at the moment it is being sent.
fn afterthought(answer: &str) -> &'static str {
    let answer = serde_json::from_str::<serde_json::Value>(answer).unwrap_or_default();
    if answer["in_flight"] == true { "; an attempt is under way and may still arrive" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{self, ErrorKind, Write};

    use super::*;
    use crate::cli::output::Output;
    use crate::cli::output::tests::Captured;

    /// The answers of a server to ids that are named after them.
    fn answer(id: &str) -> Result<String, Failure> {
        match id {
            "gone" => Err(Failure::answered(404, "{\"code\":\"notification_not_found\"}")),
            "busy" => Err(Failure::answered(409, "")),
            "down" => Err(Failure::unreachable("refused")),
            id => Ok(format!("{{\"id\":\"{id}\"}}")),
        }
    }

    fn run_each(ids: &[&str], format: Format) -> (Result<Exit, Failure>, String, usize) {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let captured = Captured::default();
        let calls = RefCell::new(0);
        let act = |id: &str| {
            *calls.borrow_mut() += 1;
            answer(id)
        };
        let exit = each(&ids, act, "is done", &mut captured.out(format));
        (exit, captured.text(), calls.take())
    }

    #[test]
    fn every_id_is_tried_and_the_worst_counts() {
        for (ids, exit) in [
            (&["a", "b"][..], Exit::Fine),
            (&["gone", "a"], Exit::NothingMatched),
            (&["gone", "busy", "a"], Exit::Failed),
            (&["busy", "gone"], Exit::Failed),
        ] {
            let (ended, _, calls) = run_each(ids, Format::Table);
            assert_eq!((ended.unwrap(), calls), (exit, ids.len()), "{ids:?}");
        }
        let (ended, shown, calls) = run_each(&["a", "down", "b"], Format::Json);
        let lost = ended.unwrap_err();
        assert_eq!((lost.exit(), calls), (Exit::Unreachable, 2));
        assert!(lost.shown(Format::Json).contains("\"id\":\"down\""), "programs are told which");
        assert_eq!(shown, "{\"items\":[{\"id\":\"a\"}]}\n");
    }

    #[test]
    fn what_was_done_is_told_in_each_form() {
        let told = |format| run_each(&["a", "gone", "b"], format).1;
        assert_eq!(told(Format::Table), "a is done\nb is done\n");
        assert_eq!(told(Format::Ids), "a\nb\n");
        assert_eq!(told(Format::Json), "{\"items\":[{\"id\":\"a\"},{\"id\":\"b\"}]}\n");
    }

    #[test]
    fn an_attempt_under_way_is_mentioned() {
        assert!(afterthought("{\"in_flight\":true}").contains("under way"));
        assert_eq!(afterthought("{\"in_flight\":false}"), "");
        assert_eq!(afterthought(""), "");
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(ErrorKind::BrokenPipe.into())
        }
    }

    /// C198: an action finishes its work though nobody reads what it tells.
    #[test]
    fn c198_work_goes_on_without_a_reader() {
        let ids: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let calls = RefCell::new(0);
        let act = |id: &str| {
            *calls.borrow_mut() += 1;
            answer(id)
        };
        let mut out = Out::to(Box::new(Closed), Output::Table);
        assert_eq!(each(&ids, act, "is done", &mut out).unwrap(), Exit::Fine);
        assert!(out.finish().is_ok());
        assert_eq!(calls.take(), 100);
    }
}
