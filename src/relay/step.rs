//! The words between a relay and the shell around it: which step to take on a socket, and what became of it.
//!
//! Knows nothing of buffers, TLS or reasons. Shown by every test of the relay.

use std::io;

/// One of a connection's two peers, and our socket towards it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The peer that speaks TLS to us.
    Client,
    /// The plaintext service behind us.
    Upstream,
}

impl Side {
    /// The side across.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Upstream,
            Self::Upstream => Self::Client,
        }
    }
}

/// What the shell is to do next. Each is one system call, and each is answered by one [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Dial the upstream; offered once the client's handshake has ended, and again (to ask how it went) when a
    /// dial that would block was woken. `Done`, `WouldBlock` or `Failed`.
    Connect,
    /// `read(2)` into [`super::Relay::read_space`]. `Moved`, `WouldBlock`, `Ended` or `Failed`.
    Read(Side),
    /// `write(2)` of [`super::Relay::write_bytes`]. `Moved`, `WouldBlock` or `Failed`.
    Write(Side),
    /// `shutdown(SHUT_WR)`. `Done` or `Failed`.
    Shut(Side),
    /// Ask whether the peer's kernel has acknowledged all that was written (`SIOCOUTQ` is zero; always so on a
    /// Unix socket), because this socket is about to be reset and a reset throws away what is still queued.
    /// `Done` or `WouldBlock`; the latter is asked again after a moment that [`super::Relay::deadline`] tells.
    Settle(Side),
}

/// What became of a [`Step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// So many bytes were read or written; at least one.
    Moved(usize),
    /// The call would have blocked, or the dial is under way.
    WouldBlock,
    /// A read returned zero: the peer has ended its direction.
    Ended,
    /// The upstream is connected, the direction is shut, or the socket is settled.
    Done,
    /// The call failed for good.
    Failed(Failure),
}

/// Why a system call failed, as far as a relay cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// `ECONNREFUSED`, or no such Unix socket.
    Refused,
    /// No route to the host or its network.
    Unreachable,
    /// `ECONNRESET`: the peer reset the connection.
    Reset,
    /// `EPIPE`: the peer takes no more bytes.
    BrokenPipe,
    /// `ETIMEDOUT`: the kernel gave up on the peer.
    TimedOut,
    /// We have no descriptor or memory left to make the socket.
    Exhausted,
    /// Anything else.
    Other,
}

impl From<io::ErrorKind> for Failure {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the kinds are open-ended, and most say nothing to a relay"
    )]
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Self::Reset,
            io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => Self::BrokenPipe,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::OutOfMemory => Self::Exhausted,
            _ => Self::Other,
        }
    }
}

/// What an edge-triggered wake-up said of a socket. Map `EPOLLERR` and `EPOLLHUP` to all three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness {
    /// `EPOLLIN`.
    pub readable: bool,
    /// `EPOLLOUT`.
    pub writable: bool,
    /// `EPOLLRDHUP`: the peer's end is already in the socket, behind what is left to read.
    pub ended: bool,
}
