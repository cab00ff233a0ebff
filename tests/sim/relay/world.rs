//! A kernel's sockets in memory, with edge-triggered wake-ups, and a shell that performs a relay's steps on them.
//!
//! The shell holds what must be true in any history: no step is offered that is known to block, no more buffers are
//! lent than documented, none is lent while nothing is held, and a closed relay has given all of them back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tlsidecar::relay::{
    BUFFERS_MAXIMUM, Ending, Failure, Limits, Outcome, Pool, Port, Readiness, Relay, Side, Step,
};

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

/// One of our sockets, as the kernel sees it.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Arrived and not read.
    inbox: VecDeque<u8>,
    /// The peer's FIN has arrived.
    fin: bool,
    /// The peer's reset has arrived; no byte goes out any more.
    dead: bool,
    /// What the next call fails with; the call takes it away, as `SO_ERROR` is.
    error: Option<Failure>,
    /// Written and not acknowledged; at most `capacity`.
    queue: VecDeque<u8>,
    capacity: usize,
    /// A write found no room, so that room will be an edge.
    starved: bool,
    /// Our direction is shut.
    pub(crate) shut: bool,
    /// The peer takes no bytes, but sends on.
    pub(crate) refuses: bool,
    /// A wake-up is due.
    pub(crate) edge: bool,
    /// What is known to block until a wake-up.
    read_blocks: bool,
    write_blocks: bool,
    end_known: bool,
    /// All bytes that the peer has got.
    pub(crate) got: Vec<u8>,
}

impl Socket {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inbox: VecDeque::new(),
            fin: false,
            dead: false,
            error: None,
            queue: VecDeque::new(),
            capacity,
            starved: false,
            shut: false,
            refuses: false,
            edge: true,
            read_blocks: false,
            write_blocks: false,
            end_known: false,
            got: Vec::new(),
        }
    }

    pub(crate) fn arrive(&mut self, bytes: &[u8]) {
        assert!(!self.fin && !self.dead, "a peer sends nothing after its end");
        self.inbox.extend(bytes);
        self.edge = true;
    }

    pub(crate) fn arrive_fin(&mut self) {
        self.fin = true;
        self.edge = true;
    }

    pub(crate) fn arrive_reset(&mut self) {
        self.dead = true;
        self.error = Some(if self.fin { Failure::BrokenPipe } else { Failure::Reset });
        self.queue.clear();
        self.starved = false;
        self.edge = true;
    }

    /// Bytes that wait to be read by us.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// Bytes that wait to be taken by the peer.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether a write waits for room.
    pub(crate) fn starved(&self) -> bool {
        self.starved
    }

    /// The peer takes up to `count` bytes.
    pub(crate) fn drain(&mut self, count: usize) {
        let count = count.min(self.queue.len());
        self.got.extend(self.queue.drain(..count));
        if count > 0 && self.starved {
            self.starved = false;
            self.edge = true;
        }
    }

    fn readiness(&self) -> Readiness {
        Readiness {
            readable: !self.inbox.is_empty() || self.fin || self.dead,
            writable: self.queue.len() < self.capacity || self.dead,
            ended: self.fin || self.dead,
        }
    }

    fn read(&mut self, space: &mut [u8]) -> Outcome {
        let count = space.len().min(self.inbox.len());
        for (place, byte) in space.iter_mut().zip(self.inbox.drain(..count)) {
            *place = byte;
        }
        self.read_blocks = count < space.len() && !self.end_known;
        if count > 0 {
            return Outcome::Moved(count);
        }
        if self.fin {
            return Outcome::Ended;
        }
        if let Some(failure) = self.error.take() {
            return Outcome::Failed(failure);
        }
        if self.dead { Outcome::Ended } else { Outcome::WouldBlock }
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome {
        assert!(!self.shut, "a write after the shutdown");
        if self.dead || self.refuses {
            self.read_blocks = false;
            self.end_known = true;
            return Outcome::Failed(self.error.take().unwrap_or(Failure::BrokenPipe));
        }
        let count = bytes.len().min(self.capacity - self.queue.len());
        self.queue.extend(&bytes[..count]);
        self.starved = count < bytes.len();
        self.write_blocks = self.starved;
        if count == 0 { Outcome::WouldBlock } else { Outcome::Moved(count) }
    }

    fn shutdown(&mut self) -> Outcome {
        if self.dead {
            self.read_blocks = false;
            self.end_known = true;
            return Outcome::Failed(Failure::BrokenPipe);
        }
        self.shut = true;
        Outcome::Done
    }

    /// A close delivers what is queued, unless bytes are left unread: then the kernel resets.
    fn let_go(&mut self, ending: Ending) {
        match ending {
            Ending::Close if self.inbox.is_empty() => self.drain(usize::MAX),
            Ending::Close | Ending::Reset => self.queue.clear(),
        }
    }
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
            } else if self.relay.quiet() {
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
                0 => Outcome::Done,
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
        self.relay.expire(&mut self.pool, self.now);
        assert!(self.relay.deadline().is_none_or(|next| next > self.now), "a deadline does not pass");
        true
    }

    /// What the shell does when its timer entry fires: nothing, if the deadline was put off.
    pub(crate) fn expire_if_due(&mut self) {
        self.relay.expire(&mut self.pool, self.now);
    }

    pub(crate) fn label(&self) -> &'static str {
        self.relay.closed().map_or("open", tlsidecar::relay::CloseReason::label)
    }
}
