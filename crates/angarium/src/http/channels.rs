//! Channels as operators see them: what stands in the way of each, a test message through one, and letting one
//! send again.
//!
//! A test goes straight through the channel's adapter. Nothing is stored of it, nothing is tried again, and it waits
//! for nothing, for it is how a suspended channel is found to work again. It takes as long as the receiver does, and
//! is broken off when whoever asked for it goes away.

use std::collections::HashMap;
use std::sync::Arc;

use angarium_domain::adapter::{Adapter, Delivery, Message};
use angarium_domain::address::Address;
use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::id::NotificationId;
use angarium_domain::outcome::{Failure, FailureClass, Outcome, RETRY_AFTER_BOUNDS};
use angarium_domain::text::ChannelName;
use angarium_domain::time::{ManualClock, Timestamp};
use angarium_domain::transcript::{self, Speaker, Transcript};
use angarium_engine::sending;
use angarium_store::ChannelState;
use axum::extract::{Request, State};
use axum::{Extension, Json};
use tokio::sync::Semaphore;

use super::auth::Caller;
use super::dto::{Channel, ChannelReopened, ChannelTest, Page, Suspension, Turn};
use super::exchange::{Asked, PathChannel};
use super::fields::Fields;
use super::problem::{Code, Problem};
use super::{App, Shared, body};

/// `GET /v1/channels`
pub(super) async fn list(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
) -> Result<Json<Page<Channel>>, Problem> {
    let states = app.store.channel_states().await?;
    let mut states: HashMap<String, ChannelState> =
        states.into_iter().map(|state| (state.channel.clone(), state)).collect();
    let shown = |(name, settings): (&ChannelName, &ChannelSettings)| {
        let state = states.remove(name.as_str());
        let waits_until = state.as_ref().map(|state| state.waits_until);
        Channel {
            name: name.to_string(),
            kind: settings.kind.as_str(),
            enabled: settings.enabled,
            adapter: app.adapters.get(settings.kind).is_some(),
            max_parallel: settings.max_parallel,
            waits_until: waits_until.filter(|until| is_waited_for(*until, asked.now)),
            suspended: state
                .and_then(|state| Some(Suspension { reason: state.suspended?, until: state.waits_until })),
        }
    };
    Ok(Json(Page::whole(app.catalog.channels.iter().map(shown).collect())))
}

/// A wait that has passed is none, nor is one that is longer than any can be: a clock that ran ahead set it.
fn is_waited_for(until: Timestamp, now: Timestamp) -> bool {
    now < until && until.since(now) <= RETRY_AFTER_BOUNDS.1
}

/// Channels that may be tested at once. Tests are nobody's traffic, and bound by nothing else.
const AT_ONCE: usize = 4;

/// Who tests a channel at the moment.
pub struct Tests(Semaphore);

impl Default for Tests {
    fn default() -> Self {
        Tests(Semaphore::new(AT_ONCE))
    }
}

/// `POST /v1/channels/{name}/test`
pub(super) async fn test(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    PathChannel(name): PathChannel,
    request: Request,
) -> Result<Json<ChannelTest>, Problem> {
    let (settings, adapter) = way(&app, &name)?;
    let address = read_address(&app, settings.kind, request).await?;
    let _one_of_them = app.tests.0.try_acquire().map_err(|_| Problem::plain(Code::TestsBusy))?;
    let transcript = Arc::new(Transcript::default());
    let message = test_message(&app, &asked, &caller, &name);
    let id = message.id.to_string();
    let delivery = Delivery {
        channel: name.clone(),
        message: Arc::new(message),
        addresses: vec![address],
        attempted_at: asked.now,
        transcript: Some(Arc::clone(&transcript)),
    };
    let outcome = sending::send(adapter.as_ref(), &delivery, settings.timeout).await.pop();
    let outcome =
        outcome.unwrap_or_else(|| Outcome::Failed(Failure::new(FailureClass::Internal, "no outcome")));
    let delivered = matches!(outcome, Outcome::Delivered(_));
    tracing::info!(
        request.id = &*asked.id,
        notification.id = id,
        channel.name = %name,
        key.name = %caller.name,
        delivered,
        "a channel was tested"
    );
    let reopened = delivered && let_send(&app, &asked, &caller, &name).await?;
    let transcript = transcript.turns().into_iter().map(turn).collect();
    Ok(Json(answer(id, outcome, reopened, transcript)))
}

