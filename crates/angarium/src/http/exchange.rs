//! What surrounds every exchange: the request's id and its one reading of the clock, the refusals that need
//! no route, the headers of every answer, the writing out of problems, and the count and the log line.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::id::NotificationId;
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;
use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use url::form_urlencoded;

use super::Shared;
use super::auth::Token;
use super::fields::Params;
use super::problem::{Code, Problem};

/// Bytes of an address, path and query together.
const URI_BYTES: usize = 8 * 1024;

/// Parameters under which keys are put into addresses.
const CREDENTIAL_PARAMETERS: [&str; 7] =
    ["access_token", "api_key", "api-key", "apikey", "authorization", "bearer", "token"];

/// A request as it came in.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Names the request in the answer and in the log.
    pub(super) id: Arc<str>,
    /// When it came in. Nothing on its way reads the wall clock again, so that all of an answer belongs to
    /// one moment.
    pub(super) now: Timestamp,
}

impl Asked {
    /// The one that [`wrap`] put there.
    pub(super) fn of(request: &Request) -> Self {
        let unwrapped = || Asked { id: Arc::from(""), now: Timestamp::LAST };
        request.extensions().get::<Asked>().cloned().unwrap_or_else(unwrapped)
    }
}

/// The outermost layer.
pub(super) async fn wrap(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let started = app.clock.monotonic();
    let mut random = [0; 16];
    app.chance.fill(&mut random);
    let id: Arc<str> = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    let asked = Asked { id: Arc::clone(&id), now: app.clock.now() };
    request.extensions_mut().insert(asked);
    let method = method_label(request.method());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or("none", MatchedPath::as_str);

    let mut response = match refuse_early(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        write_out(problem, &mut response, &id);
    }
    add_headers(&mut response, &id);
    let status = response.status().as_u16();
    let took = app.clock.monotonic().saturating_sub(started);
    app.metrics.request(method, route, status, took);
    log(&Line { id: &id, method, route, status, took }, problem.as_ref());
    response
}

fn refuse_early(request: &Request) -> Option<Problem> {
    let uri = request.uri();
    let length = uri.path().len() + uri.query().map_or(0, str::len);
    if length > URI_BYTES {
        let detail = format!("the address has more than {URI_BYTES} bytes");
        return Some(Problem::new(Code::UriTooLong, detail));
    }
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !codings.next().is_none_or(chunked) || codings.next().is_some() {
        return Some(Problem::new(Code::BodyIncomplete, "the transfer encoding must be chunked alone"));
    }
    let is_credential = |name: &str, value: &str| {
        Token::is_own(value) || CREDENTIAL_PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .any(|(name, value)| is_credential(&name, &value))
        .then(|| Problem::plain(Code::CredentialInUrl))
}

fn write_out(problem: &Problem, response: &mut Response, id: &str) {
    let text = serde_json::to_vec(&problem.body(Some(id))).unwrap_or_default();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    problem.add_headers(headers);
    *response.body_mut() = Body::from(text);
}

fn add_headers(response: &mut Response, id: &str) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
}

/// Words of the sender's choosing would make as many series as it likes.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

struct Line<'a> {
    id: &'a str,
    method: &'a str,
    route: &'a str,
    status: u16,
    took: Duration,
}

/// One line for each exchange: a fault of ours aloud, the rest quietly. The query is left out, as are all
/// bodies and headers.
fn log(line: &Line<'_>, problem: Option<&Problem>) {
    let Line { id, method, route, status, took } = *line;
    let duration_ms = took.as_secs_f64() * 1000.0;
    let code = problem.map_or("", |problem| problem.code.as_str());
    let cause = problem.and_then(|problem| problem.cause.as_deref()).unwrap_or_default();
    if status >= 500 {
        tracing::error!(
            request.id = id,
            http.method = method,
            http.route = route,
            http.status = status,
            duration_ms,
            code,
            cause,
            "a request could not be served"
        );
    } else {
        tracing::debug!(
            request.id = id,
            http.method = method,
            http.route = route,
            http.status = status,
            duration_ms,
            code,
            "a request was served"
        );
    }
}

/// Refuses every parameter, on a route that has none.
pub(super) async fn refuse_params(request: Request, next: Next) -> Response {
    match Params::read(request.uri().query()).finish() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// The notification that a path names. What is no UUID names none.
pub(super) struct PathId(pub(super) NotificationId);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let word = Path::<String>::from_request_parts(parts, state).await.ok();
        let id = word.and_then(|Path(word)| word.parse().ok());
        id.map(PathId).ok_or_else(|| Problem::plain(Code::NotificationNotFound))
    }
}

/// The key that a path names. What cannot be read names none.
pub(super) struct PathKey(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let word = Path::<String>::from_request_parts(parts, state).await;
        word.map(|Path(word)| PathKey(word)).map_err(|_| Problem::plain(Code::KeyNotFound))
    }
}

/// The channel that a path names. What cannot be the name of a channel names none.
pub(super) struct PathChannel(pub(super) ChannelName);

impl<S: Send + Sync> FromRequestParts<S> for PathChannel {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let word = Path::<String>::from_request_parts(parts, state).await.ok();
        let name = word.and_then(|Path(word)| ChannelName::parse(&word).ok());
        name.map(PathChannel).ok_or_else(|| Problem::plain(Code::ChannelNotFound))
    }
}

/// For an address that leads nowhere.
pub(super) async fn not_found() -> Problem {
    Problem::plain(Code::NotFound)
}

/// For an address that does not take the method; the router adds `Allow`.
pub(super) async fn method_not_allowed() -> Problem {
    Problem::plain(Code::MethodNotAllowed)
}
