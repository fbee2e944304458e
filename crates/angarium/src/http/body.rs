//! Reading a request's body: its type is checked first, its size is bounded before and while it is read, and
//! all of it must arrive within one time limit. All bodies together are bounded as well, from before the
//! first byte is read until the request is done. What takes long to understand is understood on a thread that
//! serves no connections.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::json;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Code, Problem};

/// Room that is made before anything has arrived, however much was announced; a body whose size is not
/// announced takes room in such steps as well.
const FIRST_ROOM: usize = 64 * 1024;

/// Bytes of a body beyond which it is not worked on where connections are served.
const QUICK: usize = 64 * 1024;

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

    /// Takes so many units more, at once or not at all.
    fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.free).try_acquire_many_owned(units);
        taken.map_err(|_| {
            Problem::new(Code::Overloaded, "too many bodies are being read at once; nothing was stored")
        })
    }
}

/// The part of a room that one body has taken.
pub(super) struct Share {
    room: Room,
    taken: OwnedSemaphorePermit,
}

impl Share {
    /// Nothing yet.
    fn of(room: &Room) -> Result<Self, Problem> {
        Ok(Share { taken: room.take(0)?, room: room.clone() })
    }

    /// Sees to it that there is room for so many bytes. A body larger than all there is takes all there is.
    fn reach(&mut self, bytes: usize) -> Result<(), Problem> {
        let units = bytes.div_ceil(UNIT).min(self.room.units);
        let missing = units.saturating_sub(self.taken.num_permits());
        if missing > 0 {
            self.taken.merge(self.room.take(missing)?);
        }
        Ok(())
    }
}

/// So much of the room for all bodies, for a body that never stands in memory as a whole.
pub(super) fn reserve(request: &Request, bytes: usize) -> Result<Option<Share>, Problem> {
    let mut share = request.extensions().get::<Room>().map(Share::of).transpose()?;
    if let Some(share) = &mut share {
        share.reach(bytes)?;
    }
    Ok(share)
}

/// The bytes of a body, and the room they take for as long as they are there.
pub(super) struct Bytes {
    bytes: Vec<u8>,
    _share: Option<Share>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bytes {
    /// What `work` makes of the bytes, which come back with it. Many bytes are worked on elsewhere than where
    /// connections are served.
    pub(super) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Self, T), Problem> {
        if self.len() > QUICK { self.work_apart(work).await } else { work(&self).map(|made| (self, made)) }
    }

    /// The same, elsewhere in any case.
    pub(super) async fn work_apart<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(Self, T), Problem> {
        let apart = tokio::task::spawn_blocking(move || work(&self).map(|made| (self, made)));
        apart.await.unwrap_or_else(|error| Err(Problem::internal(error.to_string())))
    }
}

/// The text of a document that everybody reads alike, nested at most `depth` deep.
pub(super) fn check(bytes: &[u8], depth: usize) -> Result<&str, Problem> {
    json::check(bytes, depth).map_err(|fault| Problem::json(&fault, depth))
}

/// Reads a JSON body of at most `limit` bytes. The bytes are not checked.
pub(super) async fn read_json(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    check_type(request.headers())?;
    read(request, limit, timeout).await
}

/// As [`read_json`], for a patch of an object.
pub(super) async fn read_patch(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let (media, parameters) = media_type(content_type(request.headers())?);
    let known = ["application/json", "application/merge-patch+json"];
    if !known.iter().any(|known| media.eq_ignore_ascii_case(known)) {
        return Err(unsupported("the content type must be application/merge-patch+json or application/json"));
    }
    check_charset(parameters)?;
    read(request, limit, timeout).await
}

/// Media types under which a mail is taken as it is.
pub(super) const MAIL: [&str; 3] = ["message/rfc822", "text/plain", "application/octet-stream"];

/// Reads a mail of at most `limit` bytes. The bytes are not checked.
pub(super) async fn read_mail(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let given = content_type(request.headers())?.split(';').next().unwrap_or_default().trim();
    if !MAIL.iter().any(|known| known.eq_ignore_ascii_case(given)) {
        return Err(unsupported(&format!("the content type must be one of {}", MAIL.join(", "))));
    }
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
    let (media, parameters) = media_type(content_type(headers)?);
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(unsupported("the content type must be application/json"));
    }
    check_charset(parameters)
}

/// A content type without its parameters, and these.
pub(super) fn media_type(text: &str) -> (&str, &str) {
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    (media.trim(), parameters)
}

/// Refuses a charset other than UTF-8.
pub(super) fn check_charset(parameters: &str) -> Result<(), Problem> {
    for parameter in parameters.split(';').map(str::trim) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let utf8 = value.trim_matches('"').eq_ignore_ascii_case("utf-8");
        if name.eq_ignore_ascii_case("charset") && !utf8 {
            return Err(unsupported("the only charset that is taken is utf-8"));
        }
    }
    Ok(())
}

/// The one content type of a body that is not compressed; empty if there is none.
pub(super) fn content_type(headers: &HeaderMap) -> Result<&str, Problem> {
    let encodings = headers.get_all(header::CONTENT_ENCODING);
    if !encodings.iter().all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(unsupported("compressed bodies are not taken"));
    }
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let text = given.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given.next().is_some() {
        return Err(unsupported("there must be one content type"));
    }
    Ok(text)
}

/// A body of a type that is not taken.
pub(super) fn unsupported(detail: &str) -> Problem {
    Problem::new(Code::ContentTypeUnsupported, detail)
}

/// Reads a body of at most `limit` bytes, of whatever type.
pub(super) async fn read(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    let announced = match body.size_hint().exact() {
        Some(bytes) => {
            usize::try_from(bytes).ok().filter(|bytes| *bytes <= limit).ok_or_else(|| too_large(limit))?
        }
        None => FIRST_ROOM.min(limit),
    };
    let mut share = parts.extensions.get::<Room>().map(Share::of).transpose()?;
    if let Some(share) = &mut share {
        share.reach(announced)?;
    }
    match tokio::time::timeout(timeout, collect(body, announced, limit, share)).await {
        Ok(bytes) => bytes,
        Err(_) => Err(timed_out(timeout)),
    }
}

async fn collect(
    mut body: Body,
    announced: usize,
    limit: usize,
    mut share: Option<Share>,
) -> Result<Bytes, Problem> {
    let mut bytes = Vec::with_capacity(announced.min(FIRST_ROOM));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::plain(Code::BodyIncomplete))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(too_large(limit));
        }
        let needed = bytes.len() + data.len();
        if let Some(share) = share.as_mut().filter(|_| needed > announced) {
            share.reach(needed.next_multiple_of(FIRST_ROOM).min(limit))?;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Bytes { bytes, _share: share })
}

/// A body that is larger than is taken here.
pub(super) fn too_large(limit: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the body has more than {limit} bytes"))
}

/// A body of which no more arrived in time.
pub(super) fn timed_out(timeout: Duration) -> Problem {
    Problem::new(Code::BodyTimeout, format!("the body did not arrive within {} s", timeout.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Only few bytes are worked on where connections are served.
    #[tokio::test]
    async fn many_bytes_are_worked_on_elsewhere() {
        let here = thread::current().id();
        for (size, stays) in [(QUICK, true), (QUICK + 1, false)] {
            let bytes = || Bytes { bytes: vec![0; size], _share: None };
            let thread = |_: &[u8]| Ok(thread::current().id());
            let (held, worked) = bytes().work(thread).await.unwrap();
            assert_eq!((held.len(), worked == here), (size, stays));
            assert_ne!(bytes().work_apart(thread).await.unwrap().1, here, "{size}");
        }
    }
}
