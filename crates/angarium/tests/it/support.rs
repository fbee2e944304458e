//! The binary in a folder of its own, on a database of its own, and the ways to speak to it.

#[path = "support/database.rs"]
mod database;

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use angarium_egress::{Client, Fault, Guard, Options, Request, Response, Trust};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;

pub(crate) use database::Database;

/// The key of every server started here.
pub(crate) const KEY: &str = "canary-admin-key-4f1b9c";

/// Nothing here takes so long unless it is broken.
const NEVER: Duration = Duration::from_secs(120);

/// With this environment variable set, no server listens for hints of other nodes: all of them poll.
const POLL_ONLY: &str = "ANGARIUM_TEST_POLL_ONLY";

/// Lets deliveries reach this machine, and tries again soon.
pub(crate) const ON_LOOPBACK: &str = r#"
[security]
allow_private_addresses = ["127.0.0.0/8"]

[channels.hooks]
kind = "webhook"
retry = { policy = "fixed", interval = "50ms", max_retries = 3 }
"#;

/// A folder with a configuration, and the server in it while it runs.
pub(crate) struct Installation {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: Option<SocketAddr>,
    database: Database,
    process: Option<Child>,
    client: Client,
}

impl Database {
    /// Writes the configuration of a server that stores here; starts nothing.
    pub(crate) fn installation(&self, configuration: &str) -> Installation {
        let folder = tempfile::tempdir().unwrap();
        let database = self.clone();
        let installation = Installation { folder, address: None, database, process: None, client: client() };
        installation.configure(configuration);
        installation
    }

    /// Writes the configuration of a server that stores here, and starts it.
    pub(crate) async fn started(&self, configuration: &str) -> Installation {
        let mut installation = self.installation(configuration);
        installation.start().await;
        installation
    }
}

impl Installation {
    /// Writes the configuration; starts nothing. The database is a file beside it.
    pub(crate) fn new(configuration: &str) -> Self {
        Database::sqlite().installation(configuration)
    }

    /// Writes the configuration and starts the server. The database is a file beside it.
    pub(crate) async fn started(configuration: &str) -> Self {
        Database::sqlite().started(configuration).await
    }

    /// Writes a configuration that begins with the rest of the table `server`.
    pub(crate) fn configure(&self, configuration: &str) {
        let database = self.database.setting();
        let written = format!("[server]\nlisten = \"127.0.0.1:0\"\n{database}{configuration}");
        self.write_config(&if std::env::var_os(POLL_ONLY).is_some() { polling(&written) } else { written });
    }

    pub(crate) fn write_config(&self, text: &str) {
        std::fs::write(self.config(), text).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.config(), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("angarium.toml")
    }

