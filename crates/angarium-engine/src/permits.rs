//! Permits: how much may be in flight, over all, per channel and per lane (OB-09).
//!
//! The dispatcher alone hands them out, before it claims. A receiver that hangs holds a permit for as long as the
//! channel's timeout lasts, and that it hangs shows only then; so what is not known to work must never hold all
//! permits. Of a channel's permits, and of all there are,
//!
//! - lanes that failed lately (suspects) hold a quarter together, one each;
//! - lanes of which nothing is known yet, with the suspects, hold three quarters; and an eighth more is kept for
//!   the first try of each, so that a newcomer need not wait for those that hang;
//! - lanes that took a message lately may use everything.
//!
//! Dead receivers cost the others neither claims nor permits.

use std::collections::HashMap;
use std::sync::Arc;

use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;
use angarium_store::{LaneKey, Quota, WaitingLane};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::catalog::Catalog;

/// After so many failures in a row a lane that worked before is a suspect.
const SUSPECT_AFTER: u32 = 3;

/// Lanes of which it is remembered how their receivers did; beyond this all are given a fresh start.
const REMEMBERED_LANES: usize = 10_000;

/// A place in flight. Given back by dropping it.
pub(crate) struct Permit {
    _overall: OwnedSemaphorePermit,
    _channel: OwnedSemaphorePermit,
}

/// Permits over all and of a channel, from which a list may borrow to send to several members at once.
pub(crate) struct Spare {
    overall: Arc<Semaphore>,
    channel: Arc<Semaphore>,
}

impl Spare {
    /// A permit, if there is one.
    pub(crate) fn take(&self) -> Option<Permit> {
        let overall = Arc::clone(&self.overall).try_acquire_owned().ok()?;
        let channel = Arc::clone(&self.channel).try_acquire_owned().ok()?;
        Some(Permit { _overall: overall, _channel: channel })
    }

    /// How many permits of the channel are free.
    pub(crate) fn of_channel(&self) -> usize {
        self.channel.available_permits()
    }
}

/// All permits there are, and who holds how many.
pub(crate) struct Permits {
    overall: Arc<Semaphore>,
    size: usize,
    channels: HashMap<String, Arc<Semaphore>>,
    lanes: HashMap<LaneKey, Lane>,
    /// The lane after which the next round of handing out begins.
    turn: Option<LaneKey>,
}

#[derive(Default)]
struct Lane {
    in_flight: usize,
    failures: u32,
    /// The receiver took a message, and has not become a suspect since.
    proven: bool,
    /// The channel it was last served on.
    channel: String,
}

/// How far a lane is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Suspect,
    Unknown,
    Proven,
}

impl Lane {
    fn standing(&self) -> Standing {
        match (self.proven, self.failures) {
            (true, failures) if failures < SUSPECT_AFTER => Standing::Proven,
            (false, 0) => Standing::Unknown,
            _ => Standing::Suspect,
        }
    }
}

/// How much of `size` permits lanes of each standing may hold, and how much they hold.
#[derive(Clone, Copy)]
struct Share {
    size: usize,
    free: usize,
    suspects: usize,
    unproven: usize,
}

impl Share {
    /// Whether one more may go to a lane of this standing that holds `in_flight` already.
    fn has_room(&self, standing: Standing, in_flight: usize) -> bool {
        let part = |eighths: usize| (self.size * eighths / 8).max(1);
        self.free > 0
            && match (standing, in_flight) {
                (Standing::Proven, _) => true,
                (Standing::Suspect, _) => self.suspects < part(2) && self.unproven < part(6),
                (Standing::Unknown, 0) => self.unproven < part(7),
                (Standing::Unknown, _) => self.unproven < part(6),
            }
    }

    fn take(&mut self, standing: Standing) {
        self.free -= 1;
        self.suspects += usize::from(standing == Standing::Suspect);
        self.unproven += usize::from(standing != Standing::Proven);
    }
}

/// One lane while permits are handed out.
struct Candidate<'a> {
    lane: LaneKey,
    channel: &'a str,
    standing: Standing,
    in_flight: usize,
    most: usize,
    rows: usize,
}

/// What one look at the waiting lanes leads to.
pub(crate) struct Plan {
    /// What to claim.
    pub(crate) quotas: Vec<Quota>,
    /// When the next lane that may not be served yet can be.
    pub(crate) next_look: Option<Timestamp>,
}

impl Permits {
    pub(crate) fn new(size: usize) -> Self {
        Permits {
            overall: Arc::new(Semaphore::new(size)),
            size,
            channels: HashMap::new(),
            lanes: HashMap::new(),
            turn: None,
        }
    }

