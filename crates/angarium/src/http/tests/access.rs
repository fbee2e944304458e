//! Who may ask for what, and the keys that say so.

use std::sync::Arc;
use std::time::Duration;

use angarium_domain::chance::{SeededChance, SystemChance};
use angarium_domain::time::{Clock, ManualClock};
use angarium_store::{Options, Store};
use serde_json::json;

use super::super::routes::{Access, Route, table};
use super::super::{AdminKey, AdminKeyError, Scope, ensure_admin_key};
use super::{Ask, Folder, NOW, Server, add_key};

/// A request for a route that has nothing to act on, so that only the access decides.
fn ask(server: &Server, route: &Route) -> Ask {
    let path = route.path.replace("{id}", "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59");
    server.ask_openly(&format!("{:?}", route.verb).to_uppercase(), &path)
}

/// IN1, IN3: every route under every scope, generated from the table of routes.
#[tokio::test]
async fn in1_in3_every_route_under_every_scope() {
    let server = Server::start().await;
    let mut keys = Vec::new();
    for scope in Scope::ALL {
        keys.push((scope, add_key(&server.app, scope.as_str(), scope.as_str()).await));
    }
    for route in table() {
        let open = ask(&server, &route).await_reply().await;
        match route.access {
            Access::Open => assert!(!matches!(open.status, 401 | 403), "{}", route.path),
            Access::ReadOrLocal => assert_eq!(open.status, 200, "{} from this machine", route.path),
            Access::Key(needed) => {
                assert!(route.path.starts_with("/v1/"));
                assert_eq!((open.status, open.code().as_str()), (401, "auth_missing"), "{}", route.path);
                assert_eq!(open.header("www-authenticate"), Some("Bearer"));
                for (scope, key) in &keys {
                    let reply = ask(&server, &route).key(key).await_reply().await;
                    let may = *scope == needed || *scope == Scope::Admin;
                    assert_eq!(reply.status == 403, !may, "{} with {scope}: {}", route.path, reply.body);
                    assert!(may || reply.code() == "scope_denied");
                }
            }
        }
        assert!(!route.path.starts_with("/v1/") || matches!(route.access, Access::Key(_)), "{}", route.path);
    }
}

/// Metrics are for this machine, but not for whoever comes through a proxy on it.
#[tokio::test]
async fn metrics_through_a_proxy_need_a_key() {
    let server = Server::start().await;
    let with = |name: &str, value: &str| server.ask_openly("GET", "/metrics").header(name, value);
    for local in
        ["localhost", "LocalHost:8080", "127.0.0.1", "127.8.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]"]
    {
        assert_eq!(with("host", local).await_reply().await.status, 200, "{local}");
    }
    for (name, value) in [
        ("host", "angarium.example.com"),
        ("host", "localhost.example.com"),
        ("host", "10.0.0.1"),
        ("host", "[::2]:80"),
        ("host", "angarium_upstream"),
        ("forwarded", "for=203.0.113.9"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "203.0.113.9"),
        ("via", "1.1 proxy"),
    ] {
        assert_eq!(with(name, value).await_reply().await.status, 401, "{name}: {value}");
    }
    let two = with("host", "localhost").header("host", "localhost").await_reply().await;
    assert_eq!(two.status, 401);
    for raw in ["GET http://example.com/metrics HTTP/1.1\r\nhost: localhost", "GET /metrics HTTP/1.0"] {
        let answer = server.raw(format!("{raw}\r\nconnection: close\r\n\r\n").as_bytes()).await;
        assert!(answer.split(' ').nth(1) == Some("401"), "{raw}: {answer}");
    }
    let through = || with("x-forwarded-for", "203.0.113.9");
    assert_eq!(through().key(&server.root).await_reply().await.status, 200);
    let publisher = add_key(&server.app, "publisher", "publish").await;
    assert_eq!(through().key(&publisher).await_reply().await.status, 403);
}

