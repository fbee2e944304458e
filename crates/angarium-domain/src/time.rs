//! Instants and the clock that tells them.
//!
//! Every instant inside Angarium is a [`Timestamp`]: whole microseconds since 1970-01-01T00:00:00Z, always
//! UTC. Code that needs to know the time takes a [`Clock`]; the globals are banned in `clippy.toml`.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whole microseconds since the Unix epoch, UTC. The range of years is 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 9999-12-31T23:59:59.999999Z.
const LAST_MICROS: i64 = 253_402_300_799_999_999;

impl Timestamp {
    /// 1970-01-01T00:00:00Z, the earliest instant there is here.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// The last microsecond of the year 9999.
    pub const LAST: Timestamp = Timestamp(LAST_MICROS);

    /// The instant `micros` microseconds after the epoch, moved to the nearest end of the range if outside.
    pub fn from_micros(micros: i64) -> Self {
        Timestamp(micros.clamp(0, LAST_MICROS))
    }

    /// Microseconds since the epoch.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch.
    pub fn seconds(self) -> i64 {
        self.0 / 1_000_000
    }

    /// This instant and `wait` more; stops at [`Timestamp::LAST`] instead of overflowing.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_add(micros))
    }

    /// This instant less `span`; stops at the epoch.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_sub(micros))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

