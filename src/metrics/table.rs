//! How a metric enters the table, and metrics that differ in their labels' values.
//!
//! The text lists them in the order of the table and their values in the order of the alphabet, so that two texts can
//! be compared line by line. Does not know what is counted. Shown by the tests of the table and by the ones below.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

/// What all names begin with.
const PREFIX: &str = "tlsidecar";

/// Bounds of the histograms, in seconds: from a rotation that is served at once to one whose certificate no client asks
/// for within the hour.
const BUCKETS: [f64; 20] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0, 600.0, 3600.0,
];

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The full name, as its `TYPE` line has it.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Names of the labels, in order.
    pub labels: Vec<&'static str>,
}

/// All metrics, in order.
#[derive(Debug)]
pub(super) struct Table {
    registry: Registry,
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { registry: Registry::with_prefix(PREFIX), rows: Vec::new() }
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn build_info(&mut self, version: &str) {
        let info = Info::new([("version", version.to_owned())]);
        // The format adds the suffix to the name of an info.
        self.row("build_info", "gauge", &["version"]);
        self.registry.register("build", "The program; always 1", info);
    }

    /// The format adds `_total` to the name.
    pub(super) fn counter(&mut self, name: &str, help: &str) -> Counter {
        let counter = Counter::default();
        self.add(&format!("{name}_total"), (name, help), &[], counter.clone());
        counter
    }

    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> Counters<N> {
        let counters = Counters { labels, counters: Arc::default() };
        self.add(&format!("{name}_total"), (name, help), &labels, counters.clone());
        counters
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        let gauge = Gauge::default();
        self.add(name, (name, help), &[], gauge.clone());
        gauge
    }

    pub(super) fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&'static str; N],
    ) -> Gauges<N> {
        let gauges = Gauges { labels, values: Arc::default() };
        self.add(name, (name, help), &labels, gauges.clone());
        gauges
    }

    /// A histogram of durations; its name ends in `_seconds`.
    pub(super) fn seconds(&mut self, name: &str, help: &str) -> Seconds {
        let histogram = Histogram::new(BUCKETS);
        let name = format!("{name}_seconds");
        self.add(&name, (&name, help), &[], histogram.clone());
        Seconds(histogram)
    }

    fn add(
        &mut self,
        full_name: &str,
        (name, help): (&str, &str),
        labels: &[&'static str],
        metric: impl Metric,
    ) {
        let kind = match metric.metric_type() {
            MetricType::Counter => "counter",
            MetricType::Gauge | MetricType::Info => "gauge",
            MetricType::Histogram => "histogram",
            MetricType::Unknown => "untyped",
        };
        self.row(full_name, kind, labels);
        self.registry.register(name, help, metric);
    }

    fn row(&mut self, name: &str, kind: &'static str, labels: &[&'static str]) {
        self.rows.push(Row { name: format!("{PREFIX}_{name}"), kind, labels: labels.to_vec() });
    }
}

