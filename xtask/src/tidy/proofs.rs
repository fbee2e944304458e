//! What tests claim to prove exists: a requirement named in a comment (`OB-12`) stands in
//! `docs/requirements.md`, a fault named in one (`P6a`) and a case named by a function (`c091_…`) in `docs/cases.md`.
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
            for id in fault_ids(line).filter(|id| !cases.contains(id)) {
                problems.push(file.problem(index + 1, format!("{id} is not in {CASES}")));
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

/// What looks like the name of a fault: `P`, `DB` or `CK`, one or two digits, and perhaps a letter from a to c.
fn fault_ids(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.filter(|word| {
        let after_kind = ["P", "DB", "CK"].iter().find_map(|kind| word.strip_prefix(kind));
        let number = after_kind.map(|after| after.strip_suffix(['a', 'b', 'c']).unwrap_or(after));
        number.is_some_and(|number| {
            (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
        })
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
        let cases = file(
            CASES,
            "- C091 (email): z\n\n## Faults\n\n- P6a (network): x\n- DB10 (database): y, see CK1\n",
        );
        lines(&check(&[requirements, cases, file("a.rs", rust)]))
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
    fn so_must_a_fault() {
        assert_eq!(problems("/// OB-01, P6a, DB10: kept.\nfn x() {}\n"), Vec::<String>::new());
        let unknown = problems("/// P6: made up, P6a is not.\n// CK1, P6b.\n");
        let expected = [
            "a.rs:1: P6 is not in docs/cases.md",
            "a.rs:2: CK1 is not in docs/cases.md",
            "a.rs:2: P6b is not in docs/cases.md",
        ];
        assert_eq!(unknown, expected);
        let others = "// P P-256 P256 P6d P6ab p6 P_1 XP6 DB DBa sha-P1\nconst X: &str = \"P7\";\n";
        assert_eq!(problems(others), Vec::<String>::new());
    }

    #[test]
    fn only_comments_and_function_names_count() {
        let text = "const X: &str = \"OB-77\"; // OB-1 XOB-12 OB-123 ob-12\nfn c12_x() {}\nfn c1234_x() {}\nfn c123() {}\n";
        assert_eq!(problems(text), Vec::<String>::new());
    }
}
