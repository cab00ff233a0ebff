//! The product shown on one machine: a secret volume, an upstream and rotations.

/// A certificate authority in memory.
pub mod authority;
/// A TLS client that tells which certificate it was shown.
pub mod client;
mod http;
/// An HTTP service that describes the requests it got.
pub mod upstream;
/// A secret volume as the kubelet lays it out.
pub mod volume;
