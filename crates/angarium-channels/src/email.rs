//! E-mail: one message for all recipients, handed to the relay that the operator names.
//!
//! [`message`] makes a notification into a mail, the same bytes on every attempt; [`smtp`] hands it over and keeps
//! what the relay says to each recipient; [`token`] gets access tokens where a relay wants them; [`bounce`] reads
//! what comes back later. Recipients stand in the envelope only.
//!
//! Deliberately absent: delivery to mail exchangers, a mailbox of our own, and pictures or attachments.

pub mod bounce;
pub mod dkim;
pub mod mailbox;
pub mod message;
pub mod options;
mod smtp;
pub mod token;

mod body;
mod header;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::adapter::{Adapter, Delivery, Sending};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use angarium_domain::outcome::{Failure, FailureClass, Outcome};
use angarium_domain::text::ChannelName;
use angarium_egress::{Client, Connector};
use message::{Composed, Letterhead, compose};
use smtp::auth::to_hide;
pub use smtp::auth::{Credential, Login, Mechanism, UnknownMechanism};
use smtp::pool::{Change, GOODBYE, Pool};
use smtp::session::{self, Offers, Outside, Session};
use smtp::transaction::{self, Ended, Envelope, Fate, Limits, dot_stuffed};
use smtp::verdict::{Judge, is_crowd};
use tokio::time::Instant;
use url::Host;

use crate::mask::Mask;

/// Recipients of one mail. Relays take a hundred at least and a thousand usually; what one does not take at once
/// goes in further transactions.
const RECIPIENTS: usize = 1000;

/// One transaction may take so many times the limit of a command, and the limit of the last reply besides: one over
/// a session that turns out to be used up, three sessions opened and a wait between them, one over a session too
/// many, another wait, and the one that counts; sessions that are given up are ended.
const TRANSACTION: u32 = 3 * transaction::LONGEST + 3 * session::OPENING + 2 + 2;

/// How often a message tries to open a session where the relay takes no more of them.
const OPENED: usize = 3;

/// How long a mail waits, at most, for a session to come back where the relay takes no more of them.
const CROWDED: Duration = Duration::from_secs(20);

/// Where mail is handed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its name or address.
    pub host: Host<String>,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
}

