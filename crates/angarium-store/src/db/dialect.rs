//! What the two databases say differently, each with its reason.
//!
//! A statement holds it in braces: a phrase from [`PHRASES`], or one of two forms that take columns:
//!
//! - `{values: uuid, bigint}` stands for the rows of an insert. On SQLite the statement runs once for each row; on
//!   PostgreSQL once for all of them, each column an array, because every statement is a journey over the network.
//! - `{rows: key bigint, status text}` stands for the same as a table `r` with these columns, for an update.

use std::fmt::Write;

/// Which database a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

struct Phrase {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

const PHRASES: [Phrase; 5] = [
    // Two nodes that claim at once choose different rows. SQLite has one writer.
    Phrase { name: "lock chosen", sqlite: "", postgres: "FOR UPDATE OF n SKIP LOCKED" },
    // Whoever changes a row, called n, and then what hangs on it, locks that row first. SQLite has one writer.
    Phrase { name: "lock found", sqlite: "", postgres: "FOR UPDATE OF n" },
    // A resend is acknowledged by a transaction that wrote nothing, and such a commit waits for no standby. With the
    // row locked it waits, for what was committed before too.
    Phrase { name: "lock known", sqlite: "", postgres: "FOR SHARE OF i" },
    Phrase { name: "lock known event", sqlite: "", postgres: "FOR SHARE OF e" },
    // SQLite's LIKE does not tell A from a, nor does this, under the collation "C" of the column: ASCII letters alone.
    Phrase { name: "like", sqlite: "LIKE", postgres: "ILIKE" },
];

/// Puts a text into the words of one database.
pub(super) fn say(text: &str, dialect: Dialect) -> String {
    let mut said = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        said.push_str(before);
        let Some((inside, after)) = after.split_once('}') else { break };
        said.push_str(&phrase(inside, dialect));
        rest = after;
    }
    said.push_str(rest);
    said
}

fn phrase(inside: &str, dialect: Dialect) -> String {
    if let Some(types) = inside.strip_prefix("values:") {
        let types: Vec<&str> = types.split(',').map(str::trim).collect();
        return match dialect {
            Dialect::Sqlite => format!("VALUES ({})", with_commas(&types, |n, _| format!("${n}"))),
            Dialect::Postgres => format!("SELECT * FROM unnest({})", with_commas(&types, array)),
        };
    }
    if let Some(columns) = inside.strip_prefix("rows:") {
        let columns: Vec<(&str, &str)> =
            columns.split(',').filter_map(|column| column.trim().split_once(' ')).collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let types: Vec<&str> = columns.iter().map(|(_, of)| *of).collect();
        return match dialect {
            Dialect::Sqlite => {
                format!("(SELECT {}) AS r", with_commas(&names, |n, name| format!("${n} AS {name}")))
            }
            Dialect::Postgres => {
                format!("unnest({}) AS r ({})", with_commas(&types, array), names.join(", "))
            }
        };
    }
    let known = PHRASES.iter().find(|phrase| phrase.name == inside);
    known.map_or_else(
        || format!("{{{inside}}}"),
        |phrase| match dialect {
            Dialect::Sqlite => phrase.sqlite.to_owned(),
            Dialect::Postgres => phrase.postgres.to_owned(),
        },
    )
}

fn array(n: usize, of: &str) -> String {
    format!("${n}::{of}[]")
}

fn with_commas(words: &[&str], say: impl Fn(usize, &str) -> String) -> String {
    let mut all = String::new();
    for (n, word) in (1..).zip(words) {
        let comma = if n > 1 { ", " } else { "" };
        let _a_string_takes_it = write!(all, "{comma}{}", say(n, word));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_gets_its_own_words() {
        let insert = "INSERT INTO ids (id, key) {values: uuid, bigint} ON CONFLICT DO NOTHING";
        let update = "UPDATE a SET b = r.b FROM {rows: key bigint, b text} WHERE a.key = r.key";
        let claim = "SELECT n.key FROM notifications n LIMIT $1 {lock chosen}";
        let said = |text| [say(text, Dialect::Sqlite), say(text, Dialect::Postgres)];
        assert_eq!(
            said(insert),
            [
                "INSERT INTO ids (id, key) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                "INSERT INTO ids (id, key) SELECT * FROM unnest($1::uuid[], $2::bigint[]) ON CONFLICT DO NOTHING"
            ]
        );
        assert_eq!(
            said(update),
            [
                "UPDATE a SET b = r.b FROM (SELECT $1 AS key, $2 AS b) AS r WHERE a.key = r.key",
                "UPDATE a SET b = r.b FROM unnest($1::bigint[], $2::text[]) AS r (key, b) WHERE a.key = r.key"
            ]
        );
        assert_eq!(
            said(claim),
            [
                "SELECT n.key FROM notifications n LIMIT $1 ",
                "SELECT n.key FROM notifications n LIMIT $1 FOR UPDATE OF n SKIP LOCKED"
            ]
        );
    }
}
