//! Making, listing and revoking keys.

use angarium_domain::text::KeyName;
use angarium_domain::time::Timestamp;
use angarium_store::{ApiKey, Revoked};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::auth::{Scope, Token};
use super::dto::{Key, MadeKey, Page};
use super::exchange::{Asked, PathKey};
use super::fields::Fields;
use super::problem::{Code, Problem};
use super::{Shared, body};

/// `POST /v1/keys`
pub(super) async fn make(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    request: Request,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    let bytes = body::read_json(request, app.limits.request_bytes, app.bounds.body_timeout).await?;
    let (depth, now) = (app.limits.json_depth, asked.now);
    let (_held, wanted) = bytes.work(move |bytes| read(body::check(bytes, depth)?, now)).await?;
    let (token, key) = Token::make(&*app.chance);
    let id = token.id.clone();
    let scopes: Vec<&str> = wanted.scopes.iter().map(|scope| scope.as_str()).collect();
    let stored = ApiKey {
        id: token.id,
        name: wanted.name.as_str().to_owned(),
        hash: token.hash.to_vec(),
        scopes: scopes.join(" "),
        created_at: asked.now,
        expires_at: wanted.expires_at,
        revoked_at: None,
    };
    if !app.store.add_key(stored).await? {
        return Err(Problem::new(Code::NameTaken, "there is, or was, a key of this name"));
    }
    Ok((StatusCode::CREATED, Json(MadeKey { id, key })))
}

/// A key as it is asked for.
struct Wanted {
    name: KeyName,
    scopes: Vec<Scope>,
    expires_at: Option<Timestamp>,
}

fn read(text: &str, now: Timestamp) -> Result<Wanted, Problem> {
    let mut fields = Fields::read(text)?;
    let name = fields.required("name", |name| KeyName::parse(&name));
    let scopes = read_wanted_scopes(&mut fields);
    let expires_at = fields.text("expires_at", |time| match time.parse::<Timestamp>() {
        Ok(end) if end <= now => Err("lies in the past".to_owned()),
        other => other.map_err(|error| error.to_string()),
    });
    fields.finish()?;
    match (name, scopes) {
        (Some(name), Some(scopes)) => Ok(Wanted { name, scopes, expires_at }),
        _ => Err(Problem::internal("a key without name or scopes passed its checks")),
    }
}

fn read_wanted_scopes(fields: &mut Fields<'_>) -> Option<Vec<Scope>> {
    let Some(raw) = fields.raw("scopes") else {
        fields.refuse("scopes", "is required");
        return None;
    };
    let Ok(words) = serde_json::from_str::<Vec<String>>(raw.get()) else {
        fields.refuse("scopes", "must be an array of strings");
        return None;
    };
    if words.is_empty() {
        fields.refuse("scopes", "must not be empty");
    }
    let mut scopes = Vec::new();
    for (i, word) in words.iter().enumerate() {
        match word.parse::<Scope>() {
            Ok(scope) if scopes.contains(&scope) => fields.refuse(&format!("scopes.{i}"), "stands twice"),
            Ok(scope) => scopes.push(scope),
            Err(error) => fields.refuse(&format!("scopes.{i}"), error),
        }
    }
    Some(scopes)
}

/// `GET /v1/keys`
pub(super) async fn list(State(app): State<Shared>) -> Result<Json<Page<Key>>, Problem> {
    let keys = app.store.list_keys().await?;
    Ok(Json(Page::whole(keys.into_iter().map(shown).collect())))
}

fn shown(key: ApiKey) -> Key {
    Key {
        scopes: key.scopes.split(' ').map(str::to_owned).collect(),
        id: key.id,
        name: key.name,
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
    }
}

/// `DELETE /v1/keys/{id}`
pub(super) async fn revoke(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    PathKey(id): PathKey,
) -> Result<StatusCode, Problem> {
    let revoked = app.store.revoke_key(&id, Scope::Admin.as_str(), asked.now).await?;
    app.keys.forget(&id);
    match revoked {
        Revoked::Done => Ok(StatusCode::NO_CONTENT),
        Revoked::NotFound => Err(Problem::plain(Code::KeyNotFound)),
        Revoked::LastAdmin => Err(Problem::plain(Code::LastAdmin)),
    }
}
