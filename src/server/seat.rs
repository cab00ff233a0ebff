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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use std::time::Duration;

    use mio::{Events, Poll, Token, Waker};

    use super::*;
    use crate::server::shared;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// Two workers, and what tells whether the loop of each would turn.
    fn seats(places: usize) -> ([Seat; 2], [Poll; 2]) {
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), Token(0)).unwrap()).collect();
        let shared = Arc::new(shared::for_tests(places, wakers));
        ([0, 1].map(|number| Seat { shared: Arc::clone(&shared), number }), polls)
    }

    fn is_woken(poll: &mut Poll) -> bool {
        let mut events = Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    }

    #[test]
    fn room_wakes_whoever_waits_for_it_and_then_whoever_gave_way() {
        let ([first, second], [mut of_first, mut of_second]) = seats(2);
        assert!(first.take().is_ok() && first.take().is_ok());
        assert_eq!(second.take(), Err(Limit::Connections));
        second.wait_for(Some(Limit::Connections));
        assert!(!is_woken(&mut of_second));
        first.left(CLIENT, false);
        assert!(is_woken(&mut of_second), "it sleeps although there is room");
        assert_eq!(first.take(), Err(Limit::Connections), "the other's turn");
        first.wait_for(Some(Limit::Connections));
        assert!(!is_woken(&mut of_first));
        second.wait_for(None);
        assert!(is_woken(&mut of_first), "it gives way to nobody");
        assert!(first.take().is_ok());
    }

    #[test]
    fn a_handshake_that_ends_makes_room_for_another_and_not_for_a_connection() {
        let ([first, second], [_, mut of_second]) = seats(1);
        assert!(first.take().is_ok());
        first.greeted();
        second.wait_for(Some(Limit::Handshakes));
        assert_eq!(second.take(), Err(Limit::Connections));
        first.left(CLIENT, true);
        assert!(second.take().is_ok());
        second.cancel(false);
        first.wait_for(Some(Limit::Connections));
        assert!(first.take().is_ok() && second.take().is_err());
        second.wait_for(Some(Limit::Connections));
        assert!(!is_woken(&mut of_second));
        first.cancel(false);
        assert!(is_woken(&mut of_second));
    }
}
