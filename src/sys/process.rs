//! What the process may use: descriptors and processors.
//!
//! Does not know what they are used for.

use std::io;
use std::num::NonZeroUsize;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open descriptors to what the process is allowed, and returns it.
///
/// # Errors
/// What getrlimit(2) says. A limit that can't be raised is left as it is.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Ok(hard);
    }
    Ok(soft)
}

/// How many processors the affinity and the control group's quota let this process use, at least 1.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
