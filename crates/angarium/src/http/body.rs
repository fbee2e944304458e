//! Reading a request's body: its type is checked first, its size is bounded before and while it is read, and
//! all of it must arrive within one time limit.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;

use super::problem::{Code, Problem};

/// Room that is made before anything has arrived, however much was announced.
const FIRST_ROOM: usize = 64 * 1024;

/// Reads a JSON body of at most `limit` bytes. The bytes are not checked.
pub(super) async fn read_json(request: Request, limit: usize, timeout: Duration) -> Result<Vec<u8>, Problem> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    read(&parts.headers, body, limit, timeout).await
}

/// Reads a JSON body that may be missing; then there is nothing to read, and no type to check.
pub(super) async fn read_optional_json(
    request: Request,
    limit: usize,
    timeout: Duration,
) -> Result<Option<Vec<u8>>, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = read(&parts.headers, body, limit, timeout).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_type(&parts.headers)?;
    Ok(Some(bytes))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail: &str| Err(Problem::new(Code::ContentTypeUnsupported, detail));
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return unsupported("compressed bodies are not taken");
    }
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
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

async fn read(headers: &HeaderMap, body: Body, limit: usize, timeout: Duration) -> Result<Vec<u8>, Problem> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap_or(0);
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(timeout, collect(body, announced, limit)).await {
        Ok(bytes) => bytes,
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", timeout.as_secs_f64());
            Err(Problem::new(Code::BodyTimeout, detail))
        }
    }
}

async fn collect(mut body: Body, announced: u64, limit: usize) -> Result<Vec<u8>, Problem> {
    let room = usize::try_from(announced).unwrap_or(FIRST_ROOM);
    let mut bytes = Vec::with_capacity(room.min(FIRST_ROOM));
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
