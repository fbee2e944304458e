//! Values as they go into and come out of statements: the types that both databases agree on.

use angarium_domain::time::Timestamp;
use rusqlite::types::{ToSqlOutput, ValueRef};
use uuid::Uuid;

use crate::error::{Result, StoreError};

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(Uuid),
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Value::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Value::Int(number) => ToSqlOutput::Owned(rusqlite::types::Value::Integer(*number)),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Value::Uuid(uuid) => ToSqlOutput::Borrowed(ValueRef::Blob(uuid.as_bytes())),
        })
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Int(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Value::Int(yes.into())
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(time: Timestamp) -> Self {
        Value::Int(time.micros())
    }
}

impl From<Uuid> for Value<'_> {
    fn from(uuid: Uuid) -> Self {
        Value::Uuid(uuid)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// `params![a, b]` is the list of values for `$1, $2`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::db::Value::from($value)),*]
    };
}
pub(crate) use params;

/// One row of a result. Columns are counted from 0.
pub(crate) struct Row<'a>(pub(super) &'a rusqlite::Row<'a>);

impl Row<'_> {
    pub(crate) fn int(&self, column: usize) -> Result<i64> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn count(&self, column: usize) -> Result<u32> {
        u32::try_from(self.int(column)?).map_err(|_| bad("a count"))
    }

    pub(crate) fn flag(&self, column: usize) -> Result<bool> {
        Ok(self.int(column)? != 0)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn opt_text(&self, column: usize) -> Result<Option<String>> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>> {
        Ok(self.0.get(column)?)
    }

    pub(crate) fn uuid(&self, column: usize) -> Result<Uuid> {
        let bytes: [u8; 16] = self.0.get(column)?;
        Ok(Uuid::from_bytes(bytes))
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.int(column)?))
    }

    pub(crate) fn opt_time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(self.opt_int(column)?.map(Timestamp::from_micros))
    }

    /// A word that stands for a value of the domain, such as a status.
    pub(crate) fn word<T: std::str::FromStr>(&self, column: usize) -> Result<T> {
        self.text(column)?.parse().map_err(|_| bad("a word"))
    }
}

fn bad(what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} in it cannot be read"))
}
