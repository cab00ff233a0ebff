//! The kernel's calls that the product needs, each behind a safe function. Knows nothing of the crate.

/// What the process may use.
pub mod process;
/// Signals as a descriptor.
pub mod signal;
/// Sockets and their options.
pub mod socket;
