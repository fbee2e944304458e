//! `key create`, `list` and `revoke`.

use angarium_domain::time::{Clock, SystemClock};
use serde_json::{Value, json};

use super::actions::each;
use super::args::NewKeyArgs;
use super::client::Api;
use super::exit::{Exit, Failure, say};
use super::listing::{Listing, text, time, unreadable};
use super::output::{Format, Out};
use super::table::Column;

const COLUMNS: &[Column] =
    &[("ID", 40), ("NAME", 40), ("SCOPES", 40), ("CREATED", 20), ("EXPIRES", 20), ("REVOKED", 20)];

/// Makes a key. It is shown this once, and a form that would leave it out is refused.
pub(super) fn create(api: &Api, args: &NewKeyArgs, out: &mut Out) -> Result<Exit, Failure> {
    if out.format() == Format::Ids {
        return Err(Failure::usage("the key is shown once and its id alone is of no use: leave out -o ids"));
    }
    let answer = api.post(&["keys"], request(args, &SystemClock::new()).to_string())?;
    if out.format() == Format::Json {
        out.line(&answer);
        return Ok(Exit::Fine);
    }
    let made: Value = serde_json::from_str(&answer).map_err(|error| unreadable(&error))?;
    out.line(&text(&made, &["key"]));
    say(&format!("this is the key {} (id {}); it is not shown again\n", args.name, text(&made, &["id"])));
    Ok(Exit::Fine)
}

fn request(args: &NewKeyArgs, clock: &dyn Clock) -> Value {
    let mut request = json!({"name": args.name, "scopes": args.scopes});
    let ends = args.expires_at.or_else(|| args.expires_in.map(|valid| clock.now().plus(valid)));
    if let Some(ends) = ends {
        request["expires_at"] = ends.to_string().into();
    }
    request
}

pub(super) fn list(api: &Api, out: &mut Out) -> Result<Exit, Failure> {
    let listing = Listing {
        path: &["keys"],
        query: Vec::new(),
        all: true,
        columns: COLUMNS,
        row,
        id: |value| text(value, &["id"]),
    };
    listing.run(api, out)
}

fn row(value: &Value) -> Vec<String> {
    let scopes = match value.get("scopes").and_then(Value::as_array) {
        Some(scopes) => scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        None => text(value, &["scopes"]),
    };
    let [created, expires, revoked] = ["created_at", "expires_at", "revoked_at"].map(|key| time(value, key));
    vec![text(value, &["id"]), text(value, &["name"]), scopes, created, expires, revoked]
}

pub(super) fn revoke(api: &Api, ids: &[String], out: &mut Out) -> Result<Exit, Failure> {
    each(ids, |id| api.delete(&["keys", id], &[]), "is revoked", out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use angarium_domain::time::{ManualClock, Timestamp};

    use super::*;

    #[test]
    fn a_key_can_end_by_itself() {
        let clock = ManualClock::at("2026-07-07T01:02:03Z".parse().unwrap());
        let key = |expires_in, expires_at| {
            let args = NewKeyArgs { name: "erp".into(), scopes: vec!["read".into()], expires_in, expires_at };
            request(&args, &clock)
        };
        let plain = key(None, None);
        assert_eq!(plain, json!({"name": "erp", "scopes": ["read"]}));
        let ends = |request: Value| request["expires_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
        let later = clock.now().plus(Duration::from_secs(86_400));
        assert_eq!(ends(key(Some(Duration::from_secs(86_400)), None)), later);
        assert_eq!(ends(key(None, Some(later))), later);
    }

    #[test]
    fn a_key_in_a_row() {
        let value = json!({"id": "k1", "name": "erp", "scopes": ["publish", "read"], "created_at": "2026-07-07T01:02:03Z", "expires_at": null});
        assert_eq!(row(&value), ["k1", "erp", "publish,read", "2026-07-07T01:02:03Z", "", ""]);
        assert_eq!(row(&value).len(), COLUMNS.len());
    }
}
