//! Reasons as sentences.

use angarium_domain::state::SkipReason;
use angarium_store::{SkippedMatch, SuppressReason};

use super::Tries;

/// Why a match led to no notification, as a sentence.
pub(super) fn suppression(skipped: &SkippedMatch) -> String {
    let why = match skipped.reason {
        SuppressReason::Cooldown => "the cooldown after another notification was running",
        SuppressReason::AlreadyTold => "the subscription had been told of the same thing, or was being told",
        SuppressReason::DailyCap => "the daily cap had been reached",
        SuppressReason::SameTarget => "another subscription leads to the same address, which is told once",
        SuppressReason::ChannelDisabled => "the channel was switched off",
        SuppressReason::ChannelUnknown => "the channel is not configured, or the list is not known",
        SuppressReason::SubscriptionExpired => "the subscription had ended",
        SuppressReason::Expired => "the event had ended",
        SuppressReason::Superseded => "a later event had made it untrue",
        SuppressReason::FeedDisabled => "the feed was switched off",
    };
    let by = skipped.by.map(|id| format!(", by notification {id}")).unwrap_or_default();
    let later = skipped.told_by.map(|id| format!("; later it was planned as notification {id}"));
    format!("{why} at {}{by}{}", skipped.at, later.unwrap_or_default())
}

/// Why a notification was skipped, as a sentence.
pub(super) fn skip(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Cancelled => "an operator cancelled it",
        SkipReason::Expired => "the event had ended before it could be sent",
        SkipReason::Superseded => "a later event had made it untrue before it could be sent",
        SkipReason::Unsubscribed => {
            "the subscription was gone, switched off or had ended before it could be sent"
        }
        SkipReason::SourceGone => "what it told of was gone before it could be sent",
    }
}

/// How a notification was tried: nothing, or what is to be added to a sentence.
pub(super) fn in_words(tries: &Tries) -> String {
    let parts = [
        (tries.retries > 0).then(|| format!("retries scheduled so far: {}", tries.retries)),
        tries.last_attempt_at.map(|at| format!("last tried at {at}")),
        tries.next_attempt_at.map(|at| format!("next at {at}")),
        tries.last_error.as_ref().map(|error| format!("last error: {error}")),
    ];
    parts.into_iter().flatten().map(|part| format!("; {part}")).collect()
}
