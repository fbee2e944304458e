//! Durations and sizes as people write them: `"60s"`, `"256KiB"`. A unit is always required for a duration,
//! so that nobody has to guess what `60` is; a bare size is in bytes.

use std::time::Duration;

/// The longest duration that can be written: a hundred years.
const LONGEST: Duration = Duration::from_secs(36_500 * 86_400);

/// Why a text is not a duration or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// A number alone.
    NoUnit,
    /// Neither digits nor digits and a known unit.
    Syntax,
    /// More than can be kept.
    TooLarge,
}

impl UnitError {
    /// What to tell whoever wrote a duration.
    pub fn of_duration(self) -> &'static str {
        match self {
            UnitError::NoUnit => {
                "needs a unit: write for example \"60s\", \"10m\", \"12h\", \"365d\" or \"250ms\""
            }
            UnitError::Syntax => "is not a duration such as \"250ms\", \"60s\", \"10m\", \"12h\" or \"365d\"",
            UnitError::TooLarge => "is longer than 36500 days",
        }
    }

    /// What to tell whoever wrote a size.
    pub fn of_size(self) -> &'static str {
        match self {
            UnitError::NoUnit | UnitError::Syntax => "is not a size such as 65536, \"256KiB\" or \"1MiB\"",
            UnitError::TooLarge => "is too large",
        }
    }
}

/// Reads a whole number and one of `ms`, `s`, `m`, `h`, `d`.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text)?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err(UnitError::NoUnit),
        _ => return Err(UnitError::Syntax),
    };
    let duration = Duration::from_millis(number.checked_mul(millis).ok_or(UnitError::TooLarge)?);
    if duration > LONGEST { Err(UnitError::TooLarge) } else { Ok(duration) }
}

/// Reads a whole number of bytes, or one and `B`, `KiB`, `MiB` or `GiB`. `KB` and its like are refused:
/// some read 1000 in them and some 1024.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text)?;
    let bytes: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(UnitError::Syntax),
    };
    number.checked_mul(bytes).ok_or(UnitError::TooLarge)
}

fn split(text: &str) -> Result<(u64, &str), UnitError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(UnitError::Syntax);
    }
    Ok((digits.parse().map_err(|_| UnitError::TooLarge)?, unit.trim_start()))
}

/// The shortest way to write a duration, for messages.
pub fn write_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match units.into_iter().find(|(size, _)| millis > 0 && millis.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, millis) in
            [("250ms", 250), ("60s", 60_000), ("10m", 600_000), ("12h", 43_200_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("365d"), Ok(Duration::from_secs(365 * 86_400)));
        assert_eq!(duration("60"), Err(UnitError::NoUnit));
        for text in ["", "s", "-1s", "1.5s", "1 week", "60 S", "1h30m", "1e9h", "٣s"] {
            assert_eq!(duration(text), Err(UnitError::Syntax), "{text:?}");
        }
        for text in ["36501d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(duration(text), Err(UnitError::TooLarge), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in
            [("0", 0), ("65536", 65_536), ("12B", 12), ("256KiB", 262_144), ("16 MiB", 16 << 20)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "10GB", "10kb", "1.5MiB", "-1"] {
            assert_eq!(size(text), Err(UnitError::Syntax), "{text:?}");
        }
        assert_eq!(size("99999999999GiB"), Err(UnitError::TooLarge));
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["250ms", "90s", "10m", "12h", "365d", "0ms", "52000s"] {
            assert_eq!(write_duration(duration(text).unwrap()), text);
        }
    }
}
