//! What all workers together let in: connections, handshakes, connections of one client, connections a second.
//!
//! Atomics and short locks; nothing here waits. Knows no sockets, and not how a worker is woken. Shown by the tests of its
//! parts and by the end-to-end tests of limits.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::clients::Clients;
use super::episode::{Episodes, News};
use super::limit::Limit;
use super::quota::Quota;
use super::rate::Rate;
use super::settings::Limits;

/// What all workers share of the limits.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) connections: Quota,
    /// What sets the number of connections.
    pub(crate) connections_limit: Limit,
    pub(crate) handshakes: Quota,
    pub(crate) rate: Option<Rate>,
    clients: Option<Clients>,
    episodes: Mutex<Episodes>,
    /// Whether an episode lasts: most turns need not lock for that.
    restless: AtomicBool,
}

impl Gate {
    pub(crate) fn new(limits: Limits, workers: usize, now: Instant) -> Self {
        Self {
            connections: Quota::new(limits.connections, workers),
            connections_limit: limits.connections_limit,
            handshakes: Quota::new(limits.handshakes, workers),
            rate: limits.accept_rate.map(|per_second| Rate::new(per_second, now)),
            clients: limits.client_connections.map(Clients::new),
            episodes: Mutex::default(),
            restless: AtomicBool::new(false),
        }
    }

    /// Counts a client's connection in, unless it has too many. One that is let in must [`Self::leave`].
    pub(crate) fn enter(&self, client: IpAddr) -> bool {
        self.clients.as_ref().is_none_or(|clients| clients.enter(client))
    }

    /// Counts a client's connection out.
    pub(crate) fn leave(&self, client: IpAddr) {
        if let Some(clients) = &self.clients {
            clients.leave(client);
        }
    }

    /// A client was kept out by `limit`. Returns whether an episode begins with it.
    pub(crate) fn touch(&self, limit: Limit, now: Instant) -> bool {
        self.change(|episodes| episodes.touch(limit, now))
    }

    /// A worker is held back by another limit than before, or by none.
    pub(crate) fn hold(&self, before: Option<Limit>, limit: Option<Limit>, now: Instant) {
        self.change(|episodes| {
            if let Some(before) = before {
                episodes.release(before, now);
            }
            if let Some(limit) = limit {
                episodes.hold(limit, now);
            }
        });
    }

    /// When [`Self::news`] may have something.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.restless.load(Ordering::Acquire) { self.episodes().deadline() } else { None }
    }

    /// What to tell of the limits now; ask again until there is nothing.
    pub(crate) fn news(&self, now: Instant) -> Option<News> {
        if self.restless.load(Ordering::Acquire) { self.change(|episodes| episodes.due(now)) } else { None }
    }

    fn change<T>(&self, act: impl FnOnce(&mut Episodes) -> T) -> T {
        let mut episodes = self.episodes();
        let outcome = act(&mut episodes);
        self.restless.store(episodes.any(), Ordering::Release);
        outcome
    }

    fn episodes(&self) -> MutexGuard<'_, Episodes> {
        self.episodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
