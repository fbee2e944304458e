//! Several nodes on one database: what each of them knows of the others, and of keys.

use std::time::Duration;

use angarium_domain::chance::SystemChance;
use angarium_domain::time::{Clock, ManualClock};
use angarium_store::{NODE_LOST_AFTER, NewNode, Options, Store};
use serde_json::json;

use super::super::admin_key::{AdminKey, AdminKeyError, ensure_admin_key, make};
use super::super::auth::Token;
use super::{Folder, NOW, Server, add_key};

/// A key that fitted is not looked up for each request, and one that is revoked through another node ends within
/// five seconds.
#[tokio::test]
async fn a_key_that_is_revoked_through_another_node() {
    let server = Server::start().await;
    let other = server.another_node().await;
    let key = add_key(&server.app, "plant-7", "read").await;
    let ask = || server.ask_openly("GET", "/v1/kpis").key(&key);
    let there = async || ask().to(other).await_reply().await.status;
    assert_eq!((ask().await_reply().await.status, there().await), (200, 200));

    // A good key goes on being one when its moment is over, and another begins.
    server.clock.advance(Duration::from_secs(5));
    assert_eq!(there().await, 200);
    let id = key.split('_').nth(1).unwrap();
    assert_eq!(server.ask("DELETE", &format!("/v1/keys/{id}")).await_reply().await.status, 204);
    assert_eq!(ask().await_reply().await.status, 401, "where it was revoked it ends at once");
    server.clock.advance(Duration::from_millis(4999));
    assert_eq!(there().await, 200, "it is looked up for every request");
    server.clock.advance(Duration::from_millis(1));
    assert_eq!(there().await, 401);
}

/// The shape of a node is pinned; one that gives no sign of life is lost after a while, and gone when it signs out.
#[tokio::test]
async fn nodes_are_listed() {
    let server = Server::start().await;
    let (store, now) = (&server.app.store, server.app.clock.now());
    let nodes = async || server.get("/v1/nodes").await.json();
    assert_eq!(nodes().await, json!({"items": [], "next": null}));
    let [name, version, address] = ["central-1", "0.1.0", "127.0.0.1:7180"].map(str::to_owned);
    let seat = store.sign_in(NewNode { name, version, address }, now).await.unwrap();
    let mut expected = json!({"instance": seat.instance, "name": "central-1", "version": "0.1.0",
        "address": "127.0.0.1:7180", "started_at": NOW, "seen_at": NOW, "lost": false, "leads": false});
    assert_eq!(nodes().await, json!({"items": [expected], "next": null}));
    let until = now.plus(NODE_LOST_AFTER * 2);
    assert!(store.take_job("test", now, until).await.unwrap().is_some());
    expected["leads"] = json!(true);
    server.clock.advance(NODE_LOST_AFTER - Duration::from_millis(1));
    assert_eq!(nodes().await["items"], json!([expected]));
    server.clock.advance(Duration::from_millis(1));
    expected["lost"] = json!(true);
    assert_eq!(nodes().await["items"], json!([expected]));
    store.sign_out().await.unwrap();
    assert_eq!(nodes().await["items"], json!([]));
}

/// Whether the text in a file is a key that is stored.
async fn works(store: &Store, file: &std::path::Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let token = Token::read(text.trim());
    store.find_key(&token.id).await.unwrap().is_some_and(|key| key.hash == token.hash)
}

fn files(folder: &Folder) -> usize {
    std::fs::read_dir(&folder.0).unwrap().count()
}

/// Nodes that start together on an empty database make one key, whether each has a file of its own or they share one,
/// and whatever file is there holds it.
#[tokio::test]
async fn nodes_that_make_the_admin_key_at_once() {
    for shared in [false, true] {
        let (data, first, second) = (Folder::new(), Folder::new(), Folder::new());
        let store = Store::open(&Options::new(data.0.join("a.db"))).await.unwrap();
        let now = NOW.parse().unwrap();
        let one = first.0.join("angarium.admin-key");
        let two = if shared { one.clone() } else { second.0.join("angarium.admin-key") };
        // Both have looked before either has stored.
        let listed = store.list_keys().await.unwrap();
        assert_eq!(make(&store, &SystemChance, now, &listed, &one).await.unwrap(), AdminKey::Made);
        assert_eq!(make(&store, &SystemChance, now, &listed, &two).await.unwrap(), AdminKey::Kept);
        assert!(works(&store, &one).await, "{shared}");
        assert_eq!((files(&first), files(&second)), (1, 0), "{shared}");
        assert_eq!(store.list_keys().await.unwrap().len(), 1);
    }
}

/// A node that dies between storing the admin key and putting it in its place is made up for by the next start.
#[tokio::test]
async fn a_death_before_the_admin_key_is_in_its_place() {
    let (data, folder) = (Folder::new(), Folder::new());
    let store = Store::open(&Options::new(data.0.join("a.db"))).await.unwrap();
    let clock = ManualClock::at(NOW.parse().unwrap());
    let file = folder.0.join("angarium.admin-key");
    std::fs::create_dir(&file).unwrap();
    let ensure = || ensure_admin_key(&store, &clock, &SystemChance, None, &file);
    let failed = ensure().await;
    assert!(matches!(failed, Err(AdminKeyError::File { .. })), "{failed:?}");
    assert_eq!(store.list_keys().await.unwrap().len(), 1, "it is stored");
    std::fs::remove_dir(&file).unwrap();
    assert_eq!(ensure().await.unwrap(), AdminKey::Kept);
    assert!(works(&store, &file).await);
    assert_eq!(files(&folder), 1);
}

/// When every key that may administer has ended, the next start makes one beside them: what was revoked stays known.
#[tokio::test]
async fn an_admin_key_after_one_that_ended() {
    let folder = Folder::new();
    let store = Store::open(&Options::new(folder.0.join("a.db"))).await.unwrap();
    let clock = ManualClock::at(NOW.parse().unwrap());
    let file = folder.0.join("admin.key");
    for expected in ["admin", "admin-2", "admin-3"] {
        let ensured = ensure_admin_key(&store, &clock, &SystemChance, None, &file).await;
        assert_eq!(ensured.unwrap(), AdminKey::Made);
        let text = std::fs::read_to_string(&file).unwrap();
        let key = store.find_key(&Token::read(text.trim()).id).await.unwrap().unwrap();
        assert_eq!((key.name.as_str(), key.scopes.as_str()), (expected, "admin"));
        // The last one cannot be revoked: it ends by time.
        let ended = angarium_store::ApiKey { expires_at: Some(clock.now()), ..key };
        assert!(store.replace_key(ended).await.unwrap());
    }
    assert_eq!(store.list_keys().await.unwrap().len(), 3);
}
