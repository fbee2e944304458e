//! The tables `feeds.<id>`: where events come from.

use angarium_domain::feed::Feed;
use angarium_domain::text::FeedId;

use super::Declared;
use super::reader::{References, Section};

/// Reads every feed.
pub(super) fn read(section: &Section<'_, '_>) -> Declared<FeedId, Feed> {
    let mut feeds = Declared::new();
    for (id, field) in section.entries() {
        let parsed = FeedId::parse(id).map_err(|error| field.problem_at_key(error)).ok();
        let (Some(id), Some(section)) = (parsed, field.table()) else { continue };
        feeds.insert(id.clone(), feed(id, &section));
    }
    feeds
}

fn feed(id: FeedId, section: &Section<'_, '_>) -> Option<Feed> {
    let json = section.as_json(&[], References::Plain)?;
    Feed::parse(id, &json).map_err(|complaints| section.complaints(complaints)).ok()
}
