//! Who asks, and whether they may: bearer keys, looked up by the part that is no secret and compared by the
//! hash of the part that is.
//!
//! Every key that does not fit (unknown, wrong, ended, revoked) gets the same answer after the same work.
//! Keys that fit are remembered for a moment ([`STANDS`]), so that a busy producer does not read the database for each
//! request. A revocation forgets at once; one through another node is found when that moment is over. Deliberately
//! absent: sessions, passwords, and keys anywhere but in the `Authorization` header.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use angarium_domain::chance::Chance;
use angarium_domain::text::{Actor, KeyName};
use angarium_domain::time::Timestamp;
use angarium_store::ApiKey;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::exchange::Asked;
use super::problem::{Code, Problem};
use super::{App, Shared};

/// Keys that are remembered; beyond this all are looked up again.
const REMEMBERED: usize = 1024;

/// How long a key that fitted is good without another look, and so for how long one is that was revoked through another
/// node.
const STANDS: Duration = Duration::from_secs(5);

/// Characters of a key's id: five bits each.
const ID_CHARS: usize = 12;
/// Characters of a secret made here: 32 bytes.
const SECRET_CHARS: usize = 43;

/// Bytes of a key beyond which nothing is looked at.
const TOKEN_BYTES: usize = 1024;

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Hand in notifications.
    Publish,
    /// Look at everything but keys.
    Read,
    /// Retry, discard, cancel, and look after suppressed addresses.
    Operate,
    /// Everything, keys included.
    Admin,
    /// Speak for a site. No route asks for it yet.
    Site,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 5] = [Scope::Publish, Scope::Read, Scope::Operate, Scope::Admin, Scope::Site];

    /// The word used in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Publish => "publish",
            Scope::Read => "read",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
            Scope::Site => "site",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is none of publish, read, operate, admin, site")]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// The scopes in the form in which the store keeps them, and back.
pub(super) fn read_scopes(text: &str) -> Vec<Scope> {
    text.split(' ').filter_map(|word| word.parse().ok()).collect()
}

/// Whoever showed a key that fits.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) name: KeyName,
    id: String,
    scopes: Vec<Scope>,
    expires_at: Option<Timestamp>,
}

impl Caller {
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// The name under which actions are recorded.
    pub(super) fn actor(&self) -> Actor {
        Actor::key(&self.name)
    }

    fn of(key: ApiKey) -> Option<Self> {
        let name = KeyName::parse(&key.name).ok()?;
        Some(Caller { name, id: key.id, scopes: read_scopes(&key.scopes), expires_at: key.expires_at })
    }
}

/// What is looked up and compared for a key that was shown.
pub(super) struct Token {
    pub(super) id: String,
    pub(super) hash: [u8; 32],
}

impl Token {
    /// A key made here, `ang_<id>_<secret>`, stands under its id with the hash of its secret; any other text
    /// stands under a fingerprint with the hash of the whole.
    pub(super) fn read(text: &str) -> Self {
        match Token::parts(text) {
            Some((id, secret)) => Token { id: id.to_owned(), hash: sha256(&[secret]) },
            None => Token { id: id_from(&sha256(&["fingerprint of ", text])), hash: sha256(&[text]) },
        }
    }

    /// Whether a text has the whole shape of a key made here.
    pub(super) fn is_own(text: &str) -> bool {
        Token::parts(text).is_some()
    }

    /// Id and secret of a text that has the shape of a key made here.
    fn parts(text: &str) -> Option<(&str, &str)> {
        text.strip_prefix("ang_").and_then(|rest| rest.split_once('_')).filter(|(id, secret)| {
            id.len() == ID_CHARS
                && id.bytes().all(|b| b.is_ascii_alphanumeric())
                && secret.len() == SECRET_CHARS
        })
    }

    /// A new key: what is stored of it, and the text that is shown once.
    pub(super) fn make(chance: &dyn Chance) -> (Self, String) {
        let mut id = [0; ID_CHARS];
        let mut secret = [0; 32];
        chance.fill(&mut id);
        chance.fill(&mut secret);
        let text = format!("ang_{}_{}", id_from(&id), URL_SAFE_NO_PAD.encode(secret));
        (Token::read(&text), text)
    }
}

fn id_from(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    bytes.iter().take(ID_CHARS).map(|byte| char::from(LETTERS[usize::from(byte & 31)])).collect()
}

