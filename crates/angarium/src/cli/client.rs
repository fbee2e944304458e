//! The HTTP API as the commands use it: one call after the other, each an answer or a failure.

use std::time::Duration;

use angarium_egress::{Client, Fault, FaultKind, Guard, Options, Request, Response, Trust, roots_from_pem};
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use url::Url;

use super::args::Globals;
use super::connect::{Connection, KEY_ADVICE, connection};
use super::exit::Failure;
use crate::config::Secret;

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long storing a request full of lines may take.
const LINES_TIMEOUT: Duration = Duration::from_secs(10 * 60);

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAIL: HeaderValue = HeaderValue::from_static("message/rfc822");

/// Waits between the tries of a call that may be repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Parameters of a URL.
pub(super) type Query<'a> = [(&'a str, String)];

/// The most that is read of one answer: a full page of the largest notifications there can be.
const ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// A server to call.
pub(super) struct Api {
    server: Url,
    key: Option<Secret>,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Api {
    /// Gets ready to talk to the server that the arguments, the environment or the configuration name.
    pub(super) fn connect(globals: &Globals) -> Result<Self, Failure> {
        Api::over(connection(globals)?, ANSWER_BYTES)
    }

    fn over(connection: Connection, answer_bytes: usize) -> Result<Self, Failure> {
        let Connection { server, key, ca_file } = connection;
        let mut options = Options::new(Guard::public_only().plain_http(true));
        options.read_limit = answer_bytes;
        if let Some(path) = ca_file {
            let pem = std::fs::read(&path)
                .map_err(|error| Failure::usage(&format!("{}: {error}", path.display())))?;
            options.extra_roots = roots_from_pem(&pem)
                .map_err(|error| Failure::usage(&format!("{}: {error}", path.display())))?;
        }
        let client = Client::new(options).map_err(|error| Failure::usage(&error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed("no_runtime", &error.to_string()))?;
        Ok(Api { server, key, client, runtime })
    }

    /// Reads.
    pub(super) fn get(&self, path: &[&str], query: &Query<'_>) -> Result<String, Failure> {
        let request = self.request(Method::GET, path, query, String::new())?;
        self.answer(self.exchange(request))
    }

    /// Changes something, once.
    pub(super) fn post(&self, path: &[&str], body: String) -> Result<String, Failure> {
        let request = self.request(Method::POST, path, &[], body)?;
        self.answer(self.exchange(request))
    }

    /// Changes something, once, which may take as long as `timeout`.
    pub(super) fn post_patiently(
        &self,
        path: &[&str],
        body: String,
        timeout: Duration,
    ) -> Result<String, Failure> {
        let request = Request { timeout, ..self.request(Method::POST, path, &[], body)? };
        self.answer(self.exchange(request))
    }

    /// Hands over a mail as it is. Handing it over again does no harm, as [`Self::post_repeatable`] has it.
    pub(super) fn post_mail(&self, path: &[&str], mail: Vec<u8>) -> Result<String, Failure> {
        let mut request = self.request(Method::POST, path, &[], mail)?;
        request.headers.insert(CONTENT_TYPE, MAIL);
        self.answer(self.exchange_repeatedly(request))
    }

    /// Changes something that stands, once; if `version` is given, only if it is still at that.
    pub(super) fn change(
        &self,
        method: Method,
        path: &[&str],
        body: String,
        version: Option<&str>,
    ) -> Result<String, Failure> {
        let mut request = self.request(method, path, &[], body)?;
        if let Some(version) = version {
            let quoted = if version.contains('"') { version.to_owned() } else { format!("\"{version}\"") };
            let value = HeaderValue::from_str(&quoted)
                .map_err(|_| Failure::usage("--if-match is no version: show tells it"))?;
            request.headers.insert(IF_MATCH, value);
        }
        self.answer(self.exchange(request))
    }

    /// Hands over something under a key, so that handing it over again does no harm, as [`Self::post_repeatable`] has it.
    pub(super) fn post_keyed(
        &self,
        path: &[&str],
        query: &Query<'_>,
        body: String,
        key: &str,
    ) -> Result<String, Failure> {
        let mut request = self.request(Method::POST, path, query, body)?;
        let key = HeaderValue::from_str(key).map_err(|_| Failure::usage("the id cannot be sent"))?;
        request.headers.insert(IDEMPOTENCY_KEY, key);
        self.answer(self.exchange_repeatedly(request))
    }

    /// Hands over lines (NDJSON), once. The answer may have broken off: what came of it says what was stored.
    pub(super) fn post_lines(&self, path: &[&str], lines: Vec<u8>) -> Result<String, Failure> {
        let mut request = Request { timeout: LINES_TIMEOUT, ..self.request(Method::POST, path, &[], lines)? };
        request.headers.insert(CONTENT_TYPE, NDJSON);
        let response = self.exchange(request).map_err(|fault| self.no_answer(&fault))?;
        self.answer(Ok(Response { truncated: false, ..response }))
    }

    /// Removes something, once.
    pub(super) fn delete(&self, path: &[&str], query: &Query<'_>) -> Result<String, Failure> {
        let request = self.request(Method::DELETE, path, query, String::new())?;
        self.answer(self.exchange(request))
    }

    /// Hands over something that carries its own id, so that handing it over again does no harm: a
    /// connection that breaks before the answer is tried again.
    pub(super) fn post_repeatable(&self, path: &[&str], body: String) -> Result<String, Failure> {
        let request = self.request(Method::POST, path, &[], body)?;
        self.answer(self.exchange_repeatedly(request))
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &Query<'_>,
        body: impl Into<Vec<u8>>,
    ) -> Result<Request, Failure> {
        let body = body.into();
        Ok(Request {
            method,
            url: endpoint(&self.server, path, query),
            headers: self.headers(!body.is_empty())?,
            body: body.into(),
            timeout: TIMEOUT,
            trust: Trust::Operator,
        })
    }

    fn headers(&self, has_body: bool) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &self.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| Failure::usage("the key cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// The one place that talks HTTP.
    fn exchange(&self, request: Request) -> Result<Response, Fault> {
        self.runtime.block_on(self.client.send(request))
    }

    fn exchange_repeatedly(&self, request: Request) -> Result<Response, Fault> {
        let mut result = self.exchange(request.clone());
        for pause in PAUSES {
            match &result {
                Err(fault) if fault.request_written => std::thread::sleep(pause),
                _ => break,
            }
            result = self.exchange(request.clone());
        }
        result
    }

    fn answer(&self, result: Result<Response, Fault>) -> Result<String, Failure> {
        let response = result.map_err(|fault| self.no_answer(&fault))?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        match response.status {
            200..=299 if response.truncated => Err(Failure::failed(
                "answer_cut_off",
                "the answer is not whole: it broke off, or has more than 256 MiB; ask for less with --limit",
            )),
            200..=299 => Ok(text),
            401 | 403 => Err(Failure::answered(response.status, &text).with_advice(KEY_ADVICE)),
            status => Err(Failure::answered(status, &text)),
        }
    }

    fn no_answer(&self, fault: &Fault) -> Failure {
        let detail = format!("{}: {fault}", self.server);
        if fault.kind == FaultKind::Request {
            return Failure::usage(&detail);
        }
        let failure = Failure::unreachable(&detail);
        if fault.request_written {
            failure.with_advice("the server may have done it all the same")
        } else {
            failure
        }
    }
}

/// The URL of a call: `/v1` and the segments of its path under the server's own, each segment encoded.
fn endpoint(server: &Url, path: &[&str], query: &Query<'_>) -> Url {
    let mut url = server.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push("v1").extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;
    use crate::cli::exit::Exit;

    /// A server that takes one connection for each answer, reads one request and answers with it, or closes
    /// the connection where there is none. It returns the requests.
    pub(in crate::cli) fn server(answers: &'static [Option<&str>]) -> (Url, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let serve = move || {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                requests.push(read_request(&mut stream));
                if let Some(answer) = answer {
                    let (status, body) = answer.split_once(' ').unwrap();
                    let head =
                        format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}", body.len());
                    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
                }
            }
            requests
        };
        (url, std::thread::spawn(serve))
    }

