//! Secrets and the references that keep them out of the file: `${env:NAME}` and `${file:PATH}`.
//!
//! References are resolved once, when the file is read. What they resolve to is never part of a message.

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Source;

/// A value that is never shown: neither `Debug` nor anything else prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Secret(value)
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// A text whose references were resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) value: String,
    /// Whether the text holds no reference: what it says stands in the file for all to read.
    pub(super) literal: bool,
}

/// Puts in place of each reference what it stands for. Every reference that fails has its own message.
pub(super) fn expand(text: &str, source: &Source<'_>) -> Result<Expanded, Vec<String>> {
    expand_with(text, source, |_| false, Lines::One)
}

/// The same for what may have several lines, such as a key in PEM.
pub(super) fn expand_lines(text: &str, source: &Source<'_>) -> Result<Expanded, Vec<String>> {
    expand_with(text, source, |_| false, Lines::Several)
}

/// The same for a URL: what a reference before the `@` or among the parameters stands for is a user name or password
/// as it is, so it is percent-encoded on the way in.
pub(super) fn expand_url(text: &str, source: &Source<'_>) -> Result<Expanded, Vec<String>> {
    let (user, rest) = text.rsplit_once('@').unwrap_or(("", text));
    let parameters = text.len() - rest.split_once('?').map_or(0, |(_, parameters)| parameters.len());
    expand_with(text, source, |start| start < user.len() || start >= parameters, Lines::One)
}

/// How many lines a reference may stand for.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    One,
    Several,
}

fn expand_with(
    text: &str,
    source: &Source<'_>,
    is_encoded: impl Fn(usize) -> bool,
    lines: Lines,
) -> Result<Expanded, Vec<String>> {
    let mut value = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        value.push_str(before);
        let start = text.len() - after.len();
        let Some((reference, after)) = after.split_once('}') else {
            faults.push("holds a \"${\" without its \"}\"".to_owned());
            return Err(faults);
        };
        match resolve(reference, source, lines) {
            Ok(found) if is_encoded(start) => {
                value.extend(utf8_percent_encode(&found, NON_ALPHANUMERIC));
            }
            Ok(found) => value.push_str(&found),
            Err(fault) => faults.push(fault),
        }
        rest = after;
    }
    let literal = rest.len() == text.len();
    value.push_str(rest);
    if faults.is_empty() { Ok(Expanded { value, literal }) } else { Err(faults) }
}

fn resolve(reference: &str, source: &Source<'_>, lines: Lines) -> Result<String, String> {
    let (found, named) = match reference.split_once(':') {
        Some(("env", name)) if !name.is_empty() => {
            let named = format!("names the environment variable {name}, which");
            ((source.env)(name).ok_or_else(|| format!("{named} is not set"))?, named)
        }
        Some(("file", path)) if !path.is_empty() => {
            let named = format!("names the file {path}, which");
            let mut found = (source.read)(&source.folder.join(path))
                .map_err(|error| format!("{named} cannot be read: {error}"))?;
            drop_line_end(&mut found);
            (found, named)
        }
        _ => return Err("holds a reference that is neither ${env:NAME} nor ${file:PATH}".to_owned()),
    };
    if found.is_empty() {
        return Err(format!("{named} is empty"));
    }
    let ends_a_line = |c: char| lines == Lines::Several && matches!(c, '\r' | '\n');
    if found.chars().any(|c| c.is_control() && !ends_a_line(c)) {
        return Err(format!("{named} holds a line break or another control character"));
    }
    Ok(found)
}

/// One line end at the end of a file belongs to the file, not to the secret.
pub(crate) fn drop_line_end(text: &mut String) {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    fn with_source<T>(run: impl FnOnce(&Source<'_>) -> T) -> T {
        let env = |name: &str| match name {
            "TOKEN" => Some("pa#s/s".to_owned()),
            "BROKEN" => Some("a\n".to_owned()),
            "NOTHING" => Some(String::new()),
            _ => None,
        };
        let read = |path: &Path| match path.to_str() {
            Some("/etc/angarium/secret") => Ok("t0p\n".to_owned()),
            Some("/run/two") => Ok("t0p\n\n".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        run(&Source {
            name: "angarium.toml",
            folder: Path::new("/etc/angarium"),
            readable_by_others: false,
            env: &env,
            read: &read,
        })
    }

    #[test]
    fn references_are_resolved_in_place() {
        with_source(|source| {
            let value = |text| expand(text, source).map(|expanded| expanded.value);
            assert_eq!(value("a-${env:TOKEN}-${file:secret}").unwrap(), "a-pa#s/s-t0p");
            assert_eq!(value("${file:/etc/angarium/secret}").unwrap(), "t0p");
            assert_eq!(value("100 $ {x}").unwrap(), "100 $ {x}");
            assert!(expand("plain", source).unwrap().literal);
            assert!(!expand("${env:TOKEN}", source).unwrap().literal);
        });
    }

    /// C201: a reference inside a URL takes the password as it is.
    #[test]
    fn c201_a_referenced_password_is_encoded_into_its_url() {
        with_source(|source| {
            let url = expand_url("smtps://noc:${env:TOKEN}@${file:secret}", source).unwrap();
            assert_eq!(url.value, "smtps://noc:pa%23s%2Fs@t0p");
            let url = expand_url("postgres://${file:secret}/a?user=b&password=${env:TOKEN}", source).unwrap();
            assert_eq!(url.value, "postgres://t0p/a?user=b&password=pa%23s%2Fs");
            assert_eq!(expand_url("${env:TOKEN}", source).unwrap().value, "pa#s/s");
        });
    }

    #[test]
    fn what_cannot_be_resolved_is_named_but_never_shown() {
        with_source(|source| {
            for (text, needle) in [
                ("${env:MISSING}", "variable MISSING, which is not set"),
                ("${env:NOTHING}", "is empty"),
                ("${env:BROKEN}", "control character"),
                ("${file:/run/two}", "control character"),
                ("${file:/run/none}", "cannot be read"),
                ("${vault:x}", "neither"),
                ("${env:}", "neither"),
                ("${env:TOKEN", "without its"),
            ] {
                let faults = expand(text, source).unwrap_err();
                assert!(faults.iter().any(|fault| fault.contains(needle)), "{text}: {faults:?}");
            }
            assert_eq!(expand("${env:A}${env:B}", source).unwrap_err().len(), 2);
        });
    }

    #[test]
    fn a_secret_prints_nothing() {
        assert_eq!(format!("{:?}", Secret::new("t0p".into())), "Secret(hidden)");
    }
}