/// IN2: unknown, wrong, expired and revoked keys get the same answer.
#[tokio::test]
async fn in2_keys_that_do_not_fit() {
    let server = Server::start().await;
    let expiring = json!({"name": "short", "scopes": ["read"], "expires_at": "2026-07-07T12:00:10Z"});
    let expiring = server.post("/v1/keys", &expiring).await.json()["key"].as_str().unwrap().to_owned();
    let made = server.post("/v1/keys", &json!({"name": "gone", "scopes": ["read"]})).await;
    assert_eq!(made.status, 201);
    let revoked = made.json()["key"].as_str().unwrap().to_owned();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let with = |key: &str| server.ask_openly("GET", "/v1/kpis").key(key).await_reply();
    // Both fit now, and are remembered.
    assert_eq!((with(&expiring).await.status, with(&revoked).await.status), (200, 200));
    let gone = server.ask("DELETE", &format!("/v1/keys/{id}")).await_reply().await;
    assert_eq!((gone.status, gone.body.as_str()), (204, ""));
    server.clock.advance(Duration::from_secs(10));
    let mut wrong = server.root.clone();
    wrong.replace_range(wrong.len() - 2.., if wrong.ends_with("AA") { "BB" } else { "AA" });
    let unknown = format!("ang_aaaaaaaaaaaa_{}", "A".repeat(43));
    let long = "x".repeat(2000);
    let mut told = Vec::new();
    for key in [&expiring, &revoked, &wrong, &unknown, "x", "ang_", long.as_str()] {
        let reply = with(key).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "auth_invalid"), "{key}");
        let mut problem = reply.json();
        problem["instance"] = json!(null);
        told.push(problem);
    }
    let metrics = server.ask_openly("GET", "/metrics").await_reply().await.body;
    let line = format!("angarium_keys_refused_total {}", told.len());
    assert!(metrics.lines().any(|known| known == line), "{line} in\n{metrics}");
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    let two = server.ask("GET", "/v1/kpis").header("authorization", "Bearer x").await_reply().await;
    assert_eq!(two.code(), "auth_invalid");
    let basic =
        server.ask_openly("GET", "/v1/kpis").header("authorization", "Basic eDp5").await_reply().await;
    assert_eq!(basic.code(), "auth_missing");
}

/// A key in the address is refused wherever it stands, before anything else.
#[tokio::test]
async fn a_key_in_the_address() {
    let server = Server::start().await;
    let root = server.root.clone();
    for query in ["access_token=x", "API_KEY=x", "token=x", "Authorization=x", &format!("q={root}")] {
        for path in ["/v1/notifications", "/healthz", "/nowhere"] {
            let reply = server.ask("GET", &format!("{path}?{query}")).await_reply().await;
            assert_eq!((reply.status, reply.code().as_str()), (400, "credential_in_url"), "{path}?{query}");
        }
    }
    // A part of a key, or what only begins like one, may be looked for.
    for text in ["ang_", "ang_1", "ang_aaaaaaaaaaaa_", &root[..root.len() - 1]] {
        assert_eq!(server.get(&format!("/v1/notifications?q={text}")).await.status, 200, "{text}");
    }
}

/// What nobody knows is refused on every route that needs a key, and on no other.
#[tokio::test]
async fn unknown_parameters_on_every_route() {
    let server = Server::start().await;
    for route in table() {
        let mut asked = ask(&server, &route).key(&server.root);
        asked.path.push_str("?verbose=1");
        let reply = asked.await_reply().await;
        if matches!(route.access, Access::Key(_)) {
            assert_eq!((reply.status, reply.code().as_str()), (422, "invalid_request"), "{}", route.path);
            assert!(reply.fields().contains(&"verbose".to_owned()), "{} {}", route.path, reply.body);
        } else {
            assert_ne!(reply.status, 422, "{}", route.path);
        }
    }
}

