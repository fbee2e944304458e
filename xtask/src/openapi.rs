//! `openapi.json`, which the binary writes about itself and the repository keeps.

use crate::failure::Failure;
use crate::repo;

const FILE: &str = "openapi.json";

/// Writes the file anew.
pub(crate) fn write() -> Result<(), Failure> {
    std::fs::write(repo::root().join(FILE), generate()?)
        .map_err(|error| Failure::Wrong(format!("{FILE}: {error}")))
}

/// Fails when the file is not what the binary would write.
pub(crate) fn check() -> Result<(), Failure> {
    compare(&repo::read(FILE)?, &generate()?)
}

fn generate() -> Result<String, Failure> {
    let text =
        repo::output(repo::cargo(&["run", "--quiet", "--locked", "--package", "angarium", "--", "openapi"]))?;
    String::from_utf8(text).map_err(|error| Failure::Wrong(format!("angarium openapi: {error}")))
}

fn compare(kept: &str, generated: &str) -> Result<(), Failure> {
    if kept == generated {
        return Ok(());
    }
    let same = kept.lines().zip(generated.lines()).take_while(|(old, new)| old == new).count();
    Err(Failure::Wrong(format!("{FILE}:{}: out of date; run `cargo xtask openapi`", same + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(compare("a\nb\n", "a\nb\n"), Ok(()));
        for (kept, generated) in [("a\nb\n", "a\nc\n"), ("a\n", "a\nb\n"), ("a\nb\n", "a\n")] {
            let Err(Failure::Wrong(message)) = compare(kept, generated) else { panic!("{kept:?} passed") };
            assert!(message.starts_with("openapi.json:2: "), "{message}");
        }
    }
}
