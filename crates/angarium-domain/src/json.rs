//! JSON from outside: refused when two parsers could read it differently or when it could exhaust a reader.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Why a document was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// What is wrong.
    pub kind: JsonFaultKind,
    /// One sentence for whoever sent it.
    pub detail: String,
}

/// What is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFaultKind {
    /// Not JSON as RFC 8259 has it, or not UTF-8.
    Invalid,
    /// An object names the same member twice.
    DuplicateKey,
    /// Nested deeper than the limit.
    TooDeep,
    /// U+0000 in a string: no database keeps it faithfully.
    ControlCharacter,
    /// A number outside what a double can hold.
    NumberOutOfRange,
}

/// Checks that `bytes` are one JSON document that everybody reads alike, nested at most `depth` deep.
pub fn check(bytes: &[u8], depth: usize) -> Result<&str, JsonFault> {
    let text = std::str::from_utf8(bytes).map_err(|error| JsonFault {
        kind: JsonFaultKind::Invalid,
        detail: format!("the bytes are not UTF-8 from offset {}", error.valid_up_to()),
    })?;
    let fault = Cell::new(JsonFaultKind::Invalid);
    let mut reader = serde_json::Deserializer::from_str(text);
    let walk = Strict { left: depth, fault: &fault };
    walk.deserialize(&mut reader).and_then(|()| reader.end()).map_err(|error| {
        let detail = error.to_string();
        let kind = if detail.starts_with("number out of range") {
            JsonFaultKind::NumberOutOfRange
        } else if detail.starts_with("recursion limit") {
            JsonFaultKind::TooDeep
        } else {
            fault.get()
        };
        JsonFault { kind, detail }
    })?;
    Ok(text)
}

/// A visitor that keeps nothing and refuses what is ambiguous.
#[derive(Clone, Copy)]
struct Strict<'a> {
    left: usize,
    fault: &'a Cell<JsonFaultKind>,
}

impl Strict<'_> {
    fn refuse<E: Error>(self, kind: JsonFaultKind, detail: impl fmt::Display) -> E {
        self.fault.set(kind);
        E::custom(detail)
    }

    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Strict { left, ..self }),
            None => Err(self.refuse(JsonFaultKind::TooDeep, "nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(self
                .refuse(JsonFaultKind::ControlCharacter, "a string contains the control character U+0000"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            self.visit_str::<A::Error>(&name)?;
            if seen.contains(&name) {
                let detail = format!("the member {name:?} stands twice in one object");
                return Err(self.refuse(JsonFaultKind::DuplicateKey, detail));
            }
            seen.insert(name);
            members.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// The same document for every spelling that means the same: members sorted, no white space outside strings,
/// strings escaped one way; numbers keep their digits as written. `raw` must have passed [`check`].
pub fn canonical(raw: &RawValue) -> String {
    let mut out = String::with_capacity(raw.get().len());
    write_canonical(raw, &mut out);
    out
}

/// The first byte says what a value is; nothing is parsed as what it is not.
fn write_canonical(raw: &RawValue, out: &mut String) {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            write_joined(out, '{', '}', members, |out, (name, value)| {
                out.push_str(&quoted(&name));
                out.push(':');
                write_canonical(value, out);
            });
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            write_joined(out, '[', ']', items, |out, value| write_canonical(value, out));
        }
        Some(b'"') => {
            let string: String = serde_json::from_str(text).unwrap_or_default();
            out.push_str(&quoted(&string));
        }
        _ => out.push_str(text),
    }
}

fn write_joined<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut String, T),
) {
    out.push(open);
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(close);
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> JsonFaultKind {
        check(text.as_bytes(), 64).unwrap_err().kind
    }

    /// C007: nesting above the limit is refused without harm, and the limit is exact.
    #[test]
    fn c007_very_deep_nesting() {
        assert_eq!(fault(&"[".repeat(100_000)), JsonFaultKind::TooDeep);
        assert_eq!(fault(&"{\"a\":".repeat(1_000_000)), JsonFaultKind::TooDeep);
        let nested = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        assert!(check(nested(64).as_bytes(), 64).is_ok());
        assert_eq!(fault(&nested(65)), JsonFaultKind::TooDeep);
        for n in [127, 128, 129] {
            assert_eq!(fault(&nested(n)), JsonFaultKind::TooDeep);
        }
    }

    /// C009: a lone surrogate is invalid, a pair is one character.
    #[test]
    fn c009_lone_surrogate() {
        assert_eq!(fault(r#"{"title":"overflow \ud83d"}"#), JsonFaultKind::Invalid);
        assert_eq!(fault(r#"{"title":"\udea8\ud83d"}"#), JsonFaultKind::Invalid);
        assert!(check(br#"{"title":"\ud83d\udea8"}"#, 64).is_ok());
    }

    #[test]
    fn what_parsers_read_differently_is_refused() {
        assert_eq!(fault(r#"{"a":1,"a":2}"#), JsonFaultKind::DuplicateKey);
        assert_eq!(fault(r#"{"a":1,"\u0061":2}"#), JsonFaultKind::DuplicateKey);
        assert_eq!(fault(r#"["\u0000"]"#), JsonFaultKind::ControlCharacter);
        assert_eq!(fault("[1e999]"), JsonFaultKind::NumberOutOfRange);
        for text in ["", "{} x", "{}{}", "NaN", "// c\n{}", "\u{FEFF}{}", "{'a':1}", "[1,]", "\"a\nb\""] {
            assert_eq!(fault(text), JsonFaultKind::Invalid, "{text:?}");
        }
        assert_eq!(check(b"\"\xff\"", 64).unwrap_err().kind, JsonFaultKind::Invalid);
    }

    #[test]
    fn canonical_form_ignores_spelling_but_not_digits() {
        let form = |text: &str| canonical(&serde_json::from_str::<Box<RawValue>>(text).unwrap());
        assert_eq!(form(r#"{ "b" : [1, 2.50], "a":"\u00e9" }"#), form(r#"{"a":"é","b":[1,2.50]}"#));
        assert_ne!(form("[2.5]"), form("[2.50]"));
        assert_eq!(form("12345678901234567890123"), "12345678901234567890123");
    }
}
