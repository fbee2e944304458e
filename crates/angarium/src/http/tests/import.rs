//! Many subscriptions, one a line.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Ask, Reply, Server, read_to_end, soon};

const IMPORT: &str = "/v1/subscriptions/import";

fn line(n: usize) -> Value {
    json!({"id": format!("s{n}"), "name": format!("Subscriber {n}"), "feed": "outages",
           "target": {"channel": "hooks", "address": format!("https://example.com/{n}")}})
}

impl Server {
    async fn with_something_to_subscribe_to() -> Server {
        let server = Server::start().await;
        server.make("/v1/feeds", &json!({"id": "outages", "event_types": ["NewOutage"]})).await;
        server
    }

    async fn import(&self, lines: &[u8]) -> Reply {
        let ask = self.ask("POST", IMPORT).header("content-type", "application/x-ndjson");
        Ask { body: lines.to_vec(), ..ask }.await_reply().await
    }

    /// The head of a request whose body comes in chunks.
    fn import_head(&self) -> String {
        format!(
            "POST {IMPORT} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
            self.root
        )
    }

    async fn stored(&self) -> usize {
        self.get("/v1/subscriptions?limit=500").await.json()["items"].as_array().unwrap().len()
    }
}

fn told(reply: &Reply) -> Vec<Value> {
    reply.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// FP-03: one bad line harms no other, and each is told why it was refused.
#[tokio::test]
async fn each_line_is_judged_on_its_own() {
    let server = Server::with_something_to_subscribe_to().await;
    let with = |n: usize, name: &str, value: Value| {
        let mut line = line(n);
        line[name] = value;
        line.to_string()
    };
    let lines = [
        line(1).to_string(),
        "{\"id\": ".to_owned(),
        String::new(),
        with(4, "feed", json!("water")),
        with(5, "cooldown", json!("soon")),
        with(6, "id", json!("s1")),
        with(7, "id", Value::Null),
        with(8, "target", json!({"channel": "hooks", "address": "https://10.0.0.1/"})),
        with(9, "options", json!("x".repeat(1024 * 1024))),
        with(10, "target", json!({"channel": "mail", "address": "a@example.com"})),
        "\u{0}".to_owned(),
        line(12).to_string(),
    ];
    let reply = server.import(lines.join("\r\n").as_bytes()).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    let told = told(&reply);
    let codes: Vec<(u64, &str)> = told
        .iter()
        .filter_map(|told| {
            Some((told["line"].as_u64()?, told["problem"]["code"].as_str().unwrap_or("stored")))
        })
        .collect();
    let expected = [
        (1, "stored"),
        (2, "json_invalid"),
        (4, "invalid_request"),
        (5, "invalid_request"),
        (6, "invalid_request"),
        (7, "stored"),
        (8, "invalid_request"),
        (9, "body_too_large"),
        (10, "stored"),
        (11, "json_invalid"),
        (12, "stored"),
    ];
    assert_eq!(codes, expected);
    assert_eq!(told.last().unwrap(), &json!({"done": true, "stored": 4, "refused": 7}));
    let fields: Vec<&Value> = told
        .iter()
        .map(|told| &told["problem"]["errors"][0]["field"])
        .filter(|field| !field.is_null())
        .collect();
    assert_eq!(fields, [&json!("feed"), &json!("cooldown"), &json!("id"), &json!("target.address")]);
    assert!(told[5]["id"].as_str().unwrap().starts_with("ns_"), "{}", told[5]);
    assert_eq!(server.stored().await, 4);
}

/// The same again changes nothing; under an id that is there the new rule counts, unless the file has it.
#[tokio::test]
async fn an_import_can_be_repeated() {
    let server = Server::with_something_to_subscribe_to().await;
    let lines: String = (0..2500).map(|n| format!("{}\n", line(n))).collect();
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(told(&server.import(lines.as_bytes()).await));
    }
    assert_eq!(answers[0], answers[1]);
    let numbers: Vec<u64> = answers[0].iter().filter_map(|told| told["line"].as_u64()).collect();
    assert_eq!(numbers, (1..=2500).collect::<Vec<_>>(), "in order");
    let progress: Vec<&Value> =
        answers[0].iter().map(|told| &told["progress"]["stored"]).filter(|n| !n.is_null()).collect();
    assert_eq!(progress, [&json!(1000), &json!(2000)]);
    assert_eq!(answers[0].last().unwrap(), &json!({"done": true, "stored": 2500, "refused": 0}));
    let shown = server.get("/v1/subscriptions/s1").await.json();
    let mut changed = line(1);
    changed["cooldown"] = json!("1h");
    server.import(changed.to_string().as_bytes()).await;
    let now = server.get("/v1/subscriptions/s1").await.json();
    assert_eq!(now["cooldown"], "1h");
    assert_ne!(now["version"], shown["version"]);
    let exported = server.import(now.to_string().as_bytes()).await;
    assert_eq!(told(&exported)[0], json!({"line": 1, "id": "s1"}), "what is shown can be imported");
}

