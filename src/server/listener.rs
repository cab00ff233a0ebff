//! A worker's listening socket: when to accept, and when to leave clients in the backlog.
//!
//! Does not know bytes, TLS or what becomes of an accepted socket. Shown by the end-to-end tests of limits.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};

use super::token::Source;
use crate::config::limits::ACCEPT_PAUSE;
use crate::sys::socket;

/// The listener of one worker.
#[derive(Debug)]
pub(crate) struct Listener {
    state: State,
    /// Edge-triggered readiness, remembered until accept says that nobody waits.
    clients_wait: bool,
    /// Not before this moment, after the system refused a descriptor.
    resume_at: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// Holds the address; clients are refused.
    Bound(std::net::TcpListener),
    Listening(TcpListener),
    Closed,
}

/// What an accept came to.
#[derive(Debug)]
pub(crate) enum Accepted {
    Client(TcpStream, SocketAddr),
    /// Nobody waits.
    Nobody,
    /// No descriptor for another; paused.
    Exhausted(io::Error),
    /// This client was gone before it was accepted, or the like; the next may be fine.
    Failed(io::Error),
}

impl Listener {
    /// A listener that holds an address and refuses clients until [`Self::listen`].
    pub(crate) fn new(socket: std::net::TcpListener) -> Self {
        Self { state: State::Bound(socket), clients_wait: false, resume_at: None }
    }

    /// Whether it still waits for [`Self::listen`].
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound(_))
    }

    /// Lets clients in.
    pub(crate) fn listen(&mut self, registry: &Registry, backlog: i32) -> io::Result<()> {
        let State::Bound(bound) = &self.state else { return Ok(()) };
        socket::start_listening(bound, backlog)?;
        let mut socket = TcpListener::from_std(bound.try_clone()?);
        registry.register(&mut socket, Source::Listener.token(), Interest::READABLE)?;
        self.state = State::Listening(socket);
        Ok(())
    }

    /// The kernel says that a client waits.
    pub(crate) fn wake(&mut self) {
        self.clients_wait = true;
    }

    /// Whether an accept is worth trying at `now`.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.clients_wait && self.resume_at.is_none_or(|at| at <= now)
    }

    /// When to look again, if accepting pauses because of a refused descriptor.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.resume_at.filter(|at| self.clients_wait && *at > now)
    }

    /// Asks the kernel whether a client waits. If none does, the edge of the next one is still to come.
    pub(crate) fn has_clients(&mut self) -> bool {
        if let State::Listening(socket) = &self.state {
            self.clients_wait = socket::is_readable(socket);
        }
        self.clients_wait
    }

    /// Takes one client out of the backlog.
    pub(crate) fn accept(&mut self, now: Instant) -> Accepted {
        let State::Listening(socket) = &self.state else {
            self.clients_wait = false;
            return Accepted::Nobody;
        };
        self.resume_at = None;
        match socket.accept() {
            Ok((client, peer)) => Accepted::Client(client, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clients_wait = false;
                Accepted::Nobody
            }
            Err(error) if socket::is_exhaustion(&error) => {
                // The edge that announced them is spent, so only time can bring us back.
                self.resume_at = Some(now + ACCEPT_PAUSE);
                Accepted::Exhausted(error)
            }
            Err(error) => Accepted::Failed(error),
        }
    }

    /// Gives the address up. Whoever still waits in the backlog is reset, so accept them first.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
        self.clients_wait = false;
    }
}
