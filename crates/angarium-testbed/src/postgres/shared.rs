//! One server for all tests that only want a database.

use std::sync::OnceLock;

use super::{Endpoint, Server, Setup, expect};

/// The environment variable by which `cargo xtask test` says where its server listens: `127.0.0.1:PORT`.
pub const SHARED_SERVER: &str = "ANGARIUM_TEST_POSTGRES";

/// The server that all tests share. It is the one of `cargo xtask test`, or else one that is started for this process
/// and ends with it. Do nothing to it that another test could notice.
pub fn shared() -> &'static Endpoint {
    static SHARED: OnceLock<Endpoint> = OnceLock::new();
    // Nobody drops this: the guard ends the server when the process ends.
    static OWN: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| match std::env::var(SHARED_SERVER) {
        Ok(address) => Endpoint::at(address.parse().expect(SHARED_SERVER)),
        Err(_) => OWN.get_or_init(|| expect(Server::try_start(&Setup::default()))).endpoint().clone(),
    })
}

/// A new, empty database on the shared server. Dropping it cuts off who is still connected.
pub fn fresh_database() -> Fresh {
    let name = shared().create_database();
    Fresh { url: shared().url(&name), name }
}

/// A database that ends with its value.
#[derive(Debug)]
pub struct Fresh {
    /// For role `angarium`, which owns it.
    pub url: String,
    /// Its name on the shared server.
    pub name: String,
}

impl Fresh {
    /// Runs SQL statements in it, as [`Endpoint::sql`] does.
    pub fn sql(&self, text: &str) -> String {
        shared().sql(&self.name, text)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // The test is over, and says better than this could what went wrong.
        let _left_behind = shared().try_sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
