//! Spans of time as people write them: `"60s"`, `"30m"`. A unit is always required, so that nobody has to guess what `60`
//! is; two units in one text are refused.

use std::time::Duration;

/// The longest span that can be written: a hundred years.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Why a text is not a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number alone.
    #[error("needs a unit: write for example \"60s\", \"10m\", \"12h\", \"365d\" or \"250ms\"")]
    NoUnit,
    /// Not digits and a known unit.
    #[error("is not a duration such as \"250ms\", \"60s\", \"10m\", \"12h\" or \"365d\"")]
    Syntax,
    /// More than a hundred years.
    #[error("is longer than 36500 days")]
    TooLong,
}

/// Milliseconds of the units, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads a whole number and one of `ms`, `s`, `m`, `h`, `d`; white space may stand between them.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(DurationError::Syntax);
    }
    let number: u64 = digits.parse().map_err(|_| DurationError::TooLong)?;
    let unit = unit.trim_start();
    let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(if unit.is_empty() { DurationError::NoUnit } else { DurationError::Syntax });
    };
    let duration = Duration::from_millis(number.checked_mul(*millis).ok_or(DurationError::TooLong)?);
    if duration > LONGEST { Err(DurationError::TooLong) } else { Ok(duration) }
}

/// The shortest way to write a span of whole milliseconds.
pub fn write(duration: Duration) -> String {
    let millis = duration.as_millis();
    let whole = |(_, size): &&(&str, u64)| millis > 0 && millis.is_multiple_of(u128::from(*size));
    match UNITS.iter().find(whole) {
        Some((unit, size)) => format!("{}{unit}", millis / u128::from(*size)),
        None => format!("{millis}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_one_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("30m", 1_800_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("5 m", 300_000),
            ("36500d", 3_153_600_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("60"), Err(DurationError::NoUnit));
        for text in ["", "s", "-1s", "1.5s", "1 week", "60 S", "1h30m", "1e9h", "٣s", " 1s"] {
            assert_eq!(parse(text), Err(DurationError::Syntax), "{text:?}");
        }
        for text in ["36501d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["250ms", "90s", "10m", "12h", "365d", "0s", "52000s"] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
    }
}
