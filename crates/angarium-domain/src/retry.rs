//! How long to wait before trying again, and how often.

use std::time::Duration;

use crate::chance::Chance;

/// When a failed delivery is tried again. The count of retries says how many tries follow the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RetryPolicy {
    /// Never.
    None,
    /// After the same wait each time (OB-13).
    Fixed {
        /// The wait.
        interval: Duration,
        /// How many retries there are.
        max_retries: u32,
    },
    /// Before retry c (0, 1, …) a wait of `backoff * base^c`, at most `cap` (WH-04).
    Exponential {
        /// The first wait.
        backoff: Duration,
        /// What each further wait is multiplied with; at least 1.
        base: f64,
        /// The longest wait, before jitter.
        cap: Duration,
        /// How many retries there are.
        max_retries: u32,
        /// The share of a wait (0 to 1) by which it may be longer, chosen by chance; 0 is none.
        jitter: f64,
    },
}

impl RetryPolicy {
    /// The same wait each time.
    pub fn fixed(interval: Duration, max_retries: u32) -> Self {
        RetryPolicy::Fixed { interval, max_retries }
    }

    /// Seven retries after 25, 100, 400, 1600, 6400, 25600 and 52000 seconds (WH-04).
    pub fn webhook_default() -> Self {
        RetryPolicy::Exponential {
            backoff: Duration::from_secs(25),
            base: 4.0,
            cap: Duration::from_secs(52_000),
            max_retries: 7,
            jitter: 0.0,
        }
    }

    /// How many tries may follow the first one.
    pub fn max_retries(&self) -> u32 {
        match *self {
            RetryPolicy::None => 0,
            RetryPolicy::Fixed { max_retries, .. } | RetryPolicy::Exponential { max_retries, .. } => {
                max_retries
            }
        }
    }

    /// The wait before retry `c` (0 for the first), whether or not that retry is still allowed. Never
    /// overflows: a wait that outgrows its type is the cap.
    pub fn wait(&self, c: u32, chance: &dyn Chance) -> Duration {
        match *self {
            RetryPolicy::None => Duration::ZERO,
            RetryPolicy::Fixed { interval, .. } => interval,
            RetryPolicy::Exponential { backoff, base, cap, jitter, .. } => {
                let exponent = i32::try_from(c).unwrap_or(i32::MAX);
                let grown = backoff.as_secs_f64() * base.powi(exponent);
                let capped = grown.min(cap.as_secs_f64());
                let spread = if jitter > 0.0 { capped * jitter * chance.unit() } else { 0.0 };
                Duration::try_from_secs_f64(capped + spread).unwrap_or(cap)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SeededChance;
    use proptest::prelude::*;

    fn waits(policy: RetryPolicy, n: u32) -> Vec<u64> {
        (0..n).map(|c| policy.wait(c, &SeededChance::new(1)).as_secs()).collect()
    }

    /// WH-04: the default schedule, second by second.
    #[test]
    fn webhook_default_schedule() {
        let policy = RetryPolicy::webhook_default();
        assert_eq!(waits(policy, 7), [25, 100, 400, 1600, 6400, 25600, 52000]);
        assert_eq!(waits(policy, 7).iter().sum::<u64>(), 23 * 3600 + 55 * 60 + 25);
        assert_eq!(policy.max_retries(), 7);
    }

    /// OB-13: the same wait each time.
    #[test]
    fn fixed_waits_the_same() {
        let policy = crate::channel::ChannelKind::Email.default_retry();
        assert_eq!(waits(policy, 3), [60, 60, 60]);
        assert_eq!(policy.max_retries(), 10);
    }

    proptest! {
        /// C044: waits grow to the cap and stay there, for any count, without panic; jitter only lengthens.
        #[test]
        fn c044_exponential_never_overflows(c in 0u32.., backoff in 0.0f64..1e6, base in 1.0f64..1e3, jitter in 0.0f64..=1.0, seed: u64) {
            let cap = Duration::from_secs(45);
            let backoff = Duration::from_secs_f64(backoff);
            let policy = |jitter| RetryPolicy::Exponential { backoff, base, cap, max_retries: 200, jitter };
            let chance = SeededChance::new(seed);
            let plain = policy(0.0).wait(c, &chance);
            prop_assert!(plain <= cap);
            prop_assert!(plain >= backoff.min(cap));
            prop_assert!(policy(0.0).wait(c.saturating_add(1), &chance) >= plain);
            let jittered = policy(jitter).wait(c, &chance);
            prop_assert!(jittered >= plain && jittered <= plain.mul_f64(2.0) + Duration::from_millis(1));
        }
    }

    /// C044: the numbers of the report.
    #[test]
    fn c044_exponential_delay_after_many_attempts() {
        let cap = Duration::from_secs(45);
        let policy = RetryPolicy::Exponential {
            backoff: Duration::from_millis(500),
            base: 2.0,
            cap,
            max_retries: 200,
            jitter: 1.0,
        };
        for c in [7, 31, 32, 33, 63, 64, 65, 199, u32::MAX] {
            assert!(policy.wait(c, &SeededChance::new(c.into())) >= cap);
        }
    }
}