    /// The SQLite file, unless the database is another.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("angarium.db")
    }

    /// Everything the server has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The command that serves here, possibly behind another program.
    pub(crate) fn serve_command(&self, wrapper: &[&str]) -> Command {
        let binary = env!("CARGO_BIN_EXE_angarium");
        let mut words = wrapper.iter().copied().chain([binary, "serve", "--config"]);
        let mut command = Command::new(words.next().unwrap());
        let log =
            std::fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        command
            .args(words)
            .arg(self.config())
            .env("ANGARIUM_ADMIN_KEY", KEY)
            .env("ANGARIUM_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        command
    }

    pub(crate) async fn start(&mut self) {
        let command = self.serve_command(&[]);
        self.start_with(command).await;
    }

    /// Starts the server and waits until it says where it listens.
    pub(crate) async fn start_with(&mut self, mut command: Command) {
        let mut process = command.spawn().unwrap();
        let stdout = process.stdout.take().unwrap();
        let listening = tokio::task::spawn_blocking(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .find_map(|line| line.strip_prefix("listening on http://")?.parse::<SocketAddr>().ok())
        });
        self.address = within(listening).await.unwrap();
        self.process = Some(process);
        assert!(self.address.is_some(), "it did not start:\n{}", self.log());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        send_signal(self.pid(), signal);
    }

    /// Waits for the process to end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        within(tokio::task::spawn_blocking(move || process.wait().unwrap())).await.unwrap()
    }

    pub(crate) async fn kill(&mut self) {
        self.signal("KILL");
        self.ended().await;
    }

    /// One request with the admin key: status and body.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let answer = self.try_call(method, path, body).await;
        answer.unwrap_or_else(|fault| panic!("{path}: {fault}\n{}", self.log()))
    }

    pub(crate) async fn try_call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(u16, Value), Fault> {
        let response = self.ask(KEY, method, path, body).await?;
        Ok((response.status, serde_json::from_slice(&response.body).unwrap_or(Value::Null)))
    }

    /// One request with this key, and the whole answer.
    pub(crate) async fn ask(
        &self,
        key: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Response, Fault> {
        ask(&self.client, self.address.unwrap(), key, method, path, body).await
    }

    /// One request with the admin key, these headers and this body, and the whole answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Response {
        let mut all = HeaderMap::new();
        all.insert("authorization", HeaderValue::from_str(&format!("Bearer {KEY}")).unwrap());
        for (name, value) in headers {
            all.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let request = Request {
            method,
            url: Url::parse(&format!("http://{}{path}", self.address.unwrap())).unwrap(),
            headers: all,
            body: body.into().into(),
            timeout: NEVER,
            trust: Trust::Operator,
        };
        self.client.send(request).await.unwrap_or_else(|fault| panic!("{path}: {fault}\n{}", self.log()))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Hands a notification in and expects it to be accepted.
    pub(crate) async fn hand_in(&self, notification: &Value) -> Value {
        let (status, body) = self.call(Method::POST, "/v1/notifications", Some(notification.clone())).await;
        assert_eq!(status, 202, "{body}");
        body
    }

    pub(crate) async fn hand_in_all(&self, notifications: Vec<Value>) {
        for batch in notifications.chunks(1000) {
            let body = json!({"notifications": batch});
            let (status, answer) = self.call(Method::POST, "/v1/notifications/batch", Some(body)).await;
            assert_eq!(status, 202, "{answer}");
        }
    }

    pub(crate) async fn act(&self, action: &str, id: &str) -> (u16, Value) {
        self.call(Method::POST, &format!("/v1/notifications/{id}/{action}"), None).await
    }

    pub(crate) async fn view(&self, id: &str) -> Value {
        self.get(&format!("/v1/notifications/{id}")).await
    }

    /// The notification once it has this status and nobody works on it.
    pub(crate) async fn until(&self, id: &str, status: &str) -> Value {
        within(async {
            loop {
                let row = self.view(id).await;
                if row["status"] == status && row["in_flight"] == false {
                    return row;
                }
                pause().await;
            }
        })
        .await
    }

    /// Waits until nothing is pending or retrying any more.
    pub(crate) async fn drained(&self) {
        within(async {
            while self.get("/v1/kpis").await["global"]["queue_depth"] != 0 {
                pause().await;
            }
        })
        .await;
    }

    pub(crate) async fn count(&self, status: &str) -> usize {
        let mut count = 0;
        let mut path = format!("/v1/notifications?status={status}&limit=500");
        loop {
            let page = self.get(&path).await;
            count += page["items"].as_array().unwrap().len();
            let Some(cursor) = page["next"].as_str() else { return count };
            path = format!("/v1/notifications?status={status}&limit=500&cursor={cursor}");
        }
    }

    /// Runs a client command against this server.
    pub(crate) fn angarium(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_angarium"));
        command.args(arguments).arg("--config").arg(self.config()).stdin(Stdio::null());
        command.env("ANGARIUM_KEY", KEY);
        if let Some(address) = self.address {
            command.env("ANGARIUM_SERVER", format!("http://{address}"));
        }
        command
    }
}

/// One request to a server.
pub(crate) async fn ask(
    client: &Client,
    server: SocketAddr,
    key: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Response, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {key}")).unwrap());
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let request = Request {
        method,
        url: Url::parse(&format!("http://{server}{path}")).unwrap(),
        headers,
        body: body.map(|body| body.to_string()).unwrap_or_default().into(),
        timeout: NEVER,
        trust: Trust::Operator,
    };
    client.send(request).await
}

/// The configuration of a server that does not listen for hints.
fn polling(configuration: &str) -> String {
    match configuration.split_once("[outbox]\n") {
        _ if configuration.contains("poll_only") => configuration.to_owned(),
        Some((before, after)) => format!("{before}[outbox]\npoll_only = true\n{after}"),
        None => format!("{configuration}\n[outbox]\npoll_only = true\n"),
    }
}

pub(crate) fn client() -> Client {
    let mut options = Options::new(Guard::public_only());
    options.read_limit = 256 * 1024 * 1024;
    Client::new(options).unwrap()
}

impl Drop for Installation {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _it_has_ended = process.kill();
            let _nothing_to_learn = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

pub(crate) fn send_signal(pid: u32, signal: &str) {
    let told = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap();
    assert!(told.success());
}

/// A notification to one address.
pub(crate) fn to(url: &str, subject: &str) -> Value {
    json!({"to": {"channel": "hooks", "address": url}, "subject": subject, "body": "it happened"})
}

/// The same with an id that follows from its subject.
pub(crate) fn to_with_id(url: &str, subject: &str) -> Value {
    let mut notification = to(url, subject);
    notification["id"] = json!(id_of(subject));
    notification
}

pub(crate) fn id_of(subject: &str) -> String {
    angarium_domain::id::uuid_from([subject]).to_string()
}

/// Between two looks at a server that gives no signal.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep between two looks
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(NEVER, future).await.expect("it never happened")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every file below `folder`, by name, with its bytes.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.filter_map(|entry| Some((entry.path(), std::fs::read(entry.path()).ok()?))).collect()
}
