//! The one table that says what follows from an attempt: for its row, and for the receiver behind it.
//!
//! | class | this row | its scope |
//! | --- | --- | --- |
//! | transient | tried again by policy, else parked | the lane slows down, or the whole channel waits a little |
//! | rate_limited | tried again at the receiver's hint, no budget used | the lane (or channel) waits |
//! | permanent_recipient | parked | the address is suppressed if it opted out |
//! | permanent_message | parked | nothing |
//! | permanent_config | held, no budget used, or parked (`on_suspended`) | the channel is suspended |
//! | interrupted | at once, or parked (`on_ambiguous`) if it may have been sent | nothing |
//! | internal | tried again by policy, else parked | nothing |

use std::time::Duration;

use crate::chance::Chance;
use crate::channel::{ChannelSettings, OnAmbiguous, OnSuspended};
use crate::limits::MAX_INTERRUPTIONS;
use crate::outcome::{Failure, FailureClass, LastError, Outcome};
use crate::retry::RetryPolicy;
use crate::state::{Refused, State};
use crate::time::Timestamp;

/// How far a delivery has come. Counted for the notification, or for each address of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tries that count against the policy. An operator's retry sets it to zero.
    pub budget_used: u32,
    /// Retries scheduled so far, those that cost no budget included.
    pub retry_count: u32,
    /// Claims in a row that ended without any outcome.
    pub interruptions: u32,
}

/// What the channel says about failures.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// When to try again.
    pub retry: RetryPolicy,
    /// What to do when the message may have arrived.
    pub on_ambiguous: OnAmbiguous,
    /// What to do while the channel is broken.
    pub on_suspended: OnSuspended,
}

impl From<&ChannelSettings> for Rules {
    fn from(settings: &ChannelSettings) -> Self {
        Rules {
            retry: settings.retry,
            on_ambiguous: settings.on_ambiguous,
            on_suspended: settings.on_suspended,
        }
    }
}

/// What follows for the row or the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Done.
    Deliver,
    /// Try again.
    Retry {
        /// When.
        due: Timestamp,
        /// Whether the try that failed counts against the policy.
        charged: bool,
    },
    /// Wait for the channel, as if it had never been tried; the try does not count.
    Hold {
        /// Until when.
        due: Timestamp,
    },
    /// Stay as it is and go again; the try does not count.
    Again {
        /// When.
        due: Timestamp,
    },
    /// Give up.
    Park,
}

/// What follows for the receiver or the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nothing.
    Unchanged,
    /// The receiver works: whatever slowed it down is over.
    Healthy,
    /// The receiver has trouble: fewer deliveries at once.
    SlowLane,
    /// No deliveries to this receiver until then.
    LaneWaits(Timestamp),
    /// No deliveries on the whole channel until then.
    ChannelWaits(Timestamp),
    /// The channel is broken: nothing until then, and then one delivery to see whether it works again.
    SuspendChannel(Timestamp),
    /// No deliveries to this address until an operator lifts that.
    SuppressAddress,
}

/// What follows from one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// For the row or the address.
    pub next: Next,
    /// For what is behind it.
    pub scope: Scope,
}

/// The least wait after a rate limit that names none.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(5);
/// How long the other deliveries of a channel are held back at most while what they all go through has trouble.
pub const TROUBLE_WAIT: Duration = Duration::from_secs(15);
/// How long a suspended channel is left alone before one delivery probes it.
pub const SUSPENSION: Duration = Duration::from_secs(300);

