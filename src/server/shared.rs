//! What all workers see: the generation in force, the phase of the process, and how many connections are open.
//!
//! Nothing here blocks: atomics, and wakers for the loops. Knows nothing of sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use mio::Waker;

use crate::certs::Reader;
use crate::metrics::Metrics;

/// What the process is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are welcome.
    Serving,
    /// No new connections; the open ones may end by themselves.
    Draining,
    /// No more patience with the open ones.
    Stopping,
}

/// What all workers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) generations: Reader,
    pub(crate) metrics: Arc<Metrics>,
    phase: AtomicU8,
    open: AtomicUsize,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(generations: Reader, metrics: Arc<Metrics>, wakers: Vec<Waker>) -> Self {
        Self { generations, metrics, phase: AtomicU8::new(0), open: AtomicUsize::new(0), wakers }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// Goes on to `phase`; never back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.wake_all();
    }

    /// Makes every worker's loop turn once more.
    pub(crate) fn wake_all(&self) {
        for waker in &self.wakers {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "a worker can't be woken");
            }
        }
    }

    /// Counts a connection in.
    pub(crate) fn admit(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a connection out.
    pub(crate) fn dismiss(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many connections are open, on all workers.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }
}
