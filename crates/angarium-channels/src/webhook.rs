//! Webhooks: an HTTP POST to an address of the receiver's choosing, signed as Standard Webhooks 1.0.0 has it.
//!
//! `webhook-id` is the notification's id, and the body is the same byte for byte on every attempt, so that a
//! receiver can tell a repeat. `webhook-timestamp` is the attempt's own time, and with it the signature, so that
//! a late retry is not refused as old. The address arrived as data: the address guard decides at dial whether it
//! may be reached.
//!
//! Deliberately absent: redirects (an answer 3xx is a failure) and custom headers.

mod conversation;
mod payload;
mod signing;
mod verdict;

use std::collections::HashMap;
use std::convert::identity;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::adapter::{Adapter, Delivery, Sending};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::text::ChannelName;
use angarium_domain::transcript::Speaker;
use angarium_egress::{Client, Request, Trust};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use url::Url;

pub use signing::{SecretError, SigningSecret};

use crate::mask::Mask;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("angarium/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What a webhook channel says about its deliveries.
#[derive(Clone, Debug)]
pub struct WebhookChannel {
    /// The secrets to sign with, all of them; several while they are being rotated, none to send unsigned.
    pub secrets: Vec<SigningSecret>,
    /// How long one delivery may take, the answer's body included.
    pub timeout: Duration,
}

/// Delivers on webhook channels.
pub struct WebhookAdapter {
    client: Arc<Client>,
    channels: HashMap<ChannelName, WebhookChannel>,
}

impl WebhookAdapter {
    /// An adapter for `channels`, which sends through `client`.
    pub fn new(client: Arc<Client>, channels: HashMap<ChannelName, WebhookChannel>) -> Self {
        WebhookAdapter { client, channels }
    }

    async fn deliver(&self, delivery: &Delivery, address: &Address) -> Result<Outcome, Failure> {
        let channel = self.channels.get(&delivery.channel).ok_or_else(|| {
            Failure::new(
                FailureClass::PermanentConfig,
                format!("no webhook channel {} is configured", delivery.channel),
            )
        })?;
        let url = Url::parse(address.as_str())
            .map_err(|_| Failure::new(FailureClass::PermanentRecipient, "the address is not a URL"))?;
        let body = payload::bytes(&delivery.message)?;
        let id = delivery.message.id.to_string();
        let timestamp = delivery.attempted_at.seconds();
        let signatures: Vec<String> =
            channel.secrets.iter().map(|secret| secret.sign(&id, timestamp, &body)).collect();
        let request = Request {
            method: http::Method::POST,
            url: url.clone(),
            headers: headers(&id, timestamp, &signatures)?,
            body: body.into(),
            timeout: channel.timeout,
            trust: Trust::Data,
        };
        let mask = Mask::over(signing::texts(&channel.secrets, &signatures));
        let transcript = delivery.transcript.as_deref();
        if let Some(transcript) = transcript {
            conversation::asked(transcript, &request, &mask);
        }
        match self.client.send(request).await {
            Ok(response) => {
                if let Some(transcript) = transcript {
                    conversation::answered(transcript, &response, &mask, &delivery.message);
                }
                Ok(verdict::of_answer(&response, &url, address, &mask, delivery))
            }
            Err(fault) => Err(verdict::of_fault(&fault, address)),
        }
    }
}

impl Adapter for WebhookAdapter {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Webhook
    }

    fn send<'a>(&'a self, delivery: &'a Delivery) -> Sending<'a> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(delivery.addresses.len());
            for address in &delivery.addresses {
                let outcome = self.deliver(delivery, address).await;
                if let (Err(failure), Some(transcript)) = (&outcome, &delivery.transcript) {
                    transcript.note(Speaker::Remark, &failure.detail);
                }
                outcomes.push(outcome.map_or_else(Outcome::Failed, identity));
            }
            outcomes
        })
    }
}

fn headers(id: &str, timestamp: i64, signatures: &[String]) -> Result<HeaderMap, Failure> {
    let value = |text: &str| {
        HeaderValue::from_str(text)
            .map_err(|_| Failure::new(FailureClass::Internal, "a header cannot be written"))
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(USER_AGENT, AGENT);
    headers.insert(ID, value(id)?);
    headers.insert(TIMESTAMP, HeaderValue::from(timestamp));
    if !signatures.is_empty() {
        headers.insert(SIGNATURE, value(&signatures.join(" "))?);
    }
    Ok(headers)
}
