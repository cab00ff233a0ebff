//! What a relay makes of each step's outcome: the cells of the state table.
//!
//! Knows what `mod.rs` knows. Shown by the same tests.

use std::time::Instant;

use super::Relay;
use super::buffer::Pool;
use super::half::{End, Sink, Source};
use super::port::{Fault, FaultKind, Opened, Port};
use super::reason::CloseReason;
use super::stage::{Dial, Stage};
use super::step::{Failure, Outcome, Side, Step};

impl<P: Port> Relay<P> {
    /// What became of the step that [`Relay::next`] offered last.
    pub fn report(&mut self, step: Step, outcome: Outcome, pool: &mut Pool, now: Instant) {
        if self.closed().is_some() {
            debug_assert!(false, "{step:?} reported to a closed relay");
            return;
        }
        match step {
            Step::Connect => self.connect_outcome(outcome, pool, now),
            Step::Read(side) => self.read_outcome(side, outcome, pool, now),
            Step::Write(side) => self.write_outcome(side, outcome, pool, now),
            Step::Shut(side) => self.shut_outcome(side, outcome, pool),
            Step::Settle(side) => self.settle_outcome(side, outcome, pool, now),
        }
        self.advance(pool, now);
    }

    fn connect_outcome(&mut self, outcome: Outcome, pool: &mut Pool, now: Instant) {
        match outcome {
            Outcome::Done => {
                self.up.connect_sink();
                self.down.source = Source::Open;
                self.enter(Stage::Open, now);
            }
            Outcome::WouldBlock => self.stage = Stage::Dialing(Dial::Waiting),
            Outcome::Failed(failure) => {
                let reason = match failure {
                    Failure::Refused => CloseReason::UpstreamRefused,
                    Failure::Unreachable => CloseReason::UpstreamUnreachable,
                    Failure::TimedOut => CloseReason::UpstreamConnectTimeout,
                    Failure::Exhausted => CloseReason::Exhausted,
                    Failure::Reset | Failure::BrokenPipe | Failure::Other => {
                        CloseReason::UpstreamConnectFailed
                    }
                };
                self.give_up_dialing(reason, pool, now);
            }
            Outcome::Moved(_) | Outcome::Ended => self.bug("a dial moved bytes", pool),
        }
    }

    fn read_outcome(&mut self, side: Side, outcome: Outcome, pool: &mut Pool, now: Instant) {
        self.last_read = side;
        match outcome {
            Outcome::Moved(count) => {
                let space = self.space(side, pool);
                if count == 0 || count > space {
                    self.bug("a read moved more than there was space for, or nothing", pool);
                    return;
                }
                let half = self.half_from_mut(side);
                half.input.buffer(pool).fill(count);
                half.was_read(count, space);
                if half.delivers() {
                    half.moved_at = now;
                }
                match side {
                    Side::Client => {
                        self.client.read += count as u64;
                        self.open(pool, now);
                    }
                    Side::Upstream => {
                        self.upstream.read += count as u64;
                        self.seal(pool);
                    }
                }
            }
            Outcome::WouldBlock => self.half_from_mut(side).await_source(),
            Outcome::Ended => self.source_ended(side, pool, now),
            Outcome::Failed(_) => self.source_broke(side, pool, now),
            Outcome::Done => self.bug("a read was done without bytes", pool),
        }
    }

    fn write_outcome(&mut self, side: Side, outcome: Outcome, pool: &mut Pool, now: Instant) {
        let half = self.half_from_mut(side.other());
        match outcome {
            Outcome::Moved(count) if count <= half.output.filled().len() => {
                half.was_written(count);
                half.moved_at = now;
                match side {
                    Side::Client => self.client.written += count as u64,
                    Side::Upstream => self.upstream.written += count as u64,
                }
            }
            Outcome::WouldBlock => half.await_sink(),
            Outcome::Failed(failure) => self.sink_broke(side, failure, pool),
            Outcome::Moved(_) | Outcome::Ended | Outcome::Done => {
                self.bug("a write moved more than there was, or ended", pool);
            }
        }
    }

