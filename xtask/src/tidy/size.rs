//! Functions fit on a page, files can be read in one sitting.

use super::exceptions::Exceptions;
use super::rust::Source;
use super::{File, Problem};

/// The most lines of a function, `fn` to closing brace. Tests are no exception.
const FUNCTION: usize = 70;
/// The most lines of a Rust file that hold code outside `#[cfg(test)]`; comments and blanks do not count.
const CODE: usize = 400;
/// The most lines of a file, all told.
const FILE: usize = 600;

/// The kinds of file that people write and read line by line.
const WRITTEN: [&str; 6] = [".rs", ".sql", ".js", ".css", ".html", ".sh"];

/// A length beyond the rule.
struct Excess {
    /// What an exception would name.
    subject: String,
    line: usize,
    length: usize,
    rule: String,
}

pub(super) fn check(files: &[File], exceptions: &Exceptions) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut needed = Vec::new();
    for file in files {
        for excess in excesses(file) {
            match exceptions.allowed(&excess.subject) {
                None => problems.push(file.problem(excess.line, excess.rule)),
                Some(allowed) if excess.length > allowed => {
                    let grown = format!("{}; its exception allows {allowed}", excess.rule);
                    problems.push(file.problem(excess.line, grown));
                }
                Some(_) => {}
            }
            needed.push((excess.subject, excess.length));
        }
    }
    problems.extend(exceptions.stale(&needed));
    problems
}

fn excesses(file: &File) -> Vec<Excess> {
    let mut excesses = Vec::new();
    let length = file.text.lines().count();
    let of_file = |rule| Excess { subject: file.path.clone(), line: 1, length, rule };
    if WRITTEN.iter().any(|ending| file.path.ends_with(ending)) && length > FILE {
        excesses.push(of_file(format!("{length} lines; {FILE} at the very most")));
    }
    if !file.is_rust() {
        return excesses;
    }
    let source = Source::read(&file.text);
    let code = code_length(&source);
    if !file.is_test() && code > CODE && length <= FILE {
        excesses.push(of_file(format!("{code} lines of code; {CODE} at most")));
    }
    for function in source.functions() {
        let length = function.last - function.first + 1;
        if length > FUNCTION {
            let rule = format!("fn {} has {length} lines; {FUNCTION} at most", function.name);
            let subject = format!("{}:{}", file.path, function.name);
            excesses.push(Excess { subject, line: function.first, length, rule });
        }
    }
    excesses
}

fn code_length(source: &Source) -> usize {
    let tests = source.test_items();
    source.code_lines().filter(|line| !tests.iter().any(|item| item.contains(line))).count()
}

#[cfg(test)]
mod tests {
    use super::super::exceptions::LIST;
    use super::super::made_up::{file, lines};
    use super::*;

    fn problems(files: &[File]) -> Vec<String> {
        lines(&check(files, &Exceptions::among(files).0))
    }

    /// A function of so many lines.
    fn function(name: &str, length: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    f();\n".repeat(length - 2))
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_not_one_more() {
        let text = format!("{}{}", function("fits", 70), function("long", 71));
        assert_eq!(problems(&[file("a.rs", text)]), ["a.rs:71: fn long has 71 lines; 70 at most"]);
    }

    #[test]
    fn functions_of_tests_are_held_to_it_as_well() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("long", 71));
        assert_eq!(problems(&[file("a.rs", text)]), ["a.rs:3: fn long has 71 lines; 70 at most"]);
    }

    #[test]
    fn a_file_may_have_four_hundred_lines_of_code() {
        let comments = "// why\n\n".repeat(50);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "use f;\n".repeat(50));
        let fits = format!("{comments}{}{tests}", "use f;\n".repeat(400));
        assert_eq!(problems(&[file("a.rs", fits)]), Vec::<String>::new());
        let long = "use f;\n".repeat(401);
        assert_eq!(problems(&[file("a.rs", long.clone())]), ["a.rs:1: 401 lines of code; 400 at most"]);
        assert_eq!(problems(&[file("tests/a.rs", long)]), Vec::<String>::new());
    }

    #[test]
    fn six_hundred_lines_are_the_very_most() {
        let too_long = ["a.rs:1: 601 lines; 600 at the very most"];
        assert_eq!(problems(&[file("a.rs", "// why\n".repeat(601))]), too_long);
        assert_eq!(problems(&[file("a.rs", "use f;\n".repeat(601))]), too_long);
        let written = problems(&[file("a.sql", "x\n".repeat(601)), file("a.json", "x\n".repeat(601))]);
        assert_eq!(written, ["a.sql:1: 601 lines; 600 at the very most"]);
    }

    #[test]
    fn an_exception_allows_its_length_and_must_be_needed() {
        let text = function("long", 80);
        let with = |list: &str| problems(&[file("a.rs", text.clone()), file(LIST, list)]);
        assert_eq!(with("a.rs:long 80\n"), Vec::<String>::new());
        assert_eq!(
            with("a.rs:long 79\n"),
            ["a.rs:1: fn long has 80 lines; 70 at most; its exception allows 79"]
        );
        assert_eq!(with("a.rs:long 81\n"), [format!("{LIST}:1: a.rs:long: lower this to 80")]);
        let stale = with("a.rs:long 80\na.rs 700\n");
        assert_eq!(stale, [format!("{LIST}:2: a.rs: no longer needed, remove this line")]);
    }
}