/// Decides what follows from `outcome` at `now`, given how far the delivery has come and what the channel says.
pub fn decide(
    outcome: &Outcome,
    progress: Progress,
    rules: &Rules,
    now: Timestamp,
    chance: &dyn Chance,
) -> Disposition {
    let failure = match outcome {
        Outcome::Delivered(_) => return Disposition { next: Next::Deliver, scope: Scope::Healthy },
        Outcome::Failed(failure) => failure,
    };
    let wait = rules.retry.wait(progress.retry_count, chance);
    let (next, scope) = match failure.class {
        FailureClass::Transient => transient(failure, progress, rules, now, chance),
        FailureClass::RateLimited => rate_limited(failure, rules, wait, now),
        FailureClass::PermanentRecipient if failure.suppress => (Next::Park, Scope::SuppressAddress),
        FailureClass::PermanentRecipient | FailureClass::PermanentMessage => (Next::Park, Scope::Unchanged),
        FailureClass::PermanentConfig => suspended(rules, now),
        FailureClass::Interrupted => (again_soon(progress, now, chance), Scope::Unchanged),
        FailureClass::Internal => (by_policy(progress, rules, now, chance), Scope::Unchanged),
    };
    let in_doubt = failure.duplicate_risk && rules.on_ambiguous != OnAmbiguous::Retry;
    Disposition { next: if in_doubt { Next::Park } else { next }, scope }
}

impl Progress {
    /// The counters after `next` was decided for a try that failed with `class`, or with none.
    #[must_use]
    pub fn after(self, next: &Next, class: Option<FailureClass>) -> Self {
        let interrupted = class == Some(FailureClass::Interrupted);
        let (retries, charged) = match next {
            Next::Retry { charged, .. } => (1, u32::from(*charged)),
            _ => (0, 0),
        };
        Progress {
            budget_used: self.budget_used.saturating_add(charged),
            retry_count: self.retry_count.saturating_add(retries),
            interruptions: if interrupted { self.interruptions.saturating_add(1) } else { 0 },
        }
    }
}

impl State {
    /// The state after `next` was decided at `now`; `error` is what went wrong.
    pub fn after(self, next: &Next, error: Option<LastError>, now: Timestamp) -> Result<State, Refused> {
        let known = |error: Option<LastError>| {
            error.unwrap_or(LastError { class: FailureClass::Internal, detail: "no reason was given".into() })
        };
        match next {
            Next::Deliver => self.deliver(now, error),
            Next::Retry { due, .. } => self.retry_at(*due, known(error)),
            Next::Hold { due } => self.hold_until(*due, known(error)),
            Next::Again { due } => self.wait_until(*due, error),
            Next::Park => self.park(now, known(error)),
        }
    }
}

fn by_policy(progress: Progress, rules: &Rules, now: Timestamp, chance: &dyn Chance) -> Next {
    if progress.budget_used >= rules.retry.max_retries() {
        return Next::Park;
    }
    Next::Retry { due: now.plus(rules.retry.wait(progress.budget_used, chance)), charged: true }
}

/// A receiver that is busy may be known to stay so for a while. Trouble with what all deliveries of a channel go
/// through holds the others back a little, lest each of them uses up its retries on it.
fn transient(
    failure: &Failure,
    progress: Progress,
    rules: &Rules,
    now: Timestamp,
    chance: &dyn Chance,
) -> (Next, Scope) {
    let mut next = by_policy(progress, rules, now, chance);
    if let (Next::Retry { due, .. }, Some(least)) = (&mut next, failure.retry_after) {
        *due = (*due).max(now.plus(least));
    }
    let held_back = rules.retry.wait(progress.budget_used, chance).min(TROUBLE_WAIT);
    let scope =
        if failure.whole_channel { Scope::ChannelWaits(now.plus(held_back)) } else { Scope::SlowLane };
    (next, scope)
}

fn rate_limited(failure: &Failure, rules: &Rules, wait: Duration, now: Timestamp) -> (Next, Scope) {
    let due = now.plus(failure.retry_after.unwrap_or(wait.max(RATE_LIMIT_WAIT)));
    let scope = if failure.whole_channel { Scope::ChannelWaits(due) } else { Scope::LaneWaits(due) };
    match rules.retry {
        RetryPolicy::None => (Next::Park, scope),
        _ => (Next::Retry { due, charged: false }, scope),
    }
}

