//! How a command ends: the exit code, and what stderr says about it.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::Format;
use super::table::{escape, escape_lines};
use crate::config::Problem;

/// The exit code, so that scripts can tell what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done; an empty listing too.
    Fine,
    /// 1: the server refused or failed.
    Failed,
    /// 2: the arguments or the configuration make no sense.
    Usage,
    /// 3: what an action was about does not exist.
    NothingMatched,
    /// 4: no server answered, or no database.
    Unreachable,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NothingMatched => 3,
            Exit::Unreachable => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Why a command did not do what it was asked to.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    exit: Exit,
    /// A problem object (RFC 9457) with `title`, `code` and `detail`, possibly `status` and `errors`.
    problem: Value,
}

impl Failure {
    fn new(exit: Exit, code: &str, title: &str, detail: &str) -> Self {
        let problem = json!({"type": "about:blank", "title": title, "code": code, "detail": detail});
        Failure { exit, problem }
    }

    /// The arguments make no sense (2).
    pub fn usage(detail: &str) -> Self {
        Failure::new(Exit::Usage, "usage", "The arguments make no sense", detail)
    }

    /// The configuration is wrong (2). Every problem is shown with its place.
    pub fn configuration(problems: &[Problem]) -> Self {
        let detail = format!("{} in the configuration", counted(problems.len(), "problem"));
        let mut failure =
            Failure::new(Exit::Usage, "invalid_configuration", "The configuration is wrong", &detail);
        let place = |problem: &Problem| match problem.position {
            Some((line, column)) => format!("{}:{line}:{column}", problem.file),
            None => problem.file.clone(),
        };
        let errors: Vec<Value> =
            problems.iter().map(|p| json!({"field": place(p), "message": p.message})).collect();
        if let Value::Object(problem) = &mut failure.problem {
            problem.insert("errors".to_owned(), errors.into());
        }
        failure
    }

    /// Something on this machine went wrong (1).
    pub fn failed(code: &str, detail: &str) -> Self {
        Failure::new(Exit::Failed, code, "The command failed", detail)
    }

    /// No answer came (4).
    pub fn unreachable(detail: &str) -> Self {
        Failure::new(Exit::Unreachable, "server_unreachable", "The server cannot be reached", detail)
    }

    /// The database itself cannot be read or written (4).
    pub fn no_database(detail: &str) -> Self {
        Failure::new(Exit::Unreachable, "database_unavailable", "The database is not available", detail)
    }

    /// The server answered with a status that is no success: 3 if the problem's code says that there was nothing to
    /// act on, else 1; a 404 alone may come from anyone. Its own problem object is kept as it came; an
    /// answer that is none becomes one.
    pub fn answered(status: u16, body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(problem) if problem.get("code").is_some() || problem.get("title").is_some() => {
                let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
                let nothing = code.ends_with("_not_found") || code == "not_a_bounce";
                let exit = if nothing { Exit::NothingMatched } else { Exit::Failed };
                Failure { exit, problem }
            }
            _ => {
                let said = angarium_domain::text::one_line(body.trim(), 300);
                let detail = format!("the server answered {status} {said}");
                let title = "Not an answer of Angarium";
                let mut failure = Failure::new(Exit::Failed, "unexpected_answer", title, detail.trim_end());
                if let Value::Object(problem) = &mut failure.problem {
                    problem.insert("status".to_owned(), status.into());
                }
                failure
            }
        }
    }

    /// The same with a sentence more about what to do.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        let detail = format!("{}; {advice}", self.detail().trim_end_matches('.'));
        if let Value::Object(problem) = &mut self.problem {
            problem.insert("detail".to_owned(), detail.into());
        }
        self
    }

    /// The same with the id of what it is about, for programs.
    #[must_use]
    pub fn about(mut self, id: &str) -> Self {
        if let Value::Object(problem) = &mut self.problem {
            problem.insert("id".to_owned(), id.into());
        }
        self
    }

    /// The code to exit with.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    fn detail(&self) -> &str {
        let text = |key: &str| self.problem.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text("detail").or_else(|| text("title")).unwrap_or("no reason was given")
    }

    /// What stderr says: for people, or as one problem object on one line.
    pub fn shown(&self, format: Format) -> String {
        if format == Format::Json {
            return format!("{}\n", self.problem);
        }
        let mut text = format!("angarium: {}\n", escape_lines(self.detail()));
        let errors = self.problem.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for error in errors {
            let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
            let (field, message) = (part("field"), part("message"));
            // Of one error alone the detail has said it all.
            if errors.len() > 1 || self.detail() != format!("{field} {message}") {
                text.push_str(&format!("{}: {}\n", escape(field), escape(message)));
            }
        }
        text
    }
}