/// Civil time, not `jiff::Timestamp`, which ends a day before the year 9999 does.
const CIVIL_EPOCH: jiff::civil::DateTime = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with as many decimals as the instant has, `2026-07-07T01:02:03Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = CIVIL_EPOCH.saturating_add(jiff::SignedDuration::from_micros(self.0));
        write!(f, "{civil}Z")
    }
}

/// Why a text is not an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The text is not an RFC 3339 date and time.
    #[error("is not an RFC 3339 time such as 2026-07-07T01:02:03Z")]
    Syntax,
    /// The text names no offset from UTC, so that it names no instant.
    #[error("has no offset from UTC; write Z or +02:00 after the seconds")]
    NoOffset,
    /// The instant lies outside the years 1970 to 9999.
    #[error("lies outside the years 1970 to 9999")]
    OutOfRange,
    /// Second 60 stands where no leap second can be.
    #[error("has a second 60 where no leap second can be")]
    NoLeapSecond,
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads RFC 3339. A leap second (only ever 23:59:60 UTC at the end of June or December) is read as the
    /// last microsecond before the next day, so that it keeps its place between its neighbours. Digits after
    /// the sixth decimal are dropped.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let shape = Rfc3339::split(text).ok_or(TimestampError::Syntax)?;
        let offset = shape.offset.ok_or(TimestampError::NoOffset)?;
        let civil: jiff::civil::DateTime =
            format!("{}:{}{}", shape.to_minutes, shape.whole_second(), shape.fraction)
                .parse()
                .map_err(|_| TimestampError::Syntax)?;
        let local = i64::try_from(civil.duration_since(CIVIL_EPOCH).as_micros()).unwrap_or(i64::MIN);
        let micros = local.saturating_sub(offset_micros(offset).ok_or(TimestampError::Syntax)?);
        if !(0..=LAST_MICROS).contains(&micros) {
            return Err(TimestampError::OutOfRange);
        }
        if !shape.is_leap() {
            return Ok(Timestamp(micros));
        }
        let second_end = micros - micros % 1_000_000 + 999_999;
        if is_leap_second_end(second_end + 1) {
            Ok(Timestamp(second_end))
        } else {
            Err(TimestampError::NoLeapSecond)
        }
    }
}

/// The parts of `2016-12-31T23:59:60.5Z` that decide how it is read.
struct Rfc3339<'a> {
    to_minutes: &'a str,
    second: &'a str,
    fraction: &'a str,
    offset: Option<&'a str>,
}

impl<'a> Rfc3339<'a> {
    fn split(text: &'a str) -> Option<Self> {
        if !text.is_ascii() || text.len() < 19 {
            return None;
        }
        let bytes = text.as_bytes();
        let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
        let digits = |range: std::ops::Range<usize>| range.into_iter().all(|i| at(i).is_ascii_digit());
        let dated = digits(0..4) && at(4) == b'-' && digits(5..7) && at(7) == b'-' && digits(8..10);
        let timed = digits(11..13) && at(13) == b':' && digits(14..16) && at(16) == b':' && digits(17..19);
        if !dated || !timed || !matches!(at(10), b'T' | b't' | b' ') {
            return None;
        }
        let rest = text.get(19..)?;
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let (fraction, offset) = rest.split_at(end);
        let fraction_ok = fraction.is_empty()
            || (fraction.starts_with('.') && fraction.len() > 1 && !fraction.get(1..)?.contains('.'));
        if !fraction_ok {
            return None;
        }
        Some(Rfc3339 {
            to_minutes: text.get(..16)?,
            second: text.get(17..19)?,
            fraction: fraction.get(..fraction.len().min(10))?,
            offset: (!offset.is_empty()).then_some(offset),
        })
    }

    fn is_leap(&self) -> bool {
        self.second == "60"
    }

    fn whole_second(&self) -> &str {
        if self.is_leap() { "59" } else { self.second }
    }
}

/// How far `Z`, `+02:00` or `-05:00` is ahead of UTC.
fn offset_micros(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let part = |text: &str, most: i64| {
        let number: i64 = text.parse().ok()?;
        (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()) && number <= most).then_some(number)
    };
    Some(sign * (part(hours, 23)? * 60 + part(minutes, 59)?) * 60_000_000)
}

/// Leap seconds are only ever inserted right before the first of January or of July, UTC.
fn is_leap_second_end(micros: i64) -> bool {
    let text = Timestamp(micros).to_string();
    text.get(4..) == Some("-01-01T00:00:00Z") || text.get(4..) == Some("-07-01T00:00:00Z")
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Tells the time. The system's own in production, one that a test moves by hand elsewhere.
pub trait Clock: Send + Sync {
    /// The wall clock, for what is stored and shown.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment in this process; never goes back, for leases and durations.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks. Its monotonic time goes on while the machine sleeps, so that what was to be done within a time is
/// known to be late when it wakes.
pub struct SystemClock {
    started: Duration,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        SystemClock { started: since_boot() }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
fn since_boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.plus(since_epoch)
    }

    fn monotonic(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<(Timestamp, Duration)>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        ManualClock { state: Mutex::new((now, Duration::ZERO)) }
    }

    /// Moves both the wall clock and the monotonic clock ahead.
    pub fn advance(&self, span: Duration) {
        let mut state = self.lock();
        *state = (state.0.plus(span), state.1 + span);
    }

    /// Sets the wall clock alone, as an operator or a time server would; monotonic time is not touched.
    pub fn step_wall_clock(&self, to: Timestamp) {
        self.lock().0 = to;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Timestamp, Duration)> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.lock().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, TimestampError> {
        text.parse::<Timestamp>().map(|t| t.to_string())
    }

    /// C012: a leap second keeps its place between 23:59:59 and midnight; elsewhere second 60 is refused.
    #[test]
    fn c012_leap_second() {
        assert_eq!(read("2016-12-31T23:59:60Z").unwrap(), "2016-12-31T23:59:59.999999Z");
        assert_eq!(read("2016-12-31T23:59:60.5Z").unwrap(), "2016-12-31T23:59:59.999999Z");
        assert_eq!(read("2017-01-01T00:59:60+01:00").unwrap(), "2016-12-31T23:59:59.999999Z");
        assert_eq!(read("2031-05-05T12:30:60Z"), Err(TimestampError::NoLeapSecond));
        let before: Timestamp = "2016-12-31T23:59:59.9Z".parse().unwrap();
        let leap: Timestamp = "2016-12-31T23:59:60Z".parse().unwrap();
        let after: Timestamp = "2017-01-01T00:00:00Z".parse().unwrap();
        assert!(before < leap && leap < after);
    }

    /// C013: the range is 1970 to 9999, and nothing overflows at its ends.
    #[test]
    fn c013_out_of_range() {
        assert_eq!(read("9999-12-31T23:59:59.999999999Z").unwrap(), "9999-12-31T23:59:59.999999Z");
        for text in ["10000-01-01T00:00:00Z", "+262142-12-31T23:59:60Z", "-0001-01-01T00:00:00Z"] {
            assert_eq!(read(text), Err(TimestampError::Syntax), "{text}");
        }
        assert_eq!(read("1969-12-31T23:59:59Z"), Err(TimestampError::OutOfRange));
        assert_eq!(read("9999-12-31T23:59:59-05:00"), Err(TimestampError::OutOfRange));
        assert_eq!(read("9999-12-31T23:59:59+25:00"), Err(TimestampError::Syntax));
        assert_eq!(Timestamp::LAST.plus(Duration::MAX), Timestamp::LAST);
        assert_eq!(Timestamp::EPOCH.minus(Duration::MAX), Timestamp::EPOCH);
        assert_eq!(Timestamp::from_micros(i64::MIN), Timestamp::EPOCH);
    }

    #[test]
    fn an_instant_needs_an_offset() {
        assert_eq!(read("2026-07-07T01:02:03"), Err(TimestampError::NoOffset));
        assert_eq!(read("2026-07-07T01:02:03+02:00").unwrap(), "2026-07-06T23:02:03Z");
        assert_eq!(read("2026-02-30T01:02:03Z"), Err(TimestampError::Syntax));
        assert_eq!(read("yesterday"), Err(TimestampError::Syntax));
        assert_eq!(read("2026-07-07T01:02:03.1.2Z"), Err(TimestampError::Syntax));
    }

    #[test]
    fn a_wall_clock_step_leaves_monotonic_time_alone() {
        let clock = ManualClock::at("2026-07-07T11:00:00Z".parse().unwrap());
        clock.advance(Duration::from_secs(5));
        clock.step_wall_clock("2026-07-07T09:00:00Z".parse().unwrap());
        assert_eq!(clock.now().to_string(), "2026-07-07T09:00:00Z");
        assert_eq!(clock.monotonic(), Duration::from_secs(5));
    }
}
