//! The items of a batch, taken apart without being checked, so that a fault in one harms no other.

use angarium_domain::limits::Limits;
use angarium_domain::text::one_line;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::problem::{Code, DETAIL_CHARS, Problem};

/// An array of which at most so many items are kept as [`MOST_ITEMS`] says, so that a body of nothing but
/// commas cannot take much more room than it has bytes.
pub(super) struct Items<'a> {
    kept: Vec<&'a RawValue>,
    count: usize,
}

const MOST_ITEMS: usize = 100_000;

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keep;

        impl<'de> de::Visitor<'de> for Keep {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Items<'de>, A::Error> {
                let (mut kept, mut count) = (Vec::new(), 0);
                while let Some(item) = items.next_element()? {
                    count += 1;
                    if kept.len() < MOST_ITEMS {
                        kept.push(item);
                    }
                }
                Ok(Items { kept, count })
            }
        }

        deserializer.deserialize_seq(Keep)
    }
}

/// The items of a body that is an object of the shape `E`, whose one member `member` holds them.
pub(super) fn within<'a, E>(
    bytes: &'a [u8],
    member: &str,
    limits: &Limits,
) -> Result<Vec<&'a RawValue>, Problem>
where
    E: Deserialize<'a> + Into<Items<'a>>,
{
    let text = utf8(bytes)?;
    // What is derived for the envelope would take an array of its members as well.
    if text.trim_start().starts_with('[') {
        let detail = format!("a JSON object with the member \"{member}\" is needed, not the array itself");
        return Err(Problem::new(Code::InvalidRequest, detail));
    }
    let envelope: E = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    some(envelope.into(), member, limits)
}

/// The items of a body that is an array.
pub(super) fn of_array<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vec<&'a RawValue>, Problem> {
    let items = serde_json::from_str(utf8(bytes)?).map_err(|error| unreadable(&error))?;
    some(items, "the array", limits)
}

/// The text of one item, if it is no larger than a request may be and everybody reads it alike.
pub(super) fn check<'a>(item: &'a RawValue, limits: &Limits) -> Result<&'a str, Problem> {
    let limit = limits.request_bytes;
    if item.get().len() > limit {
        return Err(Problem::new(Code::BodyTooLarge, format!("the item has more than {limit} bytes")));
    }
    super::body::check(item.get().as_bytes(), limits.json_depth)
}

fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let detail = format!("the bytes are not UTF-8 from offset {}", error.valid_up_to());
        Problem::new(Code::JsonInvalid, detail)
    })
}

fn unreadable(error: &serde_json::Error) -> Problem {
    let detail = error.to_string();
    let code = match error.classify() {
        _ if detail.starts_with("duplicate field") => Code::JsonDuplicateKey,
        serde_json::error::Category::Data => Code::InvalidRequest,
        _ => Code::JsonInvalid,
    };
    Problem::new(code, one_line(&detail, DETAIL_CHARS))
}

fn some<'a>(items: Items<'a>, called: &str, limits: &Limits) -> Result<Vec<&'a RawValue>, Problem> {
    let Items { kept, count } = items;
    let limit = limits.batch_items.min(MOST_ITEMS);
    if count > limit {
        let detail = format!("the batch has {count} items, at most {limit} are taken");
        return Err(Problem::new(Code::BatchTooLarge, detail));
    }
    if count == 0 {
        return Err(Problem::new(Code::InvalidRequest, format!("{called} must not be empty")));
    }
    Ok(kept)
}
