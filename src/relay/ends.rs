//! How a relay ends: which end, fault or failure of one side becomes what for the other, and when it is over.
//!
//! Knows what `mod.rs` knows. Shown by `tests/sim/relay/ends.rs` and every history.

use std::time::Instant;

use super::Relay;
use super::buffer::Pool;
use super::half::{End, Sink, Source};
use super::port::{Fault, Port};
use super::reason::CloseReason;
use super::stage::{LINGER_BYTES, Stage};
use super::step::{Failure, Side};

impl<P: Port> Relay<P> {
    /// A read returned zero.
    pub(super) fn source_ended(&mut self, side: Side, pool: &mut Pool, now: Instant) {
        if self.stage == Stage::Handshaking {
            self.leave_handshake(pool);
            return;
        }
        let half = self.half_from_mut(side);
        half.input.drop_bytes(pool);
        match (half.source, side) {
            (Source::Watched(end), _) => half.source = Source::Ended(end),
            (Source::Open, Side::Client) => half.source = Source::Ended(End::Torn),
            (Source::Open, Side::Upstream) => half.source = Source::Ended(End::Clean),
            (Source::Doomed, _) => self.source_broke(side, pool, now),
            (Source::Absent | Source::Ended(_), _) => self.bug("an end after the end", pool),
        }
    }

    /// A read failed: the socket is of no use in either direction.
    pub(super) fn source_broke(&mut self, side: Side, pool: &mut Pool, now: Instant) {
        if self.stage == Stage::Handshaking {
            self.leave_handshake(pool);
            return;
        }
        let lost = !self.half_from(side.other()).output.is_empty();
        self.half_from_mut(side.other()).break_sink(pool);
        let half = self.half_from_mut(side);
        half.input.drop_bytes(pool);
        let known = half.source.end();
        half.source = Source::Ended(known.unwrap_or(End::Cut));
        if known.is_none() || (lost && side == Side::Client) {
            self.blame(match side {
                Side::Client => CloseReason::ClientReset,
                Side::Upstream => CloseReason::UpstreamReset,
            });
        }
        if known.is_none() && !matches!(self.stage, Stage::Dialing(_)) {
            self.enter(Stage::Closing, now);
        }
    }

    /// A write failed. What the same peer sent before is still worth reading.
    pub(super) fn sink_broke(&mut self, side: Side, failure: Failure, pool: &mut Pool) {
        if self.stage == Stage::Handshaking {
            self.leave_handshake(pool);
            return;
        }
        let half = self.half_from_mut(side.other());
        let only_end_lost = half.sink == Sink::Told;
        half.break_sink(pool);
        self.source_follows_sink(side, failure);
        match side {
            // A client that had said and got everything may well be gone before it is told so.
            Side::Client if only_end_lost && self.up.source.end() == Some(End::Clean) => {}
            Side::Client => self.blame(CloseReason::ClientReset),
            Side::Upstream => self.blame(CloseReason::UpstreamStoppedReading),
        }
    }

    /// A failed call took the socket's error with it, so that a later read would show a mere end. Only a broken pipe
    /// leaves the other direction as it was.
    pub(super) fn source_follows_sink(&mut self, side: Side, failure: Failure) {
        let half = self.half_from_mut(side);
        match failure {
            Failure::BrokenPipe => half.read_on(),
            Failure::Refused
            | Failure::Unreachable
            | Failure::Reset
            | Failure::TimedOut
            | Failure::Exhausted
            | Failure::Other => half.doom_source(),
        }
    }

    pub(super) fn leave_handshake(&mut self, pool: &mut Pool) {
        let silent = self.client.read == 0;
        self.close(if silent { CloseReason::ClientProbe } else { CloseReason::ClientLeft }, pool);
    }

    /// The client's bytes were at fault. An alert that says so may be among the replies already.
    pub(super) fn client_fault(&mut self, fault: Fault, pool: &mut Pool, now: Instant) {
        self.blame(CloseReason::ClientFault(Box::new(fault)));
        self.up.input.drop_bytes(pool);
        self.up.source = Source::Watched(End::Cut);
        if self.up.sink == Sink::Absent {
            self.up.break_sink(pool);
        }
        if self.down.source.end() != Some(End::Cut) {
            self.down.source = match self.down.source {
                Source::Absent | Source::Ended(_) => Source::Ended(End::Clean),
                Source::Open | Source::Doomed | Source::Watched(_) => Source::Watched(End::Clean),
            };
            if self.down.sink == Sink::Open {
                self.down.sink = Sink::Told;
            }
        }
        self.enter(Stage::Closing, now);
    }

    /// There will be no upstream: the client is told by close_notify.
    pub(super) fn give_up_dialing(&mut self, reason: CloseReason, pool: &mut Pool, now: Instant) {
        self.blame(reason);
        self.up.break_sink(pool);
        self.down.source = Source::Ended(End::Clean);
        self.enter(Stage::Closing, now);
        self.advance(pool, now);
    }

