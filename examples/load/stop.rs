//! When a load has been warmed up, and when it is over.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// What is left to do.
pub(crate) struct Stop {
    warm_up: Duration,
    length: Duration,
    units: u64,
    /// When counting began.
    pub(crate) begun: Option<Instant>,
    started: Instant,
}

impl Stop {
    pub(crate) fn new(warm_up: Duration, length: Duration, units: u64) -> Self {
        Self { warm_up, length, units, begun: None, started: Instant::now() }
    }

    /// The clock of the warm-up starts, since all connections stand.
    pub(crate) fn start(&mut self) {
        self.started = Instant::now();
    }

    /// Whether what is done from now on counts, first asked after the warm-up.
    pub(crate) fn begins(&mut self, now: Instant) -> io::Result<bool> {
        if self.begun.is_some() || now.duration_since(self.started) < self.warm_up {
            return Ok(false);
        }
        self.begun = Some(now);
        println!("ready");
        io::stdout().flush()?;
        Ok(true)
    }

    /// Whether enough was done.
    pub(crate) fn is_over(&self, now: Instant, done: u64) -> bool {
        self.begun.is_some_and(|begun| done >= self.units || now.duration_since(begun) >= self.length)
    }

    /// How many further units may be begun.
    pub(crate) fn left(&self, begun_units: u64) -> u64 {
        self.units.saturating_sub(begun_units)
    }
}
