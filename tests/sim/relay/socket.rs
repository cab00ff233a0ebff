//! A kernel's socket in memory, with what bites: edges that come once, a reset that throws queued bytes away, an error
//! that the first failing call takes with it, a close that becomes a reset when bytes are left unread.

use std::collections::VecDeque;

use tlsidecar::relay::{Ending, Failure, Outcome, Readiness};

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
    pub(crate) read_blocks: bool,
    pub(crate) write_blocks: bool,
    pub(crate) end_known: bool,
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

    pub(crate) fn readiness(&self) -> Readiness {
        Readiness {
            readable: !self.inbox.is_empty() || self.fin || self.dead,
            writable: self.queue.len() < self.capacity || self.dead,
            ended: self.fin || self.dead,
        }
    }

    pub(crate) fn read(&mut self, space: &mut [u8]) -> Outcome {
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

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
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

    pub(crate) fn shutdown(&mut self) -> Outcome {
        if self.dead {
            self.read_blocks = false;
            self.end_known = true;
            return Outcome::Failed(Failure::BrokenPipe);
        }
        self.shut = true;
        Outcome::Done
    }

    /// A close delivers what is queued, unless bytes are left unread: then the kernel resets.
    pub(crate) fn let_go(&mut self, ending: Ending) {
        match ending {
            Ending::Close if self.inbox.is_empty() => self.drain(usize::MAX),
            Ending::Close | Ending::Reset => self.queue.clear(),
        }
    }
}
