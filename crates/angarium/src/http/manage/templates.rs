//! Templates: tried out when they are stored, and whenever somebody wants to see what would be read.

use angarium_domain::complaints::Complaint;
use angarium_domain::feed::Feed;
use angarium_domain::template::Template;
use angarium_domain::text::FeedId;
use angarium_engine::render::Rendered;
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
use super::json::{self, ADDED};
use super::objects::{Sort, apart};
use crate::config::trial::{self, NotRendered};

const NO_CHANNEL: &str = "names a channel that is not configured";

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
            return Err(Problem::invalid_field("channel", NO_CHANNEL));
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

/// Refuses a template that does not compile, or cannot be rendered on its sample (TP1, TP3). What may not work is said:
/// without a sample nobody knows what an event holds besides what its feed declares.
pub(super) async fn try_out(app: &Shared, spec: &str) -> Result<Vec<String>, Problem> {
    let template = Template::parse(spec).map_err(invalid)?;
    let feeds = feeds_with(app, &template).await?;
    let mut warnings = Vec::new();
    if feeds.is_empty() {
        warnings.push(format!("no feed has events of the type {}", template.event_type));
    }
    let trial = apart(move || trial::try_out(&template, &feeds.iter().collect::<Vec<_>>())).await?;
    if !trial.wrong.is_empty() {
        return Err(does_not_work(trial.wrong));
    }
    warnings.extend(trial.odd.iter().map(Complaint::to_string));
    Ok(warnings)
}

fn does_not_work(complaints: Vec<Complaint>) -> Problem {
    let told = |Complaint { field, message }| FieldError { field, message };
    Problem::template_invalid(complaints.into_iter().map(told).collect())
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
    let Some(kind) = app.channels.get(&template.channel).map(|facts| facts.kind) else {
        return Err(Problem::invalid_field("template.channel", NO_CHANNEL));
    };
    let feeds = feeds_with(&app, &template).await?;
    let rendered = apart(move || trial::render(&template, event.as_deref(), feeds.first())).await?;
    let rendered = rendered.map_err(|why| match why {
        NotRendered::Event(complaints) => invalid(within("event", complaints)),
        NotRendered::Template(complaints) => does_not_work(complaints),
    })?;
    let Rendered { title, body, html, sequence_id, tags, priority, cut } = rendered.trimmed(kind);
    Ok(Json(TemplatePreview { title, body, html, sequence_id, tags, priority, cut }))
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
    let mut object =
        json::object(raw).map_err(|_| Problem::invalid_field("template", "must be an object or an id"))?;
    // One that was shown can be tried as it is.
    for added in ADDED.iter().chain(["active", "id"].iter()) {
        object.remove(*added);
    }
    let template = Template::parse(&json::text(&object));
    Ok((Which::Given(template.map_err(|complaints| invalid(within("template", complaints)))?), event))
}

fn within(member: &str, complaints: Vec<Complaint>) -> Vec<Complaint> {
    complaints.into_iter().map(|complaint| complaint.within(member)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_template() {
        for (id, name) in
            [("NewOutage~hooks~en-US", "NewOutage/hooks/en-US"), ("a~b/c~d~hooks~nl", "a~b/c~d/hooks/nl")]
        {
            assert_eq!(name_of(id).as_deref(), Some(name));
            assert_eq!((TEMPLATES.id_of)(name), id);
        }
        for none in ["", "NewOutage", "NewOutage~hooks"] {
            assert_eq!(name_of(none), None, "{none}");
        }
    }
}
