//! What a logical event is called towards a provider (FP-11): the same for every message about it, and free of counters, times
//! and content, so that a provider can replace the older message by the newer one.

use angarium_domain::event::Event;
use angarium_domain::id::uuid_from;

/// The longest that providers take; ntfy's topics and sequence ids have the same form.
const LONGEST: usize = 64;
/// Characters of a hash that keeps apart what would look alike.
const HASH: usize = 12;

/// What an event is called for which its template has no name: `<feed>-<type>-<key>`.
pub(super) fn of(event: &Event) -> String {
    let (feed, kind, key) = (event.feed.as_str(), event.kind.as_str(), event.key.as_str());
    let name = format!("{feed}-{kind}-{key}").to_ascii_lowercase();
    let telling = key.bytes().all(|b| allowed(b) && !b.is_ascii_uppercase());
    spell(&name, telling, &[feed, kind, key])
}

/// The name that a template gave, as it is where a provider takes it.
pub(super) fn given(name: &str) -> String {
    spell(name, name.bytes().all(allowed), &[name])
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// `name` in the characters that are allowed. Unless it is `telling`, and short enough, a hash of what it stands for ends it, so
/// that different things stay different.
fn spell(name: &str, telling: bool, stands_for: &[&str]) -> String {
    let spelt: String =
        name.chars().map(|c| if u8::try_from(c).is_ok_and(allowed) { c } else { '-' }).collect();
    if telling && spelt.len() <= LONGEST {
        return spelt;
    }
    let hash = uuid_from(stands_for.iter().copied()).simple().to_string();
    let kept = spelt.get(..spelt.len().min(LONGEST - HASH - 1)).unwrap_or_default();
    format!("{kept}-{}", hash.get(..HASH).unwrap_or_default())
}
