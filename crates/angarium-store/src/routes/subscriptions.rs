//! Subscriptions, each a row with columns of its own: they are many, and are asked for by what they say.
//!
//! Of one that is deleted its id and its feed are left, with the number of that change, so that nodes learn of it. If it is
//! made again it has the same key, so that who was told of what is still known.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::feed::Feed;
use angarium_domain::filter::Filter;
use angarium_domain::subscription::{Scope, Subscription, Target};
use angarium_domain::text::{ChannelName, FeedId, ListName, SourceName, SubscriptionId, TextError};
use angarium_domain::time::Timestamp;

use crate::db::{Op, Row, Statement, Tx, Value, params, row, statements};
use crate::error::{Result, StoreError};
use crate::routes::change::{self, Change, Past};
use crate::routes::types::{Changed, Expect, ManagedBy, StoredSubscription, SubscriptionFilter};

/// What [`subscription_row`] reads, of `subscriptions s`.
macro_rules! subscription_columns {
    () => {
        "s.key, s.id, s.name, s.feed, s.filter, s.channel, s.address, s.receiver, s.list, s.options, s.active,
        s.cooldown, s.daily_cap, s.at_most_once, s.scope, s.owner, s.expires_at, s.test, s.managed_by, s.version,
        s.created_at, s.updated_at, (SELECT d.last_at FROM subscription_deliveries d WHERE d.subscription = s.key)"
    };
}
pub(crate) use subscription_columns;

statements! {
    FIND = concat!("SELECT ", subscription_columns!(), " FROM {rows: id text}
        JOIN subscriptions s ON s.id = r.id WHERE s.deleted = 0");

    OF_FILE = concat!("SELECT ", subscription_columns!(), " FROM subscriptions s
        WHERE s.managed_by = 'file' AND s.deleted = 0");

    FEEDS = "SELECT o.name, o.spec FROM {rows: name text}
        JOIN objects o ON o.kind = 'feed' AND o.name = r.name WHERE o.active = 1 AND o.deleted = 0";

    WRITE = "INSERT INTO subscriptions (id, name, feed, filter, channel, address, receiver, list, options, active,
            cooldown, daily_cap, at_most_once, scope, owner, expires_at, test, managed_by, version, created_at, updated_at,
            deleted)
        {values: text, text, text, text, text, text, text, text, text, bigint,
            bigint, bigint, bigint, text, text, bigint, bigint, text, bigint, bigint, bigint, bigint}
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, feed = excluded.feed, filter = excluded.filter,
            channel = excluded.channel, address = excluded.address, receiver = excluded.receiver, list = excluded.list,
            options = excluded.options, active = excluded.active, cooldown = excluded.cooldown,
            daily_cap = excluded.daily_cap, at_most_once = excluded.at_most_once, scope = excluded.scope,
            owner = excluded.owner, expires_at = excluded.expires_at, test = excluded.test,
            managed_by = excluded.managed_by, version = excluded.version, created_at = excluded.created_at,
            updated_at = excluded.updated_at, deleted = excluded.deleted";

    BURY = "UPDATE subscriptions SET name = '', filter = '{}', channel = NULL, address = NULL, receiver = NULL,
            list = NULL, options = NULL, owner = NULL, creator = NULL, active = 0, deleted = 1, version = r.version,
            updated_at = r.now
        FROM {rows: id text, version bigint, now bigint} WHERE subscriptions.id = r.id";
}

/// A subscription that is not deleted, and its key, from [`subscription_columns`] that begin at `column`.
pub(crate) fn subscription_row(row: &Row<'_>, column: usize) -> Result<(i64, StoredSubscription)> {
    let key = row.int(column)?;
    let stored = StoredSubscription {
        id: read(&row.text(column + 1)?, SubscriptionId::parse)?,
        subscription: Subscription {
            name: row.text(column + 2)?,
            feed: read(&row.text(column + 3)?, FeedId::parse)?,
            filter: Filter::parse(&row.text(column + 4)?).map_err(|_| unreadable())?,
            target: target(row, column + 5)?,
            options: row.opt_text(column + 9)?,
            active: row.flag(column + 10)?,
            cooldown: Duration::from_micros(u64::try_from(row.int(column + 11)?).unwrap_or(0)),
            daily_cap: row.opt_int(column + 12)?.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX)),
            at_most_once: row.flag(column + 13)?,
            scope: if row.text(column + 14)? == USER { Scope::User } else { Scope::System },
            owner: row.opt_text(column + 15)?.map(|owner| read(&owner, SourceName::parse)).transpose()?,
            expires_at: row.opt_time(column + 16)?,
            test: row.flag(column + 17)?,
        },
        managed_by: row.word(column + 18)?,
        version: row.int(column + 19)?,
        created_at: row.time(column + 20)?,
        updated_at: row.time(column + 21)?,
        last_sent_at: row.opt_time(column + 22)?,
        cursor: key,
    };
    Ok((key, stored))
}