fn sha256(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

/// The keys that fitted lately.
#[derive(Default)]
pub struct Keys {
    remembered: Mutex<Remembered>,
    refusals: Mutex<Refusals>,
}

/// By the hash of the whole key, each with the monotonic time of the look at it. `forgotten` counts revocations: a
/// lookup that began before one must not be remembered after it.
#[derive(Default)]
struct Remembered {
    callers: HashMap<[u8; 32], (Caller, Duration)>,
    forgotten: u64,
}

/// How often the log speaks of refused keys.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Requests refused for their key, so that a flood of them does not flood the log.
#[derive(Default)]
struct Refusals {
    untold: u64,
    told_at: Option<Duration>,
}

impl Refusals {
    /// Counts one more, and says how many there were where it is time to tell. `now` is monotonic.
    fn add(&mut self, now: Duration) -> Option<u64> {
        self.untold += 1;
        if self.told_at.is_some_and(|told_at| now < told_at + TELL_EVERY) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Keys {
    /// Forgets a key, because it was revoked.
    pub(super) fn forget(&self, id: &str) {
        let mut remembered = self.lock();
        remembered.forgotten += 1;
        remembered.callers.retain(|_, (caller, _)| caller.id != id);
    }

    /// Whoever this key was found to belong to, if that was less than [`STANDS`] ago. `now` is monotonic.
    fn recall(&self, whole: &[u8; 32], now: Duration) -> (Option<Caller>, u64) {
        let remembered = self.lock();
        let found = remembered.callers.get(whole).filter(|(_, looked_at)| now < *looked_at + STANDS);
        (found.map(|(caller, _)| caller.clone()), remembered.forgotten)
    }

    fn remember(&self, whole: [u8; 32], caller: &Caller, looked_at: Duration, since: u64) {
        let mut remembered = self.lock();
        if remembered.forgotten != since {
            return;
        }
        if remembered.callers.len() >= REMEMBERED {
            remembered.callers.clear();
        }
        remembered.callers.insert(whole, (caller.clone(), looked_at));
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a request through if its key has the scope.
pub(super) async fn check(
    State((app, scope)): State<(Shared, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let asked = Asked::of(&request);
    match authorise(&app, request.headers(), scope, &asked).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Lets a request for the metrics through if it has a key that may read, or comes from this machine, asks for
/// this machine, and says of no proxy that it came through it. A proxy here that says nothing of itself and
/// passes on a name of this machine cannot be told apart.
pub(super) async fn check_metrics(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let local = peer.is_some_and(|Peer(address)| address.ip().to_canonical().is_loopback());
    if local && asks_for_this_machine(&request) && !request.headers().keys().any(speaks_of_a_proxy) {
        return next.run(request).await;
    }
    check(State((app, Scope::Read)), request, next).await
}

fn speaks_of_a_proxy(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-")
}

/// Whether the one host that is asked for, and the address where it names one too, are this machine.
fn asks_for_this_machine(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let only = hosts.next().is_none();
    only && host.is_some_and(|host| is_this_machine(&host))
        && request.uri().authority().is_none_or(is_this_machine)
}

fn is_this_machine(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

/// The other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

async fn authorise(app: &App, headers: &HeaderMap, scope: Scope, asked: &Asked) -> Result<Caller, Problem> {
    let verified = match bearer(headers) {
        Ok(token) => verify(app, token, asked).await,
        Err(problem) => Err(problem),
    };
    let caller = verified.inspect_err(|problem| note_refusal(app, problem))?;
    if caller.may(scope) {
        return Ok(caller);
    }
    tracing::warn!(request.id = &*asked.id, key.id = caller.id, key.name = %caller.name, scope = %scope, "a key lacks the scope it needs");
    Err(Problem::new(Code::ScopeDenied, format!("the scope {scope} is needed")))
}

/// Counts a key that does not fit, and speaks of such keys once in a while.
fn note_refusal(app: &App, problem: &Problem) {
    if problem.code != Code::AuthInvalid {
        return;
    }
    app.metrics.key_refused();
    let mut refusals = app.keys.refusals.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = refusals.add(app.clock.monotonic()) {
        tracing::warn!(refusals = count, "keys were refused");
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        let several = headers.contains_key(header::AUTHORIZATION);
        return Err(Problem::plain(if several { Code::AuthInvalid } else { Code::AuthMissing }));
    };
    let text = value.to_str().map_err(|_| Problem::plain(Code::AuthInvalid))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        _ => Err(Problem::plain(Code::AuthMissing)),
    }
}

async fn verify(app: &App, text: &str, asked: &Asked) -> Result<Caller, Problem> {
    if text.len() > TOKEN_BYTES {
        return Err(Problem::plain(Code::AuthInvalid));
    }
    let whole = sha256(&[text]);
    let live = |expires_at: Option<Timestamp>| expires_at.is_none_or(|end| asked.now < end);
    let looked_at = app.clock.monotonic();
    let (remembered, since) = app.keys.recall(&whole, looked_at);
    if let Some(caller) = remembered.filter(|caller| live(caller.expires_at)) {
        return Ok(caller);
    }
    let token = Token::read(text);
    let found = app.store.find_key(&token.id).await?;
    let nobody = [0; 32];
    let stored = found.as_ref().map_or(&nobody[..], |key| key.hash.as_slice());
    let fits = bool::from(stored.ct_eq(&token.hash));
    let good = found.filter(|key| fits && key.revoked_at.is_none() && live(key.expires_at));
    match good.and_then(Caller::of) {
        Some(caller) => {
            app.keys.remember(whole, &caller, looked_at, since);
            Ok(caller)
        }
        None => {
            tracing::debug!(request.id = &*asked.id, key.id = token.id, "a key was refused");
            Err(Problem::plain(Code::AuthInvalid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once_a_minute() {
        let mut refusals = Refusals::default();
        let table = [(5, Some(1)), (5, None), (64, None), (65, Some(3)), (66, None), (1000, Some(2))];
        for (second, told) in table {
            assert_eq!(refusals.add(Duration::from_secs(second)), told, "at {second} s");
        }
    }
}
