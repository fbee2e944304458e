//! Changes: each has a number, and what it replaced is kept.
//!
//! Whoever changes what decides who is told holds the one row of `changes` to the end of its transaction, so that changes
//! are made one after another and their numbers rise in the order in which they become visible. What then turns out to be
//! so already takes no number.

use crate::db::{Tx, Value, row, statements};
use crate::error::{Result, StoreError};

statements! {
    HOLD = "SELECT n.version FROM changes n WHERE n.one = 1 {lock found}";

    NEXT = "UPDATE changes SET version = version + 1 WHERE one = 1 RETURNING version";

    KEEP = "INSERT INTO history (kind, name, since, until, spec, active) {values: text, text, bigint, bigint, text, bigint}";
}

/// One change, to however much.
pub(crate) struct Change {
    number: Option<i64>,
}

impl Change {
    /// Waits until no other change is being made. What is read after this stays so until the transaction ends.
    pub(crate) async fn begin(tx: &mut Tx<'_>) -> Result<Change> {
        tx.query(&HOLD, &[], |_| Ok(())).await?;
        Ok(Change { number: None })
    }

    /// Its number, which it takes when it is first asked for.
    pub(crate) async fn number(&mut self, tx: &mut Tx<'_>) -> Result<i64> {
        if let Some(number) = self.number {
            return Ok(number);
        }
        let number = tx.query_opt(&NEXT, &[], |row| row.int(0)).await?;
        let number =
            number.ok_or_else(|| StoreError::Corrupt("the number of the last change is missing".into()))?;
        self.number = Some(number);
        Ok(number)
    }
}

/// What something was until now.
pub(crate) struct Past<'a> {
    /// `subscription`, or a kind of object.
    pub(crate) kind: &'a str,
    /// The name of an object, the id of a subscription.
    pub(crate) name: &'a str,
    /// The change that had made it so.
    pub(crate) since: i64,
    /// What it said, as JSON.
    pub(crate) spec: String,
    pub(crate) active: bool,
}

/// Keeps what the change `until` replaces.
pub(crate) async fn keep(tx: &mut Tx<'_>, past: &[Past<'_>], until: i64) -> Result<()> {
    let rows: Vec<[Value<'_>; 6]> =
        past.iter().map(|it| row![it.kind, it.name, it.since, until, &it.spec, it.active]).collect();
    tx.execute_rows(&KEEP, &rows).await.map(drop)
}
