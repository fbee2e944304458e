//! What is answered when something is refused or fails: RFC 9457 problem bodies with a stable code.
//!
//! Handlers return a [`Problem`]; the outermost layer ([`super::exchange`]) writes it out, because it alone
//! knows the request's id. What only an operator may read (the cause of a fault of ours) goes to the log
//! under that id and never into the body. `errors` names the fields that are wrong, and is left out when there
//! are none.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use angarium_domain::json::{JsonFault, JsonFaultKind};
use angarium_domain::text::one_line;
use angarium_store::StoreError;

use super::dto::{FieldError, ProblemBody};

/// Characters of a detail that repeats what was sent.
pub(crate) const DETAIL_CHARS: usize = 300;

macro_rules! codes {
    ($($name:ident = $status:literal $code:literal $title:literal,)*) => {
        /// What went wrong, as a word that programs can rely on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Code { $($name,)* }

        impl Code {
            /// Every code, by status.
            pub(crate) const ALL: &[Code] = &[$(Code::$name,)*];

            /// The word itself.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// The HTTP status that it comes with.
            pub(crate) fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// The same in a sentence.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    JsonInvalid = 400 "json_invalid" "The body is not JSON as RFC 8259 has it.",
    JsonDuplicateKey = 400 "json_duplicate_key" "An object in the body names a member twice.",
    JsonTooDeep = 400 "json_too_deep" "The body is nested too deeply.",
    NumberOutOfRange = 400 "number_out_of_range" "A number in the body is out of range.",
    ControlCharacter = 400 "control_character" "A text in the body contains a control character.",
    BodyIncomplete = 400 "body_incomplete" "The body ended early or was not framed as HTTP asks.",
    IdempotencyKeyInvalid = 400 "idempotency_key_invalid" "The Idempotency-Key is not one of 1 to 255 visible ASCII characters.",
    CursorInvalid = 400 "cursor_invalid" "The cursor is not one that this server gave out.",
    CredentialInUrl = 400 "credential_in_url" "A key stands in the address, where logs would keep it.",
    AuthMissing = 401 "auth_missing" "A bearer key is needed.",
    AuthInvalid = 401 "auth_invalid" "The key is not valid.",
    ScopeDenied = 403 "scope_denied" "The key may not do this.",
    NotFound = 404 "not_found" "There is nothing at this address.",
    NotificationNotFound = 404 "notification_not_found" "There is no such notification.",
    EventNotFound = 404 "event_not_found" "There is no such event.",
    RowNotFound = 404 "row_not_found" "Nothing is known of this subject on the feed.",
    FeedNotFound = 404 "feed_not_found" "There is no such feed.",
    SubscriptionNotFound = 404 "subscription_not_found" "There is no such subscription.",
    ListNotFound = 404 "list_not_found" "There is no such list.",
    TemplateNotFound = 404 "template_not_found" "There is no such template.",
    KeyNotFound = 404 "key_not_found" "There is no such key, or it has ended.",
    SuppressionNotFound = 404 "suppression_not_found" "The address is not suppressed on this channel.",
    ChannelNotFound = 404 "channel_not_found" "There is no such channel.",
    MethodNotAllowed = 405 "method_not_allowed" "The address does not take this method.",
    BodyTimeout = 408 "body_timeout" "The body did not arrive in time.",
    IdReused = 409 "id_reused" "The id was used before for something else.",
    NotParked = 409 "not_parked" "The notification is not parked.",
    NotCancellable = 409 "not_cancellable" "The notification has come to its end and cannot be cancelled.",
    AlreadyTold = 409 "already_told" "The subscription is told the same thing by another notification.",
    AtMostOnce = 409 "at_most_once" "The notification may be sent once at most, and may have been.",
    AlreadyExists = 409 "already_exists" "There is one of this name already.",
    ManagedByFile = 409 "managed_by_file" "It stands in the configuration file and is changed there.",
    InUse = 409 "in_use" "Something else needs it.",
    NameTaken = 409 "name_taken" "The name is taken.",
    LastAdmin = 409 "last_admin" "Without this key nobody could administer the server.",
    ChannelDisabled = 409 "channel_disabled" "The channel is switched off.",
    NoAdapter = 409 "no_adapter" "This server cannot deliver on channels of this kind.",
    PreconditionFailed = 412 "precondition_failed" "It is not, or no longer, what the request expects.",
    BodyTooLarge = 413 "body_too_large" "The body is larger than the limit.",
    BatchTooLarge = 413 "batch_too_large" "The batch has more items than the limit.",
    UriTooLong = 414 "uri_too_long" "The address is too long.",
    ContentTypeUnsupported = 415 "content_type_unsupported" "The body is of a type, or in an encoding, that is not taken here.",
    InvalidRequest = 422 "invalid_request" "Something in the request is not as it must be.",
    UnknownFeed = 422 "unknown_feed" "There is no feed that the event belongs to.",
    UnknownEventType = 422 "unknown_event_type" "The feed has no events of this type.",
    TemplateInvalid = 422 "template_invalid" "The template does not work.",
    NotABounce = 422 "not_a_bounce" "The mail is no report about a notification.",
    Internal = 500 "internal" "A fault in the server.",
    StorageFull = 503 "storage_full" "The disk of the server is full. Nothing was stored.",
    Overloaded = 503 "overloaded" "More work waits than the server may hold. Nothing was stored.",
    StorageUnavailable = 503 "storage_unavailable" "The database is not available.",
    QueryTimeout = 503 "query_timeout" "The question took too long to answer.",
    OutcomeUnknown = 503 "outcome_unknown" "The database did not say whether it stored this. Ask again with the same id.",
    TestsBusy = 503 "tests_busy" "As many channels are being tested as may be at once.",
    NotReady = 503 "not_ready" "The server is not ready.",
}

impl Code {
    /// Whether the same request may work later, unchanged.
    pub(crate) fn retryable(self) -> bool {
        matches!(self.status(), 408 | 503)
    }

    /// Seconds after which to come back.
    fn retry_after(self) -> Option<&'static str> {
        match self {
            Code::StorageFull => Some("30"),
            _ if self.status() == 503 => Some("2"),
            _ => None,
        }
    }
}

/// A refusal or a failure, on its way to whoever asked.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    detail: String,
    errors: Vec<FieldError>,
    /// For the log alone.
    pub(crate) cause: Option<String>,
}

