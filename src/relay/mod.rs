//! Bytes between two sockets: what to do next, and why a connection ended.
//!
//! A `Relay` is a pure machine. It offers a `Step`, the shell performs it and reports the `Outcome`; the shell
//! tells of wake-ups and of time. The relay never sees a socket, a clock or a metric, and only `tls.rs` names TLS'
//! library. Shown by `tests/sim/relay`: every history at small scope, seeded runs against a real TLS client, and a
//! named test for each trap known of this kind of loop.
//!
//! # Two halves
//!
//! A relay is two `half::Half`s, *up* (client to upstream) and *down* (upstream to client), each with a source,
//! an input, an output and a sink. Bytes are read only while the output is empty, so a reader that does not keep up
//! stops the writer at the other end and `BUFFERS_MAXIMUM` is all the memory it can pin.
//!
//! The end of a source travels behind its bytes:
//!
//! | end   | of up is                                | of down is         | passed on as                               |
//! |-------|-----------------------------------------|--------------------|--------------------------------------------|
//! | clean | close_notify, whatever follows it       | FIN                | (down: close_notify, then) FIN             |
//! | torn  | FIN without close_notify                | -                  | FIN, and the reason says so                |
//! | cut   | reset without close_notify, or a fault  | reset              | a reset, once the bytes before it arrived  |
//!
//! A failed write breaks a sink: what was for it is dropped, and its peer's own bytes are still read to their end.
//!
//! # The stages
//!
//! | what happens           | Handshaking | Dialing | Open   | Ending | Closing | Lingering |
//! |------------------------|-------------|---------|--------|--------|---------|-----------|
//! | client sends bytes     | shake       | hold    | relay  | relay  | drop    | drop      |
//! | client's source ends   | leave       | note    | pass   | pass   | note    | finish    |
//! | client resets          | leave       | note    | abort  | abort  | break   | finish    |
//! | client's TLS at fault  | alert       | alert   | alert  | alert  | alert   | drop      |
//! | write to client fails  | leave       | break   | break  | break  | break   | -         |
//! | upstream connects      | -           | begin   | -      | -      | -       | -         |
//! | dial fails             | -           | decline | -      | -      | -       | -         |
//! | upstream sends bytes   | -           | -       | relay  | relay  | drop    | drop      |
//! | upstream's source ends | -           | -       | pass   | pass   | note    | finish    |
//! | upstream resets        | -           | -       | abort  | abort  | break   | finish    |
//! | write to upstream fails| -           | -       | break  | break  | break   | -         |
//! | both sinks are over    | -           | -       | finish | finish | finish  | finish    |
//! | its timer fires        | expire      | decline | rest   | cut    | finish  | finish    |
//! | stop, maximum age      | expire      | decline | rest   | cut    | -       | -         |
//!
//! - *shake*: open it, answer it; Dialing once the handshake has ended. *hold*: open it, keep it until there is an
//!   upstream. *relay*: open or seal it and write it, or drop it if its sink is broken. *drop*: read and forget it.
//! - *begin*: Open (Ending, if an end was noted). *decline*: close_notify to the client; Closing.
//! - *note*: remember the end for later; a cut with nothing left to deliver is the end of a dial. *pass*: pass the
//!   end on behind its bytes; Ending. *abort*: deliver the bytes before it, then reset the other side; Closing, or
//!   Ending if close_notify had come before the reset. *break*: the sink is broken; Ending, or the same stage.
//! - *alert*: the alert to the client, the bytes before the fault and then a reset to the upstream; Closing.
//! - *rest*: as if both peers had ended, if nothing moves (then Closing); else *cut*: reset both; Closed.
//! - *leave*, *expire*: Closed. *finish*: Lingering while a peer that got everything may still send, then Closed.
//!
//! A peer that takes bytes slowly out of our socket keeps its timer from firing, as one does whose bytes move.
//!
//! Closed offers no step and waits for nothing. An outcome that does not fit its step is our bug and closes too.

mod buffer;
mod ends;
mod half;
mod outcome;
mod port;
mod reason;
mod stage;
mod step;
mod tls;
mod transparent;

use std::time::Instant;

pub use buffer::{Buffer, LARGE_BYTES, Pool, SMALL_BYTES, Size};
use half::{End, Half, Sink, Source};
pub use port::{Fault, FaultKind, Opened, Port};
pub use reason::{CloseReason, Ending, Party};
pub use stage::{CLOSING_TIMEOUT, LINGER_BYTES, LINGER_TIMEOUT, Limits, REST};
use stage::{Clock, Dial, Stage, Timeouts};
pub use step::{Failure, Outcome, Readiness, Side, Step};
pub use tls::{Session, Tls};
pub use transparent::Transparent;

