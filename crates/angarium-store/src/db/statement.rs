//! Statements: each written once, in a list of its module, and said in the words of each database by [`super::dialect`].

use std::borrow::Cow;
use std::sync::OnceLock;

use super::dialect::{self, Dialect};

/// A statement with its parameters `$1 … $n`. What the databases say differently stands in it in braces.
#[derive(Debug)]
pub(crate) struct Statement {
    text: Cow<'static, str>,
    sqlite: OnceLock<String>,
    postgres: OnceLock<String>,
}

impl Statement {
    /// One that is known when the program is built.
    pub(crate) const fn fixed(text: &'static str) -> Self {
        Statement { text: Cow::Borrowed(text), sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    /// One that is put together from parts that are.
    pub(crate) fn composed(text: String) -> Self {
        Statement { text: Cow::Owned(text), sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    /// The text for one database.
    pub(crate) fn said_by(&self, dialect: Dialect) -> &str {
        if !self.text.contains('{') {
            return &self.text;
        }
        let said = match dialect {
            Dialect::Sqlite => &self.sqlite,
            Dialect::Postgres => &self.postgres,
        };
        said.get_or_init(|| dialect::say(&self.text, dialect))
    }
}

/// The statements of a module: each becomes a `static` of its name, and all of them `STATEMENTS`, which a test prepares
/// on both databases.
macro_rules! statements {
    ($($(#[$meta:meta])* $name:ident = $text:expr;)+) => {
        $($(#[$meta])* static $name: $crate::db::Statement = $crate::db::Statement::fixed($text);)+

        #[cfg(test)]
        pub(crate) static STATEMENTS: &[(&str, &$crate::db::Statement)] = &[$((stringify!($name), &$name)),+];
    };
}
pub(crate) use statements;
