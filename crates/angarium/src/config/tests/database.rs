//! Where the server stores, as operators write it.

use super::*;

const PASSWORD: &str = "pa#s/s";

fn server(database: &str) -> String {
    format!("[server]\ndatabase = \"{database}\"\n")
}

fn database(text: &str) -> Database {
    config(&server(text)).server.database
}

/// What a URL means is for the store to say; here it must come through as it is written, references resolved.
#[test]
fn a_server_that_many_nodes_share() {
    let expected = |text: &str| Database::Postgres(PostgresUrl::parse(text).unwrap());
    let encoded = expected("postgres://ang:pa%23s%2Fs@db.example.com/notes");
    assert_eq!(database("postgres://ang:${env:SMTP_PASSWORD}@db.example.com/notes"), encoded);
    let parameter = expected("postgresql://127.0.0.1/notes?user=ang&password=pa%23s%2Fs");
    assert_eq!(database("postgresql://127.0.0.1/notes?user=ang&password=${env:SMTP_PASSWORD}"), parameter);
    assert_eq!(database("${env:DATABASE_URL}"), expected(DATABASE_URL));
    let config = config(&server("postgres://ang@127.0.0.1/notes"));
    assert_eq!(config.server.admin_key_file(), Path::new("/etc/angarium/angarium.admin-key"));
}

/// A fault is told with its line and without what stands there.
#[test]
fn a_url_that_cannot_be() {
    each_has_one_problem(&[
        (&server("postgres://ang@db/notes?sslmode=prefer"), 2, "`server.database` sslmode must be"),
        (&server("postgres://ang@db/"), 2, "names no database"),
        (&server("postgres://ang:${env:NONE}@db/notes"), 2, "variable NONE, which is not set"),
        (&server("mysql://ang@db/notes"), 2, "must be \"sqlite:PATH\" or \"postgres://"),
    ]);
    let text = server("postgres://ang:pa55w0rd@db/notes?sslmode=prefer");
    assert!(!shown(&parse(&text).unwrap_err()).join("").contains("pa55w0rd"));
}

/// A password written out counts as a secret in the file, a reference does not, and neither is shown.
#[test]
fn a_password_in_an_open_file() {
    let warnings = |text: &str, open| parse_as(&server(text), open).unwrap().warnings.len();
    for exposed in [
        "postgres://ang:pa55w0rd@db.example.com/notes",
        "postgres://ang:pa55w0rd@127.0.0.1/${env:SECRET}",
        "postgres://127.0.0.1/notes?user=ang&password=pa55w0rd",
    ] {
        assert_eq!((warnings(exposed, true), warnings(exposed, false)), (1, 0), "{exposed}");
        let shown = format!("{:?}", parse(&server(exposed)).unwrap());
        assert!(!shown.contains("pa55w0rd"), "{exposed}");
    }
    for hidden in [
        "postgres://ang:${env:SMTP_PASSWORD}@db.example.com/notes",
        "postgres://127.0.0.1/notes?user=ang&password=${env:SMTP_PASSWORD}",
        "postgres://ang@db.example.com/notes",
        "${env:DATABASE_URL}",
    ] {
        assert_eq!(warnings(hidden, true), 0, "{hidden}");
    }
    let shown = format!("{:?}", parse(&server("postgres://ang:${env:SMTP_PASSWORD}@db/notes")).unwrap());
    assert!(!shown.contains(PASSWORD) && !shown.contains("pa%23s"));
}

#[test]
fn what_is_odd_about_a_url_is_a_warning_with_its_line() {
    let loaded = parse(&server("postgres://ang@db.example.com/notes?sslmode=disable")).unwrap();
    let told = shown(&loaded.warnings);
    assert!(told[0].starts_with("angarium.toml:2:") && told[0].contains("not encrypted"), "{told:?}");
}

/// A lease may be as short as is wanted where nobody else takes rows, and not too short to be renewed where others do.
#[test]
fn the_shortest_lease() {
    let with = |database: &str, lease: &str| format!("{}[outbox]\nlease = \"{lease}\"\n", server(database));
    let shared = "postgres://ang@127.0.0.1/notes";
    each_has_one_problem(&[(&with(shared, "1999ms"), 4, "`outbox.lease` must be at least 2s")]);
    for text in [with(shared, "2s"), with("sqlite:a.db", "1s")] {
        assert!(parse(&text).is_ok(), "{text}");
    }
}

/// The commands that look after the database need nothing else to be right, nor any other secret.
#[test]
fn the_database_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("angarium.toml");
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        Config::load_database(Some(&file))
    };
    let rest = "listen = 1\n[channels.h]\nsecret = \"${env:ANGARIUM_NO_SUCH_SECRET}\"\n[unheard-of]\n";
    let url = "postgres://ang@127.0.0.1/notes";
    assert_eq!(read(&(server(url) + rest)), Ok(Database::Postgres(PostgresUrl::parse(url).unwrap())));
    assert_eq!(read(rest), Ok(Database::Sqlite(folder.path().join("angarium.db"))));
    let problems = read(&server("angarium.db")).unwrap_err();
    assert_eq!(problems[0].position, Some((2, 12)));
}
