//! The product shown on one machine: a secret volume, an upstream and rotations.

/// A certificate authority in memory.
pub mod authority;
/// A secret volume as the kubelet lays it out.
pub mod volume;
