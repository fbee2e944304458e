//! Looking: one notification, many by filter, its attempts. Listings are paged and bounded.

use angarium_domain::channel::ChannelKind;
use angarium_domain::id::NotificationId;
use angarium_domain::limits::ERROR_CHARS;
use angarium_domain::outcome::{FailureClass, LastError};
use angarium_domain::state::Status;
use angarium_domain::targets::TargetState;
use angarium_domain::text::one_line;
use angarium_domain::time::Timestamp;

use crate::bounces;
use crate::claim::{error_at, targets_of};
use crate::db::{Op, Row, Statement, Tx, Value, params, statements};
use crate::error::Result;
use crate::events::types::EventOf;
use crate::types::{AttemptRecord, AttemptView, Filter, Key, Listing, Target, View};

macro_rules! view_of {
    ($key:literal) => {
        concat!(
            "SELECT n.key, n.id, n.status, n.route, n.kind, n.channel, n.list, n.address,
            coalesce(c.subject, ''), coalesce(c.body, ''), c.data, n.retry_count, n.error_class, n.error_detail, n.skip_reason,
            n.provider_message_id, n.site, n.instance, n.script, n.node, n.enqueued_at, n.created_at,
            n.last_attempt_at, n.due_at, n.delivered_at, n.completed_at, n.lease_until IS NOT NULL,
            n.resolved, c.presentation, e.id, e.type, e.entity_type, e.entity_id, s.id
        FROM notifications n LEFT JOIN contents c ON c.key = coalesce(n.content, n.key)
        LEFT JOIN events e ON e.key = n.event LEFT JOIN subscriptions s ON s.key = n.subscription
        WHERE n.key = ",
            $key
        )
    };
}

statements! {
    VIEW = view_of!("$1");

    VIEW_BY_ID = view_of!("(SELECT i.key FROM ids i WHERE i.id = $1)");

    LAST_RESPONSE = "SELECT response_excerpt FROM attempts WHERE notification = $1 ORDER BY number DESC LIMIT 1";

    KEY_OF = "SELECT key FROM ids WHERE id = $1";

    ATTEMPTS = "SELECT number, started_at, ended_at, node, class, detail, status_code, duplicate_risk,
            retry_after_s, response_excerpt, targets, led_to, late, template
        FROM attempts WHERE notification = $1 AND number > $2 ORDER BY number LIMIT $3";
}

fn view_row(row: &Row<'_>) -> Result<(View, bool)> {
    let view = View {
        key: Key(row.int(0)?),
        id: row.uuid(1)?.into(),
        status: row.word(2)?,
        route: row.text(3)?,
        kind: row.word(4)?,
        channel: row.opt_text(5)?,
        list: row.opt_text(6)?,
        address: row.opt_text(7)?,
        subject: row.text(8)?,
        body: row.text(9)?,
        data: row.opt_text(10)?,
        retry_count: row.count(11)?,
        last_error: error_at(row, 12)?,
        bounced: None,
        skip_reason: row.opt_text(14)?,
        targets: Vec::new(),
        provider_message_id: row.opt_text(15)?,
        provider_response: None,
        source: [row.opt_text(16)?, row.opt_text(17)?, row.opt_text(18)?, row.opt_text(19)?],
        enqueued_at: row.opt_time(20)?,
        created_at: row.time(21)?,
        last_attempt_at: row.opt_time(22)?,
        next_attempt_at: row.opt_time(23)?,
        delivered_at: row.opt_time(24)?,
        completed_at: row.opt_time(25)?,
        in_flight: row.flag(26)?,
        event: event_of(row, 29)?,
        presentation: row.opt_text(28)?,
    };
    Ok((view, row.flag(27)?))
}

fn event_of(row: &Row<'_>, column: usize) -> Result<Option<EventOf>> {
    let Some(id) = row.opt_uuid(column)? else { return Ok(None) };
    Ok(Some(EventOf {
        id: id.into(),
        kind: row.text(column + 1)?,
        entity: row.opt_text(column + 2)?.zip(row.opt_text(column + 3)?),
        subscription: row.opt_text(column + 4)?,
    }))
}

