//! Routes of what decides who is told.

use axum::extract::{RawQuery, Request, State};
use axum::http::HeaderMap;
use axum::routing::{delete, get, patch, post, put};
use axum::{Extension, response::Response};

use super::params::{CURSOR, LIMIT, PAGE_PARAMS, query_param};
use super::{Access, Answer, Param, Route, Verb};
use crate::http::Shared;
use crate::http::auth::Scope::{Admin, Read};
use crate::http::exchange::Asked;
use crate::http::manage::{self, FEEDS, LISTS, PathName, TEMPLATES};
use crate::http::problem::{Code, Problem};

const fn header(name: &'static str, about: &'static str) -> Param {
    Param { name, about, header: true, required: false }
}

const IF_MATCH: Param = header(
    "If-Match",
    "The entity tag of what is meant to be changed: somebody else's change is not overwritten.",
);
const IF_ABSENT: Param = header("If-None-Match", "`*`: only if there is none yet.");
const IF_NEWER: Param =
    header("If-None-Match", "Entity tags that are known: 304 if one of them still stands.");

const SUBSCRIPTION_PARAMS: &[Param] = &[
    query_param("feed", "Only of this feed."),
    query_param("channel", "Only on this channel."),
    query_param("owner", "Only of this owner."),
    query_param("active", "`true` or `false`: only those that are switched on, or off."),
    query_param("q", "Only with this text in their name, in either case of ASCII letters."),
    CURSOR,
    LIMIT,
];

/// The handlers of one sort of object, each a function of its own as the table of routes needs it.
macro_rules! sort {
    ($module:ident, $sort:ident) => {
        mod $module {
            use super::*;

            pub(super) async fn make(
                app: State<Shared>,
                asked: Extension<Asked>,
                request: Request,
            ) -> Result<Response, Problem> {
                manage::make(&$sort, app, asked, request).await
            }

            pub(super) async fn replace(
                app: State<Shared>,
                asked: Extension<Asked>,
                id: PathName,
                request: Request,
            ) -> Result<Response, Problem> {
                manage::put(&$sort, app, asked, id, request).await
            }

            pub(super) async fn change(
                app: State<Shared>,
                asked: Extension<Asked>,
                id: PathName,
                request: Request,
            ) -> Result<Response, Problem> {
                manage::patch(&$sort, app, asked, id, request).await
            }

            pub(super) async fn show(
                app: State<Shared>,
                id: PathName,
                headers: HeaderMap,
            ) -> Result<Response, Problem> {
                manage::show(&$sort, app, id, headers).await
            }

            pub(super) async fn remove(
                app: State<Shared>,
                asked: Extension<Asked>,
                id: PathName,
                headers: HeaderMap,
            ) -> Result<axum::http::StatusCode, Problem> {
                manage::delete(&$sort, app, asked, id, headers).await
            }

            pub(super) async fn list(app: State<Shared>, query: RawQuery) -> Result<Response, Problem> {
                manage::list(&$sort, app, query).await
            }
        }
    };
}

sort!(feeds, FEEDS);
sort!(lists, LISTS);
sort!(templates, TEMPLATES);