impl Relay {
    /// By name and port, for people.
    pub(crate) fn named(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// How the connection to a relay is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte (`smtps://`).
    Implicit,
    /// STARTTLS, or nothing is sent.
    Required,
    /// STARTTLS where the relay offers it.
    Offered,
    /// Never. Credentials are then sent to this machine's own relay alone.
    Never,
}

/// What an e-mail channel says about its deliveries.
pub struct EmailChannel {
    /// Where mail is handed to.
    pub relay: Relay,
    /// Who logs in there; none if nobody does.
    pub login: Option<Login>,
    /// What stands in every mail.
    pub letterhead: Letterhead,
    /// Where bounces go; none for the null sender, which gets none.
    pub return_path: Option<Address>,
    /// The name given in EHLO; the machine's address if none is set.
    pub hello: Option<String>,
    /// How long one command may take.
    pub timeout: Duration,
    /// How long the reply after the final dot may take. A short one makes duplicates (RFC 1047).
    pub final_timeout: Duration,
    /// The least wait after greylisting.
    pub greylist_wait: Duration,
    /// Sessions kept open for the next mail.
    pub max_idle: usize,
}

struct Ready {
    channel: EmailChannel,
    /// The relay by name and port.
    relay: String,
    /// What must never show.
    mask: Mask,
    pool: Pool,
}

impl Ready {
    fn new(channel: EmailChannel) -> Self {
        let mask = match &channel.login {
            Some(Login { user, credential: Credential::Password(password), .. }) => {
                Mask::over(to_hide(user, password, &channel.relay))
            }
            _ => Mask::default(),
        };
        Ready { relay: channel.relay.named(), mask, pool: Pool::default(), channel }
    }
}

/// Delivers on e-mail channels.
pub struct EmailAdapter {
    outside: Outside,
    channels: HashMap<ChannelName, Ready>,
}

impl EmailAdapter {
    /// An adapter for `channels`, which connects through `connector` and gets tokens through `client`.
    pub fn new(
        connector: Arc<Connector>,
        client: Arc<Client>,
        channels: HashMap<ChannelName, EmailChannel>,
    ) -> Self {
        let channels = channels.into_iter().map(|(name, channel)| (name, Ready::new(channel))).collect();
        EmailAdapter { outside: Outside { connector, client }, channels }
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Vec<Outcome>, Failure> {
        let ready = self.channels.get(&delivery.channel).ok_or_else(|| {
            let detail = format!("no e-mail channel {} is configured", delivery.channel);
            Failure::new(FailureClass::PermanentConfig, detail)
        })?;
        let channel = &ready.channel;
        let composed = compose(&channel.letterhead, &delivery.message)?;
        let stuffed = dot_stuffed(&composed.bytes);
        let judge = Judge {
            relay: &ready.relay,
            mask: ready.mask.clone(),
            greylist_wait: channel.greylist_wait,
            message: &delivery.message,
        };
        let mut mail = Mail { composed: &composed, stuffed: &stuffed, delivery, channel, plain: false };
        let last_begin = Instant::now() + longest(channel) - longest_transaction(channel);
        let mut fates: Vec<Option<Outcome>> = vec![None; delivery.addresses.len()];
        let mut left: Vec<usize> = (0..delivery.addresses.len()).collect();
        while !left.is_empty() {
            if Instant::now() > last_begin {
                settle(&mut fates, &left, &Outcome::Failed(judge.out_of_time()));
                break;
            }
            let told = self.transaction(&mail, &ready.pool, &judge, &left, &mut fates).await;
            left.clear();
            for (place, plain) in told {
                mail.plain |= plain;
                left.push(place);
            }
        }
        let unknown = || Outcome::Failed(Failure::new(FailureClass::Internal, "no outcome"));
        Ok(fates.into_iter().map(|fate| fate.unwrap_or_else(unknown)).collect())
    }

    /// Hands the mail over to those who are left; says for whom another transaction is needed, and whether it is to
    /// be one without optional parameters.
    async fn transaction(
        &self,
        mail: &Mail<'_>,
        pool: &Pool,
        judge: &Judge<'_>,
        left: &[usize],
        fates: &mut [Option<Outcome>],
    ) -> Vec<(usize, bool)> {
        let channel = mail.channel;
        // Whoever wants to see the conversation wants to see its beginning.
        let idle = if mail.delivery.transcript.is_none() { pool.take() } else { None };
        let (mut last, mut last_place) = (idle.is_none(), false);
        let mut session = match idle {
            Some(session) => Ok(session),
            None => self.session(mail, pool, judge).await,
        };
        loop {
            let mut ready = match session {
                Ok(ready) => ready,
                Err(failure) => {
                    settle(fates, left, &Outcome::Failed(failure));
                    return Vec::new();
                }
            };
            let fit = mail.fit(&ready.offers, left, fates).unwrap_or_else(|failure| {
                settle(fates, left, &Outcome::Failed(failure));
                Vec::new()
            });
            if fit.is_empty() {
                pool.put(ready, channel.max_idle);
                return Vec::new();
            }
            let limits = Limits { command: channel.timeout, last_reply: channel.final_timeout };
            match ready.hand_over(&mail.to(&fit), limits, judge).await {
                // That costs the message nothing: another session is tried.
                Ended::Stale => {
                    ready.quit(channel.timeout.min(GOODBYE)).await;
                    session = if last { Err(judge.used_up()) } else { self.session(mail, pool, judge).await };
                    last = true;
                }
                Ended::Crowded(failure) => {
                    ready.quit(channel.timeout.min(GOODBYE)).await;
                    let deadline = Instant::now() + channel.timeout.min(CROWDED);
                    let back = if last_place { None } else { pool.back(deadline).await };
                    session = back.ok_or(failure);
                    (last, last_place) = (true, true);
                }
                Ended::Done { fates: told, reusable } => {
                    if reusable {
                        pool.put(ready, channel.max_idle);
                    }
                    return take_in(fates, &fit, told);
                }
            }
        }
    }

    /// A fresh session; where the relay takes no more of them, the next one that comes back.
    async fn session(&self, mail: &Mail<'_>, pool: &Pool, judge: &Judge<'_>) -> Result<Session, Failure> {
        let deadline = Instant::now() + mail.channel.timeout.min(CROWDED);
        let mut opened = 1;
        loop {
            let transcript = mail.delivery.transcript.clone();
            let is_shown = transcript.is_some();
            let opened_now = Session::open(&self.outside, mail.channel, judge, transcript).await;
            let refused = match opened_now {
                Ok(session) => return Ok(pool.adopt(session)),
                Err(failure) => failure,
            };
            // While other sessions live, trouble to get one more is most likely that there are enough of them.
            let crowded = is_crowd(&refused) || (refused.whole_channel && pool.has_sessions());
            if is_shown || !crowded {
                return Err(refused);
            }
            match pool.change(deadline).await {
                Some(Change::Back(session)) => return Ok(*session),
                Some(Change::Ended) if opened < OPENED => opened += 1,
                _ => return Err(refused),
            }
        }
    }
}

/// A mail and whom it is for.
struct Mail<'a> {
    composed: &'a Composed,
    stuffed: &'a [u8],
    delivery: &'a Delivery,
    channel: &'a EmailChannel,
    /// The relay does not know the parameters that it offers.
    plain: bool,
}

impl Mail<'_> {
    /// Those of `left` to whom the relay can carry this mail; the others are settled here, before anything is said.
    fn fit(
        &self,
        offers: &Offers,
        left: &[usize],
        fates: &mut [Option<Outcome>],
    ) -> Result<Vec<usize>, Failure> {
        let size = self.composed.bytes.len();
        let limit = offers.size.filter(|&limit| limit > 0);
        if let Some(limit) = limit.filter(|&limit| usize::try_from(limit).is_ok_and(|limit| size > limit)) {
            let detail = format!("too_large: the mail has {size} bytes, and the relay takes {limit}");
            return Err(Failure::new(FailureClass::PermanentMessage, detail));
        }
        if offers.smtputf8 {
            return Ok(left.to_vec());
        }
        let international = |address: &Address| !address.as_str().is_ascii();
        let EmailChannel { letterhead, return_path, .. } = self.channel;
        if international(&letterhead.from.address) || return_path.as_ref().is_some_and(international) {
            let detail =
                "smtputf8-required: the sender's address needs SMTPUTF8, which the relay does not offer";
            return Err(Failure::new(FailureClass::PermanentConfig, detail));
        }
        if self.composed.needs_smtputf8 {
            let detail =
                "smtputf8-required: the address for answers needs SMTPUTF8, which the relay does not offer";
            return Err(Failure::new(FailureClass::PermanentMessage, detail));
        }
        let is_plain = |place: &usize| {
            self.delivery.addresses.get(*place).is_some_and(|address| !international(address))
        };
        let (fit, unfit): (Vec<usize>, Vec<usize>) = left.iter().partition(|place| is_plain(place));
        let detail = "smtputf8-required: the address needs SMTPUTF8, which the relay does not offer";
        let failure = Failure::new(FailureClass::PermanentRecipient, detail);
        settle(fates, &unfit, &Outcome::Failed(failure));
        Ok(fit)
    }

