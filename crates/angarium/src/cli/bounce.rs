//! `bounce`: a mail server's report, handed to the server as the mail that it came in.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::args::Globals;
use super::client::Api;
use super::exit::{Exit, Failure};
use super::listing::{text, unreadable};
use super::output::{Format, Out};
use super::table::escape;

/// The most bytes of a mail that are read; what the server takes is its own to say.
const MAIL_BYTES: u64 = 64 * 1024 * 1024;

pub(super) fn run(globals: &Globals, file: Option<&Path>, out: &mut Out) -> Result<Exit, Failure> {
    let file = file.filter(|path| *path != Path::new("-"));
    let mail = read(file).map_err(|error| {
        let name = file.map_or("stdin".to_owned(), |path| path.display().to_string());
        Failure::usage(&format!("{name}: {error}"))
    })?;
    let answer = Api::connect(globals)?.post_mail(&["bounces"], mail)?;
    if out.format() == Format::Json {
        out.line(&answer);
        return Ok(Exit::Fine);
    }
    let answer: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    out.line(&match out.format() {
        Format::Ids => text(&answer, &["notification"]),
        _ => summary(&answer),
    });
    Ok(Exit::Fine)
}

fn read(file: Option<&Path>) -> std::io::Result<Vec<u8>> {
    let reader: Box<dyn Read> = match file {
        Some(path) => Box::new(std::fs::File::open(path)?),
        None => Box::new(std::io::stdin().lock()),
    };
    let mut mail = Vec::new();
    if reader.take(MAIL_BYTES + 1).read_to_end(&mut mail)? as u64 > MAIL_BYTES {
        return Err(std::io::Error::other("it has more than 64 MiB"));
    }
    Ok(mail)
}

/// What became of the addresses that the report tells of, in one line.
fn summary(answer: &Value) -> String {
    let counts = ["recorded", "known", "strangers", "suppressed"]
        .map(|name| format!("{} {name}", text(answer, &[name])));
    escape(&format!("{}: {}", text(answer, &["notification"]), counts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_became_of_a_report() {
        let answer = json!({"notification": "n", "recorded": 2, "known": 0, "strangers": 1, "suppressed": 1});
        assert_eq!(summary(&answer), "n: 2 recorded, 0 known, 1 strangers, 1 suppressed");
    }

    #[cfg(unix)]
    #[test]
    fn a_mail_without_end_is_refused() {
        assert!(read(Some(Path::new("/dev/zero"))).unwrap_err().to_string().contains("64 MiB"));
        assert!(read(Some(Path::new("/nowhere/at/all"))).is_err());
    }
}
