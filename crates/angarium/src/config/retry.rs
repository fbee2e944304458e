//! The setting `retry` of a channel (OB-13, WH-04).

use std::time::Duration;

use angarium_domain::channel::ChannelKind;
use angarium_domain::retry::RetryPolicy;

use super::reader::{Field, Section};

/// The most retries that can be asked for.
const MOST_RETRIES: usize = 1000;

/// What `jitter = true` means: waits are up to a quarter longer, by chance.
const JITTER: f64 = 0.25;

/// What `backoff = true` means.
const BACKOFF: Duration = Duration::from_secs(1);

/// The fixed wait of `backoff = false`, unless `interval` says otherwise.
const NO_BACKOFF_INTERVAL: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    None,
    Fixed,
    Exponential,
}

const POLICIES: [(&str, Policy); 3] =
    [("none", Policy::None), ("fixed", Policy::Fixed), ("exponential", Policy::Exponential)];

/// Reads the table. What it leaves out is as by default for the channel's kind, or for the policy where the
/// kind's own is another one.
pub(super) fn read(field: &Field<'_, '_>, kind: ChannelKind) -> Option<RetryPolicy> {
    let section = field.table()?;
    let policy = match section.field("policy") {
        Some(policy) => policy.word(&POLICIES)?,
        None => default_policy(kind),
    };
    let read = match policy {
        Policy::None => RetryPolicy::None,
        Policy::Fixed => fixed(&section, kind),
        Policy::Exponential => exponential(&section, kind),
    };
    section.idle(
        &["interval", "backoff", "base", "cap", "jitter", "max_retries"],
        "has no effect with this policy",
    );
    section.finish();
    Some(read)
}

fn default_policy(kind: ChannelKind) -> Policy {
    match kind.default_retry() {
        RetryPolicy::None => Policy::None,
        RetryPolicy::Fixed { .. } => Policy::Fixed,
        RetryPolicy::Exponential { .. } => Policy::Exponential,
    }
}

fn fixed(section: &Section<'_, '_>, kind: ChannelKind) -> RetryPolicy {
    let (interval, retries) = match kind.default_retry() {
        RetryPolicy::Fixed { interval, max_retries } => (interval, max_retries),
        _ => (Duration::from_secs(60), 10),
    };
    RetryPolicy::fixed(
        duration(section, "interval").unwrap_or(interval),
        max_retries(section).unwrap_or(retries),
    )
}

fn exponential(section: &Section<'_, '_>, kind: ChannelKind) -> RetryPolicy {
    let default = match kind.default_retry() {
        policy @ RetryPolicy::Exponential { .. } => policy,
        _ => RetryPolicy::webhook_default(),
    };
    let RetryPolicy::Exponential { backoff, base, cap, jitter, .. } = default else { return default };
    let max_retries = max_retries(section).unwrap_or(default.max_retries());
    let given = section.field("backoff");
    let backoff = match given.as_ref().and_then(Field::is_flag) {
        Some(false) => {
            let interval = duration(section, "interval").unwrap_or(NO_BACKOFF_INTERVAL);
            return RetryPolicy::fixed(interval, max_retries);
        }
        Some(true) => BACKOFF,
        None => given.and_then(|field| field.duration()).unwrap_or(backoff),
    };
    RetryPolicy::Exponential {
        backoff,
        base: section.field("base").and_then(|field| field.number(1.0..=1000.0)).unwrap_or(base),
        cap: duration(section, "cap").unwrap_or(cap),
        max_retries,
        jitter: section.field("jitter").and_then(|field| self::jitter(&field)).unwrap_or(jitter),
    }
}

fn duration(section: &Section<'_, '_>, key: &'static str) -> Option<Duration> {
    section.field(key)?.duration()
}

fn max_retries(section: &Section<'_, '_>) -> Option<u32> {
    u32::try_from(section.field("max_retries")?.count(0..=MOST_RETRIES)?).ok()
}

fn jitter(field: &Field<'_, '_>) -> Option<f64> {
    match field.is_flag() {
        Some(flag) => Some(if flag { JITTER } else { 0.0 }),
        None => field.number(0.0..=1.0),
    }
}