/// The members of its list, and what came back, laid over what is known of the attempts.
async fn complete(tx: &mut Tx<'_>, view: &mut View, resolved: bool) -> Result<()> {
    if resolved {
        view.targets = targets_of(tx, view.key).await?;
    }
    let failures = bounces::failures(tx, view.key).await?;
    view.bounced = view.address.as_ref().and_then(|address| failures.get(address).cloned());
    for target in &mut view.targets {
        target.bounced = failures.get(&target.address).cloned();
    }
    let own = view.address.as_ref().zip(view.bounced.as_ref());
    let members = view.targets.iter().filter_map(|target| Some((&target.address, target.bounced.as_ref()?)));
    let came_back: Vec<String> =
        own.into_iter().chain(members).map(|(address, why)| format!("{address}: {why}")).collect();
    if !came_back.is_empty() {
        let before = view.last_error.take().map(|error| error.detail);
        let details: Vec<String> = came_back.into_iter().chain(before).collect();
        let detail = one_line(&details.join("; "), ERROR_CHARS);
        view.last_error = Some(LastError { class: FailureClass::PermanentRecipient, detail });
    }
    Ok(())
}

/// One notification with all there is to it.
pub(crate) struct Get {
    pub(crate) id: NotificationId,
}

impl Op for Get {
    type Output = Option<View>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<View>> {
        let found = tx.query_opt(&VIEW_BY_ID, params![self.id.uuid()], view_row).await?;
        let Some((mut view, resolved)) = found else { return Ok(None) };
        complete(tx, &mut view, resolved).await?;
        view.provider_response =
            tx.query_opt(&LAST_RESPONSE, params![view.key.0], |row| row.opt_text(0)).await?.flatten();
        Ok(Some(view))
    }
}

/// The keys of the rows that match; the rows themselves are read one by one, as far as there is room.
const KEYS: &str =
    "SELECT n.key FROM notifications n LEFT JOIN contents c ON c.key = coalesce(n.content, n.key)";

/// A page ends early once its texts have this many bytes, so that it cannot fill the memory.
const LISTING_BYTES: usize = 8 * 1024 * 1024;

/// What a member of a list takes beside its texts, roughly.
const TARGET_BYTES: usize = 256;

/// Notifications that match, the newest first.
pub(crate) struct List {
    pub(crate) filter: Filter,
    pub(crate) limit: usize,
}

/// A filter as SQL: conditions joined by AND, and the values they name.
#[derive(Default)]
struct Conditions<'a> {
    text: String,
    values: Vec<Value<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition with one value, which stands as `?` in `condition`.
    fn with(&mut self, condition: &str, value: Option<impl Into<Value<'a>>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            let numbered = condition.replace('?', &format!("${}", self.values.len()));
            self.plain(&numbered);
        }
    }

    fn plain(&mut self, condition: &str) {
        self.text.push_str(if self.text.is_empty() { " WHERE " } else { " AND " });
        self.text.push_str(condition);
    }
}

impl Op for List {
    type Output = Listing;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Listing> {
        let pattern = self.filter.subject.as_deref().map(contains_pattern);
        let (statement, values) = matching(&self.filter, pattern.as_deref(), self.limit);
        let keys = tx.query(&statement, &values, |row| row.int(0)).await?;
        let mut page = Listing { items: Vec::new(), more: keys.len() > self.limit };
        let mut bytes = 0;
        for key in keys.into_iter().take(self.limit) {
            if bytes >= LISTING_BYTES {
                page.more = true;
                break;
            }
            let Some((mut view, resolved)) = tx.query_opt(&VIEW, params![key], view_row).await? else {
                continue;
            };
            complete(tx, &mut view, resolved).await?;
            bytes += text_bytes(&view);
            page.items.push(view);
        }
        Ok(page)
    }
}

