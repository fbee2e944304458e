//! Events as rows.

use std::collections::BTreeMap;

use angarium_domain::event::{Entity, Event};
use angarium_domain::text::{
    EventSource, EventType, ExternalId, FeedId, FieldName, Locale, SourceKey, SourceName, TextError,
};

use super::types::StoredEvent;
use crate::db::Row;
use crate::error::{Result, StoreError};
use crate::types::Key;

/// The columns of an event `e`, in the order in which [`event_row`] reads them.
macro_rules! event_columns {
    () => {
        "e.key, e.id, e.source, e.external_id, e.feed, e.type, e.subject, e.at, e.locale, e.fields, e.data,
        e.entity_type, e.entity_id, e.recipients, e.expires_at, e.supersede_key, e.test, e.accepted_by, e.created_at,
        e.plan_version, e.planned_to IS NOT NULL, e.matched"
    };
}
pub(crate) use event_columns;

/// Reads an event from the columns of [`event_columns`].
pub(crate) fn event_row(row: &Row<'_>) -> Result<StoredEvent> {
    let fields: BTreeMap<String, String> = serde_json::from_str(&row.text(9)?).map_err(|_| unreadable())?;
    let fields = fields.into_iter().map(|(name, value)| Ok((valid(FieldName::parse(&name))?, value)));
    let recipients = row.opt_text(13)?.unwrap_or_else(|| "[]".to_owned());
    let recipients: Vec<String> = serde_json::from_str(&recipients).map_err(|_| unreadable())?;
    let entity = match (row.opt_text(11)?, row.opt_text(12)?) {
        (Some(kind), Some(id)) => {
            Some(Entity { kind: valid(SourceName::parse(&kind))?, id: valid(SourceName::parse(&id))? })
        }
        _ => None,
    };
    let event = Event {
        source: valid(EventSource::parse(&row.text(2)?))?,
        external_id: valid(ExternalId::parse(&row.text(3)?))?,
        feed: valid(FeedId::parse(&row.text(4)?))?,
        kind: valid(EventType::parse(&row.text(5)?))?,
        key: valid(SourceKey::parse(&row.text(6)?))?,
        at: row.time(7)?,
        locale: row.opt_text(8)?.and_then(|text| Locale::parse(&text).ok()),
        fields: fields.collect::<Result<_>>()?,
        data: row.opt_text(10)?,
        entity,
        recipients: recipients.iter().map(|id| valid(SourceName::parse(id))).collect::<Result<_>>()?,
        expires_at: row.opt_time(14)?,
        supersede_key: row.opt_text(15)?.and_then(|text| SourceKey::parse(&text).ok()),
        test: row.flag(16)?,
    };
    Ok(StoredEvent {
        key: Key(row.int(0)?),
        id: row.uuid(1)?.into(),
        event,
        accepted_by: row.text(17)?,
        created_at: row.time(18)?,
        plan_version: row.int(19)?,
        planning: row.flag(20)?,
        matched: row.count(21)?,
    })
}

/// The fields of an event as one JSON object.
pub(crate) fn fields_json(event: &Event) -> String {
    let fields: BTreeMap<&str, &str> =
        event.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // Texts and their collections can always be written.
    serde_json::to_string(&fields).unwrap_or_default()
}

/// The recipients of an event as a JSON array; none if it names none.
pub(crate) fn recipients_json(event: &Event) -> Option<String> {
    let ids: Vec<&str> = event.recipients.iter().map(SourceName::as_str).collect();
    (!ids.is_empty()).then(|| serde_json::to_string(&ids).unwrap_or_default())
}

fn unreadable() -> StoreError {
    StoreError::Corrupt("the fields of an event cannot be read".into())
}

fn valid<T>(parsed: Result<T, TextError>) -> Result<T> {
    parsed.map_err(|error| StoreError::Corrupt(format!("a name in an event {error}")))
}
