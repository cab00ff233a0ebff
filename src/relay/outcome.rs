//! What a relay makes of each step's outcome, as long as nothing ends.
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
                    self.clock.moved = now;
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
                self.clock.moved = now;
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
            Outcome::Done | Outcome::Failed(_) => {
                half.sink = Sink::Settled;
                // Nothing keeps the socket any more.
                self.half_from_mut(side).forget_source();
            }
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
}
