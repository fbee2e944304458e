//! Feeds, lists and templates: few, each with a name of its own.

use std::sync::Arc;

use angarium_domain::complaints::{Complaint, MOST_COMPLAINTS};
use angarium_domain::feed::Feed;
use angarium_domain::list::List;
use angarium_domain::text::{ChannelName, FeedId, ListName};
use angarium_store::{Expect, ManagedBy, ObjectKind, StoredObject};
use axum::Extension;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::value::RawValue;

use super::super::body::Bytes;
use super::super::cursor::{self, Listing, Slice};
use super::super::dto::Page;
use super::super::events::invalid;
use super::super::exchange::Asked;
use super::super::fields::Params;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::json::{self, ADDED, Object};
use super::{PathName, done, expectation, in_path, made, shown, unless_changed, written};
use crate::config::blocked;

/// A sort of object: where it stands, what it is called, and how it is read.
pub(in crate::http) struct Sort {
    pub(super) kind: ObjectKind,
    pub(super) path: &'static str,
    /// The member that holds its name, where that is not made of others.
    pub(super) named_by: Option<&'static str>,
    pub(super) not_found: Code,
    pub(super) listing: Listing,
    /// The name in the store of what a path names.
    pub(super) name_of: fn(&str) -> Option<String>,
    /// What a path calls it.
    pub(super) id_of: fn(&str) -> String,
    /// Reads its JSON; its name is given where that is not made of members.
    pub(super) read: fn(&App, Option<&str>, &str) -> Result<Named, Problem>,
}

/// The name of an object in the store, and its JSON as it is stored.
pub(super) type Named = (String, String);

pub(in crate::http) static FEEDS: Sort = Sort {
    kind: ObjectKind::Feed,
    path: "feeds",
    named_by: Some("id"),
    not_found: Code::FeedNotFound,
    listing: Listing::Feeds,
    name_of: |id| FeedId::parse(id).ok().map(|id| id.to_string()),
    id_of: str::to_owned,
    read: |_, name, json| {
        let id = own_name("id", name, FeedId::parse)?;
        let feed = Feed::parse(id.clone(), json).map_err(invalid)?;
        Ok((id.to_string(), feed.to_json()))
    },
};

pub(in crate::http) static LISTS: Sort = Sort {
    kind: ObjectKind::List,
    path: "lists",
    named_by: Some("name"),
    not_found: Code::ListNotFound,
    listing: Listing::Lists,
    name_of: |name| ListName::parse(name).ok().map(|name| name.to_string()),
    id_of: str::to_owned,
    read: |app, name, json| {
        let name = own_name("name", name, ListName::parse)?;
        let kind_of = |channel: &ChannelName| app.channels.get(channel).map(|facts| facts.kind);
        let list = List::parse(json, &kind_of).map_err(invalid)?;
        check_members(app, &list)?;
        Ok((name.to_string(), list.to_json()))
    },
};

