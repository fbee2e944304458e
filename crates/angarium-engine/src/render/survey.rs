//! A look at the words of a template before anything recurses over them.
//!
//! The template engine builds a tree from the source and walks it, and the values that it makes, by recursion; it bounds
//! brackets and statements, but not chains (`a.a.a…`, `a|e|e…`, `- - -…`, `elif`) and not values that are wrapped again and
//! again (`{% set a = [a] %}`). 64 KiB of either end the process. The words come one after the other and need no stack;
//! so they are counted first.
//!
//! The same look finds every filter, test, function and statement by name: the engine would find out while it renders.
//! Here a template has what stands in the lists below and nothing else.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::fault::{Fault, FaultKind};

/// Bytes of the source of one part.
const SOURCE: usize = 64 * 1024;
/// Words in one tag.
const IN_A_TAG: usize = 160;
/// Words in all tags together that give a name to something.
const NAMING: usize = 400;
/// Statements within each other.
const NESTED: usize = 20;
/// Alternatives (`elif`) in all.
const ALTERNATIVES: usize = 50;
/// Faults that are told at once.
const FAULTS: usize = 20;

const STATEMENTS: [&str; 11] =
    ["if", "elif", "else", "endif", "for", "endfor", "set", "endset", "with", "endwith", "filter"];
/// What ends a statement that holds others, beside those above.
const END_OF_FILTER: &str = "endfilter";

/// The filters that there are in every part.
pub(super) const FILTERS: [&str; 27] = [
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "lower",
    "replace",
    "reverse",
    "round",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "trim",
    "upper",
];
/// The filters that there are in HTML alone.
pub(super) const HTML_FILTERS: [&str; 3] = ["e", "escape", "safe"];
/// The tests (`is …`) that there are.
pub(super) const TESTS: [&str; 21] = [
    "defined",
    "undefined",
    "none",
    "true",
    "false",
    "odd",
    "even",
    "divisibleby",
    "number",
    "integer",
    "float",
    "string",
    "sequence",
    "mapping",
    "iterable",
    "startingwith",
    "endingwith",
    "in",
    "eq",
    "ne",
    "boolean",
];
/// The functions that there are.
pub(super) const FUNCTIONS: [&str; 1] = ["range"];
/// Words after which a bracket opens no call.
const KEYWORDS: [&str; 10] = ["if", "elif", "else", "not", "and", "or", "in", "set", "for", "with"];

/// What the words of one part tell.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What must not be compiled.
    pub(super) faults: Vec<Fault>,
    /// The names after `fields`, and where they stand.
    pub(super) fields: Vec<(String, usize)>,
    /// Something in it may read the subscription.
    pub(super) subscription: bool,
    /// Something in it may read the recipient.
    pub(super) recipient: bool,
}

/// A word and the byte at which it begins.
type Word<'s> = (Token<'s>, usize);

/// Looks at one part. A source that cannot even be split into words has no fault here: the compiler says it better.
pub(super) fn survey(part: &str, source: &str) -> Survey {
    let mut found = Survey::default();
    if source.len() > SOURCE {
        let message = format!("has {} bytes, at most {SOURCE} are allowed", source.len());
        found.faults.push(Fault::of(part, FaultKind::Syntax, &message));
        return found;
    }
    let words: Vec<Word<'_>> = tokenize(source, false, SyntaxConfig::default())
        .map_while(Result::ok)
        .map(|(token, span)| (token, span.start_offset as usize))
        .collect();
    let mut faults = Shape::default().faults(&words);
    for at in 0..words.len() {
        faults.extend(unknown_name(&words, at, part == "html"));
        faults.extend(repeated_list(&words, at));
        match word(&words, at) {
            Some("subscription") => found.subscription = true,
            Some("recipient") => found.recipient = true,
            Some("fields") if !is_attribute(&words, at) => found.fields.extend(field_after(&words, at)),
            _ => {}
        }
    }
    let told = faults.into_iter().take(FAULTS);
    found.faults = told.map(|(at, text)| Fault::at(part, source, at, FaultKind::Syntax, &text)).collect();
    found
}

/// The counts that bound how deep anything can nest.
#[derive(Default)]
struct Shape {
    nested: usize,
    alternatives: usize,
    naming: usize,
}

