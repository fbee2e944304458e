//! Access tokens for a mail relay (OAuth 2.0, RFC 6749): fetched when they are needed, kept until shortly before
//! they end, and shared by all deliveries of a channel.

use std::fmt;
use std::time::Duration;

use angarium_domain::outcome::{Failure, FailureClass};
use angarium_egress::{Client, Fault, Request, Response, Trust};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::{Url, form_urlencoded};

use super::smtp::verdict::class_of;
use crate::mask::Mask;

/// How long fetching a token may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long before its end a token is no longer used.
const MARGIN: Duration = Duration::from_secs(60);

/// How long a token is good for whose life is not told.
const UNTOLD: Duration = Duration::from_secs(300);

/// The longest that a token is believed to be good for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How tokens are got.
pub struct Grant {
    /// Where they are asked for.
    pub url: Url,
    /// Who asks.
    pub client_id: String,
    /// What proves that; none for a public client with a refresh token.
    pub client_secret: Option<String>,
    /// What the token is to allow.
    pub scope: Option<String>,
    /// A token to get tokens with; without one, the client asks for itself (client credentials).
    pub refresh_token: Option<String>,
}

/// Where tokens come from. Its secrets cannot be shown.
pub struct TokenSource {
    grant: Grant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    token: Option<(String, Instant)>,
    /// The newest refresh token, where the server hands out new ones.
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    expires_in: Option<serde_json::Value>,
    #[serde(default)]
    refresh_token: Option<String>,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSource({})", self.grant.url)
    }
}

impl TokenSource {
    /// A source that has not asked yet.
    pub fn new(grant: Grant) -> Self {
        TokenSource { grant, kept: Mutex::default() }
    }

    /// A token that is good for now. Of those who want one at once, one asks and the others wait.
    pub(crate) async fn token(&self, client: &Client) -> Result<String, Failure> {
        let mut kept = self.kept.lock().await;
        if let Some((token, until)) = &kept.token
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let asked_at = Instant::now();
        let granted = self.ask(client, kept.refresh_token.as_deref()).await?;
        let life = granted.expires_in.as_ref().and_then(seconds).unwrap_or(UNTOLD).min(LONGEST);
        kept.token = Some((granted.access_token.clone(), asked_at + life.saturating_sub(MARGIN)));
        kept.refresh_token = granted.refresh_token.or_else(|| kept.refresh_token.take());
        Ok(granted.access_token)
    }

    /// This token was refused.
    pub(crate) async fn forget(&self, refused: &str) {
        let mut kept = self.kept.lock().await;
        if kept.token.as_ref().is_some_and(|(token, _)| token == refused) {
            kept.token = None;
        }
    }

    async fn ask(&self, client: &Client, newest: Option<&str>) -> Result<Granted, Failure> {
        let request = Request {
            method: http::Method::POST,
            url: self.grant.url.clone(),
            headers: headers(),
            body: self.form(newest).into(),
            timeout: TIMEOUT,
            trust: Trust::Operator,
        };
        let response = client.send(request).await.map_err(|fault| self.unreachable(&fault))?;
        if response.status != 200 {
            return Err(self.refused(&response, newest));
        }
        serde_json::from_slice::<Granted>(&response.body)
            .ok()
            .filter(|granted| is_token(&granted.access_token))
            .ok_or_else(|| self.failure(FailureClass::Transient, "answered without an access token"))
    }

    fn form(&self, newest: Option<&str>) -> String {
        let Grant { client_id, client_secret, scope, refresh_token, .. } = &self.grant;
        let mut form = form_urlencoded::Serializer::new(String::new());
        match newest.or(refresh_token.as_deref()) {
            Some(token) => {
                form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token)
            }
            None => form.append_pair("grant_type", "client_credentials"),
        };
        form.append_pair("client_id", client_id);
        for (key, value) in [("client_secret", client_secret), ("scope", scope)] {
            if let Some(value) = value {
                form.append_pair(key, value);
            }
        }
        form.finish()
    }

    fn unreachable(&self, fault: &Fault) -> Failure {
        self.failure(class_of(fault.kind), &fault.to_string())
    }

    /// 4xx says that we are not known or not allowed (RFC 6749, 5.2).
    fn refused(&self, response: &Response, newest: Option<&str>) -> Failure {
        let class = match response.status {
            429 => FailureClass::RateLimited,
            408 | 425 => FailureClass::Transient,
            300..=499 => FailureClass::PermanentConfig,
            _ => FailureClass::Transient,
        };
        let Grant { client_secret, refresh_token, .. } = &self.grant;
        let secrets = [client_secret.as_deref(), refresh_token.as_deref(), newest];
        let mask = Mask::over(secrets.into_iter().flatten().map(str::to_owned));
        let said = mask.apply(&String::from_utf8_lossy(&response.body));
        self.failure(class, &format!("answered {}: {said}", response.status))
    }

    fn failure(&self, class: FailureClass, what: &str) -> Failure {
        let host = self.grant.url.host_str().unwrap_or_default();
        let whole_channel = matches!(class, FailureClass::Transient | FailureClass::RateLimited);
        Failure { whole_channel, ..Failure::new(class, format!("no access token: {host} {what}")) }
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

/// A token stands in a line of its own protocol: it must not be able to end that line.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Seconds as a number, or as the text that some servers send.
fn seconds(value: &serde_json::Value) -> Option<Duration> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(seconds))
}
