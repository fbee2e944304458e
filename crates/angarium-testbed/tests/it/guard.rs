//! A server does not outlive the process that started it, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use angarium_testbed::postgres::{self, Server};

/// The variable by which a test tells a process of its own kind to be the parent that gets killed.
const BE_THE_PARENT: &str = "ANGARIUM_TESTBED_PARENT";

/// Does nothing unless it is run by [`a_killed_process_takes_its_servers_along`].
#[test]
#[ignore = "never returns: it is there to be killed"]
fn parent() {
    if std::env::var_os(BE_THE_PARENT).is_some() {
        let own = Server::start();
        own.freeze();
        let shared = postgres::shared().sql("postgres", "SHOW data_directory");
        println!("\nservers {} {shared}", own.pid());
        loop {
            std::thread::park();
        }
    }
}

#[test]
fn a_killed_process_takes_its_servers_along() {
    let mut parent = Command::new(std::env::current_exe().unwrap());
    parent.args(["--ignored", "--exact", "guard::parent", "--nocapture"]).env(BE_THE_PARENT, "1");
    let mut parent = parent.env_remove(postgres::SHARED_SERVER).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.into_iter().find_map(|line| line.strip_prefix("servers ").map(str::to_owned)).unwrap();
    let (frozen, shared) = told.split_once(' ').unwrap();
    let frozen = PathBuf::from(format!("/proc/{frozen}"));
    let frozen_data = std::fs::read_link(frozen.join("cwd")).unwrap();
    assert!(frozen_data.exists() && Path::new(shared).exists());

    parent.kill().unwrap();
    parent.wait().unwrap();
    for remains in [frozen.as_path(), &frozen_data, Path::new(shared)] {
        await_end_of(remains);
    }
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let server = Server::start();
    let process = PathBuf::from(format!("/proc/{}", server.pid()));
    let data = std::fs::read_link(process.join("cwd")).unwrap();
    assert!(data.exists());
    drop(server);
    assert!(!process.exists() && !data.exists());
}

/// Nobody tells when a process or folder of somebody else is gone.
fn await_end_of(path: &Path) {
    for _ in 0..6000 {
        if !path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10)); // tidy: sleep the far side is not ours to wait for
    }
    panic!("{} is still there", path.display());
}