fn suspended(rules: &Rules, now: Timestamp) -> (Next, Scope) {
    let due = now.plus(SUSPENSION);
    let next = match rules.on_suspended {
        OnSuspended::Hold => Next::Hold { due },
        OnSuspended::Fail => Next::Park,
    };
    (next, Scope::SuspendChannel(due))
}

/// The first time at once. After that the wait grows and is left to chance, so that of all that was in flight
/// when a process died, the one that killed it comes to be tried alone.
fn again_soon(progress: Progress, now: Timestamp, chance: &dyn Chance) -> Next {
    let deaths = progress.interruptions.saturating_add(1);
    if deaths >= MAX_INTERRUPTIONS {
        return Next::Park;
    }
    let most = if deaths == 1 { 0.0 } else { f64::from(1u32 << deaths) };
    Next::Again { due: now.plus(Duration::from_secs_f64(most * chance.unit())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SeededChance;
    use crate::outcome::Receipt;

    const NOW: i64 = 1_800_000_000_000_000;

    fn now() -> Timestamp {
        Timestamp::from_micros(NOW)
    }

    fn after(seconds: u64) -> Timestamp {
        now().plus(Duration::from_secs(seconds))
    }

    fn rules() -> Rules {
        Rules {
            retry: RetryPolicy::webhook_default(),
            on_ambiguous: OnAmbiguous::Retry,
            on_suspended: OnSuspended::Hold,
        }
    }

    fn fail(class: FailureClass) -> Failure {
        Failure::new(class, "x")
    }

    fn decided(failure: Failure, progress: Progress, rules: &Rules) -> (Next, Scope) {
        let Disposition { next, scope } =
            decide(&Outcome::Failed(failure), progress, rules, now(), &SeededChance::new(1));
        (next, scope)
    }

    fn fresh(failure: Failure) -> (Next, Scope) {
        decided(failure, Progress::default(), &rules())
    }

    /// OB-10: each class has one answer for the row and one for its scope.
    #[test]
    fn every_class() {
        let retry = |seconds, charged| Next::Retry { due: after(seconds), charged };
        let delivered = Outcome::Delivered(Receipt::default());
        let done = decide(&delivered, Progress::default(), &rules(), now(), &SeededChance::new(1));
        assert_eq!(done, Disposition { next: Next::Deliver, scope: Scope::Healthy });
        let table = [
            (FailureClass::Transient, retry(25, true), Scope::SlowLane),
            (FailureClass::RateLimited, retry(25, false), Scope::LaneWaits(after(25))),
            (FailureClass::PermanentRecipient, Next::Park, Scope::Unchanged),
            (FailureClass::PermanentMessage, Next::Park, Scope::Unchanged),
            (
                FailureClass::PermanentConfig,
                Next::Hold { due: after(300) },
                Scope::SuspendChannel(after(300)),
            ),
            (FailureClass::Interrupted, Next::Again { due: now() }, Scope::Unchanged),
            (FailureClass::Internal, retry(25, true), Scope::Unchanged),
        ];
        for (class, next, scope) in table {
            assert_eq!(fresh(fail(class)), (next, scope), "{class}");
        }
    }

    #[test]
    fn retries_end_when_the_budget_is_used() {
        for (used, next) in
            [(6, Next::Retry { due: after(52_000), charged: true }), (7, Next::Park), (9, Next::Park)]
        {
            let progress = Progress { budget_used: used, ..Progress::default() };
            assert_eq!(decided(fail(FailureClass::Transient), progress, &rules()).0, next, "{used}");
        }
        let none = Rules { retry: RetryPolicy::None, ..rules() };
        assert_eq!(decided(fail(FailureClass::Transient), Progress::default(), &none).0, Next::Park);
        assert_eq!(decided(fail(FailureClass::RateLimited), Progress::default(), &none).0, Next::Park);
    }

    /// C043: a rate limit is waited out, costs nothing and holds for the receiver.
    #[test]
    fn c043_429_is_no_client_error() {
        let hinted = Failure { retry_after: Some(Duration::from_secs(7)), ..fail(FailureClass::RateLimited) };
        let exhausted = Progress { budget_used: 99, retry_count: 99, ..Progress::default() };
        let expected = (Next::Retry { due: after(7), charged: false }, Scope::LaneWaits(after(7)));
        assert_eq!(decided(hinted.clone(), exhausted, &rules()), expected);
        let account = Failure { whole_channel: true, ..hinted };
        assert_eq!(fresh(account).1, Scope::ChannelWaits(after(7)));
        let quick = Rules { retry: RetryPolicy::fixed(Duration::from_secs(1), 3), ..rules() };
        let unhinted = decided(fail(FailureClass::RateLimited), Progress::default(), &quick).0;
        assert_eq!(unhinted, Next::Retry { due: after(5), charged: false });
    }

    #[test]
    fn trouble_of_the_whole_channel_holds_the_others_back_a_little() {
        let down = Failure { whole_channel: true, ..fail(FailureClass::Transient) };
        let retry = |seconds| Next::Retry { due: after(seconds), charged: true };
        assert_eq!(fresh(down.clone()), (retry(25), Scope::ChannelWaits(after(15))));
        let quick = Rules { retry: RetryPolicy::fixed(Duration::from_secs(1), 3), ..rules() };
        let decided = decided(down, Progress::default(), &quick);
        assert_eq!(decided, (retry(1), Scope::ChannelWaits(after(1))));
    }

    /// C095: a receiver that is known to stay busy for a while is left alone for at least that long.
    #[test]
    fn c095_a_least_wait_is_heeded() {
        let busy = |seconds| Failure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..fail(FailureClass::Transient)
        };
        for (least, wait) in [(300, 300), (5, 25)] {
            let expected = (Next::Retry { due: after(wait), charged: true }, Scope::SlowLane);
            assert_eq!(fresh(busy(least)), expected);
        }
        let exhausted = Progress { budget_used: 7, ..Progress::default() };
        assert_eq!(decided(busy(300), exhausted, &rules()).0, Next::Park);
    }

    #[test]
    fn what_may_have_arrived_is_sent_again_only_where_that_is_allowed() {
        let lost = Failure { duplicate_risk: true, ..fail(FailureClass::Transient) };
        assert!(matches!(fresh(lost.clone()).0, Next::Retry { .. }));
        for on_ambiguous in [OnAmbiguous::Park, OnAmbiguous::Lookup] {
            let careful = Rules { on_ambiguous, ..rules() };
            assert_eq!(decided(lost.clone(), Progress::default(), &careful), (Next::Park, Scope::SlowLane));
            let cut_off = Failure { duplicate_risk: true, ..fail(FailureClass::Interrupted) };
            assert_eq!(decided(cut_off, Progress::default(), &careful).0, Next::Park);
            let unsent = fail(FailureClass::Interrupted);
            assert_eq!(decided(unsent, Progress::default(), &careful).0, Next::Again { due: now() });
        }
    }

    #[test]
    fn a_message_that_kills_its_process_is_parked() {
        let progress = |interruptions| Progress { interruptions, ..Progress::default() };
        let after_deaths = |n| decided(fail(FailureClass::Interrupted), progress(n - 1), &rules()).0;
        assert_eq!(after_deaths(1), Next::Again { due: now() });
        for deaths in 2..MAX_INTERRUPTIONS {
            let Next::Again { due } = after_deaths(deaths) else {
                panic!("{deaths} deaths are not too many")
            };
            assert!(due > now() && due < after(1 << deaths));
        }
        assert_eq!(after_deaths(MAX_INTERRUPTIONS), Next::Park);
    }

    #[test]
    fn an_opt_out_suppresses_the_address() {
        let gone = Failure { suppress: true, ..fail(FailureClass::PermanentRecipient) };
        assert_eq!(fresh(gone), (Next::Park, Scope::SuppressAddress));
        let failing = Rules { on_suspended: OnSuspended::Fail, ..rules() };
        assert_eq!(decided(fail(FailureClass::PermanentConfig), Progress::default(), &failing).0, Next::Park);
    }
}
