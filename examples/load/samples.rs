//! Durations, and what part of them was how long at most.

use std::time::Duration;

/// Durations in nanoseconds.
#[derive(Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Percentiles in microseconds by name.
    pub(crate) fn summary(&mut self) -> serde_json::Value {
        self.0.sort_unstable();
        let at = |part: f64| self.at(part).map(|nanos| nanos as f64 / 1e3);
        serde_json::json!({
            "count": self.0.len(), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0),
        })
    }

    /// The smallest of the sorted durations that at least `part` of them do not exceed.
    fn at(&self, part: f64) -> Option<u64> {
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied()
    }
}
