//! Chance as a parameter: the operating system's in production, a seeded one in tests and simulations.

use std::sync::Mutex;

/// A source of random bytes.
pub trait Chance: Send + Sync {
    /// Fills `bytes` with random ones.
    fn fill(&self, bytes: &mut [u8]);

    /// A number evenly spread over the half-open range 0.0 to 1.0.
    fn unit(&self) -> f64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The operating system's generator, fit for keys.
pub struct SystemChance;

impl Chance for SystemChance {
    #[expect(
        clippy::disallowed_methods,
        clippy::expect_used,
        reason = "the one place that asks the system for random bytes; without them no key is safe, so the process must not go on"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has no random bytes");
    }
}

/// A generator that gives the same bytes for the same seed (SplitMix64). Never for keys.
pub struct SeededChance(Mutex<u64>);

impl SeededChance {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        SeededChance(Mutex::new(seed))
    }
}

impl Chance for SeededChance {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = *state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            for (byte, random) in chunk.iter_mut().zip(word.to_le_bytes()) {
                *byte = random;
            }
        }
    }
}
