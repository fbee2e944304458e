//! The OpenAPI 3.1 document, built from the table of routes and the shapes in [`super::dto`].

use std::sync::OnceLock;

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, Components, Schema, SchemaType};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Content, HttpMethod, Info, License, ObjectBuilder, OpenApi, Paths, Ref, RefOr, Required,
    SecurityRequirement, Type,
};

use super::body;
use super::dto;
use super::events::dto as events;
use super::manage::dto as manage;
use super::problem::Code;
use super::routes::{Access, Answer, Param, Route, Taken, Verb, table};

const ABOUT: &str = "Angarium is a durable notification server: what it acknowledges, it has stored, and it \
can always say what became of it.\n\nEvery refusal and failure is an RFC 9457 problem with a stable `code`. \
Under `/v1/`, unknown fields and parameters are refused. An unknown path is answered with 404 `not_found`, a \
method that a path does not take with 405 `method_not_allowed` and `Allow`. Times are RFC 3339, and UTC in \
answers.";

const READ_OR_LOCAL: &str = "Needs a key with the scope `read`, unless all of this is so: the connection comes \
from a loopback address; there is none of the headers `Forwarded`, `X-Forwarded-*`, `Via` and `X-Real-IP`; and \
`Host` is `localhost` or a loopback address. A proxy on the same machine that adds none of these headers and \
passes a loopback name on as `Host` (as nginx does when its upstream is `127.0.0.1` and nothing more is set) \
cannot be told from a local client: keep `/metrics` out of what such a proxy passes on.";

const BINARY: &str = "With the header `ce-specversion`, a body of any other type is the data of a CloudEvent whose \
attributes are the `ce-` headers (binary mode).";

const SCHEME: &str = "key";

/// The document as text: indented, and the same for the same program.
pub fn openapi_json() -> String {
    let mut text = document_of(&table()).to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// `GET /openapi.json`
pub(super) async fn document() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    ([(header::CONTENT_TYPE, "application/json")], TEXT.get_or_init(openapi_json).as_str())
}

fn document_of(routes: &[Route]) -> OpenApi {
    let mut info = Info::new("Angarium", env!("CARGO_PKG_VERSION"));
    info.description = Some(ABOUT.to_owned());
    info.license = Some(License::new("Apache-2.0"));
    let mut paths = Paths::new();
    for route in routes {
        let method = match route.verb {
            Verb::Get => HttpMethod::Get,
            Verb::Post => HttpMethod::Post,
            Verb::Put => HttpMethod::Put,
            Verb::Patch => HttpMethod::Patch,
            Verb::Delete => HttpMethod::Delete,
        };
        paths.add_path_operation(route.path, vec![method], operation(route));
    }
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components());
    document
}

fn operation(route: &Route) -> Operation {
    let mut operation = OperationBuilder::new()
        .summary(Some(route.summary))
        .operation_id(Some(operation_id(route)))
        .parameters(Some(parameters(route)));
    operation = match route.access {
        Access::Open => operation,
        Access::Key(scope) => operation
            .description(Some(format!("Needs a key with the scope `{scope}`.")))
            .security(SecurityRequirement::new(SCHEME, [scope.as_str()])),
        Access::ReadOrLocal => operation
            .description(Some(READ_OR_LOCAL))
            .security(SecurityRequirement::new(SCHEME, ["read"]))
            .security(SecurityRequirement::default()),
    };
    operation = operation.request_body(route.takes.map(request_body));
    let (status, answer) = answer(route.answer);
    operation = operation.response(status, answer);
    if let Some(also) = route.also {
        let (status, also) = self::answer(also);
        operation = operation.response(status, also);
    }
    for (status, problem) in problems(route) {
        operation = operation.response(status, problem);
    }
    operation.build()
}