/// The settings and the adapter of a channel that can be sent on.
fn way<'a>(app: &'a App, name: &ChannelName) -> Result<(&'a ChannelSettings, &'a Arc<dyn Adapter>), Problem> {
    let settings = configured(app, name)?;
    if !settings.enabled {
        return Err(Problem::plain(Code::ChannelDisabled));
    }
    let adapter = app.adapters.get(settings.kind).ok_or_else(|| {
        Problem::new(
            Code::NoAdapter,
            format!("this server cannot deliver on channels of kind {}", settings.kind),
        )
    })?;
    Ok((settings, adapter))
}

fn configured<'a>(app: &'a App, name: &ChannelName) -> Result<&'a ChannelSettings, Problem> {
    app.catalog.channels.get(name).ok_or_else(|| Problem::plain(Code::ChannelNotFound))
}

async fn read_address(app: &App, kind: ChannelKind, request: Request) -> Result<Address, Problem> {
    let bytes = body::read_json(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let depth = app.limits.json_depth;
    let read = move |bytes: &[u8]| {
        let mut fields = Fields::read(body::check(bytes, depth)?)?;
        let address = fields.required("address", |address| Address::parse(kind, &address));
        fields.finish()?;
        address.ok_or_else(|| Problem::internal("a test without an address passed its checks"))
    };
    bytes.work(read).await.map(|(_, address)| address)
}

fn test_message(app: &App, asked: &Asked, caller: &Caller, channel: &ChannelName) -> Message {
    Message {
        id: NotificationId::generate(&ManualClock::at(asked.now), &*app.chance),
        subject: "Test from Angarium".to_owned(),
        body: format!(
            "This is a test of the channel {channel}, asked for by {}. There is nothing to be done.",
            caller.name
        ),
        data: None,
        list: None,
        presentation: None,
        at: asked.now,
    }
}

fn turn(turn: transcript::Turn) -> Turn {
    let from = match turn.speaker {
        Speaker::Us => "us",
        Speaker::Them => "them",
        Speaker::Remark => "remark",
    };
    Turn { from, text: turn.text }
}

fn answer(id: String, outcome: Outcome, reopened: bool, transcript: Vec<Turn>) -> ChannelTest {
    match outcome {
        Outcome::Delivered(receipt) => ChannelTest {
            id,
            outcome: "delivered",
            class: None,
            detail: None,
            status_code: receipt.status_code,
            provider_message_id: receipt.provider_message_id,
            reopened,
            transcript,
        },
        Outcome::Failed(failure) => ChannelTest {
            id,
            outcome: "failed",
            class: Some(failure.class.as_str()),
            detail: Some(failure.detail),
            status_code: failure.status_code,
            provider_message_id: None,
            reopened,
            transcript,
        },
    }
}

/// `POST /v1/channels/{name}/reopen`
pub(super) async fn reopen(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    PathChannel(name): PathChannel,
) -> Result<Json<ChannelReopened>, Problem> {
    configured(&app, &name)?;
    let reopened = let_send(&app, &asked, &caller, &name).await?;
    Ok(Json(ChannelReopened { channel: name.to_string(), reopened }))
}

/// Takes away what stands in the way of a channel as a whole; false if nothing did.
async fn let_send(app: &App, asked: &Asked, caller: &Caller, name: &ChannelName) -> Result<bool, Problem> {
    let reopened = app.store.reopen_channel(name, app.clock.now()).await?;
    if reopened {
        app.wake.now();
        tracing::info!(
            request.id = &*asked.id,
            channel.name = %name,
            key.name = %caller.name,
            "a channel sends again"
        );
    }
    Ok(reopened)
}
