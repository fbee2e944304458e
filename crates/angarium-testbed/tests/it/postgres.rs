//! One server: what can be done to it, and what is as a test expects it.

use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use angarium_testbed::postgres::{self, Server, Setup, Tls, psql};

/// Longer than anything takes that is not frozen.
const A_WHILE: Duration = Duration::from_millis(500);

#[test]
fn a_database_is_made_on_the_shared_server_and_ends_with_its_value() {
    let fresh = postgres::fresh_database();
    assert_eq!(psql(&fresh.url, "CREATE TABLE t (a int); SELECT current_user").unwrap(), "angarium");
    assert_eq!(fresh.sql("SELECT tableowner FROM pg_tables WHERE tablename = 't'"), "angarium");

    let url = fresh.url.clone();
    drop(fresh);
    let gone = psql(&url, "SELECT 1").unwrap_err().to_string();
    assert!(gone.contains("does not exist"), "{gone}");
}

#[test]
fn two_databases_know_nothing_of_each_other() {
    let (one, other) = (postgres::fresh_database(), postgres::fresh_database());
    one.sql("CREATE TABLE t (a int)");
    assert_eq!(other.sql("SELECT count(*) FROM pg_tables WHERE tablename = 't'"), "0");
}

#[test]
fn a_server_is_durable_and_its_role_may_not_do_everything() {
    let server = Server::start();
    let url = server.create_database();
    for (name, value) in
        [("fsync", "on"), ("synchronous_commit", "on"), ("wal_level", "replica"), ("max_connections", "400")]
    {
        assert_eq!(psql(&url, &format!("SHOW {name}")).unwrap(), value, "{name}");
    }
    let refusal = psql(&url, "CREATE DATABASE another").unwrap_err().to_string();
    assert!(refusal.contains("permission denied"), "{refusal}");
}

#[test]
fn what_was_committed_survives_a_crash_and_a_stop() {
    let server = Server::start();
    server.sql("postgres", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let (address, pid) = (server.address(), server.pid());

    server.stop_immediately();
    assert!(TcpStream::connect(address).is_err());
    server.start_again();
    assert_ne!(server.pid(), pid);
    assert!(server.log().contains("automatic recovery in progress"), "{}", server.log());
    assert_eq!(server.sql("postgres", "SELECT a FROM t"), "1");

    server.stop_fast();
    server.start_again();
    assert_eq!(server.address(), address);
    assert_eq!(server.sql("postgres", "SELECT a FROM t"), "1");
}

#[test]
fn a_frozen_server_answers_nobody_until_it_thaws() {
    let server = Server::start();
    let url = server.create_database();
    server.freeze();
    let (told, answer) = mpsc::channel();
    let client = std::thread::spawn(move || told.send(psql(&url, "SELECT 1").unwrap()));
    assert!(answer.recv_timeout(A_WHILE).is_err());
    server.thaw();
    assert_eq!(answer.recv().unwrap(), "1");
    client.join().unwrap().unwrap();
}

#[test]
fn backends_freeze_with_their_server_and_a_frozen_server_can_be_ended() {
    let server = Server::start();
    let url = server.admin_url("postgres");
    let client = std::thread::spawn(move || psql(&url, "SELECT 'asleep', pg_sleep(100000)"));
    let asleep = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%asleep%' AND pid <> pg_backend_pid()";
    let backend =
        std::iter::repeat_with(|| server.sql("postgres", asleep)).find(|pid| !pid.is_empty()).unwrap();
    let writer = server.sql("postgres", "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");

    server.freeze();
    for pid in [server.pid().to_string(), backend, writer] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(status.contains(") T "), "{status}");
    }
    server.stop_immediately();
    assert!(client.join().unwrap().is_err());
}

#[test]
fn statements_that_fail_say_so() {
    let server = Server::start();
    let error = server.endpoint().try_sql("postgres", "SELECT 1;\nSELECT nonsense;\nSELECT 2").unwrap_err();
    assert!(error.to_string().contains("column \"nonsense\" does not exist"), "{error}");
}

#[test]
fn settings_are_taken_over_and_wrong_ones_are_reported() {
    let with = |name: &str, value: &str| Setup {
        settings: vec![(name.to_owned(), value.to_owned())],
        ..Setup::default()
    };
    let server = Server::start_with(&with("cluster_name", "it's"));
    assert_eq!(server.sql("postgres", "SHOW cluster_name"), "it's");
    let error = Server::try_start(&with("no_such_setting", "1")).unwrap_err().to_string();
    assert!(error.contains("unrecognized configuration parameter \"no_such_setting\""), "{error}");
}

#[test]
fn a_password_is_asked_for() {
    let password = "canary p@ss:w%rd'";
    let server = Server::start_with(&Setup { password: Some(password.to_owned()), ..Setup::default() });
    let url = server.create_database();
    assert_eq!(psql(&url, "SELECT current_user").unwrap(), "angarium");
    let wrong = url.replace("canary", "canny");
    let refusal = psql(&wrong, "SELECT 1").unwrap_err().to_string();
    assert!(refusal.contains("password authentication failed"), "{refusal}");
    assert_eq!(
        server.sql(
            "postgres",
            "SELECT rolpassword LIKE 'SCRAM-SHA-256%' FROM pg_authid WHERE rolname = 'angarium'"
        ),
        "t"
    );
}

#[test]
fn tls_is_spoken_and_can_be_required() {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls { certificate: identity.cert.pem(), key: identity.signing_key.serialize_pem() };
    let access = vec!["hostnossl all angarium all reject".to_owned()];
    let server = Server::start_with(&Setup { tls: Some(tls), access, ..Setup::default() });
    let url = server.create_database();
    let ask = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(psql(&format!("{url}?sslmode=require"), ask).unwrap(), "t");
    let refusal = psql(&format!("{url}?sslmode=disable"), ask).unwrap_err().to_string();
    assert!(refusal.contains("pg_hba.conf rejects connection"), "{refusal}");
}

#[test]
fn the_clock_of_a_server_can_be_wrong_and_can_jump() {
    let server = Server::start_with(&Setup { faketime: Some("+400d".to_owned()), ..Setup::default() });
    let true_time = postgres::shared();
    let year = "SELECT extract(year FROM now() AT TIME ZONE 'UTC' + interval '400 days' * ";
    assert_eq!(
        server.sql("postgres", &format!("{year} 0)")),
        true_time.sql("postgres", &format!("{year} 1)"))
    );
    server.set_clock("-400d");
    assert_eq!(
        server.sql("postgres", &format!("{year} 1)")),
        true_time.sql("postgres", &format!("{year} 0)"))
    );
}
