//! PgBouncer stands between, and keeps what it is told to keep.

use angarium_testbed::pgbouncer::{Mode, Pooler};
use angarium_testbed::postgres::{self, Server, Setup, psql};

#[test]
fn a_pooler_hands_out_the_same_connection_again() {
    let database = postgres::fresh_database();
    let pooler = Pooler::start(postgres::shared(), Mode::Transaction, &[("default_pool_size", "1")]);
    let url = pooler.url(&database.name);
    assert!(url.contains(&pooler.address().to_string()), "{url}");
    let ask = "SELECT current_user, pg_backend_pid()";
    let first = psql(&url, ask).unwrap();
    assert!(first.starts_with("angarium|"), "{first}");
    assert_eq!(psql(&url, ask).unwrap(), first);
}

#[test]
fn a_pooler_keeps_connections_as_long_as_its_mode_says() {
    let server = postgres::shared();
    for (mode, kept) in [(Mode::Session, "session"), (Mode::Transaction, "transaction")] {
        let pooler = Pooler::start(server, mode, &[("stats_users", "angarium")]);
        let configuration = psql(&pooler.url("pgbouncer"), "SHOW CONFIG").unwrap();
        let line = format!("pool_mode|{kept}|");
        assert!(configuration.lines().any(|other| other.starts_with(&line)), "{configuration}");
    }
}

#[test]
fn startup_parameters_are_refused_unless_they_are_to_be_ignored() {
    let database = postgres::fresh_database();
    let options = |pooler: &Pooler| format!("{}?options=-csearch_path%3Dpublic", pooler.url(&database.name));
    let strict = Pooler::start(postgres::shared(), Mode::Transaction, &[]);
    let refusal = psql(&options(&strict), "SELECT 1").unwrap_err().to_string();
    assert!(refusal.contains("unsupported startup parameter"), "{refusal}");
    let lax =
        Pooler::start(postgres::shared(), Mode::Transaction, &[("ignore_startup_parameters", "options")]);
    assert_eq!(psql(&options(&lax), "SELECT 1").unwrap(), "1");
}

#[test]
fn a_pooler_knows_the_password_and_asks_for_it() {
    let server =
        Server::start_with(&Setup { password: Some("canary \"word\"".to_owned()), ..Setup::default() });
    let pooler = Pooler::start(server.endpoint(), Mode::Session, &[]);
    assert_eq!(psql(&pooler.url("postgres"), "SELECT current_user").unwrap(), "angarium");
    let wrong = pooler.url("postgres").replace("canary", "canny");
    assert!(psql(&wrong, "SELECT 1").is_err());
}
