//! Feeds, lists and templates: few, each with a name of its own.

use std::sync::Arc;

use angarium_domain::complaints::Complaint;
use angarium_domain::feed::Feed;
use angarium_domain::list::List;
use angarium_domain::text::{ChannelName, FeedId, ListName};
use angarium_store::{Expect, ObjectKind, StoredObject};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
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
use super::{done, expectation, in_path, made, shown, written};

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
    /// Reads it: its name and its JSON as it is stored.
    pub(super) read: fn(&App, Option<&str>, &str) -> Result<(String, String), Problem>,
}

pub(in crate::http) static FEEDS: Sort = Sort {
    kind: ObjectKind::Feed,
    path: "feeds",
    named_by: Some("id"),
    not_found: Code::FeedNotFound,
    listing: Listing::Feeds,
    name_of: |id| FeedId::parse(id).ok().map(|id| id.to_string()),
    id_of: str::to_owned,
    read: |_, name, json| {
        let id = named("id", name, FeedId::parse)?;
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
        let name = named("name", name, ListName::parse)?;
        let kind_of = |channel: &ChannelName| app.channels.get(channel).map(|facts| facts.kind);
        let list = List::parse(json, &kind_of).map_err(invalid)?;
        Ok((name.to_string(), list.to_json()))
    },
};

fn named<T, E: std::fmt::Display>(
    member: &'static str,
    name: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Problem> {
    let name = name.ok_or_else(|| Problem::invalid_field(member, "is required"))?;
    parse(name).map_err(|error| invalid(vec![Complaint::new(member, error)]))
}

/// `POST /v1/feeds`, `/v1/lists`, `/v1/templates`
pub(in crate::http) async fn make(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Absent)?;
    let bytes = taken(&app, request, false).await?;
    store(sort, &app, &asked, None, bytes, expect).await
}

/// `PUT /v1/feeds/{id}` and so on
pub(in crate::http) async fn put(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Anything)?;
    let bytes = taken(&app, request, false).await?;
    store(sort, &app, &asked, Some(id), bytes, expect).await
}

/// `PATCH /v1/feeds/{id}` and so on
pub(in crate::http) async fn patch(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let expect = expectation(request.headers(), Expect::Present)?;
    let bytes = taken(&app, request, true).await?;
    let before = find(sort, &app, &id).await?;
    let (reader, spec) = (Arc::clone(&app), before.spec);
    let merge = move |bytes: &[u8]| {
        let patch = raw(body::check(bytes, reader.limits.json_depth)?)?;
        Ok(json::merged(Some(&raw(&spec)?), &patch).get().to_owned())
    };
    let (_held, merged) = bytes.work(merge).await?;
    // Somebody else's change in between is not to be lost.
    let expect = if expect == Expect::Present { Expect::Version(before.version) } else { expect };
    keep(sort, &app, &asked, Some(id), &merged, expect).await
}

/// `GET /v1/feeds/{id}` and so on
pub(in crate::http) async fn show(
    sort: &'static Sort,
    State(app): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find(sort, &app, &id).await?;
    Ok(shown(&headers, found.version, view(sort, &found)?.get().to_owned()))
}

/// `DELETE /v1/feeds/{id}` and so on
pub(in crate::http) async fn delete(
    sort: &'static Sort,
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let expect = expectation(&headers, Expect::Anything)?;
    let name = (sort.name_of)(&id).ok_or_else(|| Problem::plain(sort.not_found))?;
    done(app.store.delete_object(sort.kind, &name, expect, asked.now).await?, sort.not_found, expect)?;
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
    let items: Result<Vec<Box<RawValue>>, Problem> = found.iter().map(|object| view(sort, object)).collect();
    let Json(page) = Json(Page { items: items?, next });
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

async fn find(sort: &Sort, app: &App, id: &str) -> Result<StoredObject, Problem> {
    let not_found = || Problem::plain(sort.not_found);
    let name = (sort.name_of)(id).ok_or_else(not_found)?;
    app.store.object(sort.kind, &name).await?.ok_or_else(not_found)
}

async fn store(
    sort: &'static Sort,
    app: &Shared,
    asked: &Asked,
    id: Option<String>,
    bytes: Bytes,
    expect: Expect,
) -> Result<Response, Problem> {
    let depth = app.limits.json_depth;
    let (_held, text) = bytes.work(move |bytes| Ok(body::check(bytes, depth)?.to_owned())).await?;
    keep(sort, app, asked, id, &text, expect).await
}

/// Reads an object apart from everything else, since that may mean to render a template, and stores it.
async fn keep(
    sort: &'static Sort,
    app: &Shared,
    asked: &Asked,
    id: Option<String>,
    text: &str,
    expect: Expect,
) -> Result<Response, Problem> {
    let name = match id {
        Some(id) => Some((sort.name_of)(&id).ok_or_else(|| Problem::plain(sort.not_found))?),
        None => None,
    };
    let (reader, text) = (Arc::clone(app), text.to_owned());
    let read = tokio::task::spawn_blocking(move || read(sort, &reader, name.as_deref(), &text));
    let read = read.await.map_err(|error| Problem::internal(error.to_string()))?;
    let (name, spec) = read?;
    if sort.kind == ObjectKind::Template {
        super::templates::try_out(app, &spec).await?;
    }
    let changed = app.store.put_object(sort.kind, &name, spec, expect, asked.now).await?;
    let (object, created) = done(changed, sort.not_found, expect)?;
    app.wake.now();
    let location = format!("/v1/{}/{}", sort.path, in_path(&(sort.id_of)(&object.name)));
    Ok(made(created, &location, object.version, view(sort, &object)?.get().to_owned()))
}

fn read(sort: &Sort, app: &App, path: Option<&str>, text: &str) -> Result<(String, String), Problem> {
    let mut object = json::object(text)?;
    for added in ADDED.iter().chain(["active"].iter()) {
        object.remove(*added);
    }
    let Some(member) = sort.named_by else {
        object.remove("id");
        let (name, spec) = (sort.read)(app, None, &json::text(&object))?;
        if path.is_some_and(|path| path != name) {
            let message = "cannot be changed: they are the template's name. Make another template";
            return Err(Problem::invalid_field("event_type, channel and locale", message));
        }
        return Ok((name, spec));
    };
    // What is shown has its name twice where it is not its id.
    if member != "id" {
        object.remove("id");
    }
    let given = json::name(&mut object, member)?;
    if let Some(path) = path {
        json::same_name(given.as_deref(), member, path)?;
    }
    (sort.read)(app, path.or(given.as_deref()), &json::text(&object))
}

/// An object as it is shown: what it says, and what is known of it.
fn view(sort: &Sort, object: &StoredObject) -> Result<Box<RawValue>, Problem> {
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
    Ok(json::member(&members))
}

fn raw(text: &str) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(text.to_owned()).map_err(|error| Problem::internal(error.to_string()))
}
