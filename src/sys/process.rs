//! What the process may use, and as whom: descriptors, processors, users and groups.
//!
//! Does not know what they are used for.

use std::io;
use std::num::NonZeroUsize;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, getgroups};

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

/// Whose rights the process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups; empty when the kernel does not tell.
    pub groups: Vec<u32>,
}

/// Whose rights the process has at the moment.
#[must_use]
pub fn identity() -> Identity {
    Identity {
        uid: Uid::effective().as_raw(),
        gid: Gid::effective().as_raw(),
        groups: getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect(),
    }
}

/// Gives memory that the allocator keeps for later back to the system.
#[expect(unsafe_code, reason = "the allocator has no safe interface")]
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a number of bytes to keep and has no other precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}
