//! As much of Rust's grammar as the checks need: what is code, where functions and test modules lie.
//!
//! A scanner of a hundred lines rather than a parser: it must not fail on code that does not compile yet, and
//! must be there before anything is compiled.

use std::ops::RangeInclusive;

/// A Rust file, split into code and comments; what stands in string and character literals is in neither.
pub(super) struct Source {
    /// The text with all but code blanked out, line by line as long as the original.
    pub(super) code: String,
    /// The text with all but comments blanked out.
    pub(super) comments: String,
}

/// A function with a body; lines count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`.
    pub(super) first: usize,
    /// The line of the closing brace.
    pub(super) last: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(super) fn read(text: &str) -> Source {
        let classes = classify(text.as_bytes());
        let only = |class: Class| {
            let keep = |(byte, of): (u8, &Class)| if *of == class || byte == b'\n' { byte } else { b' ' };
            String::from_utf8_lossy(&text.bytes().zip(&classes).map(keep).collect::<Vec<u8>>()).into_owned()
        };
        Source { code: only(Class::Code), comments: only(Class::Comment) }
    }

    /// Every function that has a body, those within others included, in the order of their `fn`.
    pub(super) fn functions(&self) -> Vec<Function> {
        words(&self.code).filter(|(_, word)| *word == "fn").filter_map(|(at, _)| self.function(at)).collect()
    }

    /// The lines of items under `#[cfg(test)]`, attribute to closing brace.
    pub(super) fn test_items(&self) -> Vec<RangeInclusive<usize>> {
        let attribute = "#[cfg(test)]";
        let starts = self.code.match_indices(attribute).map(|(at, _)| at);
        starts
            .filter_map(|at| {
                let open = self.body(at + attribute.len())?;
                Some(self.line(at)..=self.line(self.closing(open)))
            })
            .collect()
    }

    /// Lines from 1 that hold code.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = usize> {
        self.code.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(index, _)| index + 1)
    }

    /// The function whose `fn` stands at `at`; none for the type `fn(…)` and for a function without a body.
    fn function(&self, at: usize) -> Option<Function> {
        let after = &self.code[at + 2..];
        let name = words(after).next().filter(|(start, _)| after[..*start].trim().is_empty())?.1;
        let open = self.body(at)?;
        Some(Function { name: name.to_owned(), first: self.line(at), last: self.line(self.closing(open)) })
    }

    /// The brace that opens the body of the item at `at`; none if the item ends with a semicolon.
    fn body(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (offset, byte) in self.code.bytes().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b';' if depth == 0 => return None,
                b'{' if depth == 0 => return Some(offset),
                _ => {}
            }
        }
        None
    }

    /// The brace that closes the one at `open`, or the end of the text.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (offset, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return offset,
                b'}' => depth -= 1,
                _ => {}
            }
        }
        self.code.len()
    }

    fn line(&self, at: usize) -> usize {
        self.code.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// The identifiers and keywords of `code`, each with its offset.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(|c: char| c.is_alphanumeric() || c == '_')?;
        let length =
            code[start..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(code.len() - start);
        rest = start + length;
        Some((start, &code[start..rest]))
    })
}

/// What each byte of `text` belongs to.
fn classify(text: &[u8]) -> Vec<Class> {
    let mut classes = Vec::with_capacity(text.len());
    while classes.len() < text.len() {
        let rest = &text[classes.len()..];
        let (class, length) = token(rest);
        classes.resize(classes.len() + length.clamp(1, rest.len()), class);
    }
    classes
}

/// The class and the length of the token that `rest` begins with.
fn token(rest: &[u8]) -> (Class, usize) {
    if rest.starts_with(b"//") {
        return (Class::Comment, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return (Class::Comment, block_comment(rest));
    }
    if let Some(length) = string(rest).or_else(|| character(rest)) {
        return (Class::Literal, length);
    }
    let word = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    (Class::Code, word)
}

/// The length of a comment that may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of the string literal that `rest` begins with: plain, byte, C or raw.
fn string(rest: &[u8]) -> Option<usize> {
    let prefix = usize::from(matches!(rest.first(), Some(b'b' | b'c')));
    if rest.get(prefix) == Some(&b'"') {
        return Some(quoted(rest, prefix, b'"'));
    }
    if rest.get(prefix) != Some(&b'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let length = rest[open + 1..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(rest.len(), |length| open + 1 + length + end.len()))
}

/// The length of the character literal that `rest` begins with; none for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\'', b'\\', ..] => Some(quoted(rest, 0, b'\'')),
        [b'\'', first, ..] => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
        _ => None,
    }
}

/// The length of `rest` up to the quote that answers the one at `open`, past any that a backslash precedes.
fn quoted(rest: &[u8], open: usize, quote: u8) -> usize {
    let mut at = open + 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Source::read(text).functions().into_iter().map(|function| function.name).collect()
    }

    #[test]
    fn literals_and_comments_are_no_code() {
        let text = r####"a "fn x() { \" " b r##"fn " "# "## c '{' d '\'' e b'"' 'l f // fn {
g /* { /* } */ fn */ h br"\" i 'é' j r#fn k"####;
        let code = Source::read(text).code;
        let left: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(left, ["a", "b", "c", "d", "e", "b", "'l", "f", "g", "h", "i", "j", "r#fn", "k"]);
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn comments_keep_their_lines() {
        let comments = Source::read("/// one\nlet x = \"/// two\"; // three\n").comments;
        let lines: Vec<&str> = comments.lines().map(str::trim).collect();
        assert_eq!(lines, ["/// one", "// three"]);
    }

    #[test]
    fn functions_reach_from_fn_to_the_closing_brace() {
        let text = "/// Doc.\npub async fn one<T>(x: [u8; 4]) -> T\nwhere\n    T: Fn(u8),\n{\n    fn two() {}\n    let c = '}';\n}\n";
        let expected = [
            Function { name: "one".to_owned(), first: 2, last: 8 },
            Function { name: "two".to_owned(), first: 6, last: 6 },
        ];
        assert_eq!(Source::read(text).functions(), expected);
    }

    #[test]
    fn types_and_functions_without_a_body_are_left_out() {
        assert_eq!(
            names(
                "trait T { fn a(&self) -> [u8; 2]; fn b() {} } type F = fn(u8) -> u8; struct S { f: fn(), }"
            ),
            ["b"]
        );
    }

    #[test]
    fn a_text_that_breaks_off_is_no_panic() {
        for text in ["fn a() {", "fn", "\"", "'", "'\\", "/*", "r#\"", "b", "#[cfg(test)] mod t {", "é"] {
            let source = Source::read(text);
            let _ = (source.functions(), source.test_items());
        }
    }

    #[test]
    fn test_items_reach_from_the_attribute_to_the_closing_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more {\n    fn b() {}\n}\n";
        assert_eq!(Source::read(text).test_items(), [4..=7]);
    }
}
