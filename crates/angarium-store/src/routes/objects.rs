//! Feeds, templates and lists: JSON under a name.
//!
//! One that is deleted leaves its name behind with the number of that change, so that nodes learn of it; what it said
//! stands in the history alone. Deliberately absent: what the JSON means, apart from whom it keeps others from deleting.

use std::collections::HashMap;

use angarium_domain::time::Timestamp;

use crate::db::{Op, Row, Statement, Tx, Value, params, row, statements};
use crate::error::Result;
use crate::routes::change::{self, Change, Past};
use crate::routes::types::{Changed, Expect, ManagedBy, ObjectKind, StoredObject};

/// What [`object_row`] reads, of `objects o`.
macro_rules! object_columns {
    () => {
        "o.kind, o.name, o.spec, o.managed_by, o.active, o.version, o.created_at, o.updated_at"
    };
}

statements! {
    FIND = concat!("SELECT ", object_columns!(), " FROM {rows: kind text, name text}
        JOIN objects o ON o.kind = r.kind AND o.name = r.name WHERE o.deleted = 0");

    LIST = concat!("SELECT ", object_columns!(), " FROM objects o
        WHERE o.kind = $1 AND o.name > $2 AND o.deleted = 0 ORDER BY o.name LIMIT $3");

    OF_FILE = concat!("SELECT ", object_columns!(), " FROM objects o WHERE o.managed_by = 'file' AND o.deleted = 0");

    WRITE = "INSERT INTO objects (kind, name, spec, managed_by, active, deleted, version, created_at, updated_at)
        {values: text, text, text, text, bigint, bigint, bigint, bigint, bigint}
        ON CONFLICT (kind, name) DO UPDATE SET spec = excluded.spec, managed_by = excluded.managed_by,
            active = excluded.active, deleted = excluded.deleted, version = excluded.version,
            created_at = excluded.created_at, updated_at = excluded.updated_at";

    BURY = "UPDATE objects SET spec = '{}', active = 0, deleted = 1, version = r.version, updated_at = r.now
        FROM {rows: kind text, name text, version bigint, now bigint}
        WHERE objects.kind = r.kind AND objects.name = r.name";

    SUBSCRIBED = "SELECT s.id FROM subscriptions s WHERE s.feed = $1 AND s.deleted = 0 ORDER BY s.key LIMIT 1";

    AIMED_AT = "SELECT s.id FROM subscriptions s WHERE s.list = $1 AND s.deleted = 0 LIMIT 1";

    ON_ITS_WAY_TO = "SELECT n.id FROM notifications n WHERE n.due_at IS NOT NULL AND n.list = $1 LIMIT 1";

    TO_BE_RENDERED = "SELECT n.id FROM notifications n JOIN events e ON e.key = n.event
        WHERE n.due_at IS NOT NULL AND n.channel = $1 AND e.type = $2 LIMIT 1";
}

fn object_row(row: &Row<'_>) -> Result<StoredObject> {
    Ok(StoredObject {
        kind: row.word(0)?,
        name: row.text(1)?,
        spec: row.text(2)?,
        managed_by: row.word(3)?,
        active: row.flag(4)?,
        version: row.int(5)?,
        created_at: row.time(6)?,
        updated_at: row.time(7)?,
    })
}

/// Stores one that the API made.
pub(crate) struct Put {
    pub(crate) kind: ObjectKind,
    pub(crate) name: String,
    pub(crate) spec: String,
    pub(crate) expect: Expect,
    pub(crate) now: Timestamp,
}

impl Op for Put {
    type Output = Changed<StoredObject>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Changed<StoredObject>> {
        let mut change = Change::begin(tx).await?;
        let before = one(tx, self.kind, &self.name).await?;
        let known = before.as_ref().map(|before| (before.version, before.managed_by));
        if let Some(refusal) = self.expect.refuses(known) {
            return Ok(refusal);
        }
        match before {
            Some(before) if before.spec == self.spec => Ok(Changed::Done { now: before, created: false }),
            before => {
                let now = self.object(before.as_ref(), change.number(tx).await?);
                write(tx, before.as_slice(), std::slice::from_ref(&now), now.version).await?;
                Ok(Changed::Done { now, created: before.is_none() })
            }
        }
    }
}

impl Put {
    fn object(&self, before: Option<&StoredObject>, version: i64) -> StoredObject {
        StoredObject {
            kind: self.kind,
            name: self.name.clone(),
            spec: self.spec.clone(),
            managed_by: ManagedBy::Api,
            active: true,
            version,
            created_at: before.map_or(self.now, |before| before.created_at),
            updated_at: self.now,
        }
    }
}

/// Deletes one that the API made, if nothing needs it.
pub(crate) struct Delete {
    pub(crate) kind: ObjectKind,
    pub(crate) name: String,
    pub(crate) expect: Expect,
    pub(crate) now: Timestamp,
}

impl Op for Delete {
    type Output = Changed<()>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Changed<()>> {
        let mut change = Change::begin(tx).await?;
        let Some(object) = one(tx, self.kind, &self.name).await? else { return Ok(Changed::NotFound) };
        if let Some(refusal) = self.expect.refuses(Some((object.version, object.managed_by))) {
            return Ok(refusal);
        }
        if let Some(user) = user_of(tx, &object).await? {
            return Ok(Changed::InUse(user));
        }
        let version = change.number(tx).await?;
        bury(tx, &[object], version, self.now).await?;
        Ok(Changed::Done { now: (), created: false })
    }
}

/// One of them.
pub(crate) struct Get {
    pub(crate) kind: ObjectKind,
    pub(crate) name: String,
}

impl Op for Get {
    type Output = Option<StoredObject>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<StoredObject>> {
        one(tx, self.kind, &self.name).await
    }
}

/// Those of a kind, by name.
pub(crate) struct List {
    pub(crate) kind: ObjectKind,
    /// Only those after this name.
    pub(crate) after: String,
    pub(crate) limit: usize,
}

impl Op for List {
    type Output = Vec<StoredObject>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<StoredObject>> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        tx.query(&LIST, params![self.kind.as_str(), &self.after, limit], object_row).await
    }
}

async fn one(tx: &mut Tx<'_>, kind: ObjectKind, name: &str) -> Result<Option<StoredObject>> {
    Ok(find(tx, &[(kind, name)]).await?.into_values().next())
}

/// Those of these kinds and names that are there.
pub(crate) async fn find(
    tx: &mut Tx<'_>,
    names: &[(ObjectKind, &str)],
) -> Result<HashMap<(ObjectKind, String), StoredObject>> {
    let rows: Vec<_> = names.iter().map(|(kind, name)| row![kind.as_str(), *name]).collect();
    let found = tx.query_rows(&FIND, &rows, object_row).await?;
    Ok(found.into_iter().map(|object| ((object.kind, object.name.clone()), object)).collect())
}

/// Those that a configuration file declared.
pub(crate) async fn of_file(tx: &mut Tx<'_>) -> Result<Vec<StoredObject>> {
    tx.query(&OF_FILE, &[], object_row).await
}

/// Writes them down as they are now, and keeps those that were there before.
pub(crate) async fn write(
    tx: &mut Tx<'_>,
    before: &[StoredObject],
    now: &[StoredObject],
    version: i64,
) -> Result<()> {
    keep(tx, before, version).await?;
    let rows: Vec<_> = now.iter().map(written).collect();
    tx.execute_rows(&WRITE, &rows).await.map(drop)
}

fn written(object: &StoredObject) -> [Value<'_>; 9] {
    row![
        object.kind.as_str(),
        &object.name,
        &object.spec,
        object.managed_by.as_str(),
        object.active,
        false,
        object.version,
        object.created_at,
        object.updated_at,
    ]
}

/// Leaves nothing of them but their names.
pub(crate) async fn bury(
    tx: &mut Tx<'_>,
    objects: &[StoredObject],
    version: i64,
    now: Timestamp,
) -> Result<()> {
    keep(tx, objects, version).await?;
    let rows: Vec<_> =
        objects.iter().map(|object| row![object.kind.as_str(), &object.name, version, now]).collect();
    tx.execute_rows(&BURY, &rows).await.map(drop)
}

async fn keep(tx: &mut Tx<'_>, objects: &[StoredObject], until: i64) -> Result<()> {
    let past = objects.iter().map(|object| Past {
        kind: object.kind.as_str(),
        name: &object.name,
        since: object.version,
        spec: object.spec.clone(),
        active: object.active,
    });
    change::keep(tx, &past.collect::<Vec<_>>(), until).await
}

/// Something that needs it, in words.
pub(crate) async fn user_of(tx: &mut Tx<'_>, object: &StoredObject) -> Result<Option<String>> {
    match object.kind {
        ObjectKind::Feed => a_subscription(tx, &SUBSCRIBED, &object.name).await,
        ObjectKind::List => match a_subscription(tx, &AIMED_AT, &object.name).await? {
            None => a_notification(tx, &ON_ITS_WAY_TO, params![&object.name]).await,
            user => Ok(user),
        },
        ObjectKind::Template => {
            let mut parts = object.name.rsplitn(3, '/');
            let (_locale, channel, event_type) = (parts.next(), parts.next(), parts.next());
            a_notification(tx, &TO_BE_RENDERED, params![channel, event_type]).await
        }
    }
}

async fn a_subscription(tx: &mut Tx<'_>, statement: &Statement, name: &str) -> Result<Option<String>> {
    tx.query_opt(statement, params![name], |row| Ok(format!("subscription {}", row.text(0)?))).await
}

async fn a_notification(tx: &mut Tx<'_>, statement: &Statement, by: &[Value<'_>]) -> Result<Option<String>> {
    let said = |row: &Row<'_>| Ok(format!("notification {}, which is still to be sent", row.uuid(0)?));
    tx.query_opt(statement, by, said).await
}
