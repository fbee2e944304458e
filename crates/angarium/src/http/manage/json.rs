//! Objects as JSON, word for word: numbers that no floating point can hold stay as they were written.

use std::collections::BTreeMap;

use angarium_domain::text::one_line;
use serde_json::value::RawValue;

use super::super::problem::{Code, Problem};

/// The members of an object.
pub(super) type Object = BTreeMap<String, Box<RawValue>>;

/// What the server adds to what it shows, and passes over in what it takes.
pub(super) const ADDED: [&str; 5] = ["managed_by", "version", "created_at", "updated_at", "warnings"];

/// Takes an object apart that has passed [`super::super::body::check`].
pub(super) fn object(json: &str) -> Result<Object, Problem> {
    serde_json::from_str(json).map_err(|_| Problem::new(Code::InvalidRequest, "a JSON object is needed"))
}

/// The text of an object.
pub(super) fn text(object: &Object) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

/// Any value as a member.
pub(super) fn member(value: impl serde::Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Takes the name out of an object; none if it has none.
pub(super) fn name(object: &mut Object, member: &str) -> Result<Option<String>, Problem> {
    let Some(raw) = object.remove(member).filter(|raw| raw.get() != "null") else { return Ok(None) };
    let text = serde_json::from_str(raw.get());
    text.map(Some).map_err(|_| Problem::invalid_field(member, "must be a string"))
}

/// Refuses a name that is another than that of the path.
pub(super) fn same_name(given: Option<&str>, member: &str, path: &str) -> Result<(), Problem> {
    match given {
        Some(given) if given != path => {
            let message = format!("must be {:?}, as in the path, or be left out", one_line(path, 200));
            Err(Problem::invalid_field(member, message))
        }
        _ => Ok(()),
    }
}

/// What `target` becomes by a patch (RFC 7396).
pub(super) fn merged(target: Option<&RawValue>, patch: &RawValue) -> Box<RawValue> {
    let Ok(changes) = serde_json::from_str::<Object>(patch.get()) else { return patch.to_owned() };
    let mut object: Object =
        target.and_then(|target| serde_json::from_str(target.get()).ok()).unwrap_or_default();
    for (name, change) in changes {
        if change.get() == "null" {
            object.remove(&name);
        } else {
            let value = merged(object.get(&name).map(|before| &**before), &change);
            object.insert(name, value);
        }
    }
    member(&object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(target: &str, patch: &str) -> String {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        merged(Some(&raw(target)), &raw(patch)).get().to_owned()
    }

    /// The examples of RFC 7396, appendix A, and a number that must not be rounded.
    #[test]
    fn a_patch_changes_what_it_names() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"n":9007199254740993}"#, r#"{"a":1.50}"#, r#"{"a":1.50,"n":9007199254740993}"#),
        ] {
            assert_eq!(patched(target, patch), result, "{target} and {patch}");
        }
    }
}
