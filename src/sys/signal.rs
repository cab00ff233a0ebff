//! The three signals that the product answers, as a descriptor for the loop.
//!
//! Does not know what a signal means to the product. Shown by the end-to-end tests of draining and of SIGHUP.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What arrived on [`Signals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// SIGHUP.
    LookNow,
    /// SIGTERM or SIGINT.
    Drain,
}

/// Keeps the signals waiting for the calling thread, and so for each thread it starts from now on.
///
/// Call it before the first thread is started: a thread that does not hold them would take their default action.
///
/// # Errors
/// What sigprocmask(2) says.
pub fn hold() -> io::Result<()> {
    Ok(mask().thread_block()?)
}

fn mask() -> SigSet {
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT] {
        mask.add(signal);
    }
    mask
}

/// SIGHUP, SIGTERM and SIGINT, taken away from their default actions and read from a descriptor.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Takes the signals over, those that have come since [`hold`] too.
    ///
    /// # Errors
    /// What sigprocmask(2) or signalfd(2) say.
    pub fn take() -> io::Result<Self> {
        hold()?;
        let descriptor = SignalFd::with_flags(&mask(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { descriptor })
    }

    /// The next signal that waits, if one does.
    ///
    /// # Errors
    /// What read(2) says, except that nothing waits.
    pub fn pending(&mut self) -> io::Result<Option<Request>> {
        loop {
            return match self.descriptor.read_signal() {
                Ok(Some(info)) if i32::try_from(info.ssi_signo) == Ok(Signal::SIGHUP as i32) => {
                    Ok(Some(Request::LookNow))
                }
                Ok(Some(_)) => Ok(Some(Request::Drain)),
                Ok(None) => Ok(None),
                Err(Errno::EINTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
