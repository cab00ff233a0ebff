//! Whether the upstream can be reached, as the dials of all workers found it, told when that changes.
//!
//! Knows nothing of sockets. Shown by the tests below and by the end-to-end test of an upstream that comes and goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An upstream that comes and goes fills no log: its next failure is told after this time at the earliest.
const PAUSE: Duration = Duration::from_secs(10);

/// What the dials of all workers found.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Whether a failure has been told, and nothing of its end.
    failing: AtomicBool,
    /// Milliseconds from `born` before which no failure is told.
    quiet_until: AtomicU64,
    born: Instant,
}

impl Outage {
    pub(crate) fn new(now: Instant) -> Self {
        Self { failing: AtomicBool::new(false), quiet_until: AtomicU64::new(0), born: now }
    }

    /// A dial failed. Whether that is to be told.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        let age = self.age(now);
        if age < self.quiet_until.load(Ordering::Relaxed) || self.failing.swap(true, Ordering::Relaxed) {
            return false;
        }
        let pause = u64::try_from(PAUSE.as_millis()).unwrap_or(u64::MAX);
        self.quiet_until.store(age.saturating_add(pause), Ordering::Relaxed);
        true
    }

    /// A dial got through. Whether that ends an outage that was told.
    pub(crate) fn reached(&self) -> bool {
        self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed)
    }

    fn age(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.born).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_its_begin_and_end() {
        let start = super::super::clock::now();
        let outage = Outage::new(start);
        assert!(!outage.reached());
        assert!(outage.failed(start));
        assert!(!outage.failed(start + PAUSE * 2));
        assert!(outage.reached());
        assert!(!outage.reached());
        assert!(outage.failed(start + PAUSE * 3));
    }

    #[test]
    fn an_upstream_that_comes_and_goes_is_told_now_and_then() {
        let start = super::super::clock::now();
        let outage = Outage::new(start);
        let told = (0..200).filter(|tenths| {
            let failed = outage.failed(start + PAUSE / 100 * *tenths);
            outage.reached();
            failed
        });
        assert_eq!(told.count(), 2);
    }
}
