//! The kernel's calls that the product needs, each behind a safe function. Knows nothing of the crate.

pub mod files;
pub mod inotify;
