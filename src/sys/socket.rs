//! Sockets with the options that a relay wants, set once on the listener where accepted sockets inherit them.
//!
//! Does not know TLS, limits or who accepts. Shown by the end-to-end tests of listening and of resets.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{
    self, AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};

/// A TCP socket that holds `address` but does not listen yet: until [`start_listening`] a client is refused.
///
/// `share` lets several sockets of this process hold the same address, one a worker.
///
/// # Errors
/// What socket(2), setsockopt(2) or bind(2) say.
pub fn bind(address: SocketAddr, share: Share) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    if share == Share::Workers {
        setsockopt(&socket, sockopt::ReusePort, &true)?;
    }
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
    }
    hand_down(&socket)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(TcpListener::from(socket))
}

/// Whether several workers hold one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// One socket has the address for itself.
    Alone,
    /// SO_REUSEPORT: the kernel spreads clients over the workers.
    Workers,
}

/// Lets clients in, `backlog` of them before the first accept.
///
/// # Errors
/// What listen(2) says; EADDRINUSE when another process took the port without sharing it.
pub fn start_listening(socket: &TcpListener, backlog: i32) -> io::Result<()> {
    let backlog = Backlog::new(backlog).unwrap_or(Backlog::MAXALLOWABLE);
    Ok(socket::listen(socket, backlog)?)
}

/// How long a silent client may be gone before the kernel asks whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Options that accepted sockets inherit from the listener, so that no accept pays for them.
fn hand_down(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    let seconds = u32::try_from(KEEPALIVE_IDLE.as_secs()).unwrap_or(u32::MAX);
    setsockopt(socket, sockopt::TcpKeepIdle, &seconds)?;
    Ok(())
}

/// Makes the close of `socket` a reset, so that a cut reply never looks like a complete one.
///
/// # Errors
/// What setsockopt(2) says.
pub fn reset_on_close(socket: &impl AsFd) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    Ok(setsockopt(&socket.as_fd(), sockopt::Linger, &linger)?)
}

/// Whether the process or the system has no room for another descriptor or socket just now.
#[must_use]
pub fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Writes bytes after which the direction is shut at once: the kernel keeps the last packet back for the end to travel
/// in it.
///
/// # Errors
/// What send(2) says.
pub fn write_before_end(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::from_bits_retain(libc::MSG_MORE) | MsgFlags::MSG_NOSIGNAL;
    Ok(socket::send(socket.as_fd().as_raw_fd(), bytes, flags)?)
}

/// Whether a read, or an accept, would find something. A socket that can't be asked counts as one that would.
#[must_use]
#[expect(unsafe_code, reason = "nix offers poll(2) only behind a feature of its own")]
pub fn is_readable(socket: &impl AsFd) -> bool {
    let mut asked = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one pollfd that outlives the call, as the count of 1 says.
    let count = unsafe { libc::poll(&raw mut asked, 1, 0) };
    count != 0
}

/// How many written bytes the peer's kernel has not acknowledged yet.
///
/// # Errors
/// What ioctl(2) says.
#[expect(unsafe_code, reason = "nix has no safe wrapper of this ioctl")]
pub fn unacknowledged_bytes(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed and thus open, and TIOCOUTQ writes one int to the address given.
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Whether the host has no such addresses at all.
#[must_use]
pub fn is_unsupported_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}
