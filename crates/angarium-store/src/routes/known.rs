//! The routes in memory: feeds with an index of their subscriptions, templates, lists. Every change to them has a
//! number, and whoever plans first catches up with the number that the database has: what was subscribed before an
//! event was accepted is in its plan, on whichever node either was done.
//!
//! What is found is always as of one change: a step forward is taken at once, under one lock. After a failover that may
//! have lost changes, and after a commit that failed, all of it is learned anew.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use angarium_domain::event::Event;
use angarium_domain::feed::Feed;
use angarium_domain::filter::Filter;
use angarium_domain::list::List;
use angarium_domain::matching::Index;
use angarium_domain::template::Template;
use angarium_domain::text::{EventType, FeedId, ListName, Locale};

use crate::db::{Op, Row, Tx, params, statements};
use crate::error::Result;
use crate::events::types::Channels;

statements! {
    VERSION = "SELECT version FROM changes WHERE one = 1";

    OBJECTS_SINCE = "SELECT kind, name, spec, active, version FROM objects WHERE version > $1 ORDER BY version, kind, name";

    SUBSCRIPTIONS_SINCE = "SELECT key, feed, filter, active, test, version FROM subscriptions
        WHERE (version, key) > ($1, $2) ORDER BY version, key LIMIT $3";

    SUBSCRIPTIONS_OF = "SELECT key, feed, filter, active, test, version FROM subscriptions
        WHERE feed = $1 AND key > $2 ORDER BY key LIMIT $3";
}

/// Subscriptions that are read in one go.
const PAGE: i64 = 10_000;

/// How often a step forward is tried while others change routes; after that the plan is as of the last one.
const STEPS: usize = 8;

/// What this node knows.
#[derive(Default)]
pub(crate) struct Known {
    routes: RwLock<Routes>,
    /// Held by whoever catches up.
    catching_up: tokio::sync::Mutex<Option<Learning>>,
    channels: OnceLock<Arc<Channels>>,
}

#[derive(Default)]
struct Routes {
    /// None if nothing is known.
    position: Option<Position>,
    feeds: HashMap<String, FeedRoutes>,
    /// By event type and channel, then by locale, each with its version.
    templates: HashMap<(String, String), BTreeMap<Locale, Versioned>>,
    lists: HashMap<String, Arc<List>>,
}

/// A template, and the change that made it what it is.
type Versioned = (Arc<Template>, i64);

/// A change, and the timeline of the database that it is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    timeline: i64,
    version: i64,
}

struct FeedRoutes {
    feed: Arc<Feed>,
    index: Index,
}

/// Who is concerned by an event, as of a change.
pub(crate) struct Matches {
    pub(crate) feed: Arc<Feed>,
    pub(crate) version: i64,
    /// The keys of the subscriptions that match, rising.
    pub(crate) keys: Vec<i64>,
}

impl Known {
    /// The channels that are configured; lists cannot be read without them.
    pub(crate) fn configure(&self, channels: Arc<Channels>) {
        let _the_first_counts = self.channels.set(channels);
    }

    fn routes(&self) -> RwLockReadGuard<'_, Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is concerned by an event; none if there is no such feed.
    pub(crate) fn matches(&self, event: &Event) -> Option<Matches> {
        let routes = self.routes();
        let found = routes.feeds.get(event.feed.as_str())?;
        let keys = if found.feed.enabled { found.index.matches(event) } else { Vec::new() };
        let version = routes.position.map_or(0, |position| position.version);
        Some(Matches { feed: Arc::clone(&found.feed), version, keys })
    }

    pub(crate) fn feed(&self, id: &FeedId) -> Option<Arc<Feed>> {
        self.routes().feeds.get(id.as_str()).map(|found| Arc::clone(&found.feed))
    }

    /// The feed one of whose `sources` is the longest beginning of `source`.
    pub(crate) fn feed_of_source(&self, source: &str) -> Option<Arc<Feed>> {
        let routes = self.routes();
        let longest = |feed: &Feed| {
            feed.sources.iter().filter(|start| source.starts_with(&***start)).map(String::len).max()
        };
        let fits = routes.feeds.values().filter_map(|found| Some((longest(&found.feed)?, &found.feed)));
        fits.max_by_key(|(length, feed)| (*length, std::cmp::Reverse(&feed.id)))
            .map(|(_, feed)| Arc::clone(feed))
    }

    pub(crate) fn list(&self, name: &ListName) -> Option<Arc<List>> {
        self.routes().lists.get(name.as_str()).cloned()
    }

    pub(crate) fn templates(&self, kind: &EventType, channel: &str) -> Vec<(Locale, Versioned)> {
        let routes = self.routes();
        let found = routes.templates.get(&(kind.as_str().to_owned(), channel.to_owned()));
        found.into_iter().flatten().map(|(locale, template)| (locale.clone(), template.clone())).collect()
    }

