//! Permits: how much may be in flight, over all, per channel and per lane (OB-09).
//!
//! The dispatcher alone hands them out, before it claims. A lane whose receiver fails again and again gets
//! fewer, down to one, and all such lanes together no more than half of what there is: dead receivers cost the
//! others neither claims nor permits.

use std::collections::HashMap;
use std::sync::Arc;

use angarium_domain::channel::{ChannelKind, ChannelSettings};
use angarium_domain::text::ChannelName;
use angarium_domain::time::Timestamp;
use angarium_store::{LaneKey, Quota, WaitingLane};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::catalog::Catalog;

/// After so many failures in a row a lane counts as slow.
const SLOW_AFTER: u32 = 3;

/// Lanes of which it is remembered how their receivers did; beyond this all are given a fresh start.
const REMEMBERED_LANES: usize = 10_000;

/// A place in flight. Given back by dropping it.
pub(crate) struct Permit {
    _overall: OwnedSemaphorePermit,
    _channel: OwnedSemaphorePermit,
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
}

impl Lane {
    fn is_slow(&self) -> bool {
        self.failures >= SLOW_AFTER
    }
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

        let mut free = self.overall.available_permits();
        let mut slow = self.free_for_slow_lanes();
        let mut channels: HashMap<&str, usize> = HashMap::new();
        let mut rooms: Vec<(LaneKey, &str, bool, usize, usize)> = Vec::new();
        for lane in &waiting {
            let settings = settings_of(catalog, &lane.name.channel);
            let name = lane.name.channel.as_str();
            let channel_free = self.channel_free(name, &settings, lane.suspended);
            channels.entry(name).or_insert(channel_free);
            let (is_slow, room) = self.room(lane.lane, &settings);
            rooms.push((lane.lane, name, is_slow, room, 0));
        }
        let mut handed_out = true;
        while handed_out && free > 0 {
            handed_out = false;
            for (lane, channel, is_slow, room, rows) in &mut rooms {
                let Some(channel_free) = channels.get_mut(channel) else { continue };
                let blocked = free == 0 || *room == 0 || *channel_free == 0 || (*is_slow && slow == 0);
                if blocked {
                    continue;
                }
                (free, *room, *channel_free, *rows) = (free - 1, *room - 1, *channel_free - 1, *rows + 1);
                slow -= usize::from(*is_slow);
                self.turn = Some(*lane);
                handed_out = true;
            }
        }
        let quotas = rooms
            .into_iter()
            .filter(|(.., rows)| *rows > 0)
            .map(|(lane, .., rows)| Quota { lane, rows })
            .collect();
        Plan { quotas, next_look }
    }

    /// Takes a permit for a claim from this lane. The plan saw to it that there is one, unless a list has borrowed
    /// it meanwhile.
    pub(crate) fn take(&mut self, lane: LaneKey, channel: &str, catalog: &Catalog) -> Option<Permit> {
        let channel = Arc::clone(self.channel(channel, &settings_of(catalog, channel)));
        let overall = Arc::clone(&self.overall).try_acquire_owned().ok()?;
        let channel = channel.try_acquire_owned().ok()?;
        self.lanes.entry(lane).or_default().in_flight += 1;
        Some(Permit { _overall: overall, _channel: channel })
    }

    /// A delivery from this lane has ended; `failed` says how the receiver did, if it was asked.
    pub(crate) fn done(&mut self, lane: LaneKey, failed: Option<bool>) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        known.in_flight = known.in_flight.saturating_sub(1);
        match failed {
            Some(true) => known.failures = known.failures.saturating_add(1),
            Some(false) => known.failures = 0,
            None => {}
        }
        if known.in_flight == 0 && known.failures == 0 {
            self.lanes.remove(&lane);
        }
        if self.lanes.len() > REMEMBERED_LANES {
            self.lanes.retain(|_, lane| lane.in_flight > 0);
        }
    }

    /// Permits of the whole and of a channel, for deliveries that one claim makes side by side.
    pub(crate) fn shared(&mut self, channel: &str, catalog: &Catalog) -> (Arc<Semaphore>, Arc<Semaphore>) {
        let settings = settings_of(catalog, channel);
        (Arc::clone(&self.overall), Arc::clone(self.channel(channel, &settings)))
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

    fn room(&self, lane: LaneKey, settings: &ChannelSettings) -> (bool, usize) {
        let most = settings.max_parallel_per_receiver.max(1);
        let Some(lane) = self.lanes.get(&lane) else { return (false, most) };
        let most = if lane.is_slow() { 1 } else { most };
        (lane.is_slow(), most.saturating_sub(lane.in_flight))
    }

    fn free_for_slow_lanes(&self) -> usize {
        let held: usize = self.lanes.values().filter(|lane| lane.is_slow()).map(|lane| lane.in_flight).sum();
        (self.size / 2).max(1).saturating_sub(held)
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
