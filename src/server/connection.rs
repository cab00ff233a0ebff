//! Two sockets and their relay: performs the step that the relay wants and reports the outcome.
//!
//! Does not know when to close or what the bytes mean (the relay says). Shown by the end-to-end tests of bytes,
//! half-closes and resets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry};

use super::ready::Load;
use super::token::{Slot, Source};
use super::upstream::{Socket, Upstreams};
use crate::certs::Generation;
use crate::relay::{Ending, Failure, Limits, Outcome, Pool, Readiness, Relay, Side, Step, Tls};
use crate::sys::socket;

/// What a connection borrows from its worker for a while.
pub(crate) struct Surroundings<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) pool: &'a mut Pool,
    pub(crate) upstreams: &'a Upstreams,
    pub(crate) now: Instant,
}

/// Where a connection stands after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing to do until a socket or the clock says so.
    Parked,
    /// The budget is used up and there is more to do.
    Unfinished,
    /// The relay has an end.
    Closed,
}

/// How long to wait before asking an upstream again whose backlog is full: no event tells when it has room. Twice as long
/// each time, up to the longest, for those who wait may be many.
const REDIAL: Duration = Duration::from_millis(10);
const REDIAL_DOUBLINGS: u32 = 5;

/// What a step costs of the budget at least, so that many tiny steps can't hold the loop.
const STEP_COST_BYTES: usize = 1024;

/// Two sockets and their relay.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) slot: Slot,
    pub(crate) peer: SocketAddr,
    pub(crate) relay: Relay<Tls>,
    /// The generation whose certificate this connection is greeted with; held so that live ones can be counted.
    pub(crate) generation: Arc<Generation>,
    /// Whether it stands in one of the worker's lists of those that have something to do.
    pub(crate) queued: bool,
    /// In which of them.
    pub(crate) load: Load,
    /// Whether its handshake has ended.
    pub(crate) greeted: bool,
    /// What the worker's deadlines hold for it.
    pub(crate) timer: Option<Instant>,
    client: TcpStream,
    upstream: Option<Socket>,
    /// Which of the upstream's addresses is dialled, or is next.
    address: usize,
    /// Whether a wake-up has told that the dial got through.
    dialled: bool,
    /// Whether the upstream was reached since the worker last asked.
    pub(crate) just_reached: bool,
    /// When to dial again an upstream that had no room.
    redial_at: Option<Instant>,
    /// How many times it had none.
    redials: u32,
}