/// Says on stderr what went wrong and gives the code to exit with.
pub fn report(failure: &Failure, format: impl Into<Format>) -> ExitCode {
    say(&failure.shown(format.into()));
    failure.exit.into()
}

/// Writes to stderr. If nobody listens there either, nothing can be done about it.
pub(super) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// `1 problem`, `2 problems`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let all = [Exit::Fine, Exit::Failed, Exit::Usage, Exit::NothingMatched, Exit::Unreachable];
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3, 4]);
        let answered = |code: &str| Failure::answered(404, &format!("{{\"code\":\"{code}\"}}")).exit();
        assert_eq!(answered("key_not_found"), Exit::NothingMatched);
        assert_eq!(answered("not_found"), Exit::Failed, "the server has no such endpoint");
        for status in [301, 400, 401, 404, 409, 413, 422, 500, 503] {
            assert_eq!(Failure::answered(status, "").exit(), Exit::Failed, "{status}");
        }
    }

    #[test]
    fn a_problem_of_the_server_is_passed_on() {
        let body = r#"{"title":"T","status":422,"code":"invalid_request","detail":"D\u001b[2J","errors":[{"field":"subject","message":"too long"}]}"#;
        let failure = Failure::answered(422, body);
        let json: Value = serde_json::from_str(&failure.shown(Format::Json)).unwrap();
        assert_eq!(json, serde_json::from_str::<Value>(body).unwrap());
        let shown = failure.shown(Format::Table);
        assert_eq!(shown, "angarium: D\\u{1b}[2J\nsubject: too long\n");
    }

    #[test]
    fn one_error_is_shown_once() {
        let one = r#"{"code":"invalid_request","detail":"subject is required","errors":[{"field":"subject","message":"is required"}]}"#;
        assert_eq!(Failure::answered(422, one).shown(Format::Table), "angarium: subject is required\n");
    }

    #[test]
    fn advice_follows_a_sentence() {
        let refused = Failure::answered(401, r#"{"code":"auth_invalid","detail":"The key is not valid."}"#);
        let shown = refused.with_advice("give another").shown(Format::Table);
        assert_eq!(shown, "angarium: The key is not valid; give another\n");
    }

    #[test]
    fn an_answer_of_somebody_else_becomes_a_problem() {
        let failure = Failure::answered(502, "<html>\nBad Gateway</html>");
        let json: Value = serde_json::from_str(&failure.shown(Format::Json)).unwrap();
        assert_eq!(json["status"], 502);
        assert_eq!(json["detail"], "the server answered 502 <html> Bad Gateway</html>");
    }

    #[test]
    fn problems_of_the_configuration_are_shown_one_a_line() {
        let problem = Problem { file: "a.toml".into(), position: Some((3, 7)), message: "is odd".into() };
        let failure = Failure::configuration(&[problem]);
        assert_eq!(failure.exit(), Exit::Usage);
        assert_eq!(
            failure.shown(Format::Table),
            "angarium: 1 problem in the configuration\na.toml:3:7: is odd\n"
        );
        let json: Value = serde_json::from_str(&failure.shown(Format::Json)).unwrap();
        assert_eq!(json["errors"][0]["field"], "a.toml:3:7");
    }
}
