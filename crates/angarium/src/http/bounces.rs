//! Bounces: what a mail server reports about a notification, handed in as the mail that brought it.
//!
//! Anybody can write such a mail. Its form is judged here; whether it counts is for the store to say.

use angarium_channels::email::bounce;
use angarium_store::{BounceOutcome, BounceReport};
use axum::extract::{Request, State};
use axum::{Extension, Json};

use super::auth::Caller;
use super::dto::BouncesRecorded;
use super::exchange::Asked;
use super::problem::{Code, Problem};
use super::{Shared, body};

/// `POST /v1/bounces`
pub(super) async fn record(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Json<BouncesRecorded>, Problem> {
    // A report may bring back the whole mail that it is about.
    let bytes = body::read_mail(request, app.limits.batch_bytes, app.bounds.body_timeout).await?;
    let (_held, report) = bytes.work(read).await?;
    let notification = report.notification.to_string();
    match app.store.record_bounces(report, caller.actor(), asked.now).await? {
        BounceOutcome::Recorded { new: recorded, known, strangers, suppressed } => {
            Ok(Json(BouncesRecorded { notification, recorded, known, strangers, suppressed }))
        }
        BounceOutcome::UnknownNotification => {
            let detail = format!("the report is about the notification {notification}, which is not known");
            Err(Problem::new(Code::NotificationNotFound, detail))
        }
    }
}

fn read(mail: &[u8]) -> Result<BounceReport, Problem> {
    let refuse = |why: &str| Problem::new(Code::NotABounce, format!("the mail {why}"));
    let report = bounce::read(mail).map_err(|error| refuse(&error.to_string()))?;
    let notification =
        report.notification.ok_or_else(|| refuse("does not say which notification came back"))?;
    Ok(BounceReport { notification, bounces: report.bounces })
}