/// Keys are made, listed without their secrets, and end when they are revoked; one administrator must remain.
#[tokio::test]
async fn the_life_of_a_key() {
    let server = Server::start().await;
    let made = server.post("/v1/keys", &json!({"name": "plant-7", "scopes": ["publish", "read"]})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert_eq!(made.as_object().unwrap().len(), 2);
    assert!(
        key.starts_with(&format!("ang_{id}_")) && id.len() == 12 && key.len() == 4 + 12 + 1 + 43,
        "{key}"
    );
    let listed = server.get("/v1/keys").await;
    assert!(!listed.body.contains(key) && !listed.body.contains("hash"));
    let shown = listed.json()["items"][0].clone();
    let expected = json!({"id": id, "name": "plant-7", "scopes": ["publish", "read"], "created_at": NOW,
        "expires_at": null, "revoked_at": null});
    assert_eq!(shown, expected);

    let taken = server.post("/v1/keys", &json!({"name": "plant-7", "scopes": ["read"]})).await;
    assert_eq!((taken.status, taken.code().as_str()), (409, "name_taken"));
    for (body, fields) in [
        (json!({}), vec!["name", "scopes"]),
        (json!(["a", ["read"], null]), vec![]),
        (json!({"name": "a b", "scopes": []}), vec!["name", "scopes"]),
        (json!({"name": "a", "scopes": ["root", "read", "read"]}), vec!["scopes.0", "scopes.2"]),
        (
            json!({"name": "a", "scopes": "read", "expires_at": NOW, "id": "x"}),
            vec!["scopes", "expires_at", "id"],
        ),
    ] {
        let reply = server.post("/v1/keys", &body).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, fields.iter().map(|f| f.to_string()).collect()),
            "{body}"
        );
    }

    let path = format!("/v1/keys/{id}");
    assert_eq!(server.ask("DELETE", &path).await_reply().await.status, 204);
    for gone in [&path, "/v1/keys/nobody", "/v1/keys/%ff"] {
        let reply = server.ask("DELETE", gone).await_reply().await;
        assert_eq!(reply.status, 404, "{gone}");
    }
    let root = server.root.split('_').nth(1).unwrap().to_owned();
    let last = server.ask("DELETE", &format!("/v1/keys/{root}")).await_reply().await;
    assert_eq!((last.status, last.code().as_str()), (409, "last_admin"));
    let brief = json!({"name": "brief", "scopes": ["admin"], "expires_at": "2026-07-07T12:00:10Z"});
    assert_eq!(server.post("/v1/keys", &brief).await.status, 201);
    let last = server.ask("DELETE", &format!("/v1/keys/{root}")).await_reply().await;
    assert_eq!(
        last.code(),
        "last_admin",
        "a key that ends by itself does not stand in for one that does not"
    );
    add_key(&server.app, "second", "admin").await;
    assert_eq!(server.ask("DELETE", &format!("/v1/keys/{root}")).await_reply().await.status, 204);
    assert_eq!(server.get("/v1/keys").await.status, 401, "a revoked key ends at once");
}

/// The first start makes a key that only its owner can read; later starts keep it, unless one is given.
#[tokio::test]
async fn the_admin_key() {
    let server = Server::start().await;
    let folder = Folder::new();
    let file = folder.0.join("admin.key");
    let store = Store::open(&Options::new(folder.0.join("a.db"))).await.unwrap();
    let clock = ManualClock::at(NOW.parse().unwrap());
    let chance = SeededChance::new(3);
    let ensure =
        |given: Option<&str>| ensure_admin_key(&store, &clock, &chance, given.map(str::to_owned), &file);
    let read = || std::fs::read_to_string(&file).unwrap().trim().to_owned();

    assert_eq!(ensure(None).await.unwrap(), AdminKey::Made);
    let first = read();
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(ensure(None).await.unwrap(), AdminKey::Kept);
    assert_eq!(read(), first);

    for given in ["correct-horse-battery", "another_choice_of_mine!"] {
        assert_eq!(ensure(Some(given)).await.unwrap(), AdminKey::Made, "{given}");
        assert_eq!(ensure(Some(given)).await.unwrap(), AdminKey::Kept, "{given}");
        assert_eq!(ensure(None).await.unwrap(), AdminKey::Kept, "{given}");
        assert_eq!(read(), given);
        assert_eq!(store.list_keys().await.unwrap().len(), 1);
    }
    let stored = store.list_keys().await.unwrap();
    assert!(!format!("{stored:?}").contains("another_choice"));
    for unfit in ["short", "sixteen chars and", "sixteen-chars-é-é", " "] {
        let error = ensure(Some(unfit)).await.unwrap_err();
        assert!(matches!(error, AdminKeyError::Unfit) && !format!("{error:?}").contains(unfit));
    }
    assert_eq!(ensure(Some("")).await.unwrap(), AdminKey::Kept, "an empty one is as good as none");

    // Such a key opens the API like any other, under the name `admin`.
    let clock: Arc<dyn Clock> = Arc::clone(&server.app.clock);
    let given = Some("correct-horse-battery".to_owned());
    ensure_admin_key(&server.app.store, &*clock, &SystemChance, given, &file).await.unwrap();
    let with = |key: &str| server.ask_openly("GET", "/v1/keys").key(key).await_reply();
    assert_eq!(with("correct-horse-battery").await.json()["items"][0]["name"], "admin");
    assert_eq!(with("correct-horse-batterz").await.status, 401);
}

