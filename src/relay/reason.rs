//! Why a connection ended and whose doing it was, as facts for the shell's metrics and log.
//!
//! Knows nothing of metrics or logs. Shown by the labels' test here and by every test of the relay.

use std::fmt;

use super::port::Fault;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// Both directions ended and every byte was handed over.
    Finished,
    /// As `Finished`, but the client's end was a FIN without close_notify: what it sent may have been cut.
    ClientTorn,
    /// The client reset the connection, or was gone while bytes for it were left.
    ClientReset,
    /// The client connected and left without sending a byte, as health checks do.
    ClientProbe,
    /// The client left in the middle of the handshake.
    ClientLeft,
    /// The client's TLS was at fault; the fault tells how.
    ClientFault(Box<Fault>),
    /// The upstream refused the connection.
    UpstreamRefused,
    /// There is no way to the upstream.
    UpstreamUnreachable,
    /// The upstream did not answer the dial in time.
    UpstreamConnectTimeout,
    /// The dial failed for another reason.
    UpstreamConnectFailed,
    /// The upstream reset the connection: what the client got of its reply may have been cut.
    UpstreamReset,
    /// The upstream stopped reading before the client had ended; its own bytes were all delivered.
    UpstreamStoppedReading,
    /// The handshake took too long.
    HandshakeTimeout,
    /// No byte moved in either direction for too long.
    IdleTimeout,
    /// One direction had ended, and no byte moved for too long.
    HalfCloseTimeout,
    /// The connection reached its maximum age.
    MaximumAge,
    /// We are shutting down.
    Drain,
    /// We ran out of descriptors or memory for the upstream's socket.
    Exhausted,
    /// A state that we hold impossible; the text says which.
    Bug(&'static str),
}

/// Whose doing a close was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// Nobody's: the connection did its work.
    Nobody,
    /// The client's.
    Client,
    /// The upstream's.
    Upstream,
    /// Ours.
    Us,
    /// A configured limit's.
    Limit,
    /// The shutdown's.
    Drain,
}

impl CloseReason {
    /// A stable snake_case word for the reason, fit for a metric's label.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::ClientTorn => "client_torn",
            Self::ClientReset => "client_reset",
            Self::ClientProbe => "client_probe",
            Self::ClientLeft => "client_left",
            Self::ClientFault(_) => "client_fault",
            Self::UpstreamRefused => "upstream_refused",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamConnectTimeout => "upstream_connect_timeout",
            Self::UpstreamConnectFailed => "upstream_connect_failed",
            Self::UpstreamReset => "upstream_reset",
            Self::UpstreamStoppedReading => "upstream_stopped_reading",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::HalfCloseTimeout => "half_close_timeout",
            Self::MaximumAge => "maximum_age",
            Self::Drain => "drain",
            Self::Exhausted => "exhausted",
            Self::Bug(_) => "bug",
        }
    }

    /// Whether the upstream could not be reached at all.
    #[must_use]
    pub fn is_unreachable_upstream(&self) -> bool {
        matches!(
            self,
            Self::UpstreamRefused
                | Self::UpstreamUnreachable
                | Self::UpstreamConnectTimeout
                | Self::UpstreamConnectFailed
        )
    }

    /// Whose doing it was.
    #[must_use]
    pub fn party(&self) -> Party {
        match self {
            Self::Finished => Party::Nobody,
            Self::ClientFault(fault) if fault.kind.is_ours() => Party::Us,
            Self::ClientTorn
            | Self::ClientReset
            | Self::ClientProbe
            | Self::ClientLeft
            | Self::ClientFault(_) => Party::Client,
            Self::UpstreamRefused
            | Self::UpstreamUnreachable
            | Self::UpstreamConnectTimeout
            | Self::UpstreamConnectFailed
            | Self::UpstreamReset
            | Self::UpstreamStoppedReading => Party::Upstream,
            Self::HandshakeTimeout | Self::IdleTimeout | Self::HalfCloseTimeout | Self::MaximumAge => {
                Party::Limit
            }
            Self::Drain => Party::Drain,
            Self::Exhausted | Self::Bug(_) => Party::Us,
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientFault(fault) => write!(f, "{}: {fault}", self.label()),
            Self::Bug(what) => write!(f, "{}: {what}", self.label()),
            Self::Finished
            | Self::ClientTorn
            | Self::ClientReset
            | Self::ClientProbe
            | Self::ClientLeft
            | Self::UpstreamRefused
            | Self::UpstreamUnreachable
            | Self::UpstreamConnectTimeout
            | Self::UpstreamConnectFailed
            | Self::UpstreamReset
            | Self::UpstreamStoppedReading
            | Self::HandshakeTimeout
            | Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::MaximumAge
            | Self::Drain
            | Self::Exhausted => f.write_str(self.label()),
        }
    }
}

/// How the shell lets go of a socket once the relay is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// `close(2)`: what was written is still delivered.
    Close,
    /// `SO_LINGER` of zero, then `close(2)`: the peer sees a reset, not an end.
    Reset,
}
