//! Whether a worker lets the next client in, what keeps it from that, and what is told about it.
//!
//! Does not know sockets or TLS. Shown by the end-to-end tests of limits.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::episode::News;
use super::limit::Limit;
use super::seat::Seat;
use super::{story, tally};

/// How long to rest at least when too many came in a second: tokens come in meanwhile, and are used up together.
const REST: Duration = Duration::from_millis(10);

/// A worker's way of letting clients in.
#[derive(Debug)]
pub(crate) struct Admission {
    seat: Seat,
    /// Not before this moment, after too many in a second.
    resume_at: Option<Instant>,
    /// What keeps clients in the backlog.
    held_by: Option<Limit>,
    /// Whether descriptors ran out elsewhere than in an accept, in this turn.
    exhausted: bool,
}

impl Admission {
    pub(crate) fn new(seat: Seat) -> Self {
        Self { seat, resume_at: None, held_by: None, exhausted: false }
    }

    /// Whether [`Self::reserve`] is worth trying.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        self.resume_at.is_none_or(|at| at <= now) && self.seat.has_room()
    }

    /// When it may be again, if that is a question of time.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.resume_at.filter(|at| *at > now)
    }

    /// Takes the room of one client.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn reserve(&mut self, now: Instant) -> Result<(), Limit> {
        if self.deadline(now).is_some() {
            return Err(Limit::AcceptRate);
        }
        self.seat.take()?;
        let Some(rate) = &self.seat.gate().rate else { return Ok(()) };
        let taken = rate.take(now);
        if let Err(wait) = taken {
            self.resume_at = Some(now + wait.max(REST));
            self.seat.cancel(false);
            return Err(Limit::AcceptRate);
        }
        Ok(())
    }

    /// There was no client to use what was reserved for it.
    pub(crate) fn put_back(&self) {
        self.seat.cancel(false);
        if let Some(rate) = &self.seat.gate().rate {
            rate.put_back();
        }
    }

    /// Whether the client that came may have another connection. If not, what was reserved is given back, and it is
    /// counted.
    pub(crate) fn admits(&self, client: IpAddr, now: Instant) -> bool {
        let gate = self.seat.gate();
        let admits = gate.enter(client);
        if !admits {
            self.seat.cancel(false);
            let begins = gate.touch(Limit::ClientConnections, now);
            tally::refused(&self.seat.shared.metrics, Limit::ClientConnections, begins);
        }
        admits
    }

    /// A client that was admitted could not be served.
    pub(crate) fn lost(&self, client: IpAddr) {
        self.seat.left(client, false);
    }

    /// There was no descriptor for the other side of a connection.
    pub(crate) fn exhausted(&mut self) {
        self.exhausted = true;
    }

    /// The limit that keeps clients waiting at the end of a turn; tells what is new about limits.
    pub(crate) fn hold(&mut self, limit: Option<Limit>, now: Instant) {
        let gate = self.seat.gate();
        if std::mem::take(&mut self.exhausted) {
            gate.touch(Limit::Descriptors, now);
        }
        if self.held_by != limit {
            tally::paused(&self.seat.shared.metrics, self.held_by, limit);
            gate.hold(self.held_by, limit, now);
            self.held_by = limit;
            self.seat.wait_for(limit);
        }
        while let Some(news) = gate.news(now) {
            match news {
                News::Reached(limit) => story::limit_reached(limit),
                News::Over(limit, times, lasted) => story::limit_over(limit, times, lasted),
            }
        }
    }

    /// When [`Self::hold`] may have something to tell.
    pub(crate) fn news_deadline(&self) -> Option<Instant> {
        self.seat.gate().deadline()
    }

    /// Whether a limit keeps clients waiting.
    pub(crate) fn is_holding(&self) -> bool {
        self.held_by.is_some()
    }
}
