//! What is to happen to connections, and the two threads of each that ask for it.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Direction;
use super::link::{Link, write};

/// The most bytes that are read at a time.
const CHUNK: usize = 64 * 1024;

/// Nothing here takes so long unless it is broken.
const NEVER: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct State {
    to_server_frozen: bool,
    to_client_frozen: bool,
    pub(super) delay: Duration,
    pub(super) refuse: bool,
    pub(super) trap: Option<Trap>,
    pub(super) links: BTreeMap<u64, Entry>,
    last_link: u64,
    pub(super) cuts: usize,
    pub(super) closing: bool,
}

/// Bytes to cut after, and how often they may still come, this time included.
#[derive(Debug)]
pub(super) struct Trap {
    pub(super) bytes: Vec<u8>,
    pub(super) left: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    link: Arc<Link>,
    threads: u32,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    /// Gets one more chunk to the server, and nothing to the client.
    Condemned,
    Cut,
    /// By one of its sides.
    Broken,
}

/// What the gate says to a chunk.
#[derive(Debug, PartialEq, Eq)]
enum Pass {
    Go,
    /// Go, and then cut the connection.
    Last,
    Stop,
}

impl State {
    pub(super) fn set_frozen(&mut self, direction: Direction, frozen: bool) {
        if direction != Direction::ToClient {
            self.to_server_frozen = frozen;
        }
        if direction != Direction::ToServer {
            self.to_client_frozen = frozen;
        }
    }

    fn is_frozen(&self, direction: Direction) -> bool {
        self.to_server_frozen && direction != Direction::ToClient
            || self.to_client_frozen && direction != Direction::ToServer
    }

    fn fate(&self, id: u64) -> Fate {
        self.links.get(&id).map_or(Fate::Broken, |entry| entry.fate)
    }

    fn set_fate(&mut self, id: u64, fate: Fate) {
        if let Some(entry) = self.links.get_mut(&id) {
            entry.fate = fate;
        }
    }

    /// Whether the trap closes upon this chunk. `seen` are the bytes of this connection before it in which an
    /// occurrence may have begun.
    fn springs(&mut self, seen: &mut Vec<u8>, chunk: &[u8]) -> bool {
        let Some(trap) = &mut self.trap else {
            seen.clear();
            return false;
        };
        let begun = trap.bytes.len() - 1;
        seen.drain(..seen.len().saturating_sub(begun));
        seen.extend_from_slice(chunk);
        let times = seen.windows(trap.bytes.len()).filter(|window| *window == trap.bytes).count();
        let springs = times >= trap.left;
        trap.left = trap.left.saturating_sub(times);
        if springs {
            self.trap = None;
        }
        springs
    }
}

/// The state, and a bell for whoever waits for it to change.
#[derive(Debug, Default)]
pub(super) struct Switch {
    state: Mutex<State>,
    changed: Condvar,
}

impl Switch {
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub(super) fn await_state(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), NEVER, |state| !is_so(state));
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "{what} are not what was waited for: {state:?}");
    }

    /// Starts to carry bytes between the two halves.
    pub(super) fn connect(self: &Arc<Self>, link: Link) {
        let link = Arc::new(link);
        let mut state = self.lock();
        state.last_link += 1;
        let id = state.last_link;
        state.links.insert(id, Entry { link: Arc::clone(&link), threads: 2, fate: Fate::Open });
        drop(state);
        self.changed.notify_all();
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (switch, link) = (Arc::clone(self), Arc::clone(&link));
            std::thread::spawn(move || switch.carry(id, link, direction));
        }
    }

    /// Resets all connections and waits until they are gone.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        let ids: Vec<u64> = state.links.keys().copied().collect();
        for entry in state.links.values_mut() {
            entry.fate = Fate::Cut;
            entry.link.reset();
        }
        drop(state);
        self.changed.notify_all();
        self.await_state("connections", |state| ids.iter().all(|id| !state.links.contains_key(id)));
    }

    /// Carries bytes in one direction until there are no more.
    fn carry(&self, id: u64, link: Arc<Link>, direction: Direction) {
        let (mut from, to) = match direction {
            Direction::ToClient => (&link.server, &link.client),
            _ => (&link.client, &link.server),
        };
        let mut chunk = vec![0; CHUNK];
        let mut seen = Vec::new();
        loop {
            let length = from.read(&mut chunk);
            let bytes = &chunk[..*length.as_ref().unwrap_or(&0)];
            let pass = self.pass(id, direction, &mut seen, bytes);
            if pass == Pass::Stop {
                break;
            }
            let written = length.and_then(|_| write(to, bytes, || self.is_wanted(id, direction)));
            if pass == Pass::Last {
                link.reset_client();
                break;
            }
            if written.is_err() {
                self.break_off(id, &link);
                break;
            }
            if bytes.is_empty() {
                let _gone_already = to.shutdown(Shutdown::Write);
                break;
            }
        }
        // Before the entry goes, which may be waited for: the last holder closes the connection.
        drop(link);
        self.leave(id);
    }

    /// Waits until a chunk may pass. The end of what flows is an empty one.
    fn pass(&self, id: u64, direction: Direction, seen: &mut Vec<u8>, bytes: &[u8]) -> Pass {
        let mut state = self.wait_while_frozen(id, direction);
        if direction == Direction::ToClient && state.delay > Duration::ZERO {
            let delay = state.delay;
            let waited = self.changed.wait_timeout_while(state, delay, |state| state.fate(id) == Fate::Open);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.fate(id) != Fate::Open {
            return Pass::Stop;
        }
        if direction == Direction::ToServer && state.springs(seen, bytes) {
            state.set_fate(id, Fate::Condemned);
            self.changed.notify_all();
            return Pass::Last;
        }
        Pass::Go
    }

    /// What one side has reset is reset on the other, once both ways are open.
    fn break_off(&self, id: u64, link: &Link) {
        let mut state = self.wait_while_frozen(id, Direction::Both);
        if state.fate(id) == Fate::Open {
            state.set_fate(id, Fate::Broken);
        }
        drop(state);
        link.reset();
        self.changed.notify_all();
    }

    fn is_wanted(&self, id: u64, direction: Direction) -> bool {
        match self.look(|state| state.fate(id)) {
            Fate::Open => true,
            Fate::Condemned => direction == Direction::ToServer,
            Fate::Cut | Fate::Broken => false,
        }
    }

    fn leave(&self, id: u64) {
        self.change(|state| {
            let Some(entry) = state.links.get_mut(&id) else { return };
            entry.threads -= 1;
            if entry.threads == 0 {
                state.cuts += usize::from(matches!(entry.fate, Fate::Condemned | Fate::Cut));
                state.links.remove(&id);
            }
        });
    }

    fn wait_while_frozen(&self, id: u64, direction: Direction) -> MutexGuard<'_, State> {
        let is_held = |state: &mut State| state.is_frozen(direction) && state.fate(id) == Fate::Open;
        self.changed.wait_while(self.lock(), is_held).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