/// Counters that differ in their labels' values, which are words of the program.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize> {
    labels: [&'static str; N],
    counters: Arc<RwLock<BTreeMap<[&'static str; N], Counter>>>,
}

impl<const N: usize> Counters<N> {
    /// Counts one more under these values, which are in the order of the labels.
    pub fn inc(&self, values: [&'static str; N]) {
        if let Some(counter) = self.counters.read().unwrap_or_else(PoisonError::into_inner).get(&values) {
            counter.inc();
            return;
        }
        self.one(values).inc();
    }

    /// The counter of these values; it shows from now on, even at zero.
    #[must_use]
    pub fn one(&self, values: [&'static str; N]) -> Counter {
        self.counters.write().unwrap_or_else(PoisonError::into_inner).entry(values).or_default().clone()
    }

    /// Shows each of these from now on, even at zero: a counter that appears with its first count hides that count
    /// from whoever looks at increases.
    pub fn show(&self, all: impl IntoIterator<Item = [&'static str; N]>) {
        for values in all {
            let _ = self.one(values);
        }
    }
}

impl<const N: usize> EncodeMetric for Counters<N> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        counters.iter().try_for_each(|(values, counter)| {
            counter.encode(encoder.encode_family(&pairs(self.labels, *values))?)
        })
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// Gauges that differ in their labels' values.
#[derive(Debug, Clone)]
pub struct Gauges<const N: usize> {
    labels: [&'static str; N],
    values: Arc<RwLock<BTreeMap<[String; N], i64>>>,
}

impl<const N: usize> Gauges<N> {
    /// Sets the gauge of these values, which are in the order of the labels.
    pub fn set(&self, values: [&str; N], to: i64) {
        let values = values.map(str::to_owned);
        self.values.write().unwrap_or_else(PoisonError::into_inner).insert(values, to);
    }

    /// Adds to the gauge of these values, which shows from now on.
    pub fn add(&self, values: [&str; N], by: i64) {
        let values = values.map(str::to_owned);
        *self.values.write().unwrap_or_else(PoisonError::into_inner).entry(values).or_default() += by;
    }

    /// Shows no longer what has this value for its first label.
    pub fn forget(&self, first: &str) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.retain(|values, _| values.first().is_none_or(|value| value != first));
    }
}

impl<const N: usize> EncodeMetric for Gauges<N> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.iter().try_for_each(|(values, value)| {
            let values = values.each_ref().map(String::as_str);
            encoder.encode_family(&pairs(self.labels, values))?.encode_gauge(value)
        })
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

fn pairs<'a, const N: usize>(labels: [&'a str; N], values: [&'a str; N]) -> [(&'a str, &'a str); N] {
    let mut values = values.into_iter();
    labels.map(|label| (label, values.next().unwrap_or_default()))
}

/// A histogram of durations.
#[derive(Debug, Clone)]
pub struct Seconds(Histogram);

impl Seconds {
    /// Counts one that took so long.
    pub fn observe(&self, duration: Duration) {
        self.0.observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::prometheus_text;

    fn text(table: &Table) -> String {
        let mut text = String::new();
        prometheus_text::encode(&mut text, table.registry()).unwrap();
        text
    }

    #[test]
    fn values_come_in_the_order_of_the_alphabet_and_are_escaped() {
        let mut table = Table::new();
        let gauges = table.gauges("things", "Things", ["path", "kind"]);
        gauges.set(["b", "y"], 2);
        gauges.set(["a\"\n\\", "x"], 1);
        let lines = "tlsidecar_things{path=\"a\\\"\\n\\\\\",kind=\"x\"} 1\ntlsidecar_things{path=\"b\",kind=\"y\"} 2\n";
        assert!(text(&table).ends_with(lines), "{}", text(&table));
        gauges.forget("b");
        assert!(!text(&table).contains("kind=\"y\""));
    }

    #[test]
    fn a_counter_can_be_shown_before_it_counts() {
        let mut table = Table::new();
        let counters = table.counters("turns", "Turns", ["way"]);
        counters.show([["left"], ["right"]]);
        counters.inc(["right"]);
        counters.inc(["up"]);
        let text = text(&table);
        for line in ["{way=\"left\"} 0\n", "{way=\"right\"} 1\n", "{way=\"up\"} 1\n"] {
            assert!(text.contains(&format!("tlsidecar_turns_total{line}")), "{text}");
        }
    }

    #[test]
    fn a_duration_falls_into_the_bucket_that_holds_it() {
        let mut table = Table::new();
        let seconds = table.seconds("wait", "Waits");
        seconds.observe(Duration::from_micros(90));
        seconds.observe(Duration::from_micros(300));
        let text = text(&table);
        for line in ["_bucket{le=\"0.0001\"} 1\n", "_bucket{le=\"0.0005\"} 2\n", "_count 2\n"] {
            assert!(text.contains(&format!("tlsidecar_wait_seconds{line}")), "{text}");
        }
    }
}
