//! What only the first worker's loop holds: signals, the watched files and the mounts.
//!
//! Turns before any accept of the same turn, so that a swap which woke the loop is served by the next handshake.
//! Knows nothing of connections. Shown by the end-to-end tests of signals and rotation.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry};

use super::admin::Admin;
use super::clock;
use super::history::Moment;
use super::reload::{Reload, Reloaded};
use super::shared::{Phase, Shared};
use super::status;
use super::token::Source;
use crate::admin;
use crate::config::{Config, MissingCertificate};
use crate::sys::signal::{Request, Signals};

/// Signals answered in one turn. Each kind waits once at most, but may come again while it is answered.
const SIGNALS_PER_TURN: usize = 8;

/// Signals, files and mounts.
#[derive(Debug)]
pub(crate) struct Control {
    signals: Signals,
    signals_wait: bool,
    reload: Reload,
    mounts: Option<File>,
    mounts_changed: bool,
    manner: Manner,
    /// When to begin to drain, after a signal to end.
    drain_at: Option<Instant>,
    admin: Option<Admin>,
}

/// What the configuration says of beginnings and ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    address: SocketAddr,
    missing: MissingCertificate,
    drain_delay: Duration,
}

impl Manner {
    /// `address` is where clients connect, the port filled in.
    pub(crate) fn new(config: &Config, address: SocketAddr) -> Self {
        Self { address, missing: config.reload.missing, drain_delay: config.timeouts.drain_delay }
    }
}

impl Control {
    pub(crate) fn new(signals: Signals, reload: Reload, manner: Manner, admin: Option<Admin>) -> Self {
        let (signals_wait, mounts, mounts_changed, drain_at) = (false, None, false, None);
        Self { signals, signals_wait, reload, mounts, mounts_changed, manner, drain_at, admin }
    }

    /// Registers with the loop what is there from the start.
    ///
    /// # Errors
    /// What epoll_ctl(2) says of the signals or of the admin endpoint. Without `/proc` there are no news of mounts, which is not fatal.
    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let signals = self.signals.as_raw_fd();
        registry.register(&mut SourceFd(&signals), Source::Signals.token(), Interest::READABLE)?;
        if let Some(admin) = &mut self.admin {
            admin.register(registry)?;
        }
        match File::open("/proc/self/mountinfo").and_then(|mounts| {
            let descriptor = mounts.as_raw_fd();
            registry.register(&mut SourceFd(&descriptor), Source::Mounts.token(), Interest::PRIORITY)?;
            Ok(mounts)
        }) {
            Ok(mounts) => self.mounts = Some(mounts),
            Err(error) => tracing::warn!(%error, "mounts over the files are only seen by the timer"),
        }
        Ok(())
    }

    /// The kernel says something of one of our descriptors.
    pub(crate) fn wake(&mut self, source: Source) {
        match source {
            Source::Watches => self.reload.wake(),
            Source::Signals => self.signals_wait = true,
            Source::Mounts => self.mounts_changed = true,
            Source::Admin => self.admin.iter_mut().for_each(Admin::wake),
            Source::AdminClient(slot) => self.admin.iter_mut().for_each(|admin| admin.wake_client(slot)),
            Source::Listener | Source::Waker | Source::Connection(..) => {}
        }
    }

    /// When to take a turn although nothing happened.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.signals_wait {
            return Some(now);
        }
        let admin = self.admin.as_ref().and_then(|admin| admin.deadline(now));
        [self.reload.deadline(now), self.drain_at, admin].into_iter().flatten().min()
    }

    /// Answers signals, looks at the files if there is reason to, and publishes what is new.
    ///
    /// # Errors
    /// There is no usable certificate and the configuration wants the process to end then.
    pub(crate) fn turn(&mut self, registry: &Registry, shared: &Shared, now: Instant) -> io::Result<()> {
        if self.signals_wait {
            self.answer(shared, now)?;
        }
        if self.drain_at.is_some_and(|at| at <= now) {
            self.drain_at = None;
            tracing::info!(connections = shared.open(), "draining");
            shared.enter(Phase::Draining);
        }
        if std::mem::take(&mut self.mounts_changed) {
            self.reload.on_mounts_changed(now);
        }
        match self.reload.turn(registry, now) {
            // Workers that have begun to listen see it by themselves, at their next accept.
            Reloaded::Published(generation) => {
                shared.first_handshake.expect(&generation);
                if generation.number == 1 {
                    shared.wake_all();
                }
            }
            Reloaded::Unusable if self.manner.missing == MissingCertificate::Exit => {
                return Err(io::Error::new(io::ErrorKind::NotFound, self.reload.complaint()));
            }
            Reloaded::Unusable | Reloaded::Nothing => {}
        }
        self.answer_admin(registry, shared, now);
        Ok(())
    }

    fn answer_admin(&mut self, registry: &Registry, shared: &Shared, now: Instant) {
        let Some(admin) = &mut self.admin else { return };
        let view = self.reload.view();
        admin.turn(registry, now, |about, request| {
            let status = status::gather(about, shared, view, Moment { at: now, wall: clock::wall() });
            status::show(&status, about, &shared.metrics);
            admin::respond(request, &status, &shared.metrics)
        });
    }

    /// Tells that clients are let in now.
    pub(crate) fn tell_listening(&self) {
        tracing::info!(address = %self.manner.address, "listening");
    }

    fn answer(&mut self, shared: &Shared, now: Instant) -> io::Result<()> {
        let mut look = false;
        for _ in 0..SIGNALS_PER_TURN {
            match self.signals.pending()? {
                Some(Request::LookNow) => look = true,
                Some(Request::Drain) if shared.phase() == Phase::Serving => {
                    let delay = self.manner.drain_delay;
                    if !delay.is_zero() {
                        tracing::info!(?delay, "no longer ready, still accepting");
                    }
                    shared.enter(Phase::Leaving);
                    self.drain_at = Some(now + delay);
                }
                Some(Request::Drain) => {
                    tracing::warn!(connections = shared.open(), "asked again: no longer waiting");
                    shared.enter(Phase::Stopping);
                }
                None => {
                    self.signals_wait = false;
                    break;
                }
            }
        }
        if look {
            tracing::info!("SIGHUP: looking at the files now");
            self.reload.look_now(now);
        }
        Ok(())
    }
}
