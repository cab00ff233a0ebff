//! What the process may use, and as whom: descriptors, processors, users and groups.
//!
//! Does not know what they are used for.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Pid, Uid, getgroups};

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

/// How many processors the scheduler lets this process run on, at least 1.
#[must_use]
pub fn processors() -> usize {
    let Ok(set) = nix::sched::sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    (0..nix::sched::CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count().max(1)
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
