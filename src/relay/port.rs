//! What stands between sealed bytes (the client's wire) and plain bytes (the upstream's).
//!
//! Knows neither sockets nor when bytes come. Shown by `tests/sim/relay` through both ports.

use std::fmt;

use super::buffer::Buffer;

/// Turns sealed bytes into plain bytes and back, and answers the client by itself where its protocol says so.
pub trait Port {
    /// Opens all complete records at the front of `sealed` and takes them off it, appending what they held to
    /// `plain` and what must be answered (handshake flights, alerts) to `replies`.
    ///
    /// What stays in `sealed` is an incomplete record; nothing stays after [`Opened::Closed`]. `plain` needs
    /// as much room as `sealed` has bytes.
    ///
    /// # Errors
    /// The client's bytes were at fault; an alert that says so has been appended to `replies`, and neither
    /// `open` nor `seal` nor `close` may be called again.
    fn open(
        &mut self,
        sealed: &mut Buffer,
        plain: &mut Buffer,
        replies: &mut Buffer,
    ) -> Result<Opened, Fault>;

    /// Seals all of `plain` and appends it to `sealed`. `unopened` is what the last `open` left.
    ///
    /// # Errors
    /// The port can seal no more; the connection is to be reset.
    fn seal(&mut self, plain: &[u8], sealed: &mut Buffer, unopened: &mut [u8]) -> Result<(), Fault>;

    /// Appends close_notify to `sealed`: no more plain bytes will be sealed. `unopened` as for `seal`.
    ///
    /// # Errors
    /// As for `seal`.
    fn close(&mut self, sealed: &mut Buffer, unopened: &mut [u8]) -> Result<(), Fault>;

    /// Whether the handshake is still under way.
    fn handshaking(&self) -> bool;

    /// How many plain bytes fit, once sealed, into an empty buffer of `sealed_bytes`; at least one.
    fn plain_bytes(&self, sealed_bytes: usize) -> usize;
}

/// How far [`Port::open`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// More sealed bytes may follow.
    More,
    /// The client has sent close_notify; what follows it on the wire is to be ignored.
    Closed,
}

/// A fault in the client's TLS (or in ours, see [`FaultKind::is_ours`]), with the TLS library's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which class of fault it is.
    pub kind: FaultKind,
    /// What exactly was wrong, for a log line; holds nothing secret.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.label(), self.text)
    }
}

/// The classes of faults, few enough for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// The client speaks something that is not TLS.
    NotTls,
    /// No protocol version in common.
    NoSharedVersion,
    /// No cipher suite, group or signature scheme in common.
    NoSharedParameters,
    /// No application protocol in common.
    NoSharedProtocol,
    /// The client sent an alert, such as that it does not trust our certificate.
    Alert,
    /// A record that does not decrypt, or is longer than allowed.
    BadRecord,
    /// A message that does not parse.
    BadMessage,
    /// A message that may not come now, or more of them than any honest client sends.
    Misbehaved,
    /// The client's certificate is missing or not accepted.
    ClientCertificate,
    /// A handshake message spread over more records than we keep.
    TooLong,
    /// So many records were sealed with one key that no more are safe.
    KeysExhausted,
    /// The TLS library failed for a reason of ours, such as a missing certificate.
    Internal,
}

impl FaultKind {
    /// A stable snake_case word for the class, fit for a metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::NoSharedVersion => "no_shared_version",
            Self::NoSharedParameters => "no_shared_parameters",
            Self::NoSharedProtocol => "no_shared_protocol",
            Self::Alert => "alert",
            Self::BadRecord => "bad_record",
            Self::BadMessage => "bad_message",
            Self::Misbehaved => "misbehaved",
            Self::ClientCertificate => "client_certificate",
            Self::TooLong => "too_long",
            Self::KeysExhausted => "keys_exhausted",
            Self::Internal => "internal",
        }
    }

    /// Whether the fault is ours rather than the client's.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Self::KeysExhausted | Self::Internal)
    }
}
