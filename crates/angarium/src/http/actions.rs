//! What an operator does: retry, discard and cancel one notification (OB-16), and look after addresses that
//! want no more messages.

use angarium_domain::address::Address;
use angarium_domain::text::{ChannelName, one_line};
use angarium_store::{Action, ActionOutcome, ActionRequest};
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::auth::Caller;
use super::cursor::{Listing, Slice};
use super::dto::{ActionDone, Page, Suppression};
use super::exchange::{Asked, PathId};
use super::fields::{Fields, Params};
use super::problem::{Code, Problem};
use super::{App, Shared, body, cursor};

/// Characters of a reason.
const REASON_CHARS: usize = 1000;

/// What every action is given.
type Given = (State<Shared>, Extension<Asked>, Extension<Caller>, PathId, Request);

/// `POST /v1/notifications/{id}/retry`
pub(super) async fn retry(
    app: State<Shared>,
    asked: Extension<Asked>,
    caller: Extension<Caller>,
    id: PathId,
    request: Request,
) -> Result<Json<ActionDone>, Problem> {
    act(Action::Retry, (app, asked, caller, id, request)).await
}

/// `POST /v1/notifications/{id}/discard`
pub(super) async fn discard(
    app: State<Shared>,
    asked: Extension<Asked>,
    caller: Extension<Caller>,
    id: PathId,
    request: Request,
) -> Result<Json<ActionDone>, Problem> {
    act(Action::Discard, (app, asked, caller, id, request)).await
}

/// `POST /v1/notifications/{id}/cancel`
pub(super) async fn cancel(
    app: State<Shared>,
    asked: Extension<Asked>,
    caller: Extension<Caller>,
    id: PathId,
    request: Request,
) -> Result<Json<ActionDone>, Problem> {
    act(Action::Cancel, (app, asked, caller, id, request)).await
}

async fn act(action: Action, given: Given) -> Result<Json<ActionDone>, Problem> {
    let (State(app), Extension(asked), Extension(caller), PathId(id), request) = given;
    let reason = read_reason(&app, request).await?;
    let wish = ActionRequest { id, action, actor: caller.actor(), reason };
    match app.store.act(wish, asked.now).await? {
        ActionOutcome::Done { status, in_flight } => {
            if action == Action::Retry {
                app.wake.now();
            }
            Ok(Json(ActionDone { id: id.to_string(), status: status.as_str().to_owned(), in_flight }))
        }
        ActionOutcome::NotFound => Err(Problem::plain(Code::NotificationNotFound)),
        ActionOutcome::AlreadyTold(holder) => {
            let detail =
                format!("notification {holder} tells the subscription the same thing, or has told it");
            Err(Problem::new(Code::AlreadyTold, detail))
        }
        ActionOutcome::AtMostOnce => Err(Problem::plain(Code::AtMostOnce)),
        ActionOutcome::Refused(status) => {
            let code = match action {
                Action::Retry | Action::Discard => Code::NotParked,
                Action::Cancel => Code::NotCancellable,
            };
            Err(Problem::new(code, format!("the notification is {status}")))
        }
    }
}

async fn read_reason(app: &App, request: Request) -> Result<Option<String>, Problem> {
    let limit = app.limits.request_bytes;
    let Some(bytes) = body::read_optional_json(request, limit, app.bounds.body_timeout).await? else {
        return Ok(None);
    };
    let depth = app.limits.json_depth;
    let read = move |bytes: &[u8]| {
        let mut fields = Fields::read(body::check(bytes, depth)?)?;
        let reason = fields.text("reason", one_line_reason);
        fields.finish()?;
        Ok(reason.filter(|reason| !reason.is_empty()))
    };
    bytes.work(read).await.map(|(_, reason)| reason)
}

fn one_line_reason(text: String) -> Result<String, String> {
    if text.chars().count() > REASON_CHARS {
        return Err(format!("has more than {REASON_CHARS} characters"));
    }
    if one_line(&text, REASON_CHARS) == text {
        Ok(text)
    } else {
        Err("contains a control character".to_owned())
    }
}

/// `GET /v1/suppressions`
pub(super) async fn suppressions(
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<Json<Page<Suppression>>, Problem> {
    let mut params = Params::read(query.as_deref());
    let (after, limit) = Slice::take(&mut params, Listing::Suppressions, suppression_of).finish(params)?;
    let mut found = app.store.list_suppressions(after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    // No channel's name has a NUL.
    let row = |last: &angarium_store::Suppression| format!("{}\0{}", last.channel, last.address);
    let last = found.last().filter(|_| more).map(row);
    let next = last.map(|row| cursor::write(Listing::Suppressions, row.as_bytes()));
    let shown = |suppression: angarium_store::Suppression| Suppression {
        channel: suppression.channel,
        address: suppression.address,
        reason: suppression.reason,
        since: suppression.since,
    };
    Ok(Json(Page { items: found.into_iter().map(shown).collect(), next }))
}

/// The channel and the address that a cursor names.
fn suppression_of(row: Vec<u8>) -> Option<(String, String)> {
    let text = String::from_utf8(row).ok()?;
    text.split_once('\0').map(|(channel, address)| (channel.to_owned(), address.to_owned()))
}

/// `DELETE /v1/suppressions?channel=&address=`
pub(super) async fn lift_suppression(
    State(app): State<Shared>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Problem> {
    let mut params = Params::read(query.as_deref());
    let (channel, address) = (params.required("channel"), params.required("address"));
    params.finish()?;
    let address = normal_form(&app, &channel, address);
    if app.store.lift_suppression(&channel, &address).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::plain(Code::SuppressionNotFound))
    }
}

/// Addresses are stored in the normal form of their channel's kind.
fn normal_form(app: &App, channel: &str, address: String) -> String {
    ChannelName::parse(channel)
        .ok()
        .and_then(|name| app.catalog.channels.get(&name))
        .and_then(|settings| Address::parse(settings.kind, &address).ok())
        .map_or(address, |parsed| parsed.as_str().to_owned())
}
