//! The public HTTP API as the demo uses it: over a real socket, with the admin key from its file.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use angarium_domain::state::Status;
use angarium_egress::{Client, Guard, Options, Request, Trust};
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use url::Url;

use super::failed;
use super::traffic::Letter;
use crate::cli::Failure;
use crate::http::dto::{Accepted, ActionDone, ActionReason, Kpi, Kpis, LastError, NewNotification, Page, To};
use crate::http::events::dto::{EventAccepted, NewEvent};

/// Far beyond what a call on loopback takes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Rows of a page: few, so that the listing really is paged and a page fits into what the client reads.
const PAGE: usize = 25;

/// What the demo wants to know about a notification.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    #[serde(deserialize_with = "status")]
    pub(super) status: Status,
    /// None for a list that is not known.
    pub(super) channel: Option<String>,
    /// None for a list.
    pub(super) to: Option<To>,
    /// The event that it tells of.
    pub(super) event_id: Option<String>,
    pub(super) last_error: Option<LastError>,
}

/// One entry of a notification's trail.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) actor: String,
    pub(super) detail: EntryDetail,
}

/// What an entry tells, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EntryDetail {
    pub(super) status: Option<String>,
    pub(super) attempt: Option<i64>,
    pub(super) action: Option<String>,
    pub(super) reason: Option<String>,
}

/// The batch as it is sent.
#[derive(Serialize)]
struct Batch<'a> {
    notifications: Vec<&'a NewNotification>,
}

/// What became of a batch.
#[derive(Deserialize)]
struct BatchAnswer {
    results: Vec<Accepted>,
}

/// A server to talk to.
pub(super) struct Api {
    client: Client,
    server: String,
    headers: HeaderMap,
}

impl Api {
    /// Talks to the server at `address` with the key that stands in `key_file`.
    pub(super) fn new(address: SocketAddr, key_file: &Path) -> Result<Self, Failure> {
        let client = Client::new(Options::new(Guard::public_only()));
        let key = std::fs::read_to_string(key_file).map_err(|error| failed("the admin key", &error))?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.trim_end()))
            .map_err(|error| failed("the admin key", &error))?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Api {
            client: client.map_err(|error| failed("no client", &error))?,
            server: format!("http://{address}"),
            headers,
        })
    }

    /// Hands one notification in.
    pub(super) async fn send(&self, letter: &Letter) -> Result<Accepted, Failure> {
        self.call(Method::POST, "/v1/notifications", json(&letter.notification)?).await
    }

    /// Hands many in at once. Fails if one of them is refused.
    pub(super) async fn send_batch(&self, letters: &[Letter]) -> Result<(), Failure> {
        let batch = Batch { notifications: letters.iter().map(|letter| &letter.notification).collect() };
        let answer: BatchAnswer = self.call(Method::POST, "/v1/notifications/batch", json(&batch)?).await?;
        let (taken, sent) = (answer.results.len(), letters.len());
        if taken == sent {
            Ok(())
        } else {
            Err(failed("the batch", &format_args!("{taken} of {sent} taken")))
        }
    }

    /// Publishes an event.
    pub(super) async fn publish(&self, event: &NewEvent) -> Result<EventAccepted, Failure> {
        self.call(Method::POST, "/v1/events", json(event)?).await
    }

    /// One notification.
    pub(super) async fn show(&self, id: &str) -> Result<Row, Failure> {
        self.get(&format!("/v1/notifications/{id}")).await
    }

    /// Every notification, page after page.
    pub(super) async fn everything(&self) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Page<Row> = self.get(&format!("/v1/notifications?limit={PAGE}{cursor}")).await?;
            rows.extend(page.items);
            match page.next {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(rows),
            }
        }
    }

    /// The figures of everything.
    pub(super) async fn kpis(&self) -> Result<Kpi, Failure> {
        Ok(self.get::<Kpis>("/v1/kpis").await?.global)
    }

    /// `retry` or `discard`, and why.
    pub(super) async fn act(&self, id: &str, action: &str, reason: &str) -> Result<ActionDone, Failure> {
        let reason = ActionReason { reason: Some(reason.to_owned()) };
        self.call(Method::POST, &format!("/v1/notifications/{id}/{action}"), json(&reason)?).await
    }

    /// The trail of a notification, in order.
    pub(super) async fn trail(&self, id: &str) -> Result<Vec<Entry>, Failure> {
        let page: Page<Entry> = self.get(&format!("/v1/notifications/{id}/audit")).await?;
        Ok(page.items)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.call(Method::GET, path, Vec::new()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, Failure> {
        let wrong = |error: &dyn Display| failed(path, error);
        let request = Request {
            method,
            url: Url::parse(&format!("{}{path}", self.server)).map_err(|error| wrong(&error))?,
            headers: self.headers.clone(),
            body: body.into(),
            timeout: TIMEOUT,
            trust: Trust::Operator,
        };
        let response = self.client.send(request).await.map_err(|fault| wrong(&fault))?;
        if !(200..300).contains(&response.status) {
            return Err(Failure::answered(response.status, &String::from_utf8_lossy(&response.body)));
        }
        serde_json::from_slice(&response.body).map_err(|error| wrong(&error))
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| failed("a request", &error))
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
