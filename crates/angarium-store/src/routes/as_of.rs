//! What routes were as of a change: so that a plan can be gone through again, exactly as it was made.

use angarium_domain::channel::ChannelKind;
use angarium_domain::feed::Feed;
use angarium_domain::subscription::Subscription;
use angarium_domain::text::FeedId;

use super::subscriptions::{subscription_columns, subscription_row};
use crate::db::{Tx, params, statements};
use crate::error::Result;

statements! {
    OBJECT_NOW = "SELECT spec, active FROM objects WHERE kind = $1 AND name = $2 AND version <= $3";

    SUBSCRIPTION_NOW = concat!("SELECT ", subscription_columns!(), " FROM subscriptions s
        WHERE s.id = $1 AND s.version <= $2 AND s.deleted = 0");

    THEN = "SELECT spec, active FROM history WHERE kind = $1 AND name = $2 AND since <= $3 AND until > $3";

}

/// The feed as of `version`; none if there was none that counted.
pub(crate) async fn feed(tx: &mut Tx<'_>, id: &FeedId, version: i64) -> Result<Option<Feed>> {
    let asked = params!["feed", id.as_str(), version];
    let mut found = tx.query_opt(&OBJECT_NOW, asked, |row| Ok((row.text(0)?, row.flag(1)?))).await?;
    if found.is_none() {
        found = tx.query_opt(&THEN, asked, |row| Ok((row.text(0)?, row.flag(1)?))).await?;
    }
    let spec = found.filter(|(_, active)| *active).map(|(spec, _)| spec);
    Ok(spec.and_then(|spec| Feed::parse(id.clone(), &spec).ok()))
}

/// The subscription as of `version`; none if there was none, or it had been deleted.
pub(crate) async fn subscription(tx: &mut Tx<'_>, id: &str, version: i64) -> Result<Option<Subscription>> {
    let now = tx.query_opt(&SUBSCRIPTION_NOW, params![id, version], |row| subscription_row(row, 0)).await?;
    if let Some((_, stored)) = now {
        return Ok(Some(stored.subscription));
    }
    let then = params!["subscription", id, version];
    let spec = tx.query_opt(&THEN, then, |row| row.text(0)).await?;
    Ok(spec.and_then(|spec| parsed(&spec)))
}

/// A subscription from history.
pub(crate) fn parsed(spec: &str) -> Option<Subscription> {
    // Which kind its channel is makes no difference to what was stored in normal form, but for who is behind the address.
    Subscription::parse(spec, &|_| Some(ChannelKind::InApp)).ok()
}