impl Shape {
    /// At most one of each kind: the first.
    fn faults(mut self, words: &[Word<'_>]) -> Vec<(usize, String)> {
        let mut faults: Vec<(usize, String)> = Vec::new();
        for tag in words.split_inclusive(|(token, _)| matches!(token, Token::VariableEnd | Token::BlockEnd)) {
            for fault in self.enter(tag) {
                if !faults.iter().any(|(_, told)| *told == fault.1) {
                    faults.push(fault);
                }
            }
        }
        faults
    }

    /// Counts one tag, with the text before it.
    fn enter(&mut self, tag: &[Word<'_>]) -> Vec<(usize, String)> {
        let opens = |(token, _): &Word<'_>| matches!(token, Token::VariableStart | Token::BlockStart);
        let Some(start) = tag.iter().position(opens) else { return Vec::new() };
        let (tag, place) = (&tag[start + 1..], tag[start].1);
        if matches!(word(tag, 0), Some("set" | "with" | "for")) {
            self.naming += tag.len();
        }
        match word(tag, 0) {
            Some("elif") => self.alternatives += 1,
            Some("if" | "for" | "with" | "filter") => self.nested += 1,
            Some("set") if !tag.iter().any(|(token, _)| matches!(token, Token::Assign)) => self.nested += 1,
            Some(end) if end.starts_with("end") => self.nested = self.nested.saturating_sub(1),
            _ => {}
        }
        let mut faults = Vec::new();
        let mut bound = |count: usize, limit: usize, what: &str| {
            if count > limit {
                faults.push((place, format!("{what}; at most {limit} are allowed")));
            }
        };
        bound(tag.len(), IN_A_TAG, "too many words in one tag");
        bound(self.naming, NAMING, "too many words in all tags with `set`, `with` and `for`");
        bound(self.nested, NESTED, "too many statements within each other");
        bound(self.alternatives, ALTERNATIVES, "too many `elif`");
        faults
    }
}

/// Filters that make a number.
const NUMERIC: [&str; 6] = ["abs", "count", "float", "int", "length", "round"];

/// A `*` that may repeat a list: the engine makes a list of any length at once, and going through it costs no fuel. So what
/// is multiplied must be seen to be a number, or a text, and by what must stand there.
fn repeated_list(words: &[Word<'_>], at: usize) -> Option<(usize, String)> {
    if !matches!(token(words, at), Some(Token::Mul)) {
        return None;
    }
    let literal =
        |token: Option<&Token<'_>>| matches!(token, Some(Token::Int(_) | Token::Int128(_) | Token::Float(_)));
    let text = |token: Option<&Token<'_>>| matches!(token, Some(Token::Str(_) | Token::String(_)));
    let before = at.checked_sub(1)?;
    let piped = before.checked_sub(1).is_some_and(|pipe| matches!(token(words, pipe), Some(Token::Pipe)));
    let is_number = piped && word(words, before).is_some_and(|filter| NUMERIC.contains(&filter));
    let by = if matches!(token(words, at + 1), Some(Token::Minus)) { at + 2 } else { at + 1 };
    let stands_there = literal(token(words, before)) || text(token(words, before));
    let known = is_number || (stands_there && !is_attribute(words, before));
    (!known || !literal(token(words, by))).then(|| {
        let message =
            "`*` needs a number or a text before it, such as `1.5` or `x | float`, and a number after it";
        (words[at].1, message.to_owned())
    })
}

/// What is wrong with the name at `at`, if it is one that must be known.
fn unknown_name(words: &[Word<'_>], at: usize, html: bool) -> Option<(usize, String)> {
    let place = words[at].1;
    let Some(name) = word(words, at) else {
        return anonymous_call(words, at)
            .then(|| (place, "only functions with a name can be called".to_owned()));
    };
    if is_attribute(words, at) {
        return None;
    }
    let (what, known) = match role(words, at)? {
        Role::Statement if name == END_OF_FILTER => return None,
        Role::Statement => ("statement", STATEMENTS.contains(&name)),
        Role::Filter if HTML_FILTERS.contains(&name) && !html => {
            return Some((
                place,
                format!("the filter `{name}` is for the html alone; nothing else is escaped"),
            ));
        }
        Role::Filter => ("filter", FILTERS.contains(&name) || HTML_FILTERS.contains(&name)),
        Role::Test => ("test", TESTS.contains(&name)),
        Role::Function => ("function", FUNCTIONS.contains(&name)),
    };
    // A filter's or a test's name may go on after a dot.
    let goes_on = matches!(what, "filter" | "test") && matches!(token(words, at + 1), Some(Token::Dot));
    (!known || goes_on).then(|| (place, format!("there is no {what} `{name}`")))
}

enum Role {
    Statement,
    Filter,
    Test,
    Function,
}

/// As what the name at `at` is used, if not as a variable.
fn role(words: &[Word<'_>], at: usize) -> Option<Role> {
    let before = |back: usize| at.checked_sub(back).and_then(|at| token(words, at));
    let calls = matches!(token(words, at + 1), Some(Token::ParenOpen));
    match (before(2), before(1)) {
        (_, Some(Token::BlockStart)) => Some(Role::Statement),
        (_, Some(Token::Pipe)) | (Some(Token::BlockStart), Some(Token::Ident("filter"))) => {
            Some(Role::Filter)
        }
        (Some(Token::Ident("is")), Some(Token::Ident("not"))) => Some(Role::Test),
        (_, Some(Token::Ident("is"))) if word(words, at) != Some("not") => Some(Role::Test),
        _ if calls && word(words, at).is_some_and(|name| !KEYWORDS.contains(&name)) => Some(Role::Function),
        _ => None,
    }
}

/// A bracket that calls what an expression yields.
fn anonymous_call(words: &[Word<'_>], at: usize) -> bool {
    let callee = at.checked_sub(1).and_then(|at| token(words, at));
    matches!(token(words, at), Some(Token::ParenOpen))
        && matches!(
            callee,
            Some(
                Token::ParenClose
                    | Token::BracketClose
                    | Token::BraceClose
                    | Token::Str(_)
                    | Token::String(_)
            )
        )
}

/// The name after `fields`: `fields.area` or `fields["area"]`.
fn field_after(words: &[Word<'_>], at: usize) -> Option<(String, usize)> {
    let place = words.get(at)?.1;
    let name = match (token(words, at + 1)?, token(words, at + 2)?) {
        (Token::Dot, Token::Ident(name)) | (Token::BracketOpen, Token::Str(name)) => (*name).to_owned(),
        (Token::BracketOpen, Token::String(name)) => name.to_string(),
        _ => return None,
    };
    Some((name, place))
}

fn is_attribute(words: &[Word<'_>], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|at| matches!(token(words, at), Some(Token::Dot)))
}

fn token<'w, 's>(words: &'w [Word<'s>], at: usize) -> Option<&'w Token<'s>> {
    words.get(at).map(|(token, _)| token)
}

fn word<'s>(words: &[Word<'s>], at: usize) -> Option<&'s str> {
    match token(words, at) {
        Some(Token::Ident(name)) => Some(name),
        _ => None,
    }
}
