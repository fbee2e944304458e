//! Reading a request's body: its type is checked first, its size is bounded before and while it is read, and
//! all of it must arrive within one time limit. All bodies together are bounded as well, from before the
//! first byte is read until the request is done.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Code, Problem};

/// Room that is made before anything has arrived, however much was announced.
const FIRST_ROOM: usize = 64 * 1024;

/// Bytes of one unit of [`Room`].
const UNIT: usize = 1024;

/// The room for all bodies that are being read or worked on. Clones share it.
#[derive(Clone)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    units: usize,
}

impl Room {
    /// Room for so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Room { free: Arc::new(Semaphore::new(units)), units }
    }

    /// Takes room for a body, at once or not at all. A body larger than all there is takes all there is.
    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(bytes.div_ceil(UNIT).min(self.units)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.free).try_acquire_many_owned(units);
        taken.map_err(|_| {
            Problem::new(Code::Overloaded, "too many bodies are being read at once; nothing was stored")
        })
    }
}

/// The bytes of a body, and the room they take for as long as they are there.
pub(super) struct Bytes {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a JSON body of at most `limit` bytes. The bytes are not checked.
pub(super) async fn read_json(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    check_type(request.headers())?;
    read(request, limit, timeout).await
}

/// Reads a JSON body that may be missing; then there is nothing to read, and no type to check.
pub(super) async fn read_optional_json(
    mut request: Request,
    limit: usize,
    timeout: Duration,
) -> Result<Option<Bytes>, Problem> {
    let headers = std::mem::take(request.headers_mut());
    let bytes = read(request, limit, timeout).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_type(&headers)?;
    Ok(Some(bytes))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail: &str| Err(Problem::new(Code::ContentTypeUnsupported, detail));
    let encodings = headers.get_all(header::CONTENT_ENCODING);
    if !encodings.iter().all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return unsupported("compressed bodies are not taken");
    }
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let text = given.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given.next().is_some() {
        return unsupported("there must be one content type");
    }
    let mut parts = text.split(';').map(str::trim);
    if !parts.next().unwrap_or_default().eq_ignore_ascii_case("application/json") {
        return unsupported("the content type must be application/json");
    }
    for parameter in parts {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let utf8 = value.trim_matches('"').eq_ignore_ascii_case("utf-8");
        if name.eq_ignore_ascii_case("charset") && !utf8 {
            return unsupported("the only charset that is taken is utf-8");
        }
    }
    Ok(())
}

async fn read(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    // Nothing is announced by whoever sends chunks; they may come to the whole limit.
    let announced = match body.size_hint().exact() {
        Some(bytes) => {
            usize::try_from(bytes).ok().filter(|bytes| *bytes <= limit).ok_or_else(|| too_large(limit))?
        }
        None => limit,
    };
    let room = parts.extensions.get::<Room>().map(|room| room.take(announced)).transpose()?;
    match tokio::time::timeout(timeout, collect(body, announced, limit)).await {
        Ok(bytes) => Ok(Bytes { bytes: bytes?, _room: room }),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", timeout.as_secs_f64());
            Err(Problem::new(Code::BodyTimeout, detail))
        }
    }
}

async fn collect(mut body: Body, announced: usize, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(announced.min(FIRST_ROOM));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::plain(Code::BodyIncomplete))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the body has more than {limit} bytes"))
}