impl Connection {
    /// Registers an accepted client and stands ready to greet it.
    ///
    /// # Errors
    /// What epoll_ctl(2) says, or a configuration that TLS refuses.
    pub(crate) fn new(
        (mut client, peer): (TcpStream, SocketAddr),
        slot: Slot,
        generation: Arc<Generation>,
        limits: Limits,
        around: &Surroundings<'_>,
    ) -> io::Result<Self> {
        let tls =
            Tls::new(Arc::clone(&generation.server_config)).map_err(|fault| io::Error::other(fault.text))?;
        let token = Source::Connection(slot, Side::Client).token();
        around.registry.register(&mut client, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            slot,
            peer,
            relay: Relay::new(tls, limits, around.now),
            generation,
            queued: false,
            load: Load::Brief,
            greeted: false,
            timer: None,
            client,
            upstream: None,
            address: 0,
            dialled: false,
            just_reached: false,
            redial_at: None,
            redials: 0,
        })
    }

    /// Takes note of what the kernel says of one socket.
    pub(crate) fn wake(&mut self, side: Side, event: &Event) {
        let gone = event.is_error() || event.is_write_closed();
        let ended = event.is_read_closed() || gone;
        let readiness = Readiness {
            readable: event.is_readable() || ended,
            writable: event.is_writable() || gone,
            ended,
        };
        if side == Side::Upstream && event.is_writable() && !gone {
            self.dialled = true;
        }
        self.relay.wake(side, readiness);
    }

    /// Performs steps until none is left or about `budget_bytes` have moved.
    pub(crate) fn run(&mut self, budget_bytes: usize, around: &mut Surroundings<'_>) -> Progress {
        let mut cost_bytes = 0;
        while let Some(step) = self.relay.next() {
            if cost_bytes >= budget_bytes {
                return Progress::Unfinished;
            }
            let outcome = self.perform(step, around);
            let moved_bytes = if let Outcome::Moved(bytes) = outcome { bytes } else { 0 };
            cost_bytes += moved_bytes.max(STEP_COST_BYTES);
            self.relay.report(step, outcome, around.pool, around.now);
            if (step, outcome) == (Step::Settle(Side::Upstream), Outcome::Done) {
                // The client may stay for a moment, but the upstream need not wait for that.
                self.let_go_of_upstream();
            }
        }
        if self.relay.closed().is_some() {
            return Progress::Closed;
        }
        self.relay.park(around.pool);
        Progress::Parked
    }

    /// When [`Self::expire`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.relay.deadline(), self.redial_at].into_iter().flatten().min()
    }

    /// Acts on a deadline that has passed.
    pub(crate) fn expire(&mut self, pool: &mut Pool, now: Instant) {
        if self.redial_at.is_some_and(|at| at <= now) {
            self.redial_at = None;
            let readiness = Readiness { writable: true, ..Readiness::default() };
            self.relay.wake(Side::Upstream, readiness);
        }
        for side in [Side::Client, Side::Upstream] {
            // A socket that can't be asked is told of by its other calls.
            self.relay.note_unacknowledged(side, self.unacknowledged(side).unwrap_or(0), now);
        }
        self.relay.expire(pool, now);
    }

    /// How many written bytes this peer has not taken: its kernel, or itself where both share one.
    fn unacknowledged(&self, side: Side) -> io::Result<usize> {
        match (side, &self.upstream) {
            (Side::Client, _) => socket::unacknowledged_bytes(&self.client),
            (Side::Upstream, Some(upstream)) => socket::unacknowledged_bytes(upstream),
            (Side::Upstream, None) => Ok(0),
        }
    }

    /// Makes the close that follows look to each peer as the relay wants it to.
    pub(crate) fn let_go(mut self) {
        if self.relay.ending(Side::Client) == Ending::Reset {
            reset(&self.client);
        }
        self.let_go_of_upstream();
    }

    fn let_go_of_upstream(&mut self) {
        if let Some(upstream) = self.upstream.take()
            && self.relay.ending(Side::Upstream) == Ending::Reset
        {
            reset(&upstream);
        }
    }

    fn perform(&mut self, step: Step, around: &mut Surroundings<'_>) -> Outcome {
        match step {
            Step::Connect => {
                let outcome = self.connect(around);
                self.just_reached = outcome == Outcome::Done;
                outcome
            }
            Step::Read(side) => {
                let space = self.relay.read_space(side, around.pool);
                match repeat(|| read(&mut self.client, self.upstream.as_mut(), side, space)) {
                    Ok(0) => Outcome::Ended,
                    Ok(bytes) => Outcome::Moved(bytes),
                    Err(error) => failed(&error),
                }
            }
            Step::Write(side) => {
                let bytes = self.relay.write_bytes(side);
                let last = self.relay.writes_last(side);
                let written = repeat(|| match (side, self.upstream.as_mut()) {
                    (Side::Client, _) if last => socket::write_before_end(&self.client, bytes),
                    (Side::Client, _) => self.client.write(bytes),
                    (Side::Upstream, Some(upstream)) => upstream.write(bytes),
                    (Side::Upstream, None) => Err(io::ErrorKind::NotConnected.into()),
                });
                written.map_or_else(|error| failed(&error), Outcome::Moved)
            }
            Step::Shut(side) => {
                let shut = match (side, &self.upstream) {
                    (Side::Client, _) => self.client.shutdown(Shutdown::Write),
                    (Side::Upstream, Some(upstream)) => upstream.shut(),
                    (Side::Upstream, None) => Ok(()),
                };
                shut.map_or_else(|error| failed(&error), |()| Outcome::Done)
            }
            Step::Settle(side) => {
                // Closing a Unix socket throws nothing away.
                let unix = matches!((side, &self.upstream), (Side::Upstream, Some(Socket::Unix(_))));
                let unsent = !unix && matches!(self.unacknowledged(side), Ok(1..));
                if unsent { Outcome::WouldBlock } else { Outcome::Done }
            }
        }
    }

    /// Dials the upstream's next address, or looks whether the last dial got through.
    fn connect(&mut self, around: &Surroundings<'_>) -> Outcome {
        let fault = match &self.upstream {
            Some(_) if self.dialled => return Outcome::Done,
            Some(socket) => match socket.connected() {
                Ok(true) => return Outcome::Done,
                Ok(false) => return Outcome::WouldBlock,
                Err(error) => {
                    self.address += 1;
                    Some(error)
                }
            },
            None => None,
        };
        self.upstream = None;
        self.dial(fault, around)
    }

    /// Dials until an address is on its way, has no room at the moment, or none is left.
    fn dial(&mut self, mut fault: Option<io::Error>, around: &Surroundings<'_>) -> Outcome {
        let token = Source::Connection(self.slot, Side::Upstream).token();
        while let Some(dialled) = around.upstreams.dial(self.address) {
            let registered = dialled.and_then(|mut socket| {
                socket.register(around.registry, token)?;
                Ok(socket)
            });
            match registered {
                Ok(socket) => {
                    self.upstream = Some(socket);
                    return Outcome::WouldBlock;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.redial_at =
                        Some(around.now + REDIAL * 2_u32.pow(self.redials.min(REDIAL_DOUBLINGS)));
                    self.redials += 1;
                    return Outcome::WouldBlock;
                }
                Err(error) => fault = Some(error),
            }
            self.address += 1;
        }
        fault.map_or(Outcome::Failed(Failure::Other), |error| failed(&error))
    }
}

fn read(
    client: &mut TcpStream,
    upstream: Option<&mut Socket>,
    side: Side,
    space: &mut [u8],
) -> io::Result<usize> {
    match (side, upstream) {
        (Side::Client, _) => client.read(space),
        (Side::Upstream, Some(upstream)) => upstream.read(space),
        (Side::Upstream, None) => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// Calls again what a signal interrupted.
fn repeat(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn failed(error: &io::Error) -> Outcome {
    if error.kind() == io::ErrorKind::WouldBlock {
        Outcome::WouldBlock
    } else if socket::is_exhaustion(error) {
        Outcome::Failed(Failure::Exhausted)
    } else {
        Outcome::Failed(error.kind().into())
    }
}

/// Makes the close that follows a reset.
pub(crate) fn reset(socket: &impl AsFd) {
    if let Err(error) = socket::reset_on_close(socket) {
        tracing::debug!(%error, "a socket is closed where a reset was due");
    }
}