/// The keys of the rows that match, one more than `limit`, the newest first.
fn matching<'a>(filter: &'a Filter, pattern: Option<&'a str>, limit: usize) -> (Statement, Vec<Value<'a>>) {
    let mut conditions = Conditions::default();
    conditions.with("n.status = ?", filter.status.map(Status::as_str));
    // Said twice so that the index of live, or of parked, rows can be used.
    match filter.status {
        Some(status) if !status.is_terminal() => conditions.plain("n.due_at IS NOT NULL"),
        Some(Status::Parked) => conditions.plain("n.status = 'parked'"),
        _ => {}
    }
    conditions.with("n.kind = ?", filter.kind.map(ChannelKind::as_str));
    conditions.with("n.channel = ?", filter.channel.as_deref());
    conditions.with("n.list = ?", filter.list.as_deref());
    conditions.with("n.site = ?", filter.site.as_deref());
    conditions.with("n.node = ?", filter.node.as_deref());
    conditions.with("c.subject {like} ? ESCAPE '\\'", pattern);
    conditions.with("n.created_at >= ?", filter.since);
    // A key is never less than the time of its row, so that it bounds the search.
    conditions.with("n.key >= ?", filter.since.map(first_key));
    conditions.with("n.created_at < ?", filter.until);
    conditions.with("n.due_at IS NOT NULL AND n.created_at < ?", filter.stuck_before);
    conditions.with("n.key < ?", filter.before.map(|key| key.0));
    let rows = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    conditions.values.push(rows.into());
    let text = format!("{KEYS}{} ORDER BY n.key DESC LIMIT ${}", conditions.text, conditions.values.len());
    (Statement::composed(text), conditions.values)
}

/// A listing by everything at once, for the test that has every statement understood.
#[cfg(test)]
pub(crate) fn every_condition() -> Statement {
    let text = || Some("x".to_owned());
    let filter = Filter {
        status: Some(Status::Parked),
        kind: Some(ChannelKind::Email),
        channel: text(),
        list: text(),
        site: text(),
        node: text(),
        subject: text(),
        since: Some(Timestamp::EPOCH),
        until: Some(Timestamp::EPOCH),
        stuck_before: Some(Timestamp::EPOCH),
        before: Some(Key(1)),
    };
    matching(&filter, Some("%x%"), 10).0
}

/// How many bytes of text a row brings into a page, with what its list's members take beside theirs.
fn text_bytes(view: &View) -> usize {
    let long = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let of_target = |target: &Target| {
        let error = match &target.state {
            TargetState::Waiting { error, .. } => error.as_ref(),
            TargetState::Accepted => None,
            TargetState::Refused(error) => Some(error),
        };
        let texts = long(&target.suppressed) + long(&target.bounced) + target.address.len();
        TARGET_BYTES + texts + error.map_or(0, |error| error.detail.len())
    };
    let targets: usize = view.targets.iter().map(of_target).sum();
    view.subject.len() + view.body.len() + long(&view.data) + targets
}

/// The least key that a row accepted at `time` can have.
pub(crate) fn first_key(time: Timestamp) -> i64 {
    time.micros() << crate::key::KEY_SLOT_BITS
}

/// A LIKE pattern for "contains", with the signs that LIKE knows taken literally.
fn contains_pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// Attempts of one notification, in order; nothing if there is no such notification.
pub(crate) struct Attempts {
    pub(crate) id: NotificationId,
    /// Only those with a greater number.
    pub(crate) after: i64,
    pub(crate) limit: usize,
}

impl Op for Attempts {
    type Output = Option<Vec<AttemptView>>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Self::Output> {
        let Some(key) = tx.query_opt(&KEY_OF, params![self.id.uuid()], |row| row.int(0)).await? else {
            return Ok(None);
        };
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        tx.query(&ATTEMPTS, params![key, self.after, limit], attempt_row).await.map(Some)
    }
}

fn attempt_row(row: &Row<'_>) -> Result<AttemptView> {
    Ok(AttemptView {
        number: row.int(0)?,
        record: AttemptRecord {
            started_at: row.time(1)?,
            ended_at: row.time(2)?,
            node: row.text(3)?,
            class: row.opt_text(4)?.and_then(|word| word.parse().ok()),
            detail: row.opt_text(5)?,
            status_code: row.opt_int(6)?.and_then(|code| u16::try_from(code).ok()),
            duplicate_risk: row.flag(7)?,
            retry_after_s: row.opt_int(8)?,
            response_excerpt: row.opt_text(9)?,
            targets: row.opt_text(10)?,
            template: row.opt_text(13)?,
        },
        led_to: row.word(11)?,
        late: row.flag(12)?,
    })
}
