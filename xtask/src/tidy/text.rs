//! Text that must not stand in any file, and blanks that must not.

use super::rust::{Source, words};
use super::{File, Problem};

/// Folders of files that must keep every byte, stray blanks included.
const BYTE_EXACT: [&str; 3] = ["snapshots", "golden", "fixtures"];

/// The marker that gives a pause in a test its reason.
const SLEEP_REASON: &str = "// tidy: sleep";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let forbidden = forbidden();
    let mut problems = Vec::new();
    for file in files {
        problems.extend(foreign(file, &forbidden));
        if !file.path.split('/').any(|part| BYTE_EXACT.contains(&part)) {
            problems.extend(blanks(file));
        }
        if file.is_rust() {
            problems.extend(sleeps(file));
        }
    }
    problems
}

/// What means something on one machine or in one place of work only, and why it may not stand in a file.
/// Written in two halves, so that this file may hold it.
fn forbidden() -> Vec<(String, &'static str)> {
    let outside = "points outside the repository";
    let workplace = "means something in one place of work only";
    [
        ("../sha", "red", outside),
        ("/wo", "rk/", outside),
        ("/ho", "me/", outside),
        ("/ro", "ot/", outside),
        ("/Use", "rs/", outside),
        ("/tmp/b", "riefs", outside),
        ("/tmp/", "hc", outside),
        ("shared/", "DESIGN", outside),
        ("shared/", "STYLE", outside),
        ("shared/", "RELIABILITY", outside),
        ("shared/", "REQUIREMENTS", outside),
        ("shared/", "cases", outside),
        ("shared/", "protocols", outside),
        ("issue ", "#", workplace),
    ]
    .map(|(start, end, why)| (format!("{start}{end}"), why))
    .into()
}

fn foreign(file: &File, forbidden: &[(String, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (text, why) in forbidden.iter().filter(|(text, _)| line.contains(text)) {
            problems.push(file.problem(index + 1, format!("`{text}` {why}")));
        }
    }
    problems
}

fn blanks(file: &File) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            problems.push(file.problem(index + 1, "blank at the end of the line"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        problems.push(file.problem(file.text.lines().count(), "no line break at the end of the file"));
    }
    problems
}

/// Pauses in tests: whatever is waited for has a signal, or a reason stands on the line or the one above it.
fn sleeps(file: &File) -> Vec<Problem> {
    let source = Source::read(&file.text);
    let tests = source.test_items();
    let in_test = |line: usize| file.is_test() || tests.iter().any(|item| item.contains(&line));
    let comments: Vec<&str> = source.comments.lines().collect();
    let gives_reason = |comment: &&str| {
        comment.split_once(SLEEP_REASON).is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    let explained = |index: usize| comments[index.saturating_sub(1)..=index].iter().any(gives_reason);
    let pauses =
        |line: &str| words(line).any(|(at, word)| word == "sleep" && line[at..].starts_with("sleep("));
    let mut problems = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        if pauses(line) && in_test(index + 1) && !explained(index) {
            let message =
                format!("a test waits for a signal, not for time; or give a reason: `{SLEEP_REASON} …`");
            problems.push(file.problem(index + 1, message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{file, lines};
    use super::*;

    #[test]
    fn what_points_outside_is_named() {
        for (text, why) in forbidden() {
            let problems = lines(&check(&[file("a.md", format!("fine\nsee {text} there\n"))]));
            assert!(problems.contains(&format!("a.md:2: `{text}` {why}")), "{problems:?}");
        }
        assert_eq!(check(&[file("a.md", "shared state, /tmp/x, an issue, root\n")]), []);
    }

    #[test]
    fn stray_blanks_are_named() {
        let problems = lines(&check(&[file("a.md", "a \nb\t\nc\r\nd")]));
        let expected = [
            "a.md:1: blank at the end of the line",
            "a.md:2: blank at the end of the line",
            "a.md:3: blank at the end of the line",
            "a.md:4: no line break at the end of the file",
        ];
        assert_eq!(problems, expected);
        assert_eq!(check(&[file("a.md", ""), file("x/golden/a.txt", "a \r\nb")]), []);
    }

    #[test]
    fn a_reason_says_something() {
        let problems = check(&[file("tests/a.rs", "fn a() {\n    sleep(1); // tidy: sleep\n}\n")]);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_test_may_not_sleep_without_a_reason() {
        let text = "fn a() { sleep(1); }\n#[cfg(test)]\nmod tests {\n    // tidy: sleep the clock of the far side\n    fn b() { sleep(1); }\n    fn c() { thread::sleep(1); }\n    fn asleep() { asleep(); }\n}\n";
        let problems = lines(&check(&[file("src/a.rs", text)]));
        assert!(problems.len() == 1 && problems[0].starts_with("src/a.rs:6: a test waits"), "{problems:?}");
        let problems = lines(&check(&[file("tests/a.rs", "fn a() {\n    sleep(1);\n}\n")]));
        assert!(problems.len() == 1 && problems[0].starts_with("tests/a.rs:2: "), "{problems:?}");
        let spoken = "fn a() {\n    sleep(1); // tidy: sleep why\n    say(\"sleep(1)\"); // sleep(1)\n}\n";
        assert_eq!(check(&[file("tests/a.rs", spoken)]), []);
    }
}