    /// How many deliveries are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.lanes.values().map(|lane| lane.in_flight).sum()
    }

    /// Divides what is free among the lanes that are open and due: one row each, in turn, until nothing is
    /// left or every lane has its fill.
    pub(crate) fn plan(&mut self, mut waiting: Vec<WaitingLane>, catalog: &Catalog, now: Timestamp) -> Plan {
        let next_look = waiting.iter().map(opens_at).filter(|at| *at > now).min();
        waiting.retain(|lane| opens_at(lane) <= now);
        waiting.sort_by_key(|lane| lane.lane);
        let first = self.turn.map_or(0, |turn| waiting.partition_point(|lane| lane.lane <= turn));
        waiting.rotate_left(first);

        let mut overall = self.share(None, self.size, self.overall.available_permits());
        let mut channels: HashMap<&str, Share> = HashMap::new();
        let mut candidates: Vec<Candidate<'_>> = Vec::with_capacity(waiting.len());
        for lane in &waiting {
            let settings = settings_of(catalog, &lane.name.channel);
            let channel = lane.name.channel.as_str();
            if !channels.contains_key(channel) {
                let free = self.channel_free(channel, &settings, lane.suspended);
                channels.insert(channel, self.share(Some(channel), settings.max_parallel.max(1), free));
            }
            let known = self.lanes.get(&lane.lane);
            let standing = known.map_or(Standing::Unknown, Lane::standing);
            let most =
                if standing == Standing::Suspect { 1 } else { settings.max_parallel_per_receiver.max(1) };
            let in_flight = known.map_or(0, |lane| lane.in_flight);
            candidates.push(Candidate { lane: lane.lane, channel, standing, in_flight, most, rows: 0 });
        }
        while self.hand_out(&mut candidates, &mut overall, &mut channels) {}
        let quotas = candidates
            .iter()
            .filter(|candidate| candidate.rows > 0)
            .map(|candidate| Quota { lane: candidate.lane, rows: candidate.rows })
            .collect();
        Plan { quotas, next_look }
    }

    /// One round: a row for each lane that may have one more. False if there was none.
    fn hand_out(
        &mut self,
        candidates: &mut [Candidate<'_>],
        overall: &mut Share,
        channels: &mut HashMap<&str, Share>,
    ) -> bool {
        let mut handed_out = false;
        for candidate in candidates {
            let Some(channel) = channels.get_mut(candidate.channel) else { continue };
            let (standing, in_flight) = (candidate.standing, candidate.in_flight);
            let fits = overall.has_room(standing, in_flight) && channel.has_room(standing, in_flight);
            if in_flight >= candidate.most || !fits {
                continue;
            }
            overall.take(standing);
            channel.take(standing);
            candidate.in_flight += 1;
            candidate.rows += 1;
            self.turn = Some(candidate.lane);
            handed_out = true;
        }
        handed_out
    }

    /// What is held of all permits, or of a channel's, by lanes of each standing.
    fn share(&self, channel: Option<&str>, size: usize, free: usize) -> Share {
        let mut share = Share { size, free, suspects: 0, unproven: 0 };
        for lane in self.lanes.values().filter(|lane| channel.is_none_or(|name| lane.channel == name)) {
            match lane.standing() {
                Standing::Proven => {}
                Standing::Unknown => share.unproven += lane.in_flight,
                Standing::Suspect => {
                    share.suspects += lane.in_flight;
                    share.unproven += lane.in_flight;
                }
            }
        }
        share
    }

    /// Takes a permit for a claim from this lane. The plan saw to it that there is one, unless a list has borrowed
    /// it meanwhile.
    pub(crate) fn take(&mut self, lane: LaneKey, name: &str, catalog: &Catalog) -> Option<Permit> {
        let permit = self.spare(name, catalog).take()?;
        let known = self.lanes.entry(lane).or_default();
        known.in_flight += 1;
        if known.channel != name {
            known.channel = name.to_owned();
        }
        Some(permit)
    }

    /// A delivery from this lane has ended; `failed` says how the receiver did, if it was asked.
    pub(crate) fn done(&mut self, lane: LaneKey, failed: Option<bool>) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        known.in_flight = known.in_flight.saturating_sub(1);
        match failed {
            Some(true) => known.failures = known.failures.saturating_add(1),
            Some(false) => (known.failures, known.proven) = (0, true),
            None => {}
        }
        if known.failures >= SUSPECT_AFTER {
            known.proven = false;
        }
        if self.lanes.len() > REMEMBERED_LANES {
            self.lanes.retain(|_, lane| lane.in_flight > 0);
        }
    }

    /// Permits of the whole and of a channel, for deliveries that one claim makes side by side.
    pub(crate) fn spare(&mut self, channel: &str, catalog: &Catalog) -> Spare {
        let overall = Arc::clone(&self.overall);
        Spare { overall, channel: Arc::clone(self.channel(channel, &settings_of(catalog, channel))) }
    }

    fn channel(&mut self, name: &str, settings: &ChannelSettings) -> &Arc<Semaphore> {
        self.channels
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(settings.max_parallel.max(1))))
    }

    /// A suspended channel gets one delivery at a time, to see whether it works again.
    fn channel_free(&mut self, name: &str, settings: &ChannelSettings, suspended: bool) -> usize {
        let size = settings.max_parallel.max(1);
        let free = self.channel(name, settings).available_permits();
        if suspended { usize::from(free == size) } else { free }
    }
}

fn opens_at(lane: &WaitingLane) -> Timestamp {
    lane.due.max(lane.waits_until)
}

/// The settings of a channel; a channel that is not configured (any more) parks what it has, a few at a time.
fn settings_of(catalog: &Catalog, channel: &str) -> ChannelSettings {
    let known = ChannelName::parse(channel).ok().and_then(|name| catalog.channels.get(&name));
    known.cloned().unwrap_or_else(|| ChannelSettings::of(ChannelKind::Email))
}
