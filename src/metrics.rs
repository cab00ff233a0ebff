//! Every counter, gauge and histogram, with its name and help.
//!
//! Does not know who counts or how the numbers are served. Shown by the tests below.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// All numbers of the process; each is shared by every worker.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Connections accepted.
    pub connections_accepted: Counter,
    /// Connections open now.
    pub connections_open: Gauge,
    /// Rotations that the timer found and no event had announced.
    pub rotations_found_by_timer: Counter,
    /// Times the event queue lost records.
    pub watch_overflows: Counter,
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("tlsidecar");
        let connections_accepted = Counter::default();
        registry.register("connections_accepted", "Connections accepted", connections_accepted.clone());
        let connections_open = Gauge::default();
        registry.register("connections_open", "Connections open now", connections_open.clone());
        let rotations_found_by_timer = Counter::default();
        registry.register(
            "rotations_found_by_timer",
            "Rotations that the timer found and no event had announced",
            rotations_found_by_timer.clone(),
        );
        let watch_overflows = Counter::default();
        registry.register("watch_overflows", "Times the event queue lost records", watch_overflows.clone());
        Self { registry, connections_accepted, connections_open, rotations_found_by_timer, watch_overflows }
    }

    /// All numbers in the text format of Prometheus.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_event_shows_in_the_text() {
        let metrics = Metrics::new();
        metrics.rotations_found_by_timer.inc();
        assert!(metrics.text().contains("tlsidecar_rotations_found_by_timer_total 1\n"));
    }
}
