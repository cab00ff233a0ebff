//! What the demo asks of the serving path in front of its upstream: where it listens, what is in force, when it ends.
//!
//! It is a handful of closures and not the server itself, so that the demo's own tests can put a front with a known fault
//! in its place. It knows nothing of volumes and rotations.

use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// A generation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its number.
    pub generation: u64,
    /// Its leaf's serial, written as [`serial_of`](super::client::serial_of) does.
    pub serial: String,
    /// When it was put in force.
    pub published: Instant,
}

/// A running TLS front. When it is made, SIGINT and SIGTERM are already blocked in the calling thread: threads that the
/// demo starts later then leave those signals to the front.
pub struct Front {
    /// Where it listens; `None` until it does.
    pub address: Box<dyn Fn() -> Option<SocketAddr>>,
    /// The generation in force; `None` before the first.
    pub current: Box<dyn Fn() -> Option<Published>>,
    /// Asks it to end: no new connections, the open ones may finish.
    pub drain: Box<dyn Fn()>,
    /// Gets one message, or is closed, when it has ended, by a signal or by `drain`.
    pub ended: Receiver<()>,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}
