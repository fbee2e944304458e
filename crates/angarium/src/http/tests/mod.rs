//! The API over real sockets, with a real store in a real file.
//!
//! Whatever a test asks for, a problem in the answer must be one that the table of routes names for that
//! route, so that the document cannot fall behind.

mod access;
mod act;
mod batch;
mod bounces;
mod channels;
mod document;
mod events;
mod import;
mod ingest;
mod look;
mod manage;
mod nodes;
mod room;
mod wire;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use angarium_domain::address::Address;
use angarium_domain::chance::SystemChance;
use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::limits::Limits;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::State;
use angarium_domain::text::{ChannelName, ListName, Locale};
use angarium_domain::time::ManualClock;
use angarium_egress::Guard;
use angarium_engine::catalog::{Catalog, List};
use angarium_engine::registry::Registry;
use angarium_engine::wake::Wake;
use angarium_store::{ApiKey, AttemptRecord, Claim, Options, Quota, Settled, Settlement, Store};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::auth::Token;
use super::routes::{Route, table};
use super::{App, Bounds, Health, Keys, Metrics, serve};

const NOW: &str = "2026-07-07T12:00:00Z";

/// A server on a port of its own, over a database of its own.
struct Server {
    app: App,
    clock: Arc<ManualClock>,
    address: SocketAddr,
    /// A key with every scope, named `root`.
    root: String,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<usize>,
    _folder: Folder,
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("angarium-http-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

fn catalog() -> Catalog {
    let name = |text: &str| ChannelName::parse(text).unwrap();
    let mail = name("mail");
    let members = ["a@example.com", "b@example.com"];
    let members = members.map(|text| Address::parse(ChannelKind::Email, text).unwrap()).to_vec();
    let off = ChannelSettings { enabled: false, ..ChannelSettings::of(ChannelKind::Webhook) };
    Catalog {
        channels: [
            (mail.clone(), ChannelSettings::of(ChannelKind::Email)),
            (name("hooks"), ChannelSettings::of(ChannelKind::Webhook)),
            (name("off"), off),
        ]
        .into(),
        lists: [(ListName::parse("ops").unwrap(), List { channel: mail, members })].into(),
    }
}

impl Server {
    async fn start() -> Self {
        Server::start_with(|_| {}).await
    }

    async fn start_with(adjust: impl FnOnce(&mut App)) -> Self {
        let folder = Folder::new();
        let store = Arc::new(Store::open(&Options::new(folder.0.join("angarium.db"))).await.unwrap());
        let clock = Arc::new(ManualClock::at(NOW.parse().unwrap()));
        let catalog = Arc::new(catalog());
        let channels = Arc::new(catalog.facts());
        store.configure(Arc::clone(&channels));
        let mut app = App {
            store,
            channels,
            catalog,
            renderings: Arc::default(),
            default_locale: Locale::parse("en-US").unwrap(),
            adapters: Registry::default(),
            limits: Limits::default(),
            guard: Guard::public_only(),
            bounds: Bounds::default(),
            clock: Arc::clone(&clock) as _,
            chance: Arc::new(SystemChance),
            wake: Wake::default(),
            stuck_after: Duration::from_secs(600),
            health: Health::default(),
            metrics: Metrics::default(),
            keys: Arc::new(Keys::default()),
            tests: Arc::default(),
        };
        adjust(&mut app);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(serve(listener, app.clone(), async {
            let _told_or_dropped = stopped.await;
        }));
        let root = add_key(&app, "root", "admin").await;
        Server { app, clock, address, root, stop, ended, _folder: folder }
    }

    /// The address of another node on the same database. It knows nothing of this one, and ends with the test.
    async fn another_node(&self) -> SocketAddr {
        let app = App { keys: Arc::default(), tests: Arc::default(), ..self.app.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, app, std::future::pending()));
        address
    }

    /// A request with the key that may do everything.
    fn ask(&self, method: &str, path: &str) -> Ask {
        self.ask_openly(method, path).header("authorization", &format!("Bearer {}", self.root))
    }

    fn ask_openly(&self, method: &str, path: &str) -> Ask {
        Ask {
            to: self.address,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path).json(body).await_reply().await
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path).await_reply().await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and reads until the server closes.
    async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may refuse and close before it has read all.
        let _refused_early = stream.write_all(bytes).await;
        read_to_end(&mut stream).await
    }

