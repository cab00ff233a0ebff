//! Spreads durations, so that what began together does not end together.
//!
//! The same seed gives the same sequence. Shown by the tests below.

use std::time::Duration;

/// A duration grows or shrinks by at most one part in so many.
const PART: u64 = 10;

/// A sequence of lots.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `duration`, up to a tenth longer or shorter.
    pub(crate) fn spread(&mut self, duration: Duration) -> Duration {
        let shortest = duration - duration / 10;
        let tenth_nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) / PART;
        let more = (u128::from(self.lot()) * u128::from(tenth_nanos) * 2) >> u64::BITS;
        shortest.saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX)))
    }

    /// Any number: splitmix64.
    fn lot(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let lot = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let lot = (lot ^ lot >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        lot ^ lot >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn hours(seed: u64) -> Vec<Duration> {
        let mut jitter = Jitter::new(seed);
        (0..1000).map(|_| jitter.spread(HOUR)).collect()
    }

    #[test]
    fn a_duration_is_spread_evenly_over_a_tenth_each_way() {
        let lengths = hours(7);
        let (least, most) = (HOUR - HOUR / 10, HOUR + HOUR / 10);
        assert!(lengths.iter().all(|length| (least..=most).contains(length)));
        let fifth = |number: u32| {
            let from = least + HOUR / 25 * number;
            lengths.iter().filter(|length| (from..from + HOUR / 25).contains(*length)).count()
        };
        for number in 0..5 {
            assert!((150..250).contains(&fifth(number)), "{} of 1000 in fifth {number}", fifth(number));
        }
    }

    #[test]
    fn a_seed_tells_the_sequence() {
        assert_eq!(hours(1), hours(1));
        assert_ne!(hours(1), hours(2));
    }

    #[test]
    fn the_longest_and_the_shortest_stay_what_they_are() {
        let mut jitter = Jitter::new(3);
        assert_eq!(jitter.spread(Duration::ZERO), Duration::ZERO);
        assert!(jitter.spread(Duration::MAX) > Duration::MAX / 2);
    }
}
