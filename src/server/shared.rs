//! What all workers see: the generation in force, the phase of the process, and how many connections are open.
//!
//! Nothing here blocks: atomics, and wakers for the loops. Knows nothing of sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::Waker;

use super::outage::Outage;
use crate::certs::{Generation, Reader};
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
    pub(crate) first_handshake: FirstHandshake,
    pub(crate) outage: Outage,
    phase: AtomicU8,
    open: AtomicUsize,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(generations: Reader, metrics: Arc<Metrics>, wakers: Vec<Waker>, now: Instant) -> Self {
        Self {
            generations,
            metrics,
            first_handshake: FirstHandshake::default(),
            outage: Outage::new(now),
            phase: AtomicU8::new(0),
            open: AtomicUsize::new(0),
            wakers,
        }
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

/// The first handshake with the newest generation, on whichever worker it ends.
#[derive(Debug, Default)]
pub(crate) struct FirstHandshake {
    /// Number of the generation that waits for it; 0 when none does.
    awaited: AtomicU64,
    /// Nanoseconds from its publication, and one more; 0 while it has not been.
    took: AtomicU64,
}

impl FirstHandshake {
    /// This generation has just come into force.
    pub(crate) fn expect(&self, generation: &Generation) {
        self.took.store(0, Ordering::Release);
        self.awaited.store(generation.number, Ordering::Release);
    }

    /// A handshake with this generation has ended. If it is the first with the newest one: how long after the
    /// publication.
    pub(crate) fn note(&self, generation: &Generation, now: Instant) -> Option<Duration> {
        let number = generation.number;
        if self.awaited.load(Ordering::Relaxed) != number {
            return None;
        }
        self.awaited.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let took = now.saturating_duration_since(generation.published);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took.store(nanos.saturating_add(1), Ordering::Release);
        Some(took)
    }

    /// How long after the publication of the newest generation its first handshake ended.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.took.load(Ordering::Acquire).checked_sub(1).map(Duration::from_nanos)
    }
}