/// The word for what a user made.
const USER: &str = "user";

fn target(row: &Row<'_>, column: usize) -> Result<Target> {
    let [channel, address, receiver, list] = [
        row.opt_text(column)?,
        row.opt_text(column + 1)?,
        row.opt_text(column + 2)?,
        row.opt_text(column + 3)?,
    ];
    match (channel, address, receiver, list) {
        (Some(channel), Some(address), Some(receiver), None) => Ok(Target::Address {
            channel: read(&channel, ChannelName::parse)?,
            address: Address::from_parts(address, receiver),
        }),
        (None, None, None, Some(list)) => Ok(Target::List(read(&list, ListName::parse)?)),
        _ => Err(unreadable()),
    }
}

fn read<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, TextError>) -> Result<T> {
    parse(text).map_err(|_| unreadable())
}

fn unreadable() -> StoreError {
    StoreError::Corrupt("a subscription in it cannot be read".into())
}

/// Stores one that the API made.
pub(crate) struct Put {
    pub(crate) id: SubscriptionId,
    pub(crate) subscription: Subscription,
    pub(crate) expect: Expect,
    pub(crate) now: Timestamp,
}

impl Op for Put {
    type Output = Changed<StoredSubscription>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Changed<StoredSubscription>> {
        let change = Change::begin(tx).await?;
        let mut answers = store(tx, change, &[(&self.id, &self.subscription)], self.expect, self.now).await?;
        let answer = answers.pop().ok_or_else(unreadable)?;
        let now = one(tx, &self.id).await?;
        answer.try_map(|()| now.ok_or_else(unreadable))
    }
}

/// Stores many.
pub(crate) struct Import {
    pub(crate) items: Vec<(SubscriptionId, Subscription)>,
    pub(crate) now: Timestamp,
}

impl Op for Import {
    type Output = Vec<Changed<()>>;

