//! A second server that follows the first, and takes over.

use std::sync::atomic::Ordering;

use super::{DATA, Server, expect, run, tool};
use crate::folder::Folder;
use crate::looking;

impl Server {
    /// A server that follows this one, under the name `standby1`, `standby2` and so on. Ready to be read from.
    ///
    /// What it has not received yet is kept for it, also while it is down.
    pub fn standby(&self) -> Server {
        let name = format!("standby{}", self.standbys.fetch_add(1, Ordering::Relaxed) + 1);
        let folder = expect(Folder::create());
        let mut copy = expect(tool(&folder, "pg_basebackup"));
        let way = format!("{}?application_name={name}", self.admin_url(""));
        copy.args(["--dbname", &way, "--pgdata", DATA, "--checkpoint=fast", "--no-sync"]);
        expect(run(copy.args(["--write-recovery-conf", "--create-slot", "--slot", &name])));
        let password = self.endpoint.password().map(str::to_owned);
        expect(Server::launch(folder, None, password))
    }

    /// Whether a commit waits for a standby to have it on disk too. On: returns when one is ready for that.
    pub fn make_synchronous(&self, on: bool) {
        let names = if on { "*" } else { "" };
        self.set_and_reload("synchronous_standby_names", names);
        let expected = if on { "t" } else { "f" };
        let ask = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'";
        self.await_answer(ask, expected);
    }

    /// Makes a standby a server in its own right, which waits for no standby of its own. Returns when it takes writes.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote()");
        self.await_answer("SELECT pg_is_in_recovery()", "f");
        self.set_and_reload("synchronous_standby_names", "");
    }

    fn set_and_reload(&self, name: &str, value: &str) {
        self.sql("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf()"));
    }

    fn await_answer(&self, query: &str, expected: &str) {
        let answered = looking::until(|| (self.sql("postgres", query) == expected).then_some(()));
        assert!(answered.is_some(), "{query} is never {expected}:\n{}", self.log());
    }
}
