//! The routes of events.

use axum::routing::{delete, get, post};

use super::super::auth::Scope;
use super::super::events;
use super::super::problem::Code;
use super::params::{CURSOR, IDEMPOTENCY_KEY, LIMIT, query_param};
use super::{Access, Answer, Param, Route, Taken, Verb};

/// What there is about events.
pub(super) fn routes() -> Vec<Route> {
    [taking(), looking()].into_iter().flatten().collect()
}

fn taking() -> Vec<Route> {
    use Scope::{Operate, Publish};
    vec![
        Route::new(
            Verb::Post,
            "/v1/events",
            Access::Key(Publish),
            "Hand in an event. As a batch of CloudEvents it is answered like `/v1/events/batch`; with `dry_run` \
             nothing is stored",
            || post(events::one),
        )
        .takes_events(Taken::Event)
        .with(&[EVENT_IDEMPOTENCY_KEY, DRY_RUN])
        .answers(Answer::One(202, "EventAccepted"))
        .answers_also(Answer::One(200, "EventTrial"))
        .refuses(&[
            Code::IdempotencyKeyInvalid,
            Code::IdReused,
            Code::UnknownFeed,
            Code::UnknownEventType,
            Code::BatchTooLarge,
        ]),
        Route::new(
            Verb::Post,
            "/v1/events/batch",
            Access::Key(Publish),
            "Hand in many events in one commit",
            || post(events::batch),
        )
        .takes_events(Taken::Events)
        .with(&[EVENT_IDEMPOTENCY_KEY])
        .answers(Answer::One(202, "EventBatchAnswer"))
        .refuses(&[Code::IdempotencyKeyInvalid, Code::BatchTooLarge]),
        Route::new(
            Verb::Post,
            "/v1/feeds/{feed}/announcements",
            Access::Key(Operate),
            "Announce something by hand to whoever subscribes to a feed",
            || post(events::announce),
        )
        .takes("NewAnnouncement", true)
        .with(&[EVENT_IDEMPOTENCY_KEY])
        .answers(Answer::One(202, "EventAccepted"))
        .refuses(&[Code::IdempotencyKeyInvalid, Code::IdReused, Code::FeedNotFound, Code::UnknownFeed]),
        Route::new(
            Verb::Delete,
            "/v1/feeds/{feed}/rows/{key}",
            Access::Key(Publish),
            "Say that what events told of is gone: what still waits to be sent about it is skipped",
            || delete(events::row_gone),
        )
        .refuses(&[Code::RowNotFound]),
    ]
}

fn looking() -> Vec<Route> {
    use Scope::Read;
    vec![
        Route::new(Verb::Get, "/v1/events", Access::Key(Read), "List events, newest first", || {
            get(events::list)
        })
        .with(EVENT_PARAMS)
        .answers(Answer::Page("Event"))
        .refuses(&[Code::CursorInvalid]),
        Route::new(
            Verb::Get,
            "/v1/events/{id}",
            Access::Key(Read),
            "Show an event and what it led to",
            || get(events::show),
        )
        .answers(Answer::One(200, "EventDetail"))
        .refuses(&[Code::EventNotFound]),
        Route::new(
            Verb::Get,
            "/v1/events/{id}/explain",
            Access::Key(Read),
            "Say why a subscription was told of an event, or was not; or what became of the event as a whole",
            || get(events::explain),
        )
        .with(EXPLAIN_PARAMS)
        .answers(Answer::One(200, "EventExplanation"))
        .refuses(&[Code::EventNotFound, Code::SubscriptionNotFound]),
    ]
}

const EVENT_IDEMPOTENCY_KEY: Param = Param {
    about: "1 to 255 visible ASCII characters. An event without an id of its own gets one that is derived from \
            the name of the API key, this header, and its place in a batch, so that a resend is stored once; the \
            answer to a resend carries `Idempotency-Replayed: true`. Where the event has an id, as every \
            CloudEvent has, the id decides and the header is ignored.",
    ..IDEMPOTENCY_KEY
};

const DRY_RUN: Param = query_param(
    "dry_run",
    "`true`: say what the event would lead to and what would be read of it, and store nothing. Answered with \
     200; the key needs the scope `read` too.",
);

const EVENT_PARAMS: &[Param] = &[
    query_param("feed", "Only of this feed."),
    query_param("type", "Only of this type."),
    query_param("key", "Only about this subject."),
    query_param("source", "Only from this source."),
    query_param("since", "Only accepted at or after this RFC 3339 time."),
    query_param("until", "Only accepted before this RFC 3339 time."),
    CURSOR,
    LIMIT,
];

const EXPLAIN_PARAMS: &[Param] =
    &[query_param("subscription", "The id of the subscription that is asked about.")];
