//! Numbers that look random and follow from a seed, which is printed: `TLSIDECAR_E2E_SEED=n` plays a run again, as far as
//! time allows.

use std::time::UNIX_EPOCH;

use crate::patience::wall_clock;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % limit as u64).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The seed that was asked for, or else one of the moment.
pub(crate) fn seed() -> u64 {
    let asked = std::env::var_os("TLSIDECAR_E2E_SEED").and_then(|seed| seed.to_str()?.parse().ok());
    let moment =
        || wall_clock().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()));
    asked.unwrap_or_else(moment)
}

/// Dice for one run; the seed is printed.
pub(crate) fn dice(run: &str) -> Dice {
    let seed = seed();
    eprintln!("{run}: TLSIDECAR_E2E_SEED={seed}");
    Dice::new(seed)
}
