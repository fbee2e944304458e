//! How long a receiver asks us to wait (RFC 9110, 10.2.3).

use std::time::{Duration, SystemTime};

use angarium_domain::outcome::{retry_after_date, retry_after_seconds};
use angarium_domain::text::one_line;
use angarium_domain::time::Timestamp;
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// Characters of a value that nobody understands which are kept to be shown.
const SHOWN_CHARS: usize = 60;

/// What an answer says about waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Nothing, or until a time that has passed.
    None,
    /// So long, clamped.
    Wait(Duration),
    /// Something that is neither a number of seconds nor a date: this.
    Unreadable(String),
}

/// Reads `Retry-After`. A date is held against the receiver's own clock where it told the time (`Date`), and
/// against `now` otherwise.
pub(crate) fn hint(headers: &HeaderMap, now: Timestamp) -> Hint {
    let Some(value) = headers.get(RETRY_AFTER) else { return Hint::None };
    let text = String::from_utf8_lossy(value.as_bytes());
    if let Some(wait) = retry_after_seconds(&text) {
        return Hint::Wait(wait);
    }
    let Some(until) = http_date(&text) else { return Hint::Unreadable(one_line(&text, SHOWN_CHARS)) };
    let base = headers.get(DATE).and_then(|date| http_date(date.to_str().ok()?)).unwrap_or(now);
    retry_after_date(until, base).map_or(Hint::None, Hint::Wait)
}

fn http_date(text: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(Timestamp::EPOCH.plus(date.duration_since(SystemTime::UNIX_EPOCH).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: fn(u64) -> Hint = |seconds| Hint::Wait(Duration::from_secs(seconds));

    fn read(headers: &[(&str, &str)]) -> Hint {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        hint(&headers, "2031-03-04T10:00:00Z".parse().unwrap())
    }

    /// C040: all three legal forms of a date; digits are never one.
    #[test]
    fn c040_http_dates() {
        for text in
            ["Tue, 04 Mar 2031 10:02:00 GMT", "Tuesday, 04-Mar-31 10:02:00 GMT", "Tue Mar  4 10:02:00 2031"]
        {
            assert_eq!(read(&[("retry-after", text)]), WAITS(120), "{text}");
        }
        assert_eq!(read(&[("retry-after", "120")]), WAITS(120));
        assert_eq!(read(&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")]), WAITS(86_400));
    }

    #[test]
    fn a_date_is_held_against_the_receivers_clock() {
        let until = ("retry-after", "Tue, 04 Mar 2031 12:02:00 GMT");
        assert_eq!(read(&[until, ("date", "Tue, 04 Mar 2031 12:00:00 GMT")]), WAITS(120));
        assert_eq!(read(&[until, ("date", "whenever")]), WAITS(2 * 3600 + 120));
    }

    /// C038, C039, C041: numbers beyond any type, malformed ones, and dates that have passed.
    #[test]
    fn c039_c041_malformed_and_past() {
        assert_eq!(read(&[]), Hint::None);
        assert_eq!(read(&[("retry-after", "Tue, 04 Mar 2031 09:00:00 GMT")]), Hint::None);
        for text in ["soon", "", "12 s", "Tue, 99 Foo 2031", "-5", "-0", "Wed, 04 Mar 2031 10:02:00 GMT"] {
            assert_eq!(read(&[("retry-after", text)]), Hint::Unreadable(text.to_owned()), "{text}");
        }
        assert_eq!(read(&[("retry-after", "99999999999999999999")]), WAITS(86_400));
        assert_eq!(read(&[("retry-after", "1.5")]), WAITS(2));
    }
}
