//! Templates: tried out when they are stored, and whenever somebody wants to see what would be read.

use angarium_domain::channel::ChannelKind;
use angarium_domain::feed::Feed;
use angarium_domain::template::Template;
use angarium_domain::text::FeedId;
use angarium_store::ObjectKind;
use axum::Json;
use axum::extract::{Request, State};
use serde_json::value::RawValue;

use super::super::cursor::Listing;
use super::super::dto::FieldError;
use super::super::events::invalid;
use super::super::fields::Fields;
use super::super::problem::{Code, Problem};
use super::super::{App, Shared, body};
use super::dto::TemplatePreview;
use super::objects::Sort;
use crate::config::trial;

pub(in crate::http) static TEMPLATES: Sort = Sort {
    kind: ObjectKind::Template,
    path: "templates",
    named_by: None,
    not_found: Code::TemplateNotFound,
    listing: Listing::Templates,
    name_of,
    id_of: |name| name.rsplitn(3, '/').collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("~"),
    read: |app, _, json| {
        let template = Template::parse(json).map_err(invalid)?;
        if !app.channels.contains_key(&template.channel) {
            return Err(Problem::invalid_field("channel", "names a channel that is not configured"));
        }
        Ok((template.name(), template.to_json()))
    },
};

/// `NewOutage~hooks~en-US` for the template that the store calls `NewOutage/hooks/en-US`.
fn name_of(id: &str) -> Option<String> {
    let parts: Vec<&str> = id.rsplitn(3, '~').collect();
    let [locale, channel, kind] = parts.as_slice() else { return None };
    Some(format!("{kind}/{channel}/{locale}"))
}

/// Feeds that are looked through for one that has the template's event type.
const MOST_FEEDS: usize = 10_000;

async fn feeds_with(app: &App, template: &Template) -> Result<Vec<Feed>, Problem> {
    let mut feeds = Vec::new();
    let mut after = None;
    for _ in 0..MOST_FEEDS / 500 {
        let page = app.store.objects(ObjectKind::Feed, after.take(), 500).await?;
        after = page.last().map(|object| object.name.clone());
        let full = page.len() == 500;
        let parsed = page.into_iter().filter(|object| object.active);
        let parsed =
            parsed.filter_map(|object| Feed::parse(FeedId::parse(&object.name).ok()?, &object.spec).ok());
        feeds.extend(parsed.filter(|feed| feed.has_type(&template.event_type)));
        if !full {
            break;
        }
    }
    Ok(feeds)
}

/// Refuses a template that does not compile, or cannot be rendered on its sample (TP1, TP3).
pub(super) async fn try_out(app: &Shared, spec: &str) -> Result<(), Problem> {
    let template = Template::parse(spec).map_err(invalid)?;
    let feeds = feeds_with(app, &template).await?;
    let trial = apart(move || trial::try_out(&template, &feeds.iter().collect::<Vec<_>>())).await?;
    let told = |complaint: angarium_domain::complaints::Complaint| FieldError {
        field: complaint.field,
        message: complaint.message,
    };
    // A field that no feed of the type has is as wrong as a filter for one (FP-12).
    let errors: Vec<FieldError> = trial.wrong.into_iter().map(told).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::template_invalid(errors)) }
}

async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))
}

/// `POST /v1/templates/preview`
pub(in crate::http) async fn preview(
    State(app): State<Shared>,
    request: Request,
) -> Result<Json<TemplatePreview>, Problem> {
    let bytes = body::read_json(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let depth = app.limits.json_depth;
    let (_held, (template, event)) = bytes.work(move |bytes| read(body::check(bytes, depth)?)).await?;
    let template = match template {
        Which::Given(template) => template,
        Which::Stored(id) => {
            let not_found = || Problem::plain(Code::TemplateNotFound);
            let name = name_of(&id).ok_or_else(not_found)?;
            let stored = app.store.object(ObjectKind::Template, &name).await?.ok_or_else(not_found)?;
            Template::parse(&stored.spec).map_err(invalid)?
        }
    };
    let kind = app.channels.get(&template.channel).map_or(ChannelKind::Webhook, |facts| facts.kind);
    let feeds = feeds_with(&app, &template).await?;
    let rendered = apart(move || {
        let template = Template { sample: event.or(template.sample.clone()), ..template };
        trial::render(&template, feeds.first()).map(|rendered| rendered.trimmed(kind))
    });
    match rendered.await? {
        Ok(rendered) => Ok(Json(TemplatePreview {
            title: rendered.title,
            body: rendered.body,
            html: rendered.html,
            sequence_id: rendered.sequence_id,
            tags: rendered.tags,
            priority: rendered.priority,
            cut: rendered.cut,
        })),
        Err(complaints) => {
            let told =
                complaints.into_iter().map(|one| FieldError { field: one.field, message: one.message });
            Err(Problem::template_invalid(told.collect()))
        }
    }
}

enum Which {
    Stored(String),
    Given(Template),
}

fn read(text: &str) -> Result<(Which, Option<String>), Problem> {
    let mut fields = Fields::read(text)?;
    let template = fields.raw("template");
    let event = fields.raw("event").map(RawValue::get).map(str::to_owned);
    if template.is_none() {
        fields.refuse("template", "is required: the id of one that is stored, or one as it would be");
    }
    fields.finish()?;
    let raw = template.map_or("", RawValue::get);
    if let Ok(id) = serde_json::from_str::<String>(raw) {
        return Ok((Which::Stored(id), event));
    }
    let within = |complaints: Vec<angarium_domain::complaints::Complaint>| {
        invalid(complaints.into_iter().map(|complaint| complaint.within("template")).collect())
    };
    Ok((Which::Given(Template::parse(raw).map_err(within)?), event))
}