/// How many buffers one connection holds at most: an input and an output a half. Only the output towards the client
/// can be larger than a buffer, while our own certificate chain in it is.
pub const BUFFERS_MAXIMUM: usize = 4;

/// Bytes read from and written to one side's socket, as they were on its wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// One connection: two halves, a port between them, and where it stands.
#[derive(Debug)]
pub struct Relay<P> {
    port: P,
    up: Half,
    down: Half,
    stage: Stage,
    timeouts: Timeouts,
    clock: Clock,
    /// Why it is ending, if that is known already. The first to blame stays to blame.
    verdict: Option<CloseReason>,
    /// The side that was read last: the other goes first, so that a flood one way never starves the other.
    last_read: Side,
    client: Traffic,
    upstream: Traffic,
}

impl<P: Port> Relay<P> {
    /// A relay for a client just accepted at `now`. Tell it of the client's wake-ups; none is assumed.
    #[must_use]
    pub fn new(port: P, limits: Limits, now: Instant) -> Self {
        Self {
            port,
            up: Half::new(Side::Client, Source::Open, Sink::Absent),
            down: Half::new(Side::Upstream, Source::Absent, Sink::Open),
            stage: Stage::Handshaking,
            timeouts: Timeouts::from(limits),
            clock: Clock { born: now, entered: now, moved: now },
            verdict: None,
            last_read: Side::Upstream,
            client: Traffic::default(),
            upstream: Traffic::default(),
        }
    }

    /// The step to take now; none until a wake-up or a deadline. A step that would block is not offered again
    /// before its socket was woken.
    #[must_use]
    pub fn next(&self) -> Option<Step> {
        match self.stage {
            Stage::Closed(_) => return None,
            Stage::Dialing(Dial::Due) => return Some(Step::Connect),
            Stage::Handshaking
            | Stage::Dialing(Dial::Waiting)
            | Stage::Open
            | Stage::Ending
            | Stage::Closing
            | Stage::Lingering { .. } => {}
        }
        let first = self.last_read.other();
        self.down
            .gathering()
            .or_else(|| self.down.writing())
            .or_else(|| self.up.writing())
            .or_else(|| self.down.ending())
            .or_else(|| self.up.ending())
            .or_else(|| self.half_from(first).reading())
            .or_else(|| self.half_from(first.other()).reading())
    }

    /// Whether what there is to write to `side` is the last before its direction is shut, so that the end may travel
    /// in the same packet.
    #[must_use]
    pub fn writes_last(&self, side: Side) -> bool {
        self.half_from(side.other()).sink == Sink::Told
    }

    /// Where to read bytes of `side`, for the step `Read(side)`. Never empty when the step was offered.
    #[must_use]
    pub fn read_space(&mut self, side: Side, pool: &mut Pool) -> &mut [u8] {
        let space = self.space(side, pool);
        let buffer = self.half_from_mut(side).input.buffer(pool);
        buffer.room().get_mut(..space).unwrap_or_default()
    }

    /// What to write to `side`, for the step `Write(side)`. Never empty when the step was offered.
    #[must_use]
    pub fn write_bytes(&self, side: Side) -> &[u8] {
        self.half_from(side.other()).output.filled()
    }

    /// There is no step for now: bytes that wait are kept in no more memory than they need, for those who wait may be
    /// many.
    pub fn park(&mut self, pool: &mut Pool) {
        self.up.fit(pool);
        self.down.fit(pool);
    }

    /// An edge-triggered wake-up of the socket of `side`; remembered until used up.
    pub fn wake(&mut self, side: Side, readiness: Readiness) {
        self.half_from_mut(side).wake_source(readiness);
        self.half_from_mut(side.other()).wake_sink(readiness);
        let answered = side == Side::Upstream && (readiness.writable || readiness.ended);
        if answered && self.stage == Stage::Dialing(Dial::Waiting) {
            self.stage = Stage::Dialing(Dial::Due);
        }
    }

    /// When [`Relay::expire`] is due next.
    ///
    /// Moved bytes only put it off, so one timer entry a connection is enough: ask again when it fires. Other
    /// outcomes may bring it nearer: ask when a connection's turn is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        [
            self.stage_deadline(),
            self.stage.age_deadline(&self.timeouts, self.clock),
            self.up.settling_at(),
            self.down.settling_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How many of the bytes written to `side` its kernel has not acknowledged, to be told right before
    /// [`Relay::expire`]. Room for more is only an event once a good part of them is gone, so a peer that reads slowly
    /// may be taking bytes all the time although none can be written.
    pub fn note_unacknowledged(&mut self, side: Side, bytes: usize, now: Instant) {
        if self.half_from_mut(side.other()).is_being_taken(bytes) {
            self.clock.moved = now;
        }
    }