/// A given admin key may be another key's text: then it administers. A revoked one does not come back.
#[tokio::test]
async fn a_given_admin_key_that_is_another_key() {
    let server = Server::start().await;
    let folder = Folder::new();
    let file = folder.0.join("admin.key");
    let clock: Arc<dyn Clock> = Arc::clone(&server.app.clock);
    let publisher = add_key(&server.app, "publisher", "publish").await;
    let ensure = |given: &str| {
        let given = Some(given.to_owned());
        ensure_admin_key(&server.app.store, &*clock, &SystemChance, given, &file)
    };
    assert_eq!(ensure(&publisher).await.unwrap(), AdminKey::Made);
    assert_eq!(ensure(&publisher).await.unwrap(), AdminKey::Kept);
    let keys = server.ask_openly("GET", "/v1/keys").key(&publisher).await_reply().await.json();
    let known: Vec<_> =
        keys["items"].as_array().unwrap().iter().map(|key| (&key["name"], &key["scopes"])).collect();
    assert_eq!(known, [(&json!("admin"), &json!(["admin"])), (&json!("root"), &json!(["admin"]))]);

    let id = publisher.split('_').nth(1).unwrap();
    assert_eq!(server.ask("DELETE", &format!("/v1/keys/{id}")).await_reply().await.status, 204);
    let refused = ensure(&publisher).await.unwrap_err();
    assert!(matches!(refused, AdminKeyError::Revoked), "{refused:?}");
    assert_eq!(server.ask_openly("GET", "/v1/keys").key(&publisher).await_reply().await.status, 401);
}

/// An admin key that cannot be written down is not stored: the next start makes another.
#[tokio::test]
async fn an_admin_key_that_nobody_could_read() {
    let folder = Folder::new();
    let store = Store::open(&Options::new(folder.0.join("a.db"))).await.unwrap();
    let clock = ManualClock::at(NOW.parse().unwrap());
    let nowhere = folder.0.join("missing").join("admin.key");
    let failed = ensure_admin_key(&store, &clock, &SystemChance, None, &nowhere).await;
    assert!(matches!(failed, Err(AdminKeyError::File { .. })));
    assert_eq!(store.list_keys().await.unwrap(), []);
    let made = ensure_admin_key(&store, &clock, &SystemChance, None, &folder.0.join("admin.key")).await;
    assert_eq!(made.unwrap(), AdminKey::Made);
}

/// A given admin key lets the server start on a disk that takes nothing: its file is left alone where it says the same,
/// and is no reason to stop where it cannot be written, unless something else stands there.
#[cfg(unix)]
#[tokio::test]
async fn a_given_admin_key_whose_file_cannot_be_written() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let folder = Folder::new();
    let store = Store::open(&Options::new(folder.0.join("a.db"))).await.unwrap();
    let clock = ManualClock::at(NOW.parse().unwrap());
    let inner = folder.0.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let file = inner.join("admin.key");
    let ensure = |given: &str| ensure_admin_key(&store, &clock, &SystemChance, Some(given.to_owned()), &file);
    let given = "correct-horse-battery";
    assert_eq!(ensure(given).await.unwrap(), AdminKey::Made);
    let written = std::fs::metadata(&file).unwrap().ino();
    assert_eq!(ensure(given).await.unwrap(), AdminKey::Kept);
    assert_eq!(std::fs::metadata(&file).unwrap().ino(), written, "the file was written again");

    // What others can read, or says something else, is written again.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(ensure(given).await.unwrap(), AdminKey::Kept);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "something else\n").unwrap();
    assert_eq!(ensure(given).await.unwrap(), AdminKey::Kept);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{given}\n"));

    std::fs::remove_dir_all(&inner).unwrap();
    assert_eq!(ensure(given).await.unwrap(), AdminKey::Kept);
    assert_eq!(ensure("another_choice_of_mine!").await.unwrap(), AdminKey::Given);
    std::fs::create_dir_all(&file).unwrap();
    assert_eq!(ensure("another_choice_of_mine!").await.unwrap(), AdminKey::Kept);
    let misleading = ensure(given).await;
    assert!(matches!(misleading, Err(AdminKeyError::File { .. })), "{misleading:?}");
}