    fn shut_outcome(&mut self, side: Side, outcome: Outcome, pool: &mut Pool) {
        match outcome {
            Outcome::Done => self.half_from_mut(side.other()).sink = Sink::Shut,
            Outcome::Failed(failure) => {
                self.half_from_mut(side.other()).break_sink(pool);
                self.source_follows_sink(side, failure);
            }
            Outcome::Moved(_) | Outcome::WouldBlock | Outcome::Ended => {
                self.bug("a shutdown moved bytes or blocked", pool);
            }
        }
    }

    fn settle_outcome(&mut self, side: Side, outcome: Outcome, pool: &mut Pool, now: Instant) {
        let half = self.half_from_mut(side.other());
        match outcome {
            Outcome::Done | Outcome::Failed(_) => half.sink = Sink::Settled,
            Outcome::WouldBlock => half.await_settling(now),
            Outcome::Moved(_) | Outcome::Ended => self.bug("settling moved bytes", pool),
        }
    }

    /// Opens what the client sent.
    fn open(&mut self, pool: &mut Pool, now: Instant) {
        if self.up.source.end().is_some() {
            self.up.input.drop_bytes(pool);
            return;
        }
        let sealed = self.up.input.buffer(pool);
        let plain = self.up.output.buffer(pool);
        let replies = self.down.output.buffer(pool);
        let opened = self.port.open(sealed, plain, replies);
        if self.down.is_over() {
            self.down.output.drop_bytes(pool);
        }
        if self.up.sink == Sink::Broken {
            self.up.output.drop_bytes(pool);
        }
        match opened {
            Ok(Opened::More) if self.up.input.is_full() => {
                let text = String::from("a message is spread over more bytes than are kept");
                self.client_fault(Fault { kind: FaultKind::TooLong, text }, pool, now);
            }
            Ok(Opened::More) => {}
            Ok(Opened::Closed) => {
                self.up.source = Source::Watched(End::Clean);
                self.up.input.drop_bytes(pool);
                self.up.await_source();
            }
            Err(fault) => self.client_fault(fault, pool, now),
        }
        if self.stage == Stage::Handshaking && !self.port.handshaking() {
            self.enter(Stage::Dialing(Dial::Due), now);
        }
    }

    /// Seals what the upstream sent.
    fn seal(&mut self, pool: &mut Pool) {
        let sealed = if self.down.delivers() {
            let unopened = self.up.input.filled_mut();
            self.port.seal(self.down.input.filled(), self.down.output.buffer(pool), unopened)
        } else {
            if self.down.sink == Sink::Broken {
                // Bytes for the client are lost: it has not got all that the upstream had for it.
                self.blame(CloseReason::ClientReset);
            }
            Ok(())
        };
        self.down.input.drop_bytes(pool);
        if let Err(fault) = sealed {
            self.cut(CloseReason::ClientFault(Box::new(fault)), pool);
        }
    }

    /// A read returned zero.
    fn source_ended(&mut self, side: Side, pool: &mut Pool, now: Instant) {
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
    fn source_broke(&mut self, side: Side, pool: &mut Pool, now: Instant) {
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
    fn sink_broke(&mut self, side: Side, failure: Failure, pool: &mut Pool) {
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
    fn source_follows_sink(&mut self, side: Side, failure: Failure) {
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

    fn leave_handshake(&mut self, pool: &mut Pool) {
        let silent = self.client.read == 0;
        self.close(if silent { CloseReason::ClientProbe } else { CloseReason::ClientLeft }, pool);
    }

    /// The client's bytes were at fault. An alert that says so may be among the replies already.
    fn client_fault(&mut self, fault: Fault, pool: &mut Pool, now: Instant) {
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
            Stage::Closing | Stage::Lingering => self.finish(pool),
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
            if self.lingers() {
                self.enter(Stage::Lingering, now);
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

    fn bug(&mut self, what: &'static str, pool: &mut Pool) {
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
            self.entered = now;
            self.stage = stage;
        }
    }
}