impl Problem {
    /// A problem with a sentence about this very case, free of secrets.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), errors: Vec::new(), cause: None }
    }

    /// A problem about which nothing is to be said but its title.
    pub(crate) fn plain(code: Code) -> Self {
        Problem::new(code, code.title())
    }

    /// Everything that is wrong with the fields of a request.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [only] => format!("{} {}", only.field, only.message),
            many => format!("{} fields are not as they must be", many.len()),
        };
        Problem { errors, ..Problem::new(Code::InvalidRequest, detail) }
    }

    /// The one thing that is wrong with the fields of a request.
    pub(crate) fn invalid_field(field: &str, message: impl std::fmt::Display) -> Self {
        Problem::invalid(vec![FieldError { field: field.to_owned(), message: message.to_string() }])
    }

    /// What is wrong with a template, by its parts.
    pub(crate) fn template_invalid(errors: Vec<FieldError>) -> Self {
        Problem { code: Code::TemplateInvalid, ..Problem::invalid(errors) }
    }

    /// A body, or an item of a batch, that is not JSON as it must be, nested at most `depth` deep.
    pub(crate) fn json(fault: &JsonFault, depth: usize) -> Self {
        let code = match fault.kind {
            JsonFaultKind::Invalid => Code::JsonInvalid,
            JsonFaultKind::DuplicateKey => Code::JsonDuplicateKey,
            JsonFaultKind::TooDeep => {
                return Problem::new(Code::JsonTooDeep, format!("nested more than {depth} deep"));
            }
            JsonFaultKind::ControlCharacter => Code::ControlCharacter,
            JsonFaultKind::NumberOutOfRange => Code::NumberOutOfRange,
        };
        Problem::new(code, one_line(&fault.detail, DETAIL_CHARS))
    }

    /// A fault of ours, whose cause the log tells.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Problem { cause: Some(cause.into()), ..Problem::plain(Code::Internal) }
    }

    /// The body, as it is sent. `request_id` is left out inside the results of a batch.
    pub(crate) fn body(&self, request_id: Option<&str>) -> ProblemBody {
        ProblemBody {
            type_uri: format!("urn:angarium:problem:{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            code: self.code.as_str().to_owned(),
            detail: self.detail.clone(),
            instance: request_id.map(str::to_owned),
            retryable: self.code.retryable(),
            errors: self.errors.clone(),
        }
    }

    /// The headers that belong to it.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.code.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        let challenge = match self.code {
            Code::AuthMissing => Some("Bearer"),
            Code::AuthInvalid => Some("Bearer error=\"invalid_token\""),
            _ => None,
        };
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        // The rest of the body is not wanted, so that the connection cannot go on.
        if matches!(self.code, Code::BodyTooLarge | Code::BodyTimeout | Code::BodyIncomplete) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl IntoResponse for Problem {
    /// An empty answer that carries the problem to the outermost layer, which writes it out.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Full => Code::StorageFull,
            StoreError::Overloaded | StoreError::Contended(_) => Code::Overloaded,
            StoreError::QueryTimeout => Code::QueryTimeout,
            StoreError::OutcomeUnknown => Code::OutcomeUnknown,
            StoreError::Unavailable(_)
            | StoreError::Disk(_)
            | StoreError::Refused(_)
            | StoreError::Locked(_)
            | StoreError::NotOurs(_)
            | StoreError::NewerSchema { .. } => Code::StorageUnavailable,
            StoreError::Corrupt(_) | StoreError::Statement(_) => Code::Internal,
        };
        Problem { cause: Some(error.to_string()), ..Problem::plain(code) }
    }
}
