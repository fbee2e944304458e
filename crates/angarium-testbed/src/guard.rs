//! A server process that cannot outlive the process that started it.
//!
//! Between the two stands a shell, the guard. It takes orders from its input, and when that ends, which it does when
//! the process at its other end dies, be it by `kill -9`, it ends the server and removes its folder. The kernel's own
//! way to ask for that (`PR_SET_PDEATHSIG`) is bound to a thread, and tests come and go with their threads.
//!
//! Deliberately absent: a defence against the guard itself being killed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::looking;

/// The arguments are the last signal, the folder, and the server's command.
///
/// The server has a session of its own, because some servers end their children as a group. Whoever is frozen must be
/// woken up to see a signal. A server with a wrong clock leaves what libfaketime shares among its processes.
const GUARD: &str = r#"
last=$1 folder=$2 pid=
shift 2
end() {
    [ "$pid" ] || return
    kill -s "$1" $pid
    kill -s CONT $pid $(cat /proc/$pid/task/$pid/children)
    wait
    rm -f /dev/shm/*faketime_*_$pid
    pid=
} 2>/dev/null
while read -r order; do
    case $order in
    start) setsid "$@" </dev/null >&2 & pid=$!; echo $pid ;;
    *) end "$order"; echo ended ;;
    esac
done
end "$last"
[ -z "$folder" ] || rm -rf "$folder"
"#;

/// How many free ports are tried; another process may take one between its choice and its use.
const PORTS: u32 = 5;

/// A user of this machine, by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// What the guard needs to know besides the command.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Where the server's output and errors go; emptied first.
    pub log: &'a Path,
    /// Whom the guard and the server run as; otherwise the user of this process.
    pub user: Option<User>,
    /// The signal that ends the server when its value is dropped or this process dies, without `SIG`.
    pub last_signal: &'a str,
    /// What to remove when all is over.
    pub folder: Option<&'a Path>,
}

/// A server behind its guard. Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub struct Process {
    guard: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    log: PathBuf,
    pid: Option<u32>,
}

impl Process {
    /// Starts the guard of `command`, which must stay in the foreground. Its arguments, folder and environment count;
    /// the server itself is not started yet.
    ///
    /// # Errors
    ///
    /// The log cannot be written, or there is no shell to be had.
    pub fn prepare(command: &Command, plan: &Plan<'_>) -> io::Result<Self> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", plan.last_signal]).arg(plan.folder.unwrap_or(Path::new("")));
        guard.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => guard.env(name, value),
                None => guard.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            guard.current_dir(folder);
        }
        if let Some(user) = plan.user {
            guard.uid(user.uid).gid(user.gid);
        }
        // What a terminal sends to this process must not end the guard before its server.
        guard.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(plan.log)?);
        let mut guard = guard.spawn()?;
        let (orders, answers) = (guard.stdin.take(), guard.stdout.take());
        let answers = BufReader::new(answers.ok_or(io::ErrorKind::BrokenPipe)?);
        Ok(Process { guard, orders, answers, log: plan.log.to_owned(), pid: None })
    }

    /// Starts the server; does not wait until it is ready. It must not run already.
    ///
    /// # Errors
    ///
    /// The guard is gone.
    pub fn start(&mut self) -> io::Result<()> {
        assert!(self.pid.is_none(), "the server was started before and not stopped");
        let pid = self.order("start")?;
        self.pid = Some(pid.parse().map_err(|_| io::Error::other(format!("the guard says {pid:?}")))?);
        Ok(())
    }

    /// Starts the server on a free port of 127.0.0.1 and waits until it is ready. `tell` is given the port before each
    /// try and writes it where the server reads it; `is_ready` looks, given the server's process number.
    ///
    /// # Errors
    ///
    /// The server ended again and again, or never got ready; the message holds the end of its log.
    pub fn start_on_free_port(
        &mut self,
        tell: impl Fn(u16) -> io::Result<()>,
        is_ready: impl Fn(u32) -> bool,
    ) -> io::Result<u16> {
        for _ in 0..PORTS {
            let port = free_port()?;
            tell(port)?;
            self.start()?;
            if self.wait_until(&is_ready)? {
                return Ok(port);
            }
            self.stop("KILL")?;
        }
        Err(self.trouble("the server ends at once"))
    }

    /// Waits until `is_ready`; false if the server ended instead.
    ///
    /// # Errors
    ///
    /// Neither came about in a minute; the message holds the end of the server's log.
    pub fn wait_until(&self, is_ready: impl Fn(u32) -> bool) -> io::Result<bool> {
        let look = || match self.pid {
            Some(pid) if is_running(pid) => is_ready(pid).then_some(true),
            _ => Some(false),
        };
        looking::until(look).ok_or_else(|| self.trouble("the server does not get ready"))
    }

    /// Sends `signal` (without `SIG`) to the server and waits until it has ended. Does nothing if it does not run.
    ///
    /// # Errors
    ///
    /// The guard is gone.
    pub fn stop(&mut self, signal: &str) -> io::Result<()> {
        if self.pid.take().is_some() {
            self.order(signal)?;
        }
        Ok(())
    }

    /// The server's process number while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.pid.filter(|pid| is_running(*pid))
    }

    /// Sends `signal` (without `SIG`) to the server alone. Does nothing if it does not run.
    pub fn signal(&self, signal: &str) {
        send(signal, self.pid().as_slice());
    }

    /// Stops the server and its children where they stand; returns when none of them runs any more.
    pub fn freeze(&self) {
        let still = looking::until(|| {
            let awake: Vec<u32> =
                self.family().filter(|(_, state)| !"TtZX".contains(*state)).map(pid).collect();
            send("STOP", &awake);
            awake.is_empty().then_some(())
        });
        assert!(still.is_some(), "the server cannot be frozen");
    }

    /// Lets the server and its children go on.
    pub fn thaw(&self) {
        send("CONT", &self.family().map(pid).collect::<Vec<_>>());
    }

    /// The last lines of what the server wrote, behind `what`.
    pub fn trouble(&self, what: &str) -> io::Error {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(30)..];
        io::Error::other(format!("{what}; {} ends with:\n{}", self.log.display(), tail.join("\n")))
    }

    /// The server and its children, with the letters of their states as in `/proc/PID/stat`.
    fn family(&self) -> impl Iterator<Item = (u32, char)> {
        let server = self.pid();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| Some((pid, status(pid)?)))
            .filter(move |(pid, (_, parent))| {
                server.is_some_and(|server| server == *pid || server == *parent)
            })
            .map(|(pid, (state, _))| (pid, state))
    }

    /// Gives an order to the guard and returns its answer.
    fn order(&mut self, order: &str) -> io::Result<String> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(self.trouble("the guard is gone"));
        }
        Ok(answer.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _nothing_to_learn = self.guard.wait();
    }
}

/// A port of 127.0.0.1 that nobody listens on. Somebody else may take it before it is used.
///
/// # Errors
///
/// There is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether a process runs: not so if it has ended and nobody has asked how yet.
fn is_running(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| !"ZX".contains(state))
}

/// State and parent of a process. The name before them may hold anything, parentheses included.
fn status(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn pid((pid, _): (u32, char)) -> u32 {
    pid
}

/// A process that has ended meanwhile needs no signal.
fn send(signal: &str, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"kill -s "$0" "$@""#, signal])
        .args(pids.iter().map(u32::to_string))
        .stderr(Stdio::null());
    assert!(kill.status().is_ok(), "there is no shell to be had");
}
