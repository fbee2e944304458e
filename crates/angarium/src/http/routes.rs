//! The one table of routes: what is served, who may ask, what it takes and gives. The router and the OpenAPI
//! document are built from it, so that neither can have what the other has not.

mod events;
mod manage;
mod params;

use std::collections::BTreeSet;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Extension, Router};

use self::params::{IDEMPOTENCY_KEY, LIST_PARAMS, PAGE_PARAMS, SUPPRESSION_PARAMS};
use super::auth::{self, Scope};
use super::problem::Code;
use super::{
    Shared, actions, body, bounces, channels, exchange, health, ingest, keys, metrics, nodes, openapi, query,
};

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Anybody.
    Open,
    /// Whoever has a key with this scope.
    Key(Scope),
    /// This machine itself, and whoever has a key that may read.
    ReadOrLocal,
}

/// What is answered when all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing, with 204.
    Nothing,
    /// One object of this name.
    One(u16, &'static str),
    /// A page of such objects.
    Page(&'static str),
    /// Nothing, with 304: whoever asks has it.
    StillSo,
    /// Something of this media type.
    Text(&'static str),
}

/// What is taken in the body of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Taken {
    /// A JSON object of this name, and whether it must be there.
    Json(&'static str, bool),
    /// What changes an object of this name, which must be there.
    Patch(&'static str),
    /// Objects of this name, one a line.
    Lines(&'static str),
    /// A mail as it is, which must be there.
    Mail,
    /// An event, as this server's own JSON or as a CloudEvent, which must be there.
    Event,
    /// Many events in one of these forms, which must be there.
    Events,
}

/// A header or a query parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) header: bool,
    pub(super) required: bool,
}

/// One route.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) summary: &'static str,
    pub(super) takes: Option<Taken>,
    pub(super) answer: Answer,
    /// Another answer where all is well.
    pub(super) also: Option<Answer>,
    pub(super) params: &'static [Param],
    /// What can go wrong here and not everywhere.
    own_problems: &'static [Code],
    handler: fn() -> MethodRouter<Shared>,
}

impl Route {
    fn new(
        verb: Verb,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: fn() -> MethodRouter<Shared>,
    ) -> Self {
        Route {
            verb,
            path,
            access,
            summary,
            takes: None,
            answer: Answer::Nothing,
            also: None,
            params: &[],
            own_problems: &[],
            handler,
        }
    }

    fn takes(self, name: &'static str, required: bool) -> Self {
        Route { takes: Some(Taken::Json(name, required)), ..self }
    }

    fn takes_patch(self, name: &'static str) -> Self {
        Route { takes: Some(Taken::Patch(name)), ..self }
    }

    fn takes_lines(self, name: &'static str) -> Self {
        Route { takes: Some(Taken::Lines(name)), ..self }
    }

    fn takes_mail(self) -> Self {
        Route { takes: Some(Taken::Mail), ..self }
    }

    fn takes_events(self, taken: Taken) -> Self {
        Route { takes: Some(taken), ..self }
    }

    fn answers(self, answer: Answer) -> Self {
        Route { answer, ..self }
    }

    fn answers_also(self, also: Answer) -> Self {
        Route { also: Some(also), ..self }
    }

    fn with(self, params: &'static [Param]) -> Self {
        Route { params, ..self }
    }

    fn refuses(self, own_problems: &'static [Code]) -> Self {
        Route { own_problems, ..self }
    }

    /// Everything that can go wrong, in the order of status.
    pub(super) fn problems(&self) -> BTreeSet<Code> {
        const EVERYWHERE: [Code; 4] =
            [Code::BodyIncomplete, Code::UriTooLong, Code::CredentialInUrl, Code::Internal];
        const WITH_KEY: [Code; 7] = [
            Code::AuthMissing,
            Code::AuthInvalid,
            Code::ScopeDenied,
            Code::StorageFull,
            Code::Overloaded,
            Code::StorageUnavailable,
            Code::QueryTimeout,
        ];
        const WITH_BODY: [Code; 3] = [Code::BodyTimeout, Code::BodyTooLarge, Code::ContentTypeUnsupported];
        const WITH_JSON: [Code; 5] = [
            Code::JsonInvalid,
            Code::JsonDuplicateKey,
            Code::JsonTooDeep,
            Code::NumberOutOfRange,
            Code::ControlCharacter,
        ];
        let mut codes = BTreeSet::from(EVERYWHERE);
        if self.access != Access::Open {
            codes.extend(WITH_KEY);
        }
        if self.verb != Verb::Get {
            codes.insert(Code::OutcomeUnknown);
        }
        if matches!(self.access, Access::Key(_)) {
            codes.insert(Code::InvalidRequest);
        }
        if self.takes.is_some() {
            codes.extend(WITH_BODY);
        }
        if self.takes.is_some_and(|taken| !matches!(taken, Taken::Mail)) {
            codes.extend(WITH_JSON);
        }
        codes.extend(self.own_problems);
        codes
    }

    fn guarded(&self, app: &Shared) -> MethodRouter<Shared> {
        let methods = (self.handler)();
        match self.access {
            Access::Open => methods,
            Access::Key(scope) => {
                let methods = match self.params.iter().any(|param| !param.header) {
                    true => methods,
                    false => methods.route_layer(from_fn(exchange::refuse_params)),
                };
                methods.route_layer(from_fn_with_state((app.clone(), scope), auth::check))
            }
            Access::ReadOrLocal => methods.route_layer(from_fn_with_state(app.clone(), auth::check_metrics)),
        }
    }
}

/// The router over all routes.
pub(super) fn router(app: Shared) -> Router {
    let mut router = Router::new();
    for route in table() {
        router = router.route(route.path, route.guarded(&app));
    }
    router
        .fallback(exchange::not_found)
        .method_not_allowed_fallback(exchange::method_not_allowed)
        .layer(Extension(body::Room::of(app.bounds.body_bytes)))
        .layer(from_fn_with_state(app.clone(), exchange::wrap))
        .with_state(app)
}

/// Every route, in the order in which it is documented.
pub(super) fn table() -> Vec<Route> {
    [
        notifications(),
        events::routes(),
        manage::routes(),
        operations(),
        channels_and_bounces(),
        administration(),
        about(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn notifications() -> Vec<Route> {
    use Scope::{Publish, Read};
    let gone: &[Code] = &[Code::NotificationNotFound];
    vec![
        Route::new(Verb::Post, "/v1/notifications", Access::Key(Publish), "Hand in a notification", || {
            post(ingest::one)
        })
        .takes("NewNotification", true)
        .with(&[IDEMPOTENCY_KEY])
        .answers(Answer::One(202, "Accepted"))
        .refuses(&[Code::IdempotencyKeyInvalid, Code::IdReused]),
        Route::new(
            Verb::Post,
            "/v1/notifications/batch",
            Access::Key(Publish),
            "Hand in many notifications in one commit",
            || post(ingest::batch),
        )
        .takes("NewBatch", true)
        .with(&[IDEMPOTENCY_KEY])
        .answers(Answer::One(202, "BatchAnswer"))
        .refuses(&[Code::IdempotencyKeyInvalid, Code::BatchTooLarge]),
        Route::new(
            Verb::Get,
            "/v1/notifications",
            Access::Key(Read),
            "List notifications, newest first",
            || get(query::list),
        )
        .with(LIST_PARAMS)
        .answers(Answer::Page("Notification"))
        .refuses(&[Code::CursorInvalid]),
        Route::new(Verb::Get, "/v1/notifications/{id}", Access::Key(Read), "Show a notification", || {
            get(query::show)
        })
        .answers(Answer::One(200, "Notification"))
        .refuses(gone),
        Route::new(
            Verb::Get,
            "/v1/notifications/{id}/attempts",
            Access::Key(Read),
            "List the attempts at delivering a notification, oldest first",
            || get(query::attempts),
        )
        .with(PAGE_PARAMS)
        .answers(Answer::Page("Attempt"))
        .refuses(&[Code::NotificationNotFound, Code::CursorInvalid]),
        Route::new(
            Verb::Get,
            "/v1/notifications/{id}/audit",
            Access::Key(Read),
            "Show the trail of a notification, its newest 10,000 entries",
            || get(query::audit),
        )
        .answers(Answer::Page("AuditEntry"))
        .refuses(gone),
        Route::new(Verb::Get, "/v1/kpis", Access::Key(Read), "Show the figures of this moment", || {
            get(query::kpis)
        })
        .answers(Answer::One(200, "Kpis")),
    ]
}

fn operations() -> Vec<Route> {
    use Scope::Operate;
    let action = |path, summary, own_problems, handler| {
        Route::new(Verb::Post, path, Access::Key(Operate), summary, handler)
            .takes("ActionReason", false)
            .answers(Answer::One(200, "ActionDone"))
            .refuses(own_problems)
    };
    vec![
        action(
            "/v1/notifications/{id}/retry",
            "Try a parked notification again, with a fresh budget",
            &[Code::NotificationNotFound, Code::NotParked, Code::AlreadyTold, Code::AtMostOnce],
            || post(actions::retry),
        ),
        action(
            "/v1/notifications/{id}/discard",
            "Give a parked notification up for good",
            &[Code::NotificationNotFound, Code::NotParked],
            || post(actions::discard),
        ),
        action(
            "/v1/notifications/{id}/cancel",
            "Stop a notification that is pending or retrying",
            &[Code::NotificationNotFound, Code::NotCancellable],
            || post(actions::cancel),
        ),
        Route::new(
            Verb::Get,
            "/v1/suppressions",
            Access::Key(Operate),
            "List addresses that want no more messages",
            || get(actions::suppressions),
        )
        .with(PAGE_PARAMS)
        .answers(Answer::Page("Suppression"))
        .refuses(&[Code::CursorInvalid]),
        Route::new(
            Verb::Delete,
            "/v1/suppressions",
            Access::Key(Operate),
            "Let an address have messages again",
            || delete(actions::lift_suppression),
        )
        .with(SUPPRESSION_PARAMS)
        .refuses(&[Code::SuppressionNotFound]),
    ]
}

fn channels_and_bounces() -> Vec<Route> {
    use Scope::{Operate, Read};
    vec![
        Route::new(
            Verb::Get,
            "/v1/channels",
            Access::Key(Read),
            "List the channels that are configured, and what stands in their way",
            || get(channels::list),
        )
        .answers(Answer::Page("Channel")),
        Route::new(
            Verb::Post,
            "/v1/channels/{name}/test",
            Access::Key(Operate),
            "Send a test message now, and show the conversation. It is not stored and not tried again; \
             the answer takes as long as the receiver does",
            || post(channels::test),
        )
        .takes("NewChannelTest", true)
        .answers(Answer::One(200, "ChannelTest"))
        .refuses(&[Code::ChannelNotFound, Code::ChannelDisabled, Code::NoAdapter, Code::TestsBusy]),
        Route::new(
            Verb::Post,
            "/v1/channels/{name}/reopen",
            Access::Key(Operate),
            "Let a channel send again that is suspended or waits",
            || post(channels::reopen),
        )
        .answers(Answer::One(200, "ChannelReopened"))
        .refuses(&[Code::ChannelNotFound]),
        Route::new(
            Verb::Post,
            "/v1/bounces",
            Access::Key(Operate),
            "Hand in a mail server's report (RFC 3464) about a notification, as the whole mail that it came in",
            || post(bounces::record),
        )
        .takes_mail()
        .answers(Answer::One(200, "BouncesRecorded"))
        .refuses(&[Code::NotificationNotFound, Code::NotABounce]),
    ]
}

fn administration() -> Vec<Route> {
    use Scope::{Admin, Read};
    vec![
        Route::new(
            Verb::Get,
            "/v1/nodes",
            Access::Key(Read),
            "List the servers that work on the database together",
            || get(nodes::list),
        )
        .answers(Answer::Page("Node")),
        Route::new(Verb::Post, "/v1/keys", Access::Key(Admin), "Make a key", || post(keys::make))
            .takes("NewKey", true)
            .answers(Answer::One(201, "MadeKey"))
            .refuses(&[Code::NameTaken]),
        Route::new(
            Verb::Get,
            "/v1/keys",
            Access::Key(Admin),
            "List keys, without their secrets, 10,000 at most",
            || get(keys::list),
        )
        .answers(Answer::Page("Key")),
        Route::new(
            Verb::Delete,
            "/v1/keys/{id}",
            Access::Key(Admin),
            "Revoke a key: at once on the server that is asked, within 5 s on every other one",
            || delete(keys::revoke),
        )
        .refuses(&[Code::KeyNotFound, Code::LastAdmin]),
    ]
}

fn about() -> Vec<Route> {
    vec![
        Route::new(Verb::Get, "/healthz", Access::Open, "Whether the process lives", || get(health::alive))
            .answers(Answer::One(200, "HealthAnswer")),
        Route::new(Verb::Get, "/readyz", Access::Open, "Whether the process should be given work", || {
            get(health::ready)
        })
        .answers(Answer::One(200, "HealthAnswer"))
        .refuses(&[Code::NotReady]),
        Route::new(
            Verb::Get,
            "/metrics",
            Access::ReadOrLocal,
            "Figures for a monitoring system; from this machine without a key",
            || get(metrics::scrape),
        )
        .answers(Answer::Text("application/openmetrics-text")),
        Route::new(Verb::Get, "/openapi.json", Access::Open, "This document", || get(openapi::document))
            .answers(Answer::Text("application/json")),
    ]
}
