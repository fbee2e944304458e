//! Many subscriptions in one request, one a line. Each is stored or refused by itself, and the answer says which, in the
//! order of the lines, while the rest still arrives. Its last line says how it ended, so that an answer that broke off is
//! told from one that is whole.
//!
//! Neither the body nor the answer ever stands in memory as a whole. Whoever sends without reading what is answered is not
//! waited for until a good deal of the answer has piled up.

mod answer;
mod lines;

use std::collections::HashSet;
use std::sync::Arc;

use angarium_domain::subscription::Subscription;
use angarium_domain::text::SubscriptionId;
use angarium_store::Changed;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::dto::ProblemBody;
use super::super::exchange::Asked;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::done;
use super::draft::{Draft, Lists};
use super::objects::apart;
use super::subscriptions::new_id;
use answer::{Answer, WAITING_BYTES};
use lines::{CHUNK_BYTES, Chunk, Line, Lines, MOST_BYTES};

/// A line of the answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Told {
    Stored { line: usize, id: String },
    Refused { line: usize, problem: ProblemBody },
    Progress { progress: Count },
    BrokenOff { problem: ProblemBody },
    Done { done: bool, stored: usize, refused: usize },
}

/// Lines so far.
#[derive(Clone, Copy, Default, Serialize)]
struct Count {
    stored: usize,
    refused: usize,
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
    let room = body::reserve(&request, CHUNK_BYTES + app.limits.request_bytes + WAITING_BYTES)?;
    let lines = Lines::of(request.into_body(), app.limits.request_bytes, app.bounds.body_timeout);
    if lines.announced() > MOST_BYTES {
        return Err(body::too_large(MOST_BYTES));
    }
    let (answer, told) = Answer::begin();
    let import = Import { app, asked, answer, count: Count::default(), ids: HashSet::new() };
    tokio::spawn(async move {
        // The answer is whole before what nobody looks at has arrived.
        if let Some(unread) = import.run(lines).await {
            unread.pass_over().await;
        }
        drop(room);
    });
    let told = Body::new(told);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/x-ndjson")], told).into_response())
}

/// A request that is being worked on.
struct Import {
    app: Shared,
    asked: Asked,
    answer: Answer,
    count: Count,
    /// The ids that its lines have named so far.
    ids: HashSet<SubscriptionId>,
}

/// A line that can be stored.
type Good = (usize, SubscriptionId, Subscription);

impl Import {
    /// Stores chunk after chunk, until there is no more, or nobody listens. Gives back what may have more to come.
    async fn run(mut self, mut lines: Lines) -> Option<Lines> {
        loop {
            let Chunk { lines: found, end } = lines.next().await;
            let (told, end) = match self.store(found).await {
                Ok(told) => (told, end),
                Err(problem) => (Vec::new(), Some(Err(problem))),
            };
            let last = match &end {
                None => Told::Progress { progress: self.count },
                Some(Ok(())) => {
                    let Count { stored, refused } = self.count;
                    Told::Done { done: true, stored, refused }
                }
                Some(Err(problem)) => Told::BrokenOff { problem: self.body(problem) },
            };
            let text: String = told.iter().chain([&last]).map(written).collect();
            let listening = self.answer.tell(text).await;
            match end {
                None if listening => {}
                Some(Err(problem)) if problem.code != Code::BodyTimeout => return Some(lines),
                _ => return None,
            }
        }
    }

    /// What became of each of these lines. Fails if nobody knows.
    async fn store(&mut self, lines: Vec<(usize, Line)>) -> Result<Vec<Told>, Problem> {
        let app = Arc::clone(&self.app);
        let read = move || lines.into_iter().map(|(number, line)| (number, read(&app, &line))).collect();
        let drafts: Vec<(usize, Result<Draft, Problem>)> = apart(read).await?;
        let (mut good, mut told) = (Vec::new(), Vec::new());
        let mut lists = Lists::default();
        for (line, draft) in drafts {
            match self.judged(draft, &mut lists).await {
                Ok((id, subscription)) => good.push((line, id, subscription)),
                // What the server cannot tell is no fault of the line.
                Err(problem) if problem.cause.is_some() => return Err(problem),
                Err(problem) => told.push((line, Err(problem))),
            }
        }
        told.extend(self.write(good).await?);
        told.sort_by_key(|(line, _)| *line);
        Ok(told.into_iter().map(|(line, result)| self.told(line, result)).collect())
    }

    async fn judged(
        &mut self,
        draft: Result<Draft, Problem>,
        lists: &mut Lists,
    ) -> Result<(SubscriptionId, Subscription), Problem> {
        let draft = draft?;
        let id = draft.id.clone();
        let (subscription, _) = draft.judged(&self.app, lists).await?;
        match id {
            None => Ok((new_id(&self.app), subscription)),
            Some(id) if self.ids.insert(id.clone()) => Ok((id, subscription)),
            Some(_) => Err(Problem::invalid_field("id", "stands in this request before")),
        }
    }

    async fn write(&self, good: Vec<Good>) -> Result<Vec<(usize, Result<SubscriptionId, Problem>)>, Problem> {
        if good.is_empty() {
            return Ok(Vec::new());
        }
        let items = good.iter().map(|(_, id, subscription)| (id.clone(), subscription.clone())).collect();
        let changed: Vec<Changed<()>> = self.app.store.import_subscriptions(items, self.asked.now).await?;
        self.app.wake.now();
        let result = |((line, id, _), changed): (Good, Changed<()>)| {
            let done = done(changed, Code::SubscriptionNotFound, Code::AlreadyExists);
            (line, done.map(|_| id))
        };
        Ok(good.into_iter().zip(changed).map(result).collect())
    }

    fn told(&mut self, line: usize, result: Result<SubscriptionId, Problem>) -> Told {
        match result {
            Ok(id) => {
                self.count.stored += 1;
                Told::Stored { line, id: id.to_string() }
            }
            Err(problem) => {
                self.count.refused += 1;
                Told::Refused { line, problem: problem.body(None) }
            }
        }
    }

    /// Why it went no further. The log has what the answer may not tell.
    fn body(&self, problem: &Problem) -> ProblemBody {
        if let Some(cause) = &problem.cause {
            let code = problem.code.as_str();
            tracing::error!(request.id = &*self.asked.id, code, cause, "an import could not go on");
        }
        problem.body(Some(&self.asked.id))
    }
}

fn read(app: &App, line: &Line) -> Result<Draft, Problem> {
    match line {
        Line::Whole(bytes) => Draft::read(app, body::check(bytes, app.limits.json_depth)?),
        Line::TooLong => {
            let detail = format!("the line has more than {} bytes", app.limits.request_bytes);
            Err(Problem::new(Code::BodyTooLarge, detail))
        }
    }
}

fn written(told: &Told) -> String {
    serde_json::to_string(told).unwrap_or_default() + "\n"
}
