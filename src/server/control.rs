//! What only the first worker's loop holds: signals, the watched files and the mounts.
//!
//! Turns before any accept of the same turn, so that a swap which woke the loop is served by the next handshake.
//! Knows nothing of connections. Shown by the end-to-end tests of signals and rotation.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Instant;

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
use crate::config::MissingCertificate;
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
    missing: MissingCertificate,
    address: SocketAddr,
    admin: Option<Admin>,
}

impl Control {
    pub(crate) fn new(
        signals: Signals,
        reload: Reload,
        missing: MissingCertificate,
        address: SocketAddr,
        admin: Option<Admin>,
    ) -> Self {
        let (signals_wait, mounts, mounts_changed) = (false, None, false);
        Self { signals, signals_wait, reload, mounts, mounts_changed, missing, address, admin }
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
        [self.reload.deadline(now), admin].into_iter().flatten().min()
    }

    /// Answers signals, looks at the files if there is reason to, and publishes what is new.
    ///
    /// # Errors
    /// There is no usable certificate and the configuration wants the process to end then.
    pub(crate) fn turn(&mut self, registry: &Registry, shared: &Shared, now: Instant) -> io::Result<()> {
        if self.signals_wait {
            self.answer(shared, now)?;
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
            Reloaded::Unusable if self.missing == MissingCertificate::Exit => {
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
        tracing::info!(address = %self.address, "listening");
    }

    fn answer(&mut self, shared: &Shared, now: Instant) -> io::Result<()> {
        let mut look = false;
        for _ in 0..SIGNALS_PER_TURN {
            match self.signals.pending()? {
                Some(Request::LookNow) => look = true,
                Some(Request::Drain) if shared.phase() == Phase::Serving => {
                    tracing::info!(connections = shared.open(), "draining");
                    shared.enter(Phase::Draining);
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
