//! Bytes between two sockets: what to do next, and why a connection ended.

mod buffer;
mod half;
mod port;
mod reason;
mod step;
mod tls;
mod transparent;

use std::time::{Duration, Instant};

pub use buffer::{BUFFER_BYTES, Buffer, FREE_MAXIMUM, Pool};
pub use port::{Fault, FaultKind, Opened, Port};
pub use reason::{CloseReason, Ending, Party};
pub use step::{Failure, Outcome, Readiness, Side, Step};
pub use tls::{Session, Tls};
pub use transparent::Transparent;

/// How many buffers one connection holds at most.
pub const BUFFERS_MAXIMUM: usize = 4;

/// How long each phase of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the end of the handshake.
    pub handshake_timeout: Duration,
    /// From the end of the handshake to a connected upstream.
    pub connect_timeout: Duration,
    /// With both directions open: how long no byte may move in either. None: for ever.
    pub idle_timeout: Option<Duration>,
    /// With one direction ended: how long no byte may move.
    pub half_close_timeout: Duration,
    /// From the start to the end of the connection. None: for ever.
    pub maximum_age: Option<Duration>,
}

/// Bytes read from and written to one side's socket, as they were on its wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// One connection's state: offers steps, takes outcomes.
#[derive(Debug)]
pub struct Relay<P> {
    port: P,
    closed: Option<CloseReason>,
}

impl<P: Port> Relay<P> {
    /// A relay for a client just accepted at `now`.
    #[must_use]
    pub fn new(port: P, limits: Limits, now: Instant) -> Self {
        let _ = (limits, now);
        Self { port, closed: None }
    }

    /// The step to take now; none until a wake-up or a deadline.
    #[must_use]
    pub fn next(&self) -> Option<Step> {
        None
    }

    /// Where to read bytes of `side`, for the step `Read(side)`.
    #[must_use]
    pub fn read_space(&mut self, side: Side, pool: &mut Pool) -> &mut [u8] {
        let _ = (side, pool);
        &mut []
    }

    /// What to write to `side`, for the step `Write(side)`.
    #[must_use]
    pub fn write_bytes(&self, side: Side) -> &[u8] {
        let _ = side;
        &[]
    }

    /// What became of the step that [`Relay::next`] offered.
    pub fn report(&mut self, step: Step, outcome: Outcome, pool: &mut Pool, now: Instant) {
        let _ = (step, outcome, pool, now);
    }

    /// An edge-triggered wake-up of a socket; remembered until used up.
    pub fn wake(&mut self, side: Side, readiness: Readiness) {
        let _ = (side, readiness);
    }

    /// When [`Relay::expire`] is due next. Moved bytes only put it off, so one timer entry per connection is
    /// enough: ask again when it fires. After a report it may also have come nearer; ask after each turn.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Acts on a deadline that has passed; does nothing before.
    pub fn expire(&mut self, pool: &mut Pool, now: Instant) {
        let _ = (pool, now);
    }

    /// Begins to end the connection for `reason` (drain): with close_notify and FIN where it is at rest, by a
    /// reset where it is not, so that a cut reply never looks complete. Steps may follow.
    pub fn stop(&mut self, reason: CloseReason, pool: &mut Pool, now: Instant) {
        let _ = (reason, pool, now);
    }

    /// Ends the connection for `reason` at once, without further steps.
    pub fn cut(&mut self, reason: CloseReason, pool: &mut Pool) {
        let _ = pool;
        self.closed = Some(reason);
    }

    /// Why the connection ended; no step follows, and the shell lets go of its sockets by [`Relay::ending`].
    #[must_use]
    pub fn closed(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }

    /// How to let go of the socket of `side`, once closed.
    #[must_use]
    pub fn ending(&self, side: Side) -> Ending {
        let _ = side;
        Ending::Close
    }

    /// Whether the client's handshake is still under way.
    #[must_use]
    pub fn handshaking(&self) -> bool {
        self.port.handshaking()
    }

    /// Whether it holds no bytes on their way and the handshake has ended.
    #[must_use]
    pub fn quiet(&self) -> bool {
        true
    }

    /// What moved on the socket of `side`.
    #[must_use]
    pub fn traffic(&self, side: Side) -> Traffic {
        let _ = side;
        Traffic::default()
    }

    /// The port, for facts such as the session's.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }
}
