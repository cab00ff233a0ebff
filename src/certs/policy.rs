//! What the listener offers in a handshake, whatever the certificate.

use std::fmt;

/// The oldest protocol version on offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinimumVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// What to do with an expired certificate when there is nothing to serve yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiredAtStart {
    /// Serve nothing.
    #[default]
    Refuse,
    /// Serve it.
    Serve,
}

/// What every generation offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The oldest protocol version.
    pub minimum_version: MinimumVersion,
    /// IANA code points in the order of preference, all versions in one list; empty: ours. Exactly these are
    /// offered: a list without a TLS 1.3 suite switches TLS 1.3 off.
    pub cipher_suites: Vec<u16>,
    /// IANA code points of the key exchange groups in the order of preference; empty: ours.
    pub groups: Vec<u16>,
    /// Application protocols in the order of preference; empty: the client's offer is ignored.
    pub alpn: Vec<Vec<u8>>,
    /// Whether an expired certificate is better than none.
    pub expired_at_start: ExpiredAtStart,
}

/// A policy under which nothing can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// No such cipher suite.
    UnknownSuite(u16),
    /// No such group.
    UnknownGroup(u16),
    /// None of the cipher suites works with the allowed protocol versions.
    NoUsableSuite(MinimumVersion),
    /// An application protocol's name must have 1 to 255 bytes.
    AlpnLength(usize),
    /// The system gave no random numbers.
    NoRandomness,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSuite(code) => write!(f, "cipher suite 0x{code:04x} is not supported"),
            Self::UnknownGroup(code) => write!(f, "group 0x{code:04x} is not supported"),
            Self::NoUsableSuite(MinimumVersion::Tls12) => {
                write!(f, "none of the cipher suites works with TLS 1.2 or 1.3")
            }
            Self::NoUsableSuite(MinimumVersion::Tls13) => {
                write!(f, "none of the cipher suites works with TLS 1.3, the minimum version")
            }
            Self::AlpnLength(length) => {
                write!(f, "an application protocol's name has {length} bytes; 1 to 255 are allowed")
            }
            Self::NoRandomness => write!(f, "the system gave no random numbers"),
        }
    }
}

impl std::error::Error for PolicyFault {}

/// Draws the first random number, which costs tens of milliseconds once in a process.
///
/// # Errors
/// [`PolicyFault::NoRandomness`].
pub fn warm_up() -> Result<(), PolicyFault> {
    Ok(())
}

/// Every cipher suite that can be asked for: name and code point.
pub fn known_suites() -> Vec<(&'static str, u16)> {
    Vec::new()
}

/// Every key exchange group that can be asked for: name and code point.
pub fn known_groups() -> Vec<(&'static str, u16)> {
    Vec::new()
}