    fn to(&self, places: &[usize]) -> Envelope<'_> {
        Envelope {
            id: self.delivery.message.id,
            sender: self.channel.return_path.as_ref(),
            recipients: places.iter().filter_map(|&place| self.delivery.addresses.get(place)).collect(),
            message: self.stuffed,
            size: self.composed.bytes.len(),
            utf8_headers: self.composed.needs_smtputf8,
            plain: self.plain,
        }
    }
}

/// Writes down what became of those in `places`; returns those for whom another transaction is needed.
fn take_in(fates: &mut [Option<Outcome>], places: &[usize], told: Vec<Fate>) -> Vec<(usize, bool)> {
    let mut later = Vec::new();
    for (&place, fate) in places.iter().zip(told) {
        match fate {
            Fate::Is(outcome) => settle(fates, &[place], &outcome),
            Fate::Later { plain } => later.push((place, plain)),
        }
    }
    later
}

fn settle(fates: &mut [Option<Outcome>], places: &[usize], outcome: &Outcome) {
    for &place in places {
        if let Some(fate) = fates.get_mut(place) {
            *fate = Some(outcome.clone());
        }
    }
}

/// The longest that one transaction may take.
fn longest_transaction(channel: &EmailChannel) -> Duration {
    channel.timeout * TRANSACTION + channel.final_timeout
}

/// The longest that all transactions of one mail may take: as long again as the last of them.
fn longest(channel: &EmailChannel) -> Duration {
    longest_transaction(channel) * 2
}

impl Adapter for EmailAdapter {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Email
    }

    fn addresses_per_send(&self) -> usize {
        RECIPIENTS
    }

    fn longest(&self, delivery: &Delivery, timeout: Duration) -> Duration {
        self.channels.get(&delivery.channel).map_or(timeout, |ready| longest(&ready.channel))
    }

    fn send<'a>(&'a self, delivery: &'a Delivery) -> Sending<'a> {
        Box::pin(async move {
            let failed = |failure: Failure| vec![Outcome::Failed(failure); delivery.addresses.len()];
            self.deliver(delivery).await.unwrap_or_else(failed)
        })
    }
}

impl fmt::Debug for EmailChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmailChannel({})", self.relay.named())
    }
}