    /// Hands a notification in and says its id.
    async fn accept(&self, body: &Value) -> String {
        let reply = self.post("/v1/notifications", body).await;
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Claims whatever is due, as the dispatcher does.
    async fn claim(&self) -> Vec<Claim> {
        let (now, lease) = (self.app.clock.now(), Duration::from_secs(60));
        let lanes = self.app.store.waiting_lanes(now).await.unwrap();
        let quotas = lanes.iter().map(|waiting| Quota { lane: waiting.lane, rows: 100 }).collect();
        self.app.store.claim(quotas, "test-node", now, lease).await.unwrap()
    }

    /// Tries whatever is due, with the same outcome for each.
    async fn attempt(&self, class: Option<FailureClass>) {
        let now = self.app.clock.now();
        let error = |class| LastError { class, detail: "550 no such user".to_owned() };
        for claim in self.claim().await {
            let state = match class {
                None => State::Delivered { at: now, error: None },
                Some(class @ FailureClass::Transient) => {
                    State::Retrying { due: now.plus(Duration::from_secs(60)), error: error(class) }
                }
                Some(class) => State::Parked { at: now, error: error(class) },
            };
            let mut progress = claim.progress;
            progress.retry_count += u32::from(class == Some(FailureClass::Transient));
            let settlement = Settlement {
                tells: claim.tells,
                at_most_once: claim.at_most_once,
                key: claim.key,
                id: claim.id,
                generation: claim.generation,
                lease_ended_by: None,
                attempt: Some(AttemptRecord {
                    started_at: now,
                    ended_at: now.plus(Duration::from_millis(12)),
                    node: "test-node".to_owned(),
                    class,
                    detail: class.map(|_| "550 no such user".to_owned()),
                    status_code: Some(if class.is_some() { 550 } else { 250 }),
                    duplicate_risk: false,
                    retry_after_s: None,
                    response_excerpt: Some("a reply".to_owned()),
                    targets: None,
                    template: None,
                }),
                state,
                progress,
                provider_message_id: None,
                scopes: Vec::new(),
            };
            assert_eq!(self.app.store.settle(vec![settlement]).await.unwrap(), [Settled::Applied]);
        }
    }
}

async fn add_key(app: &App, name: &str, scopes: &str) -> String {
    let (token, text) = Token::make(&SystemChance);
    let key = ApiKey {
        id: token.id,
        name: name.to_owned(),
        hash: token.hash.to_vec(),
        scopes: scopes.to_owned(),
        created_at: app.clock.now(),
        expires_at: None,
        revoked_at: None,
    };
    assert!(app.store.add_key(key).await.unwrap(), "{name} is taken");
    text
}

/// What must happen soon, however slow the machine; not happening at all is what fails.
async fn soon<T>(happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), happens).await.expect("it never happened")
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is as good as a close.
    let _end = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// A request on a connection of its own.
#[derive(Clone)]
struct Ask {
    to: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn to(self, node: SocketAddr) -> Self {
        Ask { to: node, ..self }
    }

    fn key(mut self, key: &str) -> Self {
        self.headers.retain(|(name, _)| name != "authorization");
        self.header("authorization", &format!("Bearer {key}"))
    }

    fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    fn text(self, body: &str) -> Self {
        Ask { body: body.as_bytes().to_vec(), ..self.header("content-type", "application/json") }
    }

    async fn await_reply(self) -> Reply {
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head.push_str("host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(self.to).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&self.body).await.unwrap();
        let reply = Reply::read(&read_to_end(&mut stream).await);
        self.check(&reply);
        reply
    }

    /// What holds for every answer.
    fn check(&self, reply: &Reply) {
        let asked = format!("{} {} {}", self.method, self.path, reply.body);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{asked}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{asked}");
        let id = reply.header("x-request-id").unwrap();
        assert_eq!(id.len(), 32, "{asked}");
        if reply.status < 400 || self.method == "HEAD" {
            return;
        }
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{asked}");
        let problem = reply.json();
        assert_eq!(problem["status"], reply.status, "{asked}");
        assert_eq!(problem["instance"], id, "{asked}");
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["type"], format!("urn:angarium:problem:{code}"));
        assert_eq!(problem["retryable"], matches!(reply.status, 408 | 503));
        assert_eq!(reply.header("retry-after").is_some(), reply.status == 503, "{asked}");
        assert_eq!(reply.header("www-authenticate").is_some(), reply.status == 401, "{asked}");
        for (name, value) in &self.headers {
            let secret = value.strip_prefix("Bearer ").unwrap_or_default();
            assert!(name != "authorization" || secret.len() < 8 || !reply.body.contains(secret), "{asked}");
        }
        if let Some(route) = route_of(&self.method, &self.path) {
            let named = route.problems().iter().any(|known| known.as_str() == code);
            assert!(named, "{} {} does not name {code}", self.method, route.path);
        }
    }
}

fn route_of(method: &str, path: &str) -> Option<Route> {
    let path = path.split('?').next().unwrap();
    let matches = |pattern: &str| {
        pattern.split('/').count() == path.split('/').count()
            && pattern
                .split('/')
                .zip(path.split('/'))
                .all(|(known, given)| known.starts_with('{') || known == given)
    };
    let verb = |route: &Route| format!("{:?}", route.verb).to_uppercase();
    // As in the router, a literal path comes before one with a parameter, whatever its methods.
    let mut found: Vec<Route> = table().into_iter().filter(|route| matches(route.path)).collect();
    found.sort_by_key(|route| route.path.contains('{'));
    let pattern = found.first()?.path;
    found.into_iter().find(|route| route.path == pattern && verb(route) == method)
}

/// A body that came in chunks, of which the last may be missing.
fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        text = &rest[size + 2..];
    }
    whole
}

#[derive(Debug)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let reply = Reply { status, headers, body: body.to_owned() };
        match reply.header("transfer-encoding") {
            Some("chunked") => Reply { body: unchunked(body), ..reply },
            _ => reply,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The fields that are said to be wrong, in order.
    fn fields(&self) -> Vec<String> {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }
}