    fn read_request(stream: &mut impl Read) -> String {
        let mut request = String::new();
        let mut byte = [0];
        while !request.ends_with("\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0].into());
        }
        let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).unwrap();
        request + std::str::from_utf8(&body).unwrap()
    }

    pub(in crate::cli) fn api(server: Url) -> Api {
        api_that_reads(server, 64 * 1024)
    }

    fn api_that_reads(server: Url, answer_bytes: usize) -> Api {
        let key = Some(Secret::new("ak_1".into()));
        Api::over(Connection { server, key, ca_file: None }, answer_bytes).unwrap()
    }

    #[test]
    fn a_call_carries_the_key_and_brings_the_answer() {
        let (url, requests) =
            server(&[Some("200 {}"), Some("404 {\"code\":\"notification_not_found\"}"), Some("401 ")]);
        let api = api(url);
        assert_eq!(api.get(&["kpis"], &[]).unwrap(), "{}");
        assert_eq!(api.post(&["a", "b"], "{}".into()).unwrap_err().exit(), Exit::NothingMatched);
        let refused = api.get(&["kpis"], &[]).unwrap_err();
        assert!(refused.shown(crate::cli::Format::Table).contains("ANGARIUM_KEY"));
        let requests = requests.join().unwrap();
        assert!(requests[0].starts_with("GET /v1/kpis HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].contains("authorization: Bearer ak_1\r\n"));
        assert!(requests[1].starts_with("POST /v1/a/b HTTP/1.1\r\n") && requests[1].ends_with("\r\n\r\n{}"));
    }

    #[test]
    fn what_carries_its_own_id_is_handed_over_again() {
        let (url, requests) = server(&[None, Some("202 {}")]);
        assert_eq!(api(url).post_repeatable(&["notifications"], "{\"id\":1}".into()).unwrap(), "{}");
        let requests = requests.join().unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1]);
    }

    #[test]
    fn a_mail_is_handed_over_as_what_it_is() {
        let (url, requests) = server(&[None, Some("200 {}")]);
        assert_eq!(api(url).post_mail(&["bounces"], b"Subject: x".to_vec()).unwrap(), "{}");
        let requests = requests.join().unwrap();
        assert_eq!(requests[0], requests[1]);
        assert!(requests[0].contains("content-type: message/rfc822\r\n"), "{}", requests[0]);
        assert!(requests[0].ends_with("\r\n\r\nSubject: x"), "{}", requests[0]);
    }

    #[test]
    fn a_change_can_depend_on_a_version() {
        let (url, requests) =
            server(&[Some("200 {}"), Some("200 {}"), Some("412 {\"code\":\"precondition_failed\"}")]);
        let api = api(url);
        let change = |version| api.change(Method::PUT, &["feeds", "f"], "{}".into(), version);
        assert_eq!(change(None).unwrap(), "{}");
        assert_eq!(change(Some("17")).unwrap(), "{}");
        assert_eq!(change(Some("\"16\"")).unwrap_err().exit(), Exit::Failed);
        assert_eq!(change(Some("1\n7")).unwrap_err().exit(), Exit::Usage);
        let requests = requests.join().unwrap();
        assert!(requests[0].starts_with("PUT /v1/feeds/f HTTP/1.1\r\n") && !requests[0].contains("if-match"));
        assert!(requests[1].contains("if-match: \"17\"\r\n"), "{}", requests[1]);
        assert!(requests[2].contains("if-match: \"16\"\r\n"), "{}", requests[2]);
    }

    #[test]
    fn what_has_a_key_is_handed_over_again_under_the_same() {
        let (url, requests) = server(&[None, Some("202 {}")]);
        let query = [("dry_run", "true".to_owned())];
        assert_eq!(api(url).post_keyed(&["events"], &query, "{}".into(), "k1").unwrap(), "{}");
        let requests = requests.join().unwrap();
        assert_eq!(requests[0], requests[1]);
        assert!(requests[0].starts_with("POST /v1/events?dry_run=true HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].contains("idempotency-key: k1\r\n"), "{}", requests[0]);
    }

    #[test]
    fn what_does_not_is_never_repeated() {
        let (url, requests) = server(&[None]);
        let failure = api(url).post(&["keys"], "{}".into()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
        assert_eq!(requests.join().unwrap().len(), 1);
    }

    #[test]
    fn an_answer_that_is_too_long_is_none() {
        let (url, requests) = server(&[
            Some("200 {\"items\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14]}"),
            Some("200 {\"items\":[1,2]}"),
        ]);
        let api = api_that_reads(url, 40);
        let failure = api.get(&["keys"], &[]).unwrap_err();
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(failure.shown(crate::cli::Format::Json).contains("answer_cut_off"));
        assert_eq!(api.get(&["keys"], &[]).unwrap(), "{\"items\":[1,2]}");
        requests.join().unwrap();
    }

    #[test]
    fn no_server_is_told_apart() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let failure = api(format!("http://{closed}").parse().unwrap()).get(&["kpis"], &[]).unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
    }

    #[test]
    fn endpoints_are_encoded() {
        let url = |server: &str, path: &[&str], query: &Query<'_>| {
            endpoint(&server.parse().unwrap(), path, query).to_string()
        };
        assert_eq!(url("http://h:1", &["kpis"], &[]), "http://h:1/v1/kpis");
        assert_eq!(url("https://h/a/", &["keys", "a/b?c"], &[]), "https://h/a/v1/keys/a%2Fb%3Fc");
        assert_eq!(
            url("http://h", &["notifications"], &[("q", "a b&c".into()), ("stuck", "true".into())]),
            "http://h/v1/notifications?q=a+b%26c&stuck=true"
        );
    }
}