    fn position(&self) -> Option<Position> {
        self.routes().position
    }

    fn parse_list(&self, spec: &str) -> Option<List> {
        let channels = self.channels.get()?;
        List::parse(spec, &|name| channels.get(name).map(|facts| facts.kind)).ok()
    }

    async fn hold(&self, in_this_thread: bool) -> tokio::sync::MutexGuard<'_, Option<Learning>> {
        if in_this_thread { self.catching_up.blocking_lock() } else { self.catching_up.lock().await }
    }
}

/// Brings what is known up to the change that `tx` sees.
pub(crate) async fn catch_up(tx: &mut Tx<'_>, known: &Known) -> Result<()> {
    for _ in 0..STEPS {
        let at = Position { timeline: tx.timeline(), version: version(tx).await? };
        // Whoever began on a timeline that was left takes nothing back.
        let there = |position: Option<Position>| {
            let reached = |now: Position| now.timeline == at.timeline && now.version >= at.version;
            position.is_some_and(|now| now.timeline > at.timeline || reached(now))
        };
        if there(known.position()) {
            return Ok(());
        }
        // On SQLite it is a thread of its own that waits here, and for another thread.
        let in_this_thread = matches!(tx, Tx::Sqlite(_));
        let mut learning = known.hold(in_this_thread).await;
        match known.position() {
            now if there(now) => {}
            Some(now) if now.timeline == at.timeline => forward(tx, known, now.version, at).await?,
            _ => anew(tx, known, &mut learning, at).await?,
        }
    }
    Ok(())
}

async fn version(tx: &mut Tx<'_>) -> Result<i64> {
    Ok(tx.query_opt(&VERSION, &[], |row| row.int(0)).await?.unwrap_or(0))
}

/// Takes what changed since `since`.
async fn forward(tx: &mut Tx<'_>, known: &Known, since: i64, at: Position) -> Result<()> {
    let objects = objects(tx, since).await?;
    let mut changed = Vec::new();
    let mut last = (since, i64::MAX);
    loop {
        let after = params![last.0, last.1, PAGE];
        let page = tx.query(&SUBSCRIPTIONS_SINCE, after, Route::read).await?;
        let more = count(&page) == PAGE;
        last = page.last().map_or(last, |route| (route.version, route.key));
        changed.extend(page);
        if !more {
            break;
        }
    }
    let mut whole = Vec::new();
    for feed in objects.iter().filter_map(Object::feed) {
        whole.push((feed.id.clone(), index_of(tx, &feed).await?, feed));
    }
    let mut routes = known.routes.write().unwrap_or_else(PoisonError::into_inner);
    let renewed: HashSet<&str> = whole.iter().map(|(id, _, _)| id.as_str()).collect();
    for route in &changed {
        for (id, found) in routes.feeds.iter_mut().filter(|(id, _)| !renewed.contains(id.as_str())) {
            // One that was deleted and made again may be of another feed now.
            if *id == route.feed {
                route.put(&mut found.index, &found.feed)
            } else {
                found.index.remove(route.key)
            }
        }
    }
    objects.into_iter().for_each(|object| routes.take(object, known));
    let renewed = whole
        .into_iter()
        .map(|(id, index, feed)| (id.as_str().to_owned(), FeedRoutes { feed: Arc::new(feed), index }));
    routes.feeds.extend(renewed);
    routes.position = Some(at);
    Ok(())
}

/// What was learned so far of everything. It takes longer than one operation may where subscriptions are very many, so that
/// what one operation has learned is there for the next.
struct Learning {
    /// The change that it began with; what changed since is caught up with in the end.
    at: Position,
    routes: Routes,
    /// Feeds of which not all subscriptions are known; of the last one, the index so far and how far it goes.
    left: Vec<Feed>,
    index: Index,
    after: i64,
}

