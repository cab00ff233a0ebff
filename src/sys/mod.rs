//! The kernel's calls that the product needs, each behind a safe function. Knows nothing of the crate.

/// Looking up names, and reading a pinned file.
pub mod files;
/// The event queue.
pub mod inotify;
/// What the process may use.
pub mod process;
/// Signals as a descriptor.
pub mod signal;
/// Sockets and their options.
pub mod socket;
