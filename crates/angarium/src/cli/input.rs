//! What is read from a file or from stdin: texts and JSON, never without end.

use std::io::Read;
use std::path::Path;

use serde_json::value::RawValue;

use super::exit::Failure;

/// The most bytes of a text that are read; what the server takes is its own to say.
const TEXT_BYTES: u64 = 64 * 1024 * 1024;

/// A file, or stdin for `-`.
pub(super) fn open(path: &Path) -> std::io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        Ok(Box::new(std::io::stdin()))
    } else {
        Ok(Box::new(std::fs::File::open(path)?))
    }
}

/// The whole text of a file, or of stdin.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = open(path).and_then(|reader| reader.take(TEXT_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > TEXT_BYTES => Err(refused(path, "it has more than 64 MiB")),
        Ok(_) => Ok(text),
        Err(error) => Err(refused(path, error)),
    }
}

/// The one JSON value of a file, word for word.
pub(super) fn read_json(path: &Path) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(&read(path)?).map_err(|error| refused(path, error))
}

/// All JSON values of a file, one after the other, word for word; at least one.
pub(super) fn read_values(path: &Path) -> Result<Vec<Box<RawValue>>, Failure> {
    let text = read(path)?;
    let values: Result<Vec<Box<RawValue>>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    match values {
        Ok(values) if values.is_empty() => Err(refused(path, "it holds nothing")),
        Ok(values) => Ok(values),
        Err(error) => Err(refused(path, error)),
    }
}

fn refused(path: &Path, why: impl std::fmt::Display) -> Failure {
    let name = if path == Path::new("-") { "stdin".into() } else { path.to_string_lossy() };
    Failure::usage(&format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Exit, Format};

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn refusal<T>(result: Result<T, Failure>) -> String {
        let failure = result.err().unwrap();
        assert_eq!(failure.exit(), Exit::Usage);
        failure.shown(Format::Table)
    }

    #[test]
    fn values_stand_one_after_the_other() {
        let (_folder, path) = file("{\"n\":1.50}\n\n{\"a\":\n  [1,\n2]}\n");
        let values = read_values(&path).unwrap();
        assert_eq!(
            values.iter().map(|value| value.get()).collect::<Vec<_>>(),
            ["{\"n\":1.50}", "{\"a\":\n  [1,\n2]}"]
        );
        assert!(refusal(read_json(&path)).contains("line 3"), "one value is wanted, and there are two");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let (_folder, path) = file("{}\n{\"a\":}\n");
        let told = refusal(read_values(&path));
        assert!(told.contains("input: ") && told.contains("line 2 column 6"), "{told}");
        let (_folder, path) = file(" \n");
        assert!(refusal(read_values(&path)).contains("nothing"));
        assert!(refusal(read(Path::new("/nowhere/at/all"))).starts_with("angarium: /nowhere/at/all: "));
    }

    #[cfg(unix)]
    #[test]
    fn a_text_without_end_is_refused() {
        assert!(refusal(read(Path::new("/dev/zero"))).contains("64 MiB"));
    }
}
