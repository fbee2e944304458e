//! JSON numbers as texts: one for each number, however it is written, and without rounding.

/// The digits that are written out before and after the point, at most; beyond that there is an exponent.
const WRITTEN_OUT: i64 = 40;

/// Exponents that can be added to without overflow.
const FURTHEST: u64 = u64::MAX / 8;

/// The one text for a number that JSON allows: `1`, `1.0` and `10e-1` are `1`.
pub(super) fn normal(text: &str) -> String {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return "0".to_owned();
    }
    let dropped = all.len() - all.trim_end_matches('0').len();
    let exponent = match exponent.parse::<i64>() {
        Ok(exponent) if exponent.unsigned_abs() < FURTHEST => exponent,
        // Equal only to itself as it was written.
        _ => return text.to_owned(),
    };
    // The number is `digits`, times ten to the power of this.
    let power = exponent + count(dropped) - count(fraction.len());
    let point = count(digits.len()) + power;
    let unsigned = match power {
        0..=WRITTEN_OUT => format!("{digits}{}", "0".repeat(as_size(power))),
        _ if power < 0 && point > 0 => {
            let (whole, fraction) = digits.split_at(as_size(point));
            format!("{whole}.{fraction}")
        }
        _ if power < 0 && point > -WRITTEN_OUT => format!("0.{}{digits}", "0".repeat(as_size(-point))),
        _ => format!("{digits}e{power}"),
    };
    format!("{sign}{unsigned}")
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX / 4)
}

fn as_size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_for_each_number() {
        for text in ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000E+0"] {
            assert_eq!(normal(text), "1", "{text}");
        }
        for text in ["0", "-0", "0.0", "0e5", "-0.000e-9", "0e99999999999", "-0e99999999999999999999"] {
            assert_eq!(normal(text), "0", "{text}");
        }
        let table = [
            ("9007199254740993", "9007199254740993"),
            ("9007199254740992", "9007199254740992"),
            ("-12.50", "-12.5"),
            ("1200", "1200"),
            ("12e2", "1200"),
            ("0.00120", "0.0012"),
            ("1e-3", "0.001"),
            ("1e400", "1e400"),
            ("10e399", "1e400"),
            ("0.1e-400", "1e-401"),
            ("123e-500", "123e-500"),
            ("10e-3000000001", "1e-3000000000"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ];
        for (text, one) in table {
            assert_eq!(normal(text), one, "{text}");
        }
    }
}