fn request_body(taken: Taken) -> RequestBody {
    let body = RequestBodyBuilder::new();
    let (body, required) = match taken {
        Taken::Json(name, required) => {
            (body.content("application/json", Content::new(Some(reference(name)))), required)
        }
        Taken::Patch(name) => {
            let members = ObjectBuilder::new()
                .description(Some(format!("Members of {name} as they are to be; null removes one.")))
                .build();
            let content = Content::new(Some(members));
            let body = body.content("application/merge-patch+json", content.clone());
            (body.content("application/json", content), true)
        }
        Taken::Lines(name) => {
            (body.content("application/x-ndjson", Content::new(Some(reference(name)))), true)
        }
        Taken::Event => {
            let cloud = || Content::new(Some(reference("CloudEvent")));
            let body = events_in(body, "NewEvent").content("application/cloudevents+json", cloud());
            (body.content("*/*", Content::new(None::<RefOr<Schema>>)).description(Some(BINARY)), true)
        }
        Taken::Events => (events_in(body, "NewEventBatch"), true),
        Taken::Mail => {
            let any = || Content::new(None::<RefOr<Schema>>);
            (body::MAIL.iter().fold(body, |body, media| body.content(*media, any())), true)
        }
    };
    body.required(Some(if required { Required::True } else { Required::False })).build()
}

/// Events as this server's own JSON and as an array of CloudEvents.
fn events_in(body: RequestBodyBuilder, own: &str) -> RequestBodyBuilder {
    let array = RefOr::T(Schema::Array(ArrayBuilder::new().items(reference("CloudEvent")).build()));
    body.content("application/json", Content::new(Some(reference(own))))
        .content("application/cloudevents-batch+json", Content::new(Some(array)))
}

/// `get_v1_notifications_id` for `GET /v1/notifications/{id}`.
fn operation_id(route: &Route) -> String {
    let verb = match route.verb {
        Verb::Get => "get",
        Verb::Post => "post",
        Verb::Put => "put",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
    };
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(verb).chain(words).collect::<Vec<_>>().join("_")
}

fn parameters(route: &Route) -> Vec<Parameter> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        in_path.map(|name| parameter(name, ParameterIn::Path, "Names the one that is meant.", true));
    let others = route.params.iter().map(|Param { name, about, header, required }| {
        let place = if *header { ParameterIn::Header } else { ParameterIn::Query };
        parameter(name, place, about, *required)
    });
    in_path.chain(others).collect()
}

fn parameter(name: &str, place: ParameterIn, about: &str, required: bool) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(about))
        .required(if required { Required::True } else { Required::False })
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn answer(answer: Answer) -> (String, Response) {
    let (status, content) = match answer {
        Answer::Nothing => return ("204".to_owned(), Response::new("Done.")),
        Answer::StillSo => return ("304".to_owned(), Response::new("It is what you have.")),
        Answer::One(status, name) => (status, ("application/json", reference(name))),
        Answer::Page(name) => (200, ("application/json", page_of(name))),
        Answer::Text(media) => {
            let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
            (200, (media, RefOr::T(Schema::Object(any))))
        }
    };
    let (media, schema) = content;
    let response = ResponseBuilder::new().description("As asked.").content(media, Content::new(Some(schema)));
    (status.to_string(), response.build())
}

fn page_of(name: &str) -> RefOr<Schema> {
    let next = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .description(Some("The cursor of the next page; null on the last."));
    let page = ObjectBuilder::new()
        .property("items", ArrayBuilder::new().items(reference(name)))
        .property("next", next)
        .required("items")
        .required("next");
    RefOr::T(Schema::Object(page.build()))
}