/// The six routes of one sort of object.
macro_rules! routes_of {
    ($name:literal, $one:literal, $many:literal, $shape:literal, $not_found:ident, [$($own:ident),*], $params:expr,
     [$list:path, $make:path, $show:path, $replace:path, $change:path, $remove:path]) => {
        vec![
            Route::new(Verb::Get, concat!("/v1/", $name), Access::Key(Read), concat!("List ", $many), || {
                get($list)
            })
            .with($params)
            .answers(Answer::Page($shape))
            .refuses(&[Code::CursorInvalid]),
            Route::new(
                Verb::Post,
                concat!("/v1/", $name),
                Access::Key(Admin),
                concat!("Make ", $one),
                || post($make),
            )
            .takes($shape, true)
            .answers(Answer::One(201, $shape))
            .refuses(&[Code::AlreadyExists, $(Code::$own),*]),
            Route::new(
                Verb::Get,
                concat!("/v1/", $name, "/{id}"),
                Access::Key(Read),
                concat!("Show ", $one),
                || get($show),
            )
            .with(&[IF_NEWER])
            .answers(Answer::One(200, $shape))
            .answers_also(Answer::StillSo)
            .refuses(&[Code::$not_found]),
            Route::new(
                Verb::Put,
                concat!("/v1/", $name, "/{id}"),
                Access::Key(Admin),
                concat!("Replace ", $one, ", or make it"),
                || put($replace),
            )
            .takes($shape, true)
            .with(&[IF_MATCH, IF_ABSENT])
            .answers(Answer::One(200, $shape))
            .answers_also(Answer::One(201, $shape))
            .refuses(&[Code::$not_found, Code::ManagedByFile, Code::PreconditionFailed, $(Code::$own),*]),
            Route::new(
                Verb::Patch,
                concat!("/v1/", $name, "/{id}"),
                Access::Key(Admin),
                concat!("Change what the body names of ", $one, " (RFC 7396)"),
                || patch($change),
            )
            .takes_patch($shape)
            .with(&[IF_MATCH])
            .answers(Answer::One(200, $shape))
            .refuses(&[Code::$not_found, Code::ManagedByFile, Code::PreconditionFailed, $(Code::$own),*]),
            Route::new(
                Verb::Delete,
                concat!("/v1/", $name, "/{id}"),
                Access::Key(Admin),
                concat!("Delete ", $one),
                || delete($remove),
            )
            .with(&[IF_MATCH])
            .refuses(&[Code::$not_found, Code::ManagedByFile, Code::InUse, Code::PreconditionFailed]),
        ]
    };
}

/// Every route here, in the order in which they are documented.
pub(super) fn routes() -> Vec<Route> {
    let preview = Route::new(
        Verb::Post,
        "/v1/templates/preview",
        Access::Key(Read),
        "Show what a template makes of an event; nothing is stored",
        || post(manage::preview),
    )
    .takes("NewTemplatePreview", true)
    .answers(Answer::One(200, "TemplatePreview"))
    .refuses(&[Code::TemplateNotFound, Code::TemplateInvalid]);
    let import = Route::new(
        Verb::Post,
        "/v1/subscriptions/import",
        Access::Key(Admin),
        "Store many subscriptions, one a line, each by itself: the answer has a line for each, and one at the end that \
         says that it is whole",
        || post(manage::import),
    )
    .takes_lines("Subscription")
    .answers(Answer::Text("application/x-ndjson"))
    .refuses(&[Code::BatchTooLarge]);
    [subscriptions(), vec![import], feeds_routes(), lists_routes(), templates_routes(), vec![preview]]
        .into_iter()
        .flatten()
        .collect()
}

fn subscriptions() -> Vec<Route> {
    routes_of!(
        "subscriptions",
        "a subscription",
        "subscriptions, in the order in which they were made",
        "Subscription",
        SubscriptionNotFound,
        [],
        SUBSCRIPTION_PARAMS,
        [
            manage::list_subscriptions,
            manage::make_subscription,
            manage::show_subscription,
            manage::put_subscription,
            manage::patch_subscription,
            manage::delete_subscription
        ]
    )
}

fn feeds_routes() -> Vec<Route> {
    routes_of!(
        "feeds",
        "a feed",
        "the feed catalogue, by id",
        "Feed",
        FeedNotFound,
        [],
        PAGE_PARAMS,
        [feeds::list, feeds::make, feeds::show, feeds::replace, feeds::change, feeds::remove]
    )
}

fn lists_routes() -> Vec<Route> {
    routes_of!(
        "lists",
        "a list",
        "lists, by name",
        "List",
        ListNotFound,
        [],
        PAGE_PARAMS,
        [lists::list, lists::make, lists::show, lists::replace, lists::change, lists::remove]
    )
}

fn templates_routes() -> Vec<Route> {
    routes_of!(
        "templates",
        "a template",
        "templates, by event type, channel and locale",
        "Template",
        TemplateNotFound,
        [TemplateInvalid],
        PAGE_PARAMS,
        [
            templates::list,
            templates::make,
            templates::show,
            templates::replace,
            templates::change,
            templates::remove
        ]
    )
}
