//! Values as they go into and come out of statements: the types that both databases agree on.

use std::borrow::Cow;
use std::error::Error;

use angarium_domain::time::Timestamp;
use bytes::BytesMut;
use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
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
            Value::Text(text) => match without_nul(text) {
                Cow::Borrowed(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
                Cow::Owned(text) => ToSqlOutput::Owned(rusqlite::types::Value::Text(text)),
            },
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Value::Uuid(uuid) => ToSqlOutput::Borrowed(ValueRef::Blob(uuid.as_bytes())),
        })
    }
}

/// PostgreSQL has no place for U+0000 in a text, and what a receiver answers may hold one. Both store U+FFFD instead.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, of) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(number), &Type::INT8) => number.to_sql(of, out),
            // What a statement compares with a literal, PostgreSQL takes for a smaller number.
            (Value::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(of, out),
            (Value::Text(text), &Type::TEXT) => without_nul(text).to_sql(of, out),
            (Value::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(of, out),
            (Value::Uuid(uuid), &Type::UUID) => uuid.to_sql(of, out),
            (value, of) => Err(format!("{value:?} is no {of}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
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

/// `row![a, b]` is one of the rows that `{rows: …}` or `{values: …}` stands for.
macro_rules! row {
    ($($value:expr),* $(,)?) => {
        [$($crate::db::Value::from($value)),*]
    };
}
pub(crate) use row;

/// One row of a result. Columns are counted from 0.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// A whole number of whatever size, or a yes or no.
struct Whole(i64);

impl<'a> FromSql<'a> for Whole {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Whole(match *of {
            Type::INT8 => i64::from_sql(of, raw)?,
            Type::INT4 => i32::from_sql(of, raw)?.into(),
            _ => bool::from_sql(of, raw)?.into(),
        }))
    }

    accepts!(INT8, INT4, BOOL);
}

/// Reads a column of either kind of row.
macro_rules! get {
    ($row:expr, $column:expr) => {
        match $row {
            Row::Sqlite(row) => row.get($column)?,
            Row::Postgres(row) => row.try_get($column)?,
        }
    };
}

impl Row<'_> {
    pub(crate) fn int(&self, column: usize) -> Result<i64> {
        self.opt_int(column)?.ok_or_else(|| bad("a number"))
    }

    pub(crate) fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        Ok(match self {
            Row::Sqlite(row) => row.get(column)?,
            Row::Postgres(row) => row.try_get::<_, Option<Whole>>(column)?.map(|whole| whole.0),
        })
    }

    pub(crate) fn count(&self, column: usize) -> Result<u32> {
        u32::try_from(self.int(column)?).map_err(|_| bad("a count"))
    }

    pub(crate) fn flag(&self, column: usize) -> Result<bool> {
        Ok(self.int(column)? != 0)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String> {
        Ok(get!(self, column))
    }

    pub(crate) fn opt_text(&self, column: usize) -> Result<Option<String>> {
        Ok(get!(self, column))
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>> {
        Ok(get!(self, column))
    }

    pub(crate) fn opt_bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        Ok(get!(self, column))
    }

    pub(crate) fn opt_uuid(&self, column: usize) -> Result<Option<Uuid>> {
        Ok(match self {
            Row::Sqlite(row) => row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes),
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    pub(crate) fn uuid(&self, column: usize) -> Result<Uuid> {
        Ok(match self {
            Row::Sqlite(row) => Uuid::from_bytes(row.get(column)?),
            Row::Postgres(row) => row.try_get(column)?,
        })
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