    /// Ends both directions as if both peers had.
    pub(super) fn part(&mut self, reason: CloseReason, pool: &mut Pool, now: Instant) {
        self.blame(reason);
        for half in [&mut self.up, &mut self.down] {
            if half.source.end().is_none() {
                half.source = Source::Watched(End::Clean);
            }
        }
        self.enter(Stage::Closing, now);
        self.advance(pool, now);
    }

    /// The stage has lasted too long.
    pub(super) fn expire_stage(&mut self, pool: &mut Pool, now: Instant) {
        match self.stage {
            Stage::Handshaking => self.close(CloseReason::HandshakeTimeout, pool),
            Stage::Dialing(_) => self.give_up_dialing(CloseReason::UpstreamConnectTimeout, pool, now),
            Stage::Open if self.nears_end() => self.cut(CloseReason::HalfCloseTimeout, pool),
            Stage::Open if self.quiet() => self.part(CloseReason::IdleTimeout, pool, now),
            Stage::Open => self.cut(CloseReason::IdleTimeout, pool),
            Stage::Ending => self.cut(CloseReason::HalfCloseTimeout, pool),
            Stage::Closing | Stage::Lingering { .. } => self.finish(pool),
            Stage::Closed(_) => {}
        }
    }

    /// Follows up on whatever has changed: ends are passed on, buffers given back, the stage moves on.
    pub(super) fn advance(&mut self, pool: &mut Pool, now: Instant) {
        if self.closed().is_some() {
            return;
        }
        let never_dialed = self.up.sink == Sink::Absent;
        if never_dialed && self.up.source == Source::Ended(End::Cut) && self.up.output.is_empty() {
            self.finish(pool);
            return;
        }
        if self.up.may_tell() {
            self.up.sink = Sink::Told;
        }
        if self.down.may_tell() {
            self.down.sink = Sink::Told;
            let unopened = self.up.input.filled_mut();
            if let Err(fault) = self.port.close(self.down.output.buffer(pool), unopened) {
                self.cut(CloseReason::ClientFault(Box::new(fault)), pool);
                return;
            }
        }
        self.up.tidy(pool);
        self.down.tidy(pool);
        if self.up.is_over() && self.down.is_over() {
            let upstream_read = if let Stage::Lingering { upstream_read } = self.stage {
                upstream_read
            } else {
                self.upstream.read
            };
            if self.lingers() && self.upstream.read - upstream_read <= LINGER_BYTES {
                self.enter(Stage::Lingering { upstream_read }, now);
            } else {
                self.finish(pool);
            }
        } else if self.stage == Stage::Open && self.has_end() {
            self.enter(Stage::Ending, now);
        }
    }

    /// Whether an end waits in a socket behind bytes that the other side does not take.
    pub(super) fn nears_end(&self) -> bool {
        self.up.nears_end() || self.down.nears_end()
    }

    /// Whether either direction has ended or broken.
    fn has_end(&self) -> bool {
        [&self.up, &self.down].into_iter().any(|half| half.source.end().is_some() || half.is_over())
    }

    /// Whether a peer that got all we had for it may still be sending, and would lose it to a reset if we closed.
    fn lingers(&self) -> bool {
        let client = self.down.sink == Sink::Shut
            && matches!(self.up.source, Source::Open | Source::Watched(End::Cut));
        let upstream =
            self.up.sink == Sink::Shut && self.down.sink == Sink::Broken && self.down.source == Source::Open;
        client || upstream
    }

    /// Closes for the reason that is known, or because the work is done.
    fn finish(&mut self, pool: &mut Pool) {
        let torn = self.up.source.end() == Some(End::Torn);
        let done = if torn { CloseReason::ClientTorn } else { CloseReason::Finished };
        let reason = self.verdict.take().unwrap_or(done);
        self.close(reason, pool);
    }

    pub(super) fn close(&mut self, reason: CloseReason, pool: &mut Pool) {
        self.up.drop_bytes(pool);
        self.down.drop_bytes(pool);
        self.stage = Stage::Closed(reason);
    }

    pub(super) fn bug(&mut self, what: &'static str, pool: &mut Pool) {
        debug_assert!(false, "{what}");
        self.close(CloseReason::Bug(what), pool);
    }

    pub(super) fn blame(&mut self, reason: CloseReason) {
        let refines =
            self.verdict == Some(CloseReason::UpstreamStoppedReading) && reason == CloseReason::UpstreamReset;
        if self.verdict.is_none() || refines {
            self.verdict = Some(reason);
        }
    }

    pub(super) fn enter(&mut self, stage: Stage, now: Instant) {
        if self.stage != stage {
            self.clock.entered = now;
            self.stage = stage;
        }
    }
}