/// The answer begins while the request still comes in, and each thousand is known to everybody from then on.
#[tokio::test]
async fn the_answer_goes_along() {
    let server = Server::with_something_to_subscribe_to().await;
    let mut stream = server.connect().await;
    stream.write_all(server.import_head().as_bytes()).await.unwrap();
    let lines: String = (0..1000).map(|n| format!("{}\n", line(n))).collect();
    stream.write_all(chunk(&lines).as_bytes()).await.unwrap();
    let mut begun = Vec::new();
    while !String::from_utf8_lossy(&begun).contains("{\"progress\":{\"stored\":1000,\"refused\":0}}") {
        assert!(soon(stream.read_buf(&mut begun)).await.unwrap() > 0);
    }
    assert_eq!(server.stored().await, 500, "a page of them");
    stream.write_all(format!("{}0\r\n\r\n", chunk(&line(1000).to_string())).as_bytes()).await.unwrap();
    let rest = soon(read_to_end(&mut stream)).await;
    assert!(
        rest.contains("{\"line\":1001,\"id\":\"s1000\"}\n{\"done\":true,\"stored\":1001,\"refused\":0}\n"),
        "{rest}"
    );
}

/// An upload that stalls, or breaks off, ends with a line that says so; what came before is stored.
#[tokio::test]
async fn an_upload_that_ends_early() {
    let server = Server::start_with(|app| app.bounds.body_timeout = Duration::from_millis(50)).await;
    server.make("/v1/feeds", &json!({"id": "outages", "event_types": ["NewOutage"]})).await;
    for (n, ending, code) in [(1, "", "body_timeout"), (2, "x\r\n", "body_incomplete")] {
        let mut stream = server.connect().await;
        let begun = chunk(&format!("{}\n{{\"id\"", line(n)));
        stream.write_all(format!("{}{begun}{ending}", server.import_head()).as_bytes()).await.unwrap();
        let reply = Reply::read(&soon(read_to_end(&mut stream)).await);
        let told = told(&reply);
        assert_eq!(told[0], json!({"line": 1, "id": format!("s{n}")}));
        assert_eq!((told.len(), &told[1]["problem"]["code"], told[1].get("line")), (2, &json!(code), None));
        assert_eq!(server.stored().await, n);
    }
}

#[tokio::test]
async fn what_is_no_import_is_refused_as_a_whole() {
    let server = Server::with_something_to_subscribe_to().await;
    let json = server.ask("POST", IMPORT).json(&line(1)).await_reply().await;
    assert_eq!((json.status, json.code().as_str()), (415, "content_type_unsupported"));
    let head = server.import_head().replace("transfer-encoding: chunked", "content-length: 67108865");
    let mut stream = server.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let reply = Reply::read(&soon(read_to_end(&mut stream)).await);
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
    assert_eq!(told(&server.import(b"\n\n").await), [json!({"done": true, "stored": 0, "refused": 0})]);
    let busy = Server::start_with(|app| app.bounds.body_bytes = 1024 * 1024).await;
    busy.make("/v1/feeds", &json!({"id": "outages", "event_types": ["NewOutage"]})).await;
    let mut stream = busy.connect().await;
    stream.write_all(format!("{}{}", busy.import_head(), chunk("\n")).as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    let put_off = busy.import(b"\n").await;
    assert_eq!((put_off.status, put_off.code().as_str()), (503, "overloaded"));
}
