//! Where the blocks of a PEM file lie.

/// The largest file that is read as PEM, in bytes.
pub const FILE_LIMIT_BYTES: usize = 1 << 20;

/// The most certificates in one file.
pub const CERTIFICATE_LIMIT: usize = 64;
