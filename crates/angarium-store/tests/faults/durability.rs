//! What the server is set to: commits of ours are durable whatever its defaults are, and what is not is told.

use angarium_store::*;
use angarium_testbed::postgres::{self, Server, Setup};

use crate::support::*;

/// From now on whoever writes a notification leaves a note of how durable that commit is.
const WATCH: &str = "CREATE TABLE public.seen (setting text);
    CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
        $$ BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
    CREATE TRIGGER see AFTER INSERT OR UPDATE ON angarium.notifications FOR EACH STATEMENT EXECUTE FUNCTION public.see()";
const SEEN: &str = "SELECT string_agg(DISTINCT setting, ', ') FROM public.seen";

async fn warnings(url: &str) -> Vec<String> {
    in_time(Store::status(&options(url))).await.unwrap().warnings
}

/// P5b: a database whose commits would not be durable by default is told, and ours are.
#[tokio::test(flavor = "multi_thread")]
async fn commits_are_durable_whatever_the_default_is() {
    for (default, ours, told) in [
        ("off", "on", true),
        ("local", "on", true),
        ("remote_write", "on", true),
        ("remote_apply", "remote_apply", false),
    ] {
        let database = postgres::fresh_database();
        database.sql(&format!("ALTER DATABASE {} SET synchronous_commit = {default}", database.name));
        let store = opened(&database.url).await;
        database.sql(WATCH);
        accept(&store, "alarm").await.unwrap();
        let claim = claim_one(&store, at(0)).await;
        assert_eq!(settle(&store, &delivered(&claim, at(0))).await, Ok(Settled::Applied));
        assert_eq!(database.sql(SEEN), ours, "{default}");
        let warnings = warnings(&database.url).await;
        assert_eq!(warnings.iter().any(|warning| warning.contains(default)), told, "{default}: {warnings:?}");
    }
}

/// P5b: a server that is set to be less durable while it runs makes no commit of ours less durable.
#[tokio::test(flavor = "multi_thread")]
async fn commits_stay_durable_when_the_default_changes() {
    let server = Server::start();
    let url = server.create_database();
    let database = url.rsplit_once('/').unwrap().1;
    let store = opened(&url).await;
    assert!(warnings(&url).await.is_empty());
    server.sql(database, WATCH);
    accept(&store, "before").await.unwrap();
    let other = Somebody::at(&url).await;
    server.sql("postgres", "ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf()");
    // A session that is as old as those of the store has heard of it.
    until(|| server.sql("postgres", "SHOW synchronous_commit") == "off").await;
    in_time(async { while other.shows("synchronous_commit").await != "off" {} }).await;
    for name in names("after", 20) {
        accept(&store, &name).await.unwrap();
    }
    let claims = in_time(claim_all(&store, at(0))).await.unwrap();
    assert_eq!(claims.len(), 21);
    assert_eq!(server.sql(database, SEEN), "on");
    assert!(warnings(&url).await[0].contains("synchronous_commit is off"));
}

/// P5b: a server that never syncs its disk can be used, and is told of each time somebody asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_sync_is_told_of() {
    let off = |name: &str| (name.to_owned(), "off".to_owned());
    let settings = vec![off("fsync"), off("full_page_writes")];
    let server = Server::start_with(&Setup { settings, ..Setup::default() });
    let url = server.create_database();
    let store = opened(&url).await;
    assert_eq!(accept(&store, "alarm").await, taken("alarm", false));
    let told = warnings(&url).await;
    assert!(
        told.len() == 2 && told[0].contains("fsync is off") && told[1].contains("full_page_writes is off"),
        "{told:?}"
    );
}
