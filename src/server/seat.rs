//! One worker's part in what all workers share: what it takes, what it gives back, and who is woken by that.
//!
//! Does not know sockets or TLS. Shown by the end-to-end tests of limits.

use std::net::IpAddr;
use std::sync::Arc;

use super::gate::Gate;
use super::limit::Limit;
use super::quota::Quota;
use super::shared::Shared;

/// A worker's number, and what it shares with the others.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) shared: Arc<Shared>,
    /// From 0; the first also holds signals and files.
    pub(crate) number: usize,
}

impl Seat {
    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Whether there is room for one more connection, and a handshake.
    pub(crate) fn has_room(&self) -> bool {
        self.gate().connections.has_room(self.number) && self.gate().handshakes.has_room(self.number)
    }

    /// Takes the room of one connection, and of its handshake.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn take(&self) -> Result<(), Limit> {
        if !self.gate().connections.take(self.number) {
            return Err(self.gate().connections_limit);
        }
        if !self.gate().handshakes.take(self.number) {
            self.give_back(&self.gate().connections);
            return Err(Limit::Handshakes);
        }
        Ok(())
    }

    /// A handshake has ended.
    pub(crate) fn greeted(&self) {
        self.give_back(&self.gate().handshakes);
    }

    /// A connection of `client` has ended, with its handshake or before.
    pub(crate) fn left(&self, client: IpAddr, greeted: bool) {
        self.gate().leave(client);
        self.cancel(greeted);
    }

    /// What was taken is not needed.
    pub(crate) fn cancel(&self, greeted: bool) {
        if !greeted {
            self.greeted();
        }
        self.give_back(&self.gate().connections);
    }

    /// Clients wait for `limit`, or for none. Whoever gave way to them is woken when they no longer do.
    pub(crate) fn wait_for(&self, limit: Option<Limit>) {
        let gate = self.gate();
        for (quota, its_limit) in
            [(&gate.connections, gate.connections_limit), (&gate.handshakes, Limit::Handshakes)]
        {
            let waits = limit == Some(its_limit);
            if quota.set_waiting(self.number, waits) && !waits {
                self.wake_waiting(quota);
            }
        }
    }

    fn give_back(&self, quota: &Quota) {
        quota.give_back(self.number);
        self.wake_waiting(quota);
    }

    fn wake_waiting(&self, quota: &Quota) {
        quota.waiting().filter(|worker| *worker != self.number).for_each(|worker| self.shared.wake(worker));
    }
}