/// Learns everything, from where whoever tried before was cut off.
async fn anew(tx: &mut Tx<'_>, known: &Known, learning: &mut Option<Learning>, at: Position) -> Result<()> {
    if learning.as_ref().is_some_and(|learning| learning.at.timeline != at.timeline) {
        *learning = None;
    }
    if learning.is_none() {
        let mut begun =
            Learning { at, routes: Routes::default(), left: Vec::new(), index: Index::default(), after: 0 };
        for object in objects(tx, 0).await? {
            match object.feed() {
                Some(feed) => begun.left.push(feed),
                None => begun.routes.take(object, known),
            }
        }
        *learning = Some(begun);
    }
    let Some(far) = learning.as_mut() else { return Ok(()) };
    while let Some(feed) = far.left.last() {
        let asked = params![feed.id.as_str(), far.after, PAGE];
        let page = tx.query(&SUBSCRIPTIONS_OF, asked, Route::read).await?;
        page.iter().for_each(|route| route.put(&mut far.index, feed));
        far.after = page.last().map_or(far.after, |route| route.key);
        if count(&page) == PAGE {
            continue;
        }
        if let Some(feed) = far.left.pop() {
            let index = std::mem::take(&mut far.index);
            far.after = 0;
            far.routes.feeds.insert(feed.id.as_str().to_owned(), FeedRoutes { feed: Arc::new(feed), index });
        }
    }
    if let Some(Learning { at, mut routes, .. }) = learning.take() {
        routes.position = Some(at);
        *known.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
    }
    Ok(())
}

fn count<T>(page: &[T]) -> i64 {
    i64::try_from(page.len()).unwrap_or(i64::MAX)
}

async fn objects(tx: &mut Tx<'_>, since: i64) -> Result<Vec<Object>> {
    tx.query(&OBJECTS_SINCE, params![since], |row| {
        let (kind, name, spec) = (row.text(0)?, row.text(1)?, row.text(2)?);
        Ok(Object { kind, name, spec, active: row.flag(3)?, version: row.int(4)? })
    })
    .await
}

/// The subscriptions of a feed as they are now, read as the feed says.
pub(crate) async fn index_of(tx: &mut Tx<'_>, feed: &Feed) -> Result<Index> {
    let mut index = Index::default();
    let mut after = 0;
    loop {
        let put = |row: &Row<'_>| {
            let route = Route::read(row)?;
            route.put(&mut index, feed);
            Ok(route.key)
        };
        let keys = tx.query(&SUBSCRIPTIONS_OF, params![feed.id.as_str(), after, PAGE], put).await?;
        after = keys.last().copied().unwrap_or(after);
        if count(&keys) < PAGE {
            return Ok(index);
        }
    }
}

/// A feed, a template or a list as it is stored.
struct Object {
    kind: String,
    name: String,
    spec: String,
    active: bool,
    version: i64,
}

impl Object {
    /// The feed that it is and that counts.
    fn feed(&self) -> Option<Feed> {
        let is_one = self.active && self.kind == "feed";
        is_one.then(|| Feed::parse(FeedId::parse(&self.name).ok()?, &self.spec).ok())?
    }
}

impl Routes {
    /// Takes what an object has become. A feed that counts comes with its index, and not here.
    fn take(&mut self, object: Object, known: &Known) {
        match &*object.kind {
            "feed" => {
                self.feeds.remove(&object.name);
            }
            "list" => {
                let list = object.active.then(|| known.parse_list(&object.spec)).flatten();
                match list {
                    Some(list) => self.lists.insert(object.name, Arc::new(list)),
                    None => self.lists.remove(&object.name),
                };
            }
            _ => self.take_template(object),
        }
    }

    fn take_template(&mut self, object: Object) {
        // The spec of one that was deleted is gone, its name is not.
        let mut parts = object.name.rsplitn(3, '/');
        let (Some(locale), Some(channel), Some(kind)) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        let Ok(locale) = Locale::parse(locale) else { return };
        let by_locale = self.templates.entry((kind.to_owned(), channel.to_owned())).or_default();
        match object.active.then(|| Template::parse(&object.spec).ok()).flatten() {
            Some(template) => by_locale.insert(locale, (Arc::new(template), object.version)),
            None => by_locale.remove(&locale),
        };
    }
}

/// A subscription, as far as the index must know it.
struct Route {
    key: i64,
    feed: String,
    filter: String,
    active: bool,
    test: bool,
    version: i64,
}

impl Route {
    fn read(row: &Row<'_>) -> Result<Route> {
        Ok(Route {
            key: row.int(0)?,
            feed: row.text(1)?,
            filter: row.text(2)?,
            active: row.flag(3)?,
            test: row.flag(4)?,
            version: row.int(5)?,
        })
    }

    /// Puts it into the index as it is now: in, or out. One whose filter cannot be read matches nothing.
    fn put(&self, index: &mut Index, feed: &Feed) {
        match Filter::parse(&self.filter) {
            Ok(filter) if self.active => index.insert(self.key, &filter, feed, self.test),
            Ok(_) => index.remove(self.key),
            Err(_) => {
                tracing::error!(subscription.key = self.key, "the filter of a subscription cannot be read");
                index.remove(self.key);
            }
        }
    }
}

/// Learns what is new.
pub(crate) struct CatchUp(pub(crate) Arc<Known>);

impl Op for CatchUp {
    type Output = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<()> {
        catch_up(tx, &self.0).await
    }
}
