//! Why a template is refused, or could not be rendered.

use std::fmt;

use angarium_domain::text::one_line;
use minijinja::{Error, ErrorKind};

/// Characters of a message.
const MESSAGE: usize = 300;

/// What is wrong with one part of a template. Its text quotes the template at most, never what an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `subject`, `body`, `html`, `sequence_id`, or `tags[2]`, counted from 0.
    pub part: String,
    /// Where, from 1, if it is known.
    pub line: Option<usize>,
    /// Where in that line, in characters from 1, if it is known.
    pub column: Option<usize>,
    /// What sort of thing.
    pub kind: FaultKind,
    /// For whoever wrote the template: one line.
    pub message: String,
}

/// What sort of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is no template: wrong syntax, an unknown name, too long or too deeply nested.
    Syntax,
    /// It uses what the event does not have.
    Undefined,
    /// It works for too long, or makes too much.
    Limit,
    /// It cannot do with these values what it says.
    Other,
}

impl FaultKind {
    /// The word for it in answers and in what is kept with a row.
    pub fn code(self) -> &'static str {
        match self {
            FaultKind::Syntax => "template_invalid",
            FaultKind::Undefined => "render_undefined",
            FaultKind::Limit => "render_limit",
            FaultKind::Other => "render_failed",
        }
    }
}

impl Fault {
    /// A fault in the bytes from `at` on of a part's source.
    pub(super) fn at(part: &str, source: &str, at: usize, kind: FaultKind, message: &str) -> Fault {
        let before = source.get(..at).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault { line: Some(line), column: Some(column), ..Fault::of(part, kind, message) }
    }

    /// A fault of a part as a whole.
    pub(super) fn of(part: &str, kind: FaultKind, message: &str) -> Fault {
        Fault { part: part.to_owned(), line: None, column: None, kind, message: one_line(message, MESSAGE) }
    }

    /// What the compiler says of a part's source.
    pub(super) fn of_source(part: &str, source: &str, error: &Error) -> Fault {
        let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let at = error.range().map_or(source.len(), |range| range.start);
        Fault::at(part, source, at, FaultKind::Syntax, &message)
    }

    /// What happened while a part was rendered. The engine's own words may quote a value; so the place in the template is
    /// quoted instead, unless all they can name is a variable.
    pub(super) fn of_rendering(part: &str, source: &str, error: &Error) -> Fault {
        let range = error.range().unwrap_or_default();
        let place = source.get(range.clone()).unwrap_or_default();
        let (kind, message) = match error.kind() {
            ErrorKind::OutOfFuel => (FaultKind::Limit, "does or makes more than a template may".to_owned()),
            ErrorKind::UndefinedError => {
                let named = error.detail().map(str::to_owned);
                (FaultKind::Undefined, named.unwrap_or_else(|| format!("`{place}` is undefined")))
            }
            // The engine ends so when an undefined value is why it could not.
            _ if error.detail().is_some_and(|detail| detail.ends_with("is undefined)")) => {
                (FaultKind::Undefined, format!("undefined in `{place}`"))
            }
            kind => (FaultKind::Other, format!("{kind} in `{place}`")),
        };
        Fault::at(part, source, range.start, kind, &message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.code(), self.part)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": {}", self.message)
    }
}
