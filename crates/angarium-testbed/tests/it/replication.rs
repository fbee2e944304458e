//! A standby follows, is waited for, and takes over.

use std::sync::mpsc;
use std::time::Duration;

use angarium_testbed::postgres::{Server, psql};

const A_WHILE: Duration = Duration::from_millis(500);

#[test]
fn a_standby_has_what_was_committed_and_takes_over() {
    let primary = Server::start();
    let standby = primary.standby();
    primary.make_synchronous(true);
    primary.sql("postgres", "SET synchronous_commit = remote_apply; CREATE TABLE t AS SELECT 7 AS a");
    assert_eq!(standby.sql("postgres", "SELECT a FROM t"), "7");
    let refusal = psql(&standby.admin_url("postgres"), "DELETE FROM t").unwrap_err().to_string();
    assert!(refusal.contains("read-only transaction"), "{refusal}");
    assert_eq!(primary.sql("postgres", "SELECT application_name FROM pg_stat_replication"), "standby1");

    primary.stop_immediately();
    standby.promote();
    assert_eq!(standby.sql("postgres", "INSERT INTO t VALUES (8); SELECT count(*) FROM t"), "2");
}

#[test]
fn a_commit_waits_for_a_standby_only_while_it_is_told_to() {
    let primary = Server::start();
    let standby = primary.standby();
    primary.make_synchronous(true);
    standby.stop_fast();
    let url = primary.admin_url("postgres");
    let (told, answer) = mpsc::channel();
    let client = std::thread::spawn(move || told.send(psql(&url, "CREATE TABLE t (a int); SELECT 'done'")));
    assert!(answer.recv_timeout(A_WHILE).is_err());
    primary.make_synchronous(false);
    assert_eq!(answer.recv().unwrap().unwrap(), "done");
    client.join().unwrap().unwrap();
    standby.start_again();
    assert_eq!(standby.sql("postgres", "SELECT pg_is_in_recovery()"), "t");
}

#[test]
fn two_standbys_have_names_and_data_of_their_own() {
    let primary = Server::start();
    let (first, second) = (primary.standby(), primary.standby());
    assert_ne!(first.address(), second.address());
    primary.make_synchronous(true);
    let names = "SELECT slot_name FROM pg_replication_slots WHERE active ORDER BY 1";
    assert_eq!(primary.sql("postgres", names), "standby1\nstandby2");
    first.promote();
    assert_eq!(second.sql("postgres", "SELECT pg_is_in_recovery()"), "t");
}
