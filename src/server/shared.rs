//! What all workers see: the generation in force, the limits, the phase of the process, and how many connections are open.
//!
//! Nothing here blocks: atomics, and wakers for the loops. Knows nothing of sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::Waker;

use super::gate::Gate;
use super::outage::Outage;
use crate::certs::{Generation, Reader};
use crate::metrics::Metrics;

/// What the process is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are welcome.
    Serving,
    /// As before, but whoever asks is told that it ends.
    Leaving,
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
    pub(crate) gate: Gate,
    phase: AtomicU8,
    open: AtomicUsize,
    /// Threads beside the first worker's that have not ended.
    threads: AtomicUsize,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(
        generations: Reader,
        metrics: Arc<Metrics>,
        gate: Gate,
        wakers: Vec<Waker>,
        now: Instant,
    ) -> Self {
        Self {
            generations,
            metrics,
            first_handshake: FirstHandshake::default(),
            outage: Outage::new(now),
            gate,
            phase: AtomicU8::new(0),
            open: AtomicUsize::new(0),
            threads: AtomicUsize::new(wakers.len().saturating_sub(1)),
            wakers,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Leaving,
            2 => Phase::Draining,
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
        (0..self.wakers.len()).for_each(|worker| self.wake(worker));
    }

    /// Makes one worker's loop turn once more.
    pub(crate) fn wake(&self, worker: usize) {
        if let Some(Err(error)) = self.wakers.get(worker).map(Waker::wake) {
            tracing::error!(%error, "a worker can't be woken");
        }
    }

    /// Runs a worker's loop on a thread of its own. Whatever ends it before its time ends the whole process: a port with
    /// one worker less would leave those clients waiting whom the kernel gives to its listener.
    pub(crate) fn beside(&self, run: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let mut watch = Watch { shared: self, ended_well: false };
        let outcome = run();
        watch.ended_well = outcome.is_ok();
        if let Err(error) = &outcome {
            tracing::error!(%error, "a worker has failed");
        }
        outcome
    }

    /// Whether no worker runs beside the first.
    pub(crate) fn is_alone(&self) -> bool {
        self.threads.load(Ordering::Acquire) == 0
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

/// Notices the end of a thread, also by a panic.
struct Watch<'a> {
    shared: &'a Shared,
    ended_well: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.shared.threads.fetch_sub(1, Ordering::AcqRel);
        if self.ended_well {
            self.shared.wake(0);
        } else {
            self.shared.enter(Phase::Stopping);
        }
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

/// What workers with these wakers would share, with room for so many connections.
#[cfg(test)]
pub(super) fn for_tests(connections: usize, wakers: Vec<Waker>) -> Shared {
    use super::limit::Limit;
    use super::settings::Limits;
    use crate::certs::{ExpiredAtStart, MinimumVersion, Policy, Store};

    let policy = Policy {
        minimum_version: MinimumVersion::Tls12,
        cipher_suites: Vec::new(),
        groups: vec![0x001d],
        alpn: Vec::new(),
        expired_at_start: ExpiredAtStart::Refuse,
    };
    let limits = Limits {
        connections,
        connections_limit: Limit::Connections,
        handshakes: connections,
        client_connections: None,
        accept_rate: None,
    };
    let now = super::clock::now();
    let gate = Gate::new(limits, wakers.len(), now);
    let store = Store::new(&policy).unwrap();
    Shared::new(store.reader(), Arc::new(Metrics::new("test")), gate, wakers, now)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]
    use super::*;

    fn shared() -> Shared {
        for_tests(1, Vec::new())
    }

    #[test]
    fn a_worker_that_ends_when_it_should_leaves_the_others_their_time() {
        let shared = shared();
        shared.threads.store(2, Ordering::Release);
        shared.enter(Phase::Draining);
        assert_eq!(shared.beside(|| Ok(3)).unwrap(), 3);
        assert_eq!((shared.phase(), shared.is_alone()), (Phase::Draining, false));
        assert_eq!(shared.beside(|| Ok(0)).unwrap(), 0);
        assert!(shared.is_alone());
    }

    #[test]
    fn a_worker_that_fails_or_panics_ends_all() {
        let failing = shared();
        failing.threads.store(1, Ordering::Release);
        assert!(failing.beside(|| Err(io::Error::other("no epoll any more"))).is_err());
        assert_eq!((failing.phase(), failing.is_alone()), (Phase::Stopping, true));
        let panicking = shared();
        panicking.threads.store(1, Ordering::Release);
        let outcome = std::thread::scope(|scope| scope.spawn(|| panicking.beside(|| panic!("a bug"))).join());
        assert!(outcome.is_err());
        assert_eq!((panicking.phase(), panicking.is_alone()), (Phase::Stopping, true));
    }
}
