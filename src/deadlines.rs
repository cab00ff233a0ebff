//! Which identifier expires next.

use std::time::Instant;

/// Deadlines by identifier; identifiers are small and dense, like the keys of a slab.
#[derive(Debug, Default)]
pub struct Deadlines {}

impl Deadlines {
    /// No deadline at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `id` the deadline `at` instead of the one it may have had.
    pub fn set(&mut self, id: usize, at: Instant) {
        let _ = (id, at);
    }

    /// Takes the deadline of `id` away, if it has one.
    pub fn clear(&mut self, id: usize) {
        let _ = id;
    }

    /// The earliest deadline.
    pub fn earliest(&mut self) -> Option<Instant> {
        None
    }

    /// Takes one identifier out whose deadline is not after `now`.
    pub fn expired(&mut self, now: Instant) -> Option<usize> {
        let _ = now;
        None
    }
}
