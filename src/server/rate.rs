//! So many a second for all workers together: a bucket of tokens that holds a second's worth and is full at start.
//!
//! One atomic: the moment at which the bucket would be full again. Reads no clock. Shown by the tests below.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SECOND_NANOS: u64 = 1_000_000_000;

/// A bucket of tokens.
#[derive(Debug)]
pub(crate) struct Rate {
    begin: Instant,
    /// Nanoseconds in which one token comes in.
    interval_nanos: u64,
    /// Nanoseconds after `begin` at which no token is missing.
    full_at_nanos: AtomicU64,
}

impl Rate {
    /// `per_second` is 1 to a milliard.
    pub(crate) fn new(per_second: u64, begin: Instant) -> Self {
        let interval_nanos = (SECOND_NANOS / per_second.max(1)).max(1);
        Self { begin, interval_nanos, full_at_nanos: AtomicU64::new(0) }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// How long it takes until there is one.
    pub(crate) fn take(&self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.begin);
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX - 2 * SECOND_NANOS);
        let (mut missing, most) = (0, SECOND_NANOS.max(self.interval_nanos));
        self.full_at_nanos
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let next = full_at.max(passed) + self.interval_nanos;
                missing = (next - passed).saturating_sub(most);
                (missing == 0).then_some(next)
            })
            .map(drop)
            .map_err(|_| Duration::from_nanos(missing))
    }

    /// Puts a token back that was not needed.
    pub(crate) fn put_back(&self) {
        self.full_at_nanos.fetch_sub(self.interval_nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of as many as are wanted there are at some moment.
    fn taken(rate: &Rate, at: Instant) -> usize {
        (0..100_000).take_while(|_| rate.take(at).is_ok()).count()
    }

    #[test]
    fn a_seconds_worth_comes_at_once_and_then_so_many_a_second() {
        let start = super::super::clock::now();
        let rate = Rate::new(100, start);
        assert_eq!(taken(&rate, start), 100);
        assert_eq!(rate.take(start), Err(Duration::from_millis(10)));
        assert_eq!(taken(&rate, start + Duration::from_millis(55)), 5);
        assert_eq!(taken(&rate, start + Duration::from_millis(60)), 1);
        assert_eq!(taken(&rate, start + Duration::from_secs(3600)), 100, "more is not saved up");
    }

    #[test]
    fn one_a_second_is_one_a_second() {
        let start = super::super::clock::now();
        let rate = Rate::new(1, start);
        let times = (0..100).map(|tenth| start + Duration::from_millis(tenth * 100));
        assert_eq!(times.map(|at| taken(&rate, at)).sum::<usize>(), 10);
    }

    #[test]
    fn a_token_put_back_is_there_again() {
        let start = super::super::clock::now();
        let rate = Rate::new(2, start);
        assert_eq!(taken(&rate, start), 2);
        rate.put_back();
        assert_eq!(taken(&rate, start), 1);
    }

    #[test]
    fn a_clock_that_stands_before_the_start_gives_no_more_than_a_second() {
        let start = super::super::clock::now();
        let rate = Rate::new(1_000, start + Duration::from_secs(5));
        assert_eq!(taken(&rate, start), 1_000);
    }
}