    /// Acts on deadlines that have passed; does nothing before. Steps may follow.
    pub fn expire(&mut self, pool: &mut Pool, now: Instant) {
        self.up.expire_settling(now);
        self.down.expire_settling(now);
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if passed(self.stage_deadline()) {
            self.expire_stage(pool, now);
        } else if passed(self.stage.age_deadline(&self.timeouts, self.clock)) {
            self.stop(CloseReason::MaximumAge, pool, now);
        }
    }

    /// Begins to end the connection for `reason` (drain, or a limit): with close_notify and FIN where both directions are
    /// open and at rest (see [`REST`]), by a reset where they are not, so that a cut reply never looks complete. Steps
    /// may follow.
    pub fn stop(&mut self, reason: CloseReason, pool: &mut Pool, now: Instant) {
        match self.stage {
            Stage::Handshaking => self.close(reason, pool),
            Stage::Dialing(_) => self.give_up_dialing(reason, pool, now),
            Stage::Open if self.at_rest(now) => self.part(reason, pool, now),
            Stage::Open | Stage::Ending => self.cut(reason, pool),
            Stage::Closing | Stage::Lingering { .. } | Stage::Closed(_) => {}
        }
    }

    /// Ends the connection at once, for `reason` unless another was known already. No step follows.
    pub fn cut(&mut self, reason: CloseReason, pool: &mut Pool) {
        self.blame(reason);
        let reason = self.verdict.take().unwrap_or(CloseReason::Finished);
        self.close(reason, pool);
    }

    /// Why the connection ended. No step follows; the shell lets go of its sockets by [`Relay::ending`].
    #[must_use]
    pub fn closed(&self) -> Option<&CloseReason> {
        match &self.stage {
            Stage::Closed(reason) => Some(reason),
            Stage::Handshaking
            | Stage::Dialing(_)
            | Stage::Open
            | Stage::Ending
            | Stage::Closing
            | Stage::Lingering { .. } => None,
        }
    }

    /// How to let go of the socket of `side`, once closed: a peer whose last byte and end were not passed on sees a
    /// reset. The upstream's is meaningless if there is no such socket.
    #[must_use]
    pub fn ending(&self, side: Side) -> Ending {
        let half = self.half_from(side.other());
        let mirror = self.half_from(side);
        let told = match half.sink {
            Sink::Broken | Sink::Absent => true,
            Sink::Shut => side == Side::Client || mirror.source.end() == Some(End::Clean),
            Sink::Open | Sink::Told => self.port.handshaking(),
            Sink::Settled => false,
        };
        if told { Ending::Close } else { Ending::Reset }
    }

    /// Whether the client's handshake is still under way.
    #[must_use]
    pub fn handshaking(&self) -> bool {
        self.stage == Stage::Handshaking
    }

    /// Whether its handshake has ended and it holds no bytes on their way (and so no buffer).
    #[must_use]
    pub fn quiet(&self) -> bool {
        !self.handshaking() && self.up.is_empty() && self.down.is_empty()
    }

    /// What moved on the socket of `side`.
    #[must_use]
    pub fn traffic(&self, side: Side) -> Traffic {
        match side {
            Side::Client => self.client,
            Side::Upstream => self.upstream,
        }
    }

    /// The port, for facts such as the session's.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.port
    }

    /// How many bytes a read of `side` may bring now.
    fn space(&mut self, side: Side, pool: &mut Pool) -> usize {
        let half = self.half_from_mut(side);
        let input = half.input.buffer(pool).room().len();
        let output = half.output.buffer(pool).room().len();
        match side {
            Side::Client => input.min(output),
            Side::Upstream => input.min(self.port.plain_bytes(output)),
        }
    }

    fn half_from(&self, side: Side) -> &Half {
        match side {
            Side::Client => &self.up,
            Side::Upstream => &self.down,
        }
    }

    fn half_from_mut(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Client => &mut self.up,
            Side::Upstream => &mut self.down,
        }
    }

    /// An open connection whose end is in sight, but stuck, lasts no longer than a half-closed one.
    fn stage_deadline(&self) -> Option<Instant> {
        let ending = self.stage == Stage::Open && self.nears_end();
        let stage = if ending { &Stage::Ending } else { &self.stage };
        stage.deadline(&self.timeouts, self.clock)
    }

    /// Whether ending the connection now would cut nothing short, as far as bytes tell.
    fn at_rest(&self, now: Instant) -> bool {
        self.quiet() && now.saturating_duration_since(self.clock.moved) >= REST
    }
}
