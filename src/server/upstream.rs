//! The plaintext service's addresses, and a socket to one of them.
//!
//! Does not know which connection dials or why. Shown by the end-to-end tests over TCP and Unix sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddress;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::config::Upstream;

/// Every address of the upstream, tried in order.
#[derive(Debug)]
pub(crate) struct Upstreams {
    addresses: Vec<Address>,
}

#[derive(Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(UnixAddress),
}

/// A socket to the upstream, connected or on its way.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Upstreams {
    /// Looks the upstream's name up, once.
    ///
    /// # Errors
    /// A name that can't be resolved.
    pub(crate) fn resolve(upstream: &Upstream) -> io::Result<Self> {
        let addresses = match upstream {
            Upstream::Tcp { host, port } => {
                (host.as_str(), *port).to_socket_addrs()?.map(Address::Tcp).collect::<Vec<_>>()
            }
            Upstream::Unix(path) => vec![Address::Unix(UnixAddress::from_pathname(path)?)],
            Upstream::UnixAbstract(name) => vec![Address::Unix(UnixAddress::from_abstract_name(name)?)],
        };
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(Self { addresses })
    }

    /// Starts a connection to the address with this index; nothing when there is none.
    pub(crate) fn dial(&self, index: usize) -> Option<io::Result<Socket>> {
        Some(match self.addresses.get(index)? {
            Address::Tcp(address) => TcpStream::connect(*address).map(|stream| {
                // A failure costs latency, not bytes; the connect's own outcome says more.
                let _ = stream.set_nodelay(true);
                Socket::Tcp(stream)
            }),
            Address::Unix(address) => UnixStream::connect_addr(address).map(Socket::Unix),
        })
    }
}

impl Socket {
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => registry.register(stream, token, interest),
            Self::Unix(stream) => registry.register(stream, token, interest),
        }
    }

    /// Whether the connect got through; an error when it failed.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        let (fault, peer) = match self {
            Self::Tcp(stream) => (stream.take_error()?, stream.peer_addr().err()),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().err()),
        };
        match (fault, peer) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(true),
            (None, Some(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            (None, Some(error)) => Err(error),
        }
    }

    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(space),
            Self::Unix(stream) => stream.read(space),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// Ends our direction.
    pub(crate) fn shut(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