/// One response for each status, that names the codes which come with it.
fn problems(route: &Route) -> Vec<(String, Response)> {
    let mut by_status: Vec<(u16, String)> = Vec::new();
    for code in route.problems() {
        let line = format!("`{}`: {}", code.as_str(), code.title());
        match by_status.last_mut() {
            Some((status, lines)) if *status == code.status() => {
                lines.push_str("\n\n");
                lines.push_str(&line);
            }
            _ => by_status.push((code.status(), line)),
        }
    }
    let response = |lines: String| {
        let content = Content::new(Some(reference("Problem")));
        ResponseBuilder::new().description(lines).content("application/problem+json", content).build()
    };
    by_status.into_iter().map(|(status, lines)| (status.to_string(), response(lines))).collect()
}

fn reference(name: &str) -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(name))
}

fn components() -> Components {
    let mut components = Components::new();
    for (name, schema) in [
        taken::<dto::NewNotification>(),
        taken::<dto::NewBatch>(),
        taken::<dto::To>(),
        taken::<dto::ActionReason>(),
        taken::<dto::NewKey>(),
        taken::<dto::NewChannelTest>(),
        given::<dto::Accepted>(),
        given::<dto::BatchAnswer>(),
        taken::<dto::BatchResult>(),
        given::<dto::Notification>(),
        taken::<dto::Source>(),
        given::<dto::LastError>(),
        given::<dto::ResolvedTarget>(),
        given::<dto::Attempt>(),
        given::<dto::AuditEntry>(),
        given::<dto::ActionDone>(),
        given::<dto::Kpis>(),
        given::<dto::Kpi>(),
        given::<dto::MadeKey>(),
        given::<dto::Key>(),
        given::<dto::Suppression>(),
        given::<dto::Channel>(),
        given::<dto::Suspension>(),
        given::<dto::ChannelTest>(),
        given::<dto::Turn>(),
        given::<dto::ChannelReopened>(),
        given::<dto::BouncesRecorded>(),
        given::<dto::Node>(),
        given::<dto::HealthAnswer>(),
        taken::<manage::Feed>(),
        taken::<manage::FeedField>(),
        taken::<manage::Standing>(),
        taken::<manage::List>(),
        taken::<manage::Template>(),
        taken::<manage::NewTemplatePreview>(),
        given::<manage::TemplatePreview>(),
        taken::<manage::Subscription>(),
        taken::<manage::SubscriptionFilter>(),
        taken::<manage::SubscriptionTarget>(),
        taken::<events::NewEvent>(),
        taken::<events::NewEventBatch>(),
        taken::<events::CloudEvent>(),
        taken::<events::NewAnnouncement>(),
        taken::<dto::EntityOf>(),
        given::<events::EventAccepted>(),
        given::<events::PlannedNotification>(),
        given::<events::SkippedMatch>(),
        given::<events::EventBatchAnswer>(),
        taken::<events::EventBatchResult>(),
        given::<events::EventTrial>(),
        given::<events::TrialText>(),
        given::<events::Event>(),
        given::<events::EventDetail>(),
        given::<events::EventExplanation>(),
        given::<events::ExplainedStep>(),
        taken::<dto::ProblemBody>(),
        taken::<dto::FieldError>(),
    ] {
        components.schemas.insert(name, schema);
    }
    add_codes(&mut components);
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(SCHEME, scheme);
    components
}

/// What is taken: a member whose value may be null may be missing as well.
fn taken<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// What is given: every member is present.
fn given<T: ToSchema>() -> (String, RefOr<Schema>) {
    let (name, mut schema) = taken::<T>();
    promise_all(&mut schema);
    (name, schema)
}

fn promise_all(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => object.required = object.properties.keys().cloned().collect(),
        RefOr::T(Schema::AllOf(all)) => all.items.iter_mut().for_each(promise_all),
        _ => {}
    }
}

/// The member `code` of a problem is one of those there are.
fn add_codes(components: &mut Components) {
    let codes = Code::ALL.iter().map(|code| code.as_str());
    let one_of_them = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes));
    if let Some(RefOr::T(Schema::Object(problem))) = components.schemas.get_mut("Problem") {
        problem.properties.insert("code".to_owned(), one_of_them.build().into());
    }
}
