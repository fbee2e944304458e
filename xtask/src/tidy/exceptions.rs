//! The list of functions and files that may be longer than the rule, each with its length.
//!
//! One entry a line: `path length` for a file, `path:function length` for a function; `#` begins a comment.
//! The length must be the true one: what grew is a problem, and what shrank must be noted. So the list can
//! only become shorter, and its numbers smaller.

use std::collections::BTreeSet;

use super::{File, Problem};

pub(super) const LIST: &str = "xtask/tidy-exceptions.txt";

/// The entries of the list.
#[derive(Debug, Default)]
pub(super) struct Exceptions(Vec<Exception>);

#[derive(Debug)]
struct Exception {
    /// `path` or `path:function`.
    subject: String,
    length: usize,
    line: usize,
}

impl Exceptions {
    /// Reads the list among `files`, with what is wrong about its form.
    pub(super) fn among(files: &[File]) -> (Exceptions, Vec<Problem>) {
        let mut exceptions = Exceptions::default();
        let mut problems = Vec::new();
        let Some(list) = files.iter().find(|file| file.path == LIST) else { return (exceptions, problems) };
        let mut subjects = BTreeSet::new();
        for (index, line) in list.text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [subject, length] if length.parse::<usize>().is_ok() && subjects.insert(*subject) => {
                    let length = length.parse().unwrap_or_default();
                    exceptions.0.push(Exception { subject: (*subject).to_owned(), length, line: index + 1 });
                }
                _ => problems
                    .push(list.problem(index + 1, "not `path length` or `path:function length`, once each")),
            }
        }
        (exceptions, problems)
    }

    /// The length that `subject` may have despite the rule.
    pub(super) fn allowed(&self, subject: &str) -> Option<usize> {
        self.0.iter().find(|exception| exception.subject == subject).map(|exception| exception.length)
    }

    /// The entries that do not agree with `needed`, the true lengths of what is longer than the rule.
    pub(super) fn stale(&self, needed: &[(String, usize)]) -> Vec<Problem> {
        let judge = |exception: &Exception| {
            let subject = &exception.subject;
            let message = match needed.iter().find(|(other, _)| other == subject) {
                None => format!("{subject}: no longer needed, remove this line"),
                Some((_, length)) if *length < exception.length => {
                    format!("{subject}: lower this to {length}")
                }
                Some(_) => return None,
            };
            Some(Problem { path: LIST.to_owned(), line: exception.line, message })
        };
        self.0.iter().filter_map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{file, lines};
    use super::*;

    #[test]
    fn entries_are_read_and_malformed_ones_named() {
        let (exceptions, problems) = Exceptions::among(&[file(
            LIST,
            "# why\na.rs 700\na.rs:f 80 # for now\na.rs 9\nb.rs\nc.rs many\n",
        )]);
        assert_eq!(exceptions.allowed("a.rs"), Some(700));
        assert_eq!(exceptions.allowed("a.rs:f"), Some(80));
        assert_eq!(exceptions.allowed("b.rs"), None);
        let form = "not `path length` or `path:function length`, once each";
        assert_eq!(lines(&problems), [4, 5, 6].map(|line| format!("{LIST}:{line}: {form}")));
    }

    #[test]
    fn the_list_can_only_shrink() {
        let (exceptions, _) = Exceptions::among(&[file(LIST, "gone.rs 700\nless.rs 700\nsame.rs 700\n")]);
        let stale = exceptions.stale(&[("less.rs".to_owned(), 650), ("same.rs".to_owned(), 700)]);
        let expected = [
            format!("{LIST}:1: gone.rs: no longer needed, remove this line"),
            format!("{LIST}:2: less.rs: lower this to 650"),
        ];
        assert_eq!(lines(&stale), expected);
    }
}
