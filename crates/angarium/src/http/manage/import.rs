//! Many subscriptions in one request, one a line. Each is stored or refused by itself; the answer says which, a line for
//! each, and ends with a line that says so, so that an answer that broke off is told from one that is whole.

use std::sync::Arc;

use angarium_domain::subscription::Subscription;
use angarium_domain::text::SubscriptionId;
use angarium_store::{Changed, Expect};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::dto::ProblemBody;
use super::super::exchange::Asked;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::done;
use super::subscriptions::{new_id, read};

/// Lines of a request.
const MOST_LINES: usize = 100_000;
/// Subscriptions that are stored in one commit.
const CHUNK: usize = 1000;

/// A line of the answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Told {
    Stored { line: usize, id: String },
    Refused { line: usize, problem: ProblemBody },
    Done { done: bool, stored: usize, refused: usize },
}

/// `POST /v1/subscriptions/import`
pub(in crate::http) async fn import(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<Response, Problem> {
    let (media, parameters) = body::media_type(body::content_type(request.headers())?);
    if !media.eq_ignore_ascii_case("application/x-ndjson") {
        return Err(body::unsupported("the content type must be application/x-ndjson"));
    }
    body::check_charset(parameters)?;
    let bytes = body::read(request, app.limits.batch_bytes, app.bounds.body_timeout).await?;
    let reader = Arc::clone(&app);
    let (_held, (good, mut told)) = bytes.work_apart(move |bytes| lines(&reader, bytes)).await?;
    for chunk in good.chunks(CHUNK) {
        let items = chunk.iter().map(|(_, id, subscription)| (id.clone(), subscription.clone())).collect();
        let changed = app.store.import_subscriptions(items, asked.now).await?;
        for ((line, id, _), changed) in chunk.iter().zip(changed) {
            told.push(match changed {
                Changed::Conflict(_) => {
                    refused(*line, &Problem::invalid_field("id", "stands in this request before"))
                }
                changed => match done(changed, Code::SubscriptionNotFound, Expect::Anything) {
                    Ok(_) => Told::Stored { line: *line, id: id.to_string() },
                    Err(problem) => refused(*line, &problem),
                },
            });
        }
    }
    app.wake.now();
    told.sort_by_key(|one| match one {
        Told::Stored { line, .. } | Told::Refused { line, .. } => *line,
        Told::Done { .. } => usize::MAX,
    });
    let stored = told.iter().filter(|one| matches!(one, Told::Stored { .. })).count();
    told.push(Told::Done { done: true, stored, refused: told.len() - stored });
    let mut answer = String::new();
    for line in &told {
        answer.push_str(&serde_json::to_string(line).unwrap_or_default());
        answer.push('\n');
    }
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/x-ndjson")], answer).into_response())
}

fn refused(line: usize, problem: &Problem) -> Told {
    Told::Refused { line, problem: problem.body(None) }
}

/// A line that can be stored.
type Good = (usize, SubscriptionId, Subscription);

/// The lines that can be stored, and those that cannot. Empty lines are passed over; they count.
fn lines(app: &App, bytes: &[u8]) -> Result<(Vec<Good>, Vec<Told>), Problem> {
    let (mut good, mut told) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if number > MOST_LINES {
            let detail = format!("at most {MOST_LINES} lines are taken in one request");
            return Err(Problem::new(Code::BatchTooLarge, detail));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let subscription = match line.len() > app.limits.request_bytes {
            true => {
                let detail = format!("the line has more than {} bytes", app.limits.request_bytes);
                Err(Problem::new(Code::BodyTooLarge, detail))
            }
            false => body::check(line, app.limits.json_depth).and_then(|text| read(app, text)),
        };
        match subscription {
            Ok((id, subscription)) => good.push((number, id.unwrap_or_else(|| new_id(app)), subscription)),
            Err(problem) => told.push(refused(number, &problem)),
        }
    }
    Ok((good, told))
}
