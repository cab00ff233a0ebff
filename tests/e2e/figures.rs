//! Figures of a run, printed as they come, and goals. A goal that depends on how fast the machine is counts only for a run
//! in full length, which has the machine for itself; what must hold everywhere is asserted where it is seen.

use std::fmt;
use std::time::Duration;

use crate::material::is_full;

/// What a run has to report.
#[derive(Debug)]
pub(crate) struct Report {
    run: &'static str,
    missed: Vec<String>,
}

impl Report {
    pub(crate) fn of(run: &'static str) -> Self {
        Self { run, missed: Vec::new() }
    }

    pub(crate) fn figure(&self, text: impl fmt::Display) {
        eprintln!("{}: {text}", self.run);
    }

    /// A figure that should not exceed a limit.
    pub(crate) fn goal<T: PartialOrd + fmt::Debug>(&mut self, what: &str, found: T, limit: T) {
        let text = format!("{what} {found:.2?}, at most {limit:.2?}");
        if found <= limit {
            self.figure(format_args!("{text}: reached"));
        } else {
            self.figure(format_args!("{text}: MISSED"));
            self.missed.push(text);
        }
    }

    /// The end: a full run must have reached its goals.
    pub(crate) fn finish(self) {
        assert!(!is_full() || self.missed.is_empty(), "{}: missed {:?}", self.run, self.missed);
    }
}

/// Durations of the same thing.
#[derive(Debug, Default)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The least duration that this many of a thousand do not exceed.
    pub(crate) fn at(&self, thousandths: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * thousandths).div_ceil(1000).max(1);
        sorted[rank - 1]
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(500)
    }
}

impl FromIterator<Duration> for Durations {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        Self(durations.into_iter().collect())
    }
}

impl fmt::Display for Durations {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99, worst] = [500, 900, 990, 1000].map(|thousandths| self.at(thousandths));
        write!(out, "n {}, p50 {p50:.2?}, p90 {p90:.2?}, p99 {p99:.2?}, max {worst:.2?}", self.count())
    }
}

#[test]
fn a_percentile_is_one_of_the_durations() {
    let durations: Durations = (1..=200).rev().map(Duration::from_millis).collect();
    let found = [1, 500, 990, 1000].map(|thousandths| durations.at(thousandths).as_millis());
    assert_eq!(found, [1, 100, 198, 200]);
    let alone: Durations = [Duration::from_millis(7)].into_iter().collect();
    assert_eq!(alone.at(1), alone.at(1000));
}