    fn weight(&self) -> usize {
        self.items.len() * 2
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Changed<()>>> {
        let change = Change::begin(tx).await?;
        let items: Vec<_> = self.items.iter().map(|(id, subscription)| (id, subscription)).collect();
        store(tx, change, &items, Expect::Anything, self.now).await
    }
}

/// Deletes one that the API made.
pub(crate) struct Delete {
    pub(crate) id: SubscriptionId,
    pub(crate) expect: Expect,
    pub(crate) now: Timestamp,
}

impl Op for Delete {
    type Output = Changed<()>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Changed<()>> {
        let mut change = Change::begin(tx).await?;
        let Some(stored) = one(tx, &self.id).await? else { return Ok(Changed::NotFound) };
        if let Some(refusal) = self.expect.refuses(Some((stored.version, stored.managed_by))) {
            return Ok(refusal);
        }
        let version = change.number(tx).await?;
        bury(tx, &[&stored], version, self.now).await?;
        Ok(Changed::Done { now: (), created: false })
    }
}

/// One of them.
pub(crate) struct Get(pub(crate) SubscriptionId);

impl Op for Get {
    type Output = Option<StoredSubscription>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<StoredSubscription>> {
        one(tx, &self.0).await
    }
}

/// Those that match, in the order of their keys.
pub(crate) struct List {
    pub(crate) filter: SubscriptionFilter,
    pub(crate) limit: usize,
}

impl Op for List {
    type Output = Vec<StoredSubscription>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<StoredSubscription>> {
        let pattern = self.filter.name.as_deref().map(contains_pattern);
        let (statement, values) = matching(&self.filter, pattern.as_deref(), self.limit);
        tx.query(&statement, &values, |row| Ok(subscription_row(row, 0)?.1)).await
    }
}

fn matching<'a>(
    filter: &'a SubscriptionFilter,
    pattern: Option<&'a str>,
    limit: usize,
) -> (Statement, Vec<Value<'a>>) {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values: Vec<Value<'a>> = params![limit, filter.after.unwrap_or(0)].to_vec();
    let mut text =
        format!("SELECT {} FROM subscriptions s WHERE s.deleted = 0 AND s.key > $2", subscription_columns!());
    let conditions: [(&str, Value<'a>, &str); 5] = [
        ("s.feed =", filter.feed.as_deref().into(), ""),
        ("s.channel =", filter.channel.as_deref().into(), ""),
        ("s.owner =", filter.owner.as_deref().into(), ""),
        ("s.active =", filter.active.into(), ""),
        ("s.name {like}", pattern.into(), "ESCAPE '\\'"),
    ];
    for (left, value, right) in conditions {
        if !matches!(value, Value::Null) {
            values.push(value);
            let _a_string_takes_it = write!(text, " AND {left} ${} {right}", values.len());
        }
    }
    text.push_str(" ORDER BY s.key LIMIT $1");
    (Statement::composed(text), values)
}

/// A LIKE pattern for "contains", with the signs that LIKE knows taken literally.
fn contains_pattern(text: &str) -> String {
    format!("%{}%", text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

async fn one(tx: &mut Tx<'_>, id: &SubscriptionId) -> Result<Option<StoredSubscription>> {
    Ok(find(tx, &[id]).await?.into_values().next())
}

/// Those with these ids that are there.
pub(crate) async fn find(
    tx: &mut Tx<'_>,
    ids: &[&SubscriptionId],
) -> Result<HashMap<SubscriptionId, StoredSubscription>> {
    let rows: Vec<_> = ids.iter().map(|id| row![id.as_str()]).collect();
    let found = tx.query_rows(&FIND, &rows, |row| Ok(subscription_row(row, 0)?.1)).await?;
    Ok(found.into_iter().map(|stored| (stored.id.clone(), stored)).collect())
}

/// Those that a configuration file declared.
pub(crate) async fn of_file(tx: &mut Tx<'_>) -> Result<Vec<StoredSubscription>> {
    tx.query(&OF_FILE, &[], |row| Ok(subscription_row(row, 0)?.1)).await
}

/// Stores those that the API made and may make, under one number.
async fn store(
    tx: &mut Tx<'_>,
    mut change: Change,
    items: &[(&SubscriptionId, &Subscription)],
    expect: Expect,
    now: Timestamp,
) -> Result<Vec<Changed<()>>> {
    let ids: Vec<&SubscriptionId> = items.iter().map(|(id, _)| *id).collect();
    let there = find(tx, &ids).await?;
    let feeds = feeds_of(tx, items).await?;
    let mut seen = HashSet::new();
    let mut answers = Vec::with_capacity(items.len());
    let mut writes = Vec::new();
    for (id, subscription) in items {
        let before = there.get(id);
        let answer = match settled(subscription, before, &feeds, expect) {
            _ if !seen.insert(*id) => Changed::Conflict(before.map(|before| before.version)),
            Some(answer) => answer,
            None => {
                writes.push(Written { id, subscription, before, managed_by: ManagedBy::Api });
                Changed::Done { now: (), created: before.is_none() }
            }
        };
        answers.push(answer);
    }
    if !writes.is_empty() {
        let version = change.number(tx).await?;
        write(tx, &writes, version, now).await?;
    }
    Ok(answers)
}

/// The answer, if nothing is to be written for it.
fn settled(
    subscription: &Subscription,
    before: Option<&StoredSubscription>,
    feeds: &HashMap<FeedId, Feed>,
    expect: Expect,
) -> Option<Changed<()>> {
    if let Some(refusal) = expect.refuses(before.map(|before| (before.version, before.managed_by))) {
        return Some(refusal);
    }
    if let Some(before) = before {
        if before.subscription == *subscription {
            return Some(Changed::Done { now: (), created: false });
        }
        if before.subscription.feed != subscription.feed {
            return Some(Changed::FeedFixed);
        }
    }
    let Some(feed) = feeds.get(&subscription.feed) else { return Some(Changed::UnknownFeed) };
    let complaints = subscription.filter.check(feed);
    (!complaints.is_empty()).then_some(Changed::Senseless(complaints))
}

/// The feeds that are named and count.
async fn feeds_of(
    tx: &mut Tx<'_>,
    items: &[(&SubscriptionId, &Subscription)],
) -> Result<HashMap<FeedId, Feed>> {
    let named: HashSet<&FeedId> = items.iter().map(|(_, subscription)| &subscription.feed).collect();
    let rows: Vec<_> = named.into_iter().map(|feed| row![feed.as_str()]).collect();
    let found = tx.query_rows(&FEEDS, &rows, |row| {
        let id = read(&row.text(0)?, FeedId::parse)?;
        let feed = Feed::parse(id.clone(), &row.text(1)?)
            .map_err(|_| StoreError::Corrupt(format!("the feed {id} in it cannot be read")))?;
        Ok((id, feed))
    });
    Ok(found.await?.into_iter().collect())
}

/// A subscription that is to be written down.
pub(crate) struct Written<'a> {
    pub(crate) id: &'a SubscriptionId,
    pub(crate) subscription: &'a Subscription,
    /// As it is until then.
    pub(crate) before: Option<&'a StoredSubscription>,
    pub(crate) managed_by: ManagedBy,
}

/// Writes them down, and keeps those that were there before.
pub(crate) async fn write(
    tx: &mut Tx<'_>,
    items: &[Written<'_>],
    version: i64,
    now: Timestamp,
) -> Result<()> {
    let before: Vec<&StoredSubscription> = items.iter().filter_map(|item| item.before).collect();
    keep(tx, &before, version).await?;
    let filters: Vec<String> = items.iter().map(|item| item.subscription.filter.to_json()).collect();
    let rows: Vec<_> =
        items.iter().zip(&filters).map(|(item, filter)| written(item, filter, version, now)).collect();
    tx.execute_rows(&WRITE, &rows).await.map(drop)
}

fn written<'a>(item: &Written<'a>, filter: &'a str, version: i64, now: Timestamp) -> [Value<'a>; 22] {
    let it = item.subscription;
    let (channel, address, list) = match &it.target {
        Target::Address { channel, address } => (Some(channel), Some(address), None),
        Target::List(list) => (None, None, Some(list)),
    };
    row![
        item.id.as_str(),
        &it.name,
        it.feed.as_str(),
        filter,
        channel.map(ChannelName::as_str),
        address.map(Address::as_str),
        address.map(Address::receiver),
        list.map(ListName::as_str),
        it.options.as_deref(),
        it.active,
        i64::try_from(it.cooldown.as_micros()).unwrap_or(i64::MAX),
        it.daily_cap,
        it.at_most_once,
        match it.scope {
            Scope::System => "system",
            Scope::User => USER,
        },
        it.owner.as_ref().map(SourceName::as_str),
        it.expires_at,
        it.test,
        item.managed_by.as_str(),
        version,
        item.before.map_or(now, |before| before.created_at),
        now,
        false,
    ]
}

/// Leaves nothing of them but their ids and feeds.
pub(crate) async fn bury(
    tx: &mut Tx<'_>,
    gone: &[&StoredSubscription],
    version: i64,
    now: Timestamp,
) -> Result<()> {
    keep(tx, gone, version).await?;
    let rows: Vec<_> = gone.iter().map(|stored| row![stored.id.as_str(), version, now]).collect();
    tx.execute_rows(&BURY, &rows).await.map(drop)
}

async fn keep(tx: &mut Tx<'_>, before: &[&StoredSubscription], until: i64) -> Result<()> {
    let past = before.iter().map(|stored| Past {
        kind: "subscription",
        name: stored.id.as_str(),
        since: stored.version,
        spec: stored.subscription.to_json(),
        active: stored.subscription.active,
    });
    change::keep(tx, &past.collect::<Vec<_>>(), until).await
}