fn own_name<T, E: std::fmt::Display>(
    member: &'static str,
    name: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Problem> {
    let name = name.ok_or_else(|| Problem::invalid_field(member, "is required"))?;
    parse(name).map_err(|error| invalid(vec![Complaint::new(member, error)]))
}

/// Refuses members that nothing could ever be sent to.
fn check_members(app: &App, list: &List) -> Result<(), Problem> {
    let Some(facts) = app.channels.get(&list.channel) else { return Ok(()) };
    let refused = list.members.iter().filter_map(|member| {
        let why = blocked(&member.address, facts.kind, &app.guard)?;
        Some(Complaint::new("members", format_args!("holds {}, which {why}", member.address.as_str())))
    });
    let refused: Vec<Complaint> = refused.take(MOST_COMPLAINTS).collect();
    if refused.is_empty() { Ok(()) } else { Err(invalid(refused)) }
}

/// `POST /v1/feeds`, `/v1/lists`, `/v1/templates`
pub(in crate::http) async fn make(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<Response, Problem> {
    let bytes = taken(&app, request, false).await?;
    store(sort, &app, &asked, None, bytes, Expect::Absent).await
}

/// `PUT /v1/feeds/{id}` and so on
pub(in crate::http) async fn put(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    request: Request,
) -> Result<Response, Problem> {
    let name = named(sort, path)?;
    let expect = expectation(request.headers(), Expect::Anything)?;
    let bytes = taken(&app, request, false).await?;
    store(sort, &app, &asked, Some(name), bytes, expect).await
}

/// `PATCH /v1/feeds/{id}` and so on
pub(in crate::http) async fn patch(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    request: Request,
) -> Result<Response, Problem> {
    let name = named(sort, path)?;
    let expect = expectation(request.headers(), Expect::Present)?;
    let bytes = taken(&app, request, true).await?;
    let before = find(sort, &app, &name).await?;
    if before.managed_by == ManagedBy::File {
        return Err(Problem::plain(Code::ManagedByFile));
    }
    let (reader, spec) = (Arc::clone(&app), before.spec);
    let merge = move |bytes: &[u8]| {
        let patch = raw(body::check(bytes, reader.limits.json_depth)?)?;
        Ok(json::merged(Some(&raw(&spec)?), &patch).get().to_owned())
    };
    let (_held, merged) = bytes.work(merge).await?;
    let expect = unless_changed(expect, before.version);
    keep(sort, &app, &asked, Some(name), merged, expect).await
}

/// `GET /v1/feeds/{id}` and so on
pub(in crate::http) async fn show(
    sort: &'static Sort,
    State(app): State<Shared>,
    path: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(sort, &app, &named(sort, path)?).await?;
    Ok(shown(&headers, found.version, view(sort, &found, &[])?.get().to_owned()))
}

/// `DELETE /v1/feeds/{id}` and so on
pub(in crate::http) async fn delete(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    path: PathName,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let name = named(sort, path)?;
    let expect = expectation(&headers, Expect::Anything)?;
    let changed = app.store.delete_object(sort.kind, &name, expect, asked.now).await?;
    done(changed, sort.not_found, Code::PreconditionFailed)?;
    app.wake.now();
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /v1/feeds`, `/v1/lists`, `/v1/templates`
pub(in crate::http) async fn list(
    sort: &'static Sort,
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = Params::read(query.as_deref());
    let slice = Slice::take(&mut params, sort.listing, |row| String::from_utf8(row).ok());
    let (after, limit) = slice.finish(params)?;
    let mut found = app.store.objects(sort.kind, after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|last| cursor::write(sort.listing, last.name.as_bytes()));
    let items: Result<Vec<Box<RawValue>>, Problem> =
        found.iter().map(|object| view(sort, object, &[])).collect();
    let page = Page { items: items?, next };
    Ok(written(StatusCode::OK, serde_json::to_string(&page).unwrap_or_default()))
}

/// The body of a request that describes an object.
pub(super) async fn taken(app: &App, request: Request, patch: bool) -> Result<Bytes, Problem> {
    let (limit, timeout) = (app.limits.request_bytes, app.bounds.body_timeout);
    if patch {
        body::read_patch(request, limit, timeout).await
    } else {
        body::read_json(request, limit, timeout).await
    }
}

/// The name in the store of what a path names.
fn named(sort: &Sort, path: PathName) -> Result<String, Problem> {
    let id = path.or(sort.not_found)?;
    (sort.name_of)(&id).ok_or_else(|| Problem::plain(sort.not_found))
}

async fn find(sort: &Sort, app: &App, name: &str) -> Result<StoredObject, Problem> {
    app.store.object(sort.kind, name).await?.ok_or_else(|| Problem::plain(sort.not_found))
}

async fn store(
    sort: &'static Sort,
    app: &Shared,
    asked: &Asked,
    name: Option<String>,
    bytes: Bytes,
    expect: Expect,
) -> Result<Response, Problem> {
    let depth = app.limits.json_depth;
    let (_held, text) = bytes.work(move |bytes| Ok(body::check(bytes, depth)?.to_owned())).await?;
    keep(sort, app, asked, name, text, expect).await
}

/// Stores an object under the name that the path gives it, or makes one under its own.
async fn keep(
    sort: &'static Sort,
    app: &Shared,
    asked: &Asked,
    name: Option<String>,
    text: String,
    expect: Expect,
) -> Result<Response, Problem> {
    let conflict = if name.is_some() { Code::PreconditionFailed } else { Code::AlreadyExists };
    let reader = Arc::clone(app);
    let (name, spec) = apart(move || read(sort, &reader, name.as_deref(), &text)).await??;
    let warnings = match sort.kind {
        ObjectKind::Template => super::templates::try_out(app, &spec).await?,
        ObjectKind::Feed | ObjectKind::List => Vec::new(),
    };
    let changed = app.store.put_object(sort.kind, &name, spec, expect, asked.now).await?;
    let (object, created) = done(changed, sort.not_found, conflict)?;
    app.wake.now();
    let location = format!("/v1/{}/{}", sort.path, in_path(&(sort.id_of)(&object.name)));
    Ok(made(created, &location, object.version, view(sort, &object, &warnings)?.get().to_owned()))
}

/// Works elsewhere than where connections are served: ten thousand addresses are to be read, or a template rendered.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))
}

/// Its name in the store and its JSON as it is stored. The name that it gives itself must be that of the path.
fn read(sort: &Sort, app: &App, path: Option<&str>, text: &str) -> Result<Named, Problem> {
    let mut object = json::object(text)?;
    for added in ADDED.iter().chain(["active"].iter()) {
        object.remove(*added);
    }
    let id = json::name(&mut object, "id")?;
    let (name, spec) = match sort.named_by {
        Some(member) => {
            let given = if member == "id" { id.clone() } else { json::name(&mut object, member)? };
            if let Some(path) = path {
                json::same_name(given.as_deref(), member, path)?;
            }
            (sort.read)(app, path.or(given.as_deref()), &json::text(&object))?
        }
        None => (sort.read)(app, None, &json::text(&object))?,
    };
    if path.is_some_and(|path| path != name) {
        let message = "cannot be changed: they are the template's name. Make another template";
        return Err(Problem::invalid_field("event_type, channel and locale", message));
    }
    json::same_name(id.as_deref(), "id", &(sort.id_of)(&name))?;
    Ok((name, spec))
}

/// An object as it is shown: what it says, and what is known of it.
fn view(sort: &Sort, object: &StoredObject, warnings: &[String]) -> Result<Box<RawValue>, Problem> {
    let mut members: Object =
        serde_json::from_str(&object.spec).map_err(|error| Problem::internal(error.to_string()))?;
    if let Some(member) = sort.named_by {
        members.insert(member.to_owned(), json::member(&object.name));
    }
    members.insert("id".to_owned(), json::member((sort.id_of)(&object.name)));
    members.insert("managed_by".to_owned(), json::member(object.managed_by.as_str()));
    members.insert("active".to_owned(), json::member(object.active));
    members.insert("version".to_owned(), json::member(object.version));
    members.insert("created_at".to_owned(), json::member(object.created_at));
    members.insert("updated_at".to_owned(), json::member(object.updated_at));
    if !warnings.is_empty() {
        members.insert("warnings".to_owned(), json::member(warnings));
    }
    Ok(json::member(&members))
}

/// JSON that is kept as it was written.
pub(super) fn raw(text: &str) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(text.to_owned()).map_err(|error| Problem::internal(error.to_string()))
}
