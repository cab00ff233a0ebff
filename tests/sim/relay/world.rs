//! A shell that performs a relay's steps on sockets in memory.
//!
//! It holds what must be true in any history: no step is offered that is known to block, no more buffers are
//! lent than documented, none is lent while nothing is held, and a closed relay has given all of them back.

use std::time::{Duration, Instant};

use tlsidecar::relay::{BUFFERS_MAXIMUM, Ending, Failure, Limits, Outcome, Pool, Port, Relay, Side, Step};

use super::socket::Socket;

/// Timeouts far apart from each other and from what the relay itself adds, so that a test knows which has passed.
pub(crate) const LIMITS: Limits = Limits {
    handshake_timeout: Duration::from_secs(10),
    connect_timeout: Duration::from_secs(30),
    idle_timeout: None,
    half_close_timeout: Duration::from_secs(60),
    maximum_age: None,
};

#[expect(clippy::disallowed_methods, reason = "tests need one real instant to count from")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

/// How the upstream takes a dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dial {
    /// At once.
    Accepts,
    /// Not yet; [`World::dialed`] tells what then.
    Waits,
    /// Never.
    Fails(Failure),
}

/// A relay between two sockets.
#[derive(Debug)]
pub(crate) struct World<P> {
    pub(crate) relay: Relay<P>,
    pub(crate) pool: Pool,
    pub(crate) client: Socket,
    pub(crate) upstream: Socket,
    pub(crate) dial: Dial,
    pub(crate) connected: bool,
    /// Whether there is an upstream's socket at all.
    pub(crate) dialing: bool,
    /// Whether it was let go, for a reset.
    pub(crate) settled: bool,
    pub(crate) now: Instant,
    /// Steps performed, for the one who wonders what they cost.
    pub(crate) steps: Vec<Step>,
    pub(crate) endings: Option<(Ending, Ending)>,
}

impl<P: Port> World<P> {
    pub(crate) fn new(port: P, limits: Limits, pool: Pool, now: Instant) -> Self {
        Self {
            relay: Relay::new(port, limits, now),
            pool,
            client: Socket::new(usize::MAX),
            upstream: Socket::new(usize::MAX),
            dial: Dial::Accepts,
            connected: false,
            dialing: false,
            settled: false,
            now,
            steps: Vec::new(),
            endings: None,
        }
    }

    pub(crate) fn socket(&mut self, side: Side) -> &mut Socket {
        match side {
            Side::Client => &mut self.client,
            Side::Upstream => &mut self.upstream,
        }
    }

    /// The dial that waited is answered.
    pub(crate) fn dialed(&mut self, dial: Dial) {
        self.dial = dial;
        self.upstream.edge = true;
    }

    /// Whether a wake-up of this side is due; the upstream has none before it is dialed.
    pub(crate) fn has_edge(&self, side: Side) -> bool {
        match side {
            Side::Client => self.client.edge,
            Side::Upstream => self.upstream.edge && self.dialing,
        }
    }

    /// Delivers a wake-up, with all that is true of the socket by now.
    pub(crate) fn wake(&mut self, side: Side) {
        let socket = self.socket(side);
        let readiness = socket.readiness();
        socket.edge = false;
        socket.read_blocks &= !(readiness.readable || readiness.ended);
        socket.write_blocks &= !readiness.writable;
        socket.end_known |= readiness.ended;
        self.relay.wake(side, readiness);
    }

    /// Performs the step the relay offers, and tells whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let Some(step) = self.relay.next() else {
            if self.relay.closed().is_some() {
                self.let_go();
            } else {
                self.relay.park(&mut self.pool);
            }
            if self.relay.quiet() {
                assert_eq!(self.pool.lent(), 0, "a quiet relay holds a buffer");
            }
            return false;
        };
        self.steps.push(step);
        let outcome = self.perform(step);
        self.relay.report(step, outcome, &mut self.pool, self.now);
        assert!(self.pool.lent() <= BUFFERS_MAXIMUM, "{} buffers lent", self.pool.lent());
        true
    }

    fn perform(&mut self, step: Step) -> Outcome {
        let of_upstream = matches!(
            step,
            Step::Read(Side::Upstream) | Step::Write(Side::Upstream) | Step::Shut(Side::Upstream)
        );
        assert!(!(self.settled && of_upstream), "{step:?} of a socket that was let go");
        match step {
            Step::Connect => self.connect(),
            Step::Read(side) => {
                assert!(!self.socket(side).read_blocks, "a read that would block is offered again: {step:?}");
                let space = self.relay.read_space(side, &mut self.pool);
                assert!(!space.is_empty(), "no space to read into");
                match side {
                    Side::Client => self.client.read(space),
                    Side::Upstream => self.upstream.read(space),
                }
            }
            Step::Write(side) => {
                assert!(
                    !self.socket(side).write_blocks,
                    "a write that would block is offered again: {step:?}"
                );
                let bytes = self.relay.write_bytes(side);
                assert!(!bytes.is_empty(), "nothing to write");
                match side {
                    Side::Client => self.client.write(bytes),
                    Side::Upstream => self.upstream.write(bytes),
                }
            }
            Step::Shut(side) => self.socket(side).shutdown(),
            Step::Settle(side) => match self.socket(side).queued() {
                0 => {
                    self.settled |= side == Side::Upstream;
                    Outcome::Done
                }
                _ => Outcome::WouldBlock,
            },
        }
    }

    fn connect(&mut self) -> Outcome {
        self.dialing = true;
        match self.dial {
            Dial::Accepts => {
                self.connected = true;
                Outcome::Done
            }
            Dial::Waits => Outcome::WouldBlock,
            Dial::Fails(failure) => Outcome::Failed(failure),
        }
    }

    fn let_go(&mut self) {
        assert_eq!(self.pool.lent(), 0, "a closed relay holds a buffer");
        assert_eq!(self.relay.deadline(), None, "a closed relay waits for something");
        if self.endings.is_none() {
            let endings = (self.relay.ending(Side::Client), self.relay.ending(Side::Upstream));
            self.client.let_go(endings.0);
            self.upstream.let_go(endings.1);
            self.endings = Some(endings);
        }
    }

    /// Delivers wake-ups and performs steps until there are none; bounded, for a relay that spins.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            for side in [Side::Client, Side::Upstream] {
                if self.has_edge(side) {
                    self.wake(side);
                }
            }
            if !self.step() && !self.has_edge(Side::Client) && !self.has_edge(Side::Upstream) {
                return;
            }
        }
        panic!("the relay spins: {:?}", &self.steps[self.steps.len() - 20..]);
    }

    /// Lets time pass to the next deadline; tells whether there was one.
    pub(crate) fn expire(&mut self) -> bool {
        let Some(deadline) = self.relay.deadline() else { return false };
        self.now = self.now.max(deadline);
        self.expire_if_due();
        assert!(self.relay.deadline().is_none_or(|next| next > self.now), "a deadline does not pass");
        true
    }

    /// What the shell does when its timer entry fires: nothing, if the deadline was put off.
    pub(crate) fn expire_if_due(&mut self) {
        for side in [Side::Client, Side::Upstream] {
            let queued = self.socket(side).queued();
            self.relay.note_unacknowledged(side, queued, self.now);
        }
        self.relay.expire(&mut self.pool, self.now);
    }

    pub(crate) fn label(&self) -> &'static str {
        self.relay.closed().map_or("open", tlsidecar::relay::CloseReason::label)
    }
}
