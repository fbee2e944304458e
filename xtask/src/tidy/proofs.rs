//! What tests claim to prove exists: a requirement named in a comment (`OB-12`) stands in
//! `docs/requirements.md`, a case named by a function (`c091_…`) in `docs/cases.md`.
//!
//! In both lists an entry begins with a dash and its name: `- OB-12: …`, `- C091 (email): …`.

use std::collections::BTreeSet;

use super::rust::Source;
use super::{File, Problem};

const REQUIREMENTS: &str = "docs/requirements.md";
const CASES: &str = "docs/cases.md";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let requirements = entries(files, REQUIREMENTS);
    let cases = entries(files, CASES);
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let source = Source::read(&file.text);
        for (index, line) in source.comments.lines().enumerate() {
            for id in requirement_ids(line).filter(|id| !requirements.contains(id)) {
                problems.push(file.problem(index + 1, format!("{id} is not in {REQUIREMENTS}")));
            }
        }
        for function in source.functions() {
            let unknown = case_id(&function.name).filter(|id| !cases.contains(id.as_str()));
            problems
                .extend(unknown.map(|id| file.problem(function.first, format!("{id} is not in {CASES}"))));
        }
    }
    problems
}

/// The names of the entries of the list at `path`.
fn entries<'a>(files: &'a [File], path: &str) -> BTreeSet<&'a str> {
    let text = files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let name = |line: &'a str| line.strip_prefix("- ")?.split([':', ' ']).next();
    text.lines().filter_map(name).collect()
}

/// What looks like the name of a requirement: `OB-`, `WH-`, `FP-` or `DD-` and two digits.
fn requirement_ids(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| match word.split_once('-') {
        Some((kind, number)) => {
            ["OB", "WH", "FP", "DD"].contains(&kind)
                && number.len() == 2
                && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => false,
    })
}

/// `C091` for a function named `c091_…`.
fn case_id(function: &str) -> Option<String> {
    let (number, _) = function.strip_prefix('c')?.split_once('_')?;
    (number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| format!("C{number}"))
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{file, lines};
    use super::*;

    fn problems(rust: &str) -> Vec<String> {
        let requirements = file(REQUIREMENTS, "# Rows\n- OB-01: x\n- WH-04: y, see FP-09\n");
        lines(&check(&[requirements, file(CASES, "- C091 (email): z\n"), file("a.rs", rust)]))
    }

    #[test]
    fn what_is_named_must_exist() {
        assert_eq!(problems("/// OB-01, WH-04: kept.\nfn c091_refused() {}\n"), Vec::<String>::new());
        let unknown = problems("/// OB-31: made up.\nfn c999_refused() {}\n//! See FP-09.\n");
        let expected = [
            "a.rs:1: OB-31 is not in docs/requirements.md",
            "a.rs:3: FP-09 is not in docs/requirements.md",
            "a.rs:2: C999 is not in docs/cases.md",
        ];
        assert_eq!(unknown, expected);
    }

    #[test]
    fn only_comments_and_function_names_count() {
        let text = "const X: &str = \"OB-77\"; // OB-1 XOB-12 OB-123 ob-12\nfn c12_x() {}\nfn c1234_x() {}\nfn c123() {}\n";
        assert_eq!(problems(text), Vec::<String>::new());
    }
}
