//! A connection's phases, and how long each may last.
//!
//! Knows neither bytes nor sockets. Shown by the timers' tests in `tests/sim/relay`.

use std::time::{Duration, Instant};

use super::reason::CloseReason;

/// How long the last bytes, an alert or a close_notify may wait for a peer that takes none of them.
pub const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a socket whose peer may still be sending is read, and what it gives dropped, after the last byte and
/// the end went out, and the peer has taken none of them: closing it at once would make the kernel reset it, and the
/// peer lose what it was sent.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of an upstream's bytes are dropped that way: one that sends more is not about to read what it was sent.
pub const LINGER_BYTES: u64 = 1024 * 1024;

/// A connection is at rest, so that ending it cuts nothing short, when no byte moved for so long.
pub const REST: Duration = Duration::from_secs(1);

/// How long each phase of a connection may take, to the millisecond; 49 days and more are for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the end of the handshake.
    pub handshake_timeout: Duration,
    /// From the end of the handshake to a connected upstream.
    pub connect_timeout: Duration,
    /// With both directions open: how long no byte may move in either. None: for ever.
    pub idle_timeout: Option<Duration>,
    /// With one direction ended: how long no byte may move.
    pub half_close_timeout: Duration,
    /// From the start to the end of the connection. None: for ever.
    pub maximum_age: Option<Duration>,
}

/// [`Limits`] as a connection keeps them: in milliseconds, as there are many connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    handshake: Span,
    connect: Span,
    idle: Span,
    half_close: Span,
    age: Span,
}

impl From<Limits> for Timeouts {
    fn from(limits: Limits) -> Self {
        Self {
            handshake: Span::from(Some(limits.handshake_timeout)),
            connect: Span::from(Some(limits.connect_timeout)),
            idle: Span::from(limits.idle_timeout),
            half_close: Span::from(Some(limits.half_close_timeout)),
            age: Span::from(limits.maximum_age),
        }
    }
}

/// Milliseconds, the largest number standing for eternity.
#[derive(Debug, Clone, Copy)]
struct Span(u32);

impl From<Option<Duration>> for Span {
    fn from(duration: Option<Duration>) -> Self {
        let millis = duration.and_then(|duration| u32::try_from(duration.as_millis()).ok());
        Self(millis.unwrap_or(u32::MAX))
    }
}

impl Span {
    fn after(self, begin: Instant) -> Option<Instant> {
        match self.0 {
            u32::MAX => None,
            millis => begin.checked_add(Duration::from_millis(millis.into())),
        }
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client's handshake is under way.
    Handshaking,
    /// The upstream is being connected.
    Dialing(Dial),
    /// Both directions are open.
    Open,
    /// One direction has ended or broken; the other lives on.
    Ending,
    /// It is decided that the connection ends: its last bytes are on their way.
    Closing,
    /// All bytes went out; a peer that has not ended yet may take its leave.
    Lingering {
        /// What the upstream had sent when this began.
        upstream_read: u64,
    },
    /// Over.
    Closed(CloseReason),
}

/// How far a dial has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dial {
    /// To be begun, or to be asked how it went.
    Due,
    /// Under way; a wake-up will come.
    Waiting,
}

/// The clock readings that deadlines hang on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// When the connection began.
    pub(super) born: Instant,
    /// When its stage began.
    pub(super) entered: Instant,
    /// When a byte last moved, or was seen to have moved on from our socket.
    pub(super) moved: Instant,
}

impl Stage {
    /// When the stage has lasted too long.
    pub(super) fn deadline(&self, timeouts: &Timeouts, clock: Clock) -> Option<Instant> {
        let quiet_since = clock.entered.max(clock.moved);
        match self {
            Self::Handshaking => timeouts.handshake.after(clock.born),
            Self::Dialing(_) => timeouts.connect.after(clock.entered),
            Self::Open => timeouts.idle.after(quiet_since),
            Self::Ending => timeouts.half_close.after(quiet_since),
            Self::Closing => quiet_since.checked_add(CLOSING_TIMEOUT),
            Self::Lingering { .. } => quiet_since.checked_add(LINGER_TIMEOUT),
            Self::Closed(_) => None,
        }
    }

    /// When the connection has lasted too long, in those stages that an age can end.
    pub(super) fn age_deadline(&self, timeouts: &Timeouts, clock: Clock) -> Option<Instant> {
        match self {
            Self::Dialing(_) | Self::Open | Self::Ending => timeouts.age.after(clock.born),
            Self::Handshaking | Self::Closing | Self::Lingering { .. } | Self::Closed(_) => None,
        }
    }
}
