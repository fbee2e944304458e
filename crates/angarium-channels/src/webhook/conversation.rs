//! What was said to a receiver and what it said, for whoever tests a channel. Whoever asks for it named the address,
//! so that the whole of it is shown; secrets are not.

use angarium_domain::adapter::Message;
use angarium_domain::transcript::{Speaker, Transcript};
use angarium_egress::{Request, Response};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Position;

use super::verdict::named;
use crate::mask::{MASK, Mask};

/// Words in the names of headers whose values are for nobody else.
const SECRET_WORDS: [&str; 9] =
    ["api-key", "apikey", "authorization", "cookie", "credential", "password", "secret", "session", "token"];

/// Writes down what is sent: the request line, the headers and the body.
pub(super) fn asked(transcript: &Transcript, request: &Request, mask: &Mask) {
    let url = &request.url;
    let (host, target) =
        (&url[Position::BeforeHost..Position::AfterPort], &url[Position::BeforePath..Position::AfterQuery]);
    let line = format!("{} {target} HTTP/1.1\nhost: {host}\n", request.method);
    let headers = headers(&request.headers);
    let body = String::from_utf8_lossy(&request.body);
    let length = request.body.len();
    let said = format!("{line}{headers}content-length: {length}\n\n{body}");
    transcript.note(Speaker::Us, &mask.apply(&said));
}

/// Writes down what came back: the status, the headers and the beginning of the body.
pub(super) fn answered(transcript: &Transcript, response: &Response, mask: &Mask, message: &Message) {
    let excerpt = mask.excerpt(&response.body, message).unwrap_or_default();
    let head = format!("HTTP/1.1 {}\n{}", named(response.status), headers(&response.headers));
    transcript.note(Speaker::Them, &format!("{}\n{excerpt}", mask.apply(&head)));
}

/// One header a line.
fn headers(headers: &HeaderMap) -> String {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        format!("{name}: {}\n", if is_secret(name) { MASK } else { &value })
    };
    headers.iter().map(line).collect()
}

fn is_secret(name: &HeaderName) -> bool {
    SECRET_WORDS.iter().any(|word| name.as_str().contains(word))
}
