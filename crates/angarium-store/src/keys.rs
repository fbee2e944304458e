//! API keys and suppressed addresses: small tables that an administrator looks after.

use angarium_domain::time::Timestamp;

use crate::db::{Op, Row, Tx, params, statements};
use crate::error::Result;
use crate::types::{ApiKey, Suppression};

statements! {
    INSERT = "INSERT INTO api_keys (id, name, hash, scopes, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";

    MAKE_ROOM = "DELETE FROM api_keys WHERE name = $1 OR id = $2";

    FIND = "SELECT id, name, hash, scopes, created_at, expires_at, revoked_at FROM api_keys WHERE id = $1";

    LIST = "SELECT id, name, hash, scopes, created_at, expires_at, revoked_at FROM api_keys ORDER BY name LIMIT $1";

    LIVE = "SELECT n.id, n.name, n.hash, n.scopes, n.created_at, n.expires_at, n.revoked_at FROM api_keys n
        WHERE n.revoked_at IS NULL ORDER BY n.id {lock found}";

    REVOKE = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";

    LIST_SUPPRESSIONS = "SELECT channel, address, reason, since FROM suppressions
        WHERE channel > $1 OR (channel = $1 AND address > $2) ORDER BY channel, address LIMIT $3";

    LIFT = "DELETE FROM suppressions WHERE channel = $1 AND address = $2";
}

fn key_row(row: &Row<'_>) -> Result<ApiKey> {
    Ok(ApiKey {
        id: row.text(0)?,
        name: row.text(1)?,
        hash: row.bytes(2)?,
        scopes: row.text(3)?,
        created_at: row.time(4)?,
        expires_at: row.opt_time(5)?,
        revoked_at: row.opt_time(6)?,
    })
}

/// Stores a key; false if its name is taken.
pub(crate) struct AddKey(pub(crate) ApiKey);

impl Op for AddKey {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let key = &self.0;
        let row = params![&key.id, &key.name, &*key.hash, &key.scopes, key.created_at, key.expires_at];
        Ok(tx.execute(&INSERT, row).await? == 1)
    }
}

/// Puts this key in the place of the one with the same name, and of the one with the same id, if there are any.
pub(crate) struct ReplaceKey(pub(crate) ApiKey);

impl Op for ReplaceKey {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let key = &self.0;
        tx.execute(&MAKE_ROOM, params![&key.name, &key.id]).await?;
        AddKey(key.clone()).run(tx).await
    }
}

/// The key with this id.
pub(crate) struct FindKey(pub(crate) String);

impl Op for FindKey {
    type Output = Option<ApiKey>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<ApiKey>> {
        tx.query_opt(&FIND, params![&self.0], key_row).await
    }
}

/// Keys that are listed at most.
const MOST_KEYS: i64 = 10_000;

/// Every key, by name.
pub(crate) struct ListKeys;

impl Op for ListKeys {
    type Output = Vec<ApiKey>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<ApiKey>> {
        tx.query(&LIST, params![MOST_KEYS], key_row).await
    }
}

/// Ends a key.
pub(crate) struct RevokeKey {
    pub(crate) id: String,
    /// The word among a key's scopes that lets it look after keys.
    pub(crate) admin: &'static str,
    pub(crate) now: Timestamp,
}

/// What became of a key that was to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// It has ended.
    Done,
    /// There is none with this id, or it had ended before.
    NotFound,
    /// Without it nobody could administer any more, or not for long: it goes on.
    LastAdmin,
}

impl Op for RevokeKey {
    type Output = Revoked;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Revoked> {
        // All that are live are held, so that two nodes do not end the last two at once.
        let live = tx.query(&LIVE, &[], key_row).await?;
        let administers = |key: &&ApiKey| {
            key.expires_at.is_none_or(|end| self.now < end)
                && key.scopes.split(' ').any(|word| word == self.admin)
        };
        let Some(gone) = live.iter().find(|key| key.id == self.id) else { return Ok(Revoked::NotFound) };
        // A key without an end needs another such key to stand in for it.
        let stands_in =
            |key: &ApiKey| key.id != gone.id && (key.expires_at.is_none() || gone.expires_at.is_some());
        if administers(&gone) && !live.iter().filter(administers).any(stands_in) {
            return Ok(Revoked::LastAdmin);
        }
        tx.execute(&REVOKE, params![&self.id, self.now]).await?;
        Ok(Revoked::Done)
    }
}

/// Suppressed addresses, by channel and address.
pub(crate) struct ListSuppressions {
    /// Only those after this channel and address.
    pub(crate) after: (String, String),
    pub(crate) limit: usize,
}

impl Op for ListSuppressions {
    type Output = Vec<Suppression>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Suppression>> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        tx.query(&LIST_SUPPRESSIONS, params![&self.after.0, &self.after.1, limit], |row| {
            Ok(Suppression {
                channel: row.text(0)?,
                address: row.text(1)?,
                reason: row.text(2)?,
                since: row.time(3)?,
            })
        })
        .await
    }
}

/// Lets an address have messages again; false if it was not suppressed.
pub(crate) struct LiftSuppression(pub(crate) String, pub(crate) String);

impl Op for LiftSuppression {
    type Output = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool> {
        Ok(tx.execute(&LIFT, params![&self.0, &self.1]).await? == 1)
    }
}
