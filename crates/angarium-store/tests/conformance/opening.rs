//! Opening a SQLite file: what is refused, and that what is refused is left as it was.

use angarium_store::{Options, Store, StoreError};

use crate::support::{Database, at, note};

async fn refusal(path: &std::path::Path) -> StoreError {
    Store::open(&Options::new(path)).await.err().unwrap()
}

#[tokio::test]
async fn a_second_process_is_refused_and_told_who_has_the_file() {
    let db = Database::sqlite().await;
    let StoreError::Locked(text) = refusal(db.path()).await else { panic!("it must be locked") };
    assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
    db.accept(&note("still works")).await;
    let db = db.reopened().await;
    assert_eq!(db.claim_all(at(0)).await.len(), 1);
}

#[tokio::test]
async fn what_is_not_ours_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("letter.txt");
    std::fs::write(&text, "Dear Sir, ".repeat(1000)).unwrap();
    assert!(matches!(refusal(&text).await, StoreError::NotOurs(_)));
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "Dear Sir, ".repeat(1000));

    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let before = std::fs::read(&other).unwrap();
    assert!(matches!(refusal(&other).await, StoreError::NotOurs(_)));
    assert_eq!(std::fs::read(&other).unwrap(), before);
}

#[tokio::test]
async fn a_newer_schema_is_left_untouched() {
    let db = Database::sqlite().await;
    db.tamper("PRAGMA user_version = 999");
    let folder = db.path().parent().unwrap().to_owned();
    let copy = folder.join("copy.db");
    db.tamper(&format!("VACUUM INTO '{}'", copy.display()));
    assert_eq!(refusal(&copy).await, StoreError::NewerSchema { found: 999, known: 3 });
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let error = refusal(std::path::Path::new("/nonexistent/angarium.db")).await;
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("/nonexistent/angarium.db")),
        "{error}"
    );
}

#[tokio::test]
async fn an_unclean_end_is_noticed_and_the_file_is_looked_through() {
    let db = Database::sqlite().await;
    assert!(db.store.closed_before(), "a new file was never left open");
    db.accept(&note("alarm")).await;
    let copy = db.path().with_file_name("after-a-power-cut.db");
    db.tamper(&format!("VACUUM INTO '{}'", copy.display()));
    let cut_off = Store::open(&Options::new(&copy)).await.unwrap();
    assert!(!cut_off.closed_before());
    cut_off.quick_check().await.unwrap();
    cut_off.close();
    assert!(Store::open(&Options::new(&copy)).await.unwrap().closed_before());
}

/// DB2: one damaged page is found by looking through the file.
#[tokio::test]
async fn a_damaged_file_is_found_out() {
    let db = Database::sqlite().await;
    for n in 0..200 {
        db.accept(&note(&n.to_string())).await;
    }
    let path = db.path().to_owned();
    db.store.close();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let sound = match Store::open(&Options::new(&path)).await {
        Ok(store) => store.quick_check().await,
        Err(error) => Err(error),
    };
    assert!(matches!(sound, Err(StoreError::Corrupt(_))), "{sound:?}");
}

/// What producers hand in is nobody else's business on the same machine.
#[cfg(unix)]
#[tokio::test]
async fn the_database_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let db = Database::sqlite().await;
    db.accept(&note("alarm")).await;
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let file = format!("{}{suffix}", db.path().display());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
}

/// The lock is the file's, whatever it is called.
#[cfg(unix)]
#[tokio::test]
async fn a_link_to_the_file_is_the_same_file() {
    let db = Database::sqlite().await;
    let link = db.path().with_file_name("link.db");
    std::os::unix::fs::symlink(db.path(), &link).unwrap();
    assert!(matches!(refusal(&link).await, StoreError::Locked(_)));
}

/// A database that went astray is not silently begun anew while its log still holds what was acknowledged.
#[tokio::test]
async fn a_log_without_its_database_is_refused() {
    let db = Database::sqlite().await;
    db.accept(&note("alarm")).await;
    let copy = db.path().with_file_name("copy.db");
    for empty_file_there in [false, true] {
        let log = format!("{}-wal", copy.display());
        std::fs::copy(format!("{}-wal", db.path().display()), &log).unwrap();
        if empty_file_there {
            std::fs::write(&copy, b"").unwrap();
        }
        assert!(matches!(refusal(&copy).await, StoreError::Corrupt(_)));
        assert!(std::fs::metadata(&log).unwrap().len() > 0, "the log was left as it was");
    }
}

/// DB10: a file that is taken away under the running server is noticed.
#[tokio::test]
async fn a_file_that_is_taken_away_is_noticed() {
    let db = Database::sqlite().await;
    db.store.ping().await.unwrap();
    std::fs::rename(db.path(), db.path().with_file_name("elsewhere.db")).unwrap();
    assert!(matches!(db.store.ping().await, Err(StoreError::Unavailable(_))));
}
