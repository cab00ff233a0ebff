//! From a record of the event queue to a published generation, inline on the loop: the one place that knows that the
//! watcher's targets and the store's bytes are the same files.
//!
//! Knows nothing of connections, listeners or relays. Shown by the end-to-end tests of rotation.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mio::unix::SourceFd;
use mio::{Interest, Registry};

use super::clock;
use super::complaint::{Complaint, Complaints};
use super::filesystem::RealFilesystem;
use super::history::{History, Moment, OnDisk};
use super::lifetime::{Life, Lifetime};
use super::material::{Candidate, Found, Material};
use super::story;
use super::token::Source;
use crate::certs::{Facts, Generation, Store};
use crate::metrics::Metrics;
use crate::sys::inotify::Drained;
use crate::watch::{Decision, Digest, Mode, Reading, Record, Timing, Trigger, Watcher};

/// Follows the files of one set.
#[derive(Debug)]
pub(crate) struct Reload {
    filesystem: RealFilesystem,
    watcher: Watcher,
    material: Material,
    store: Store,
    history: History,
    served: Option<Digest>,
    complaints: Complaints,
    lifetime: Lifetime,
    /// Of the first intermediate to end, where that is before the leaf does.
    chain_lifetime: Lifetime,
    /// When a bundle that was refused for its dates may be served.
    retry_at: Option<Instant>,
    /// The queue's descriptor as the loop knows it.
    registered: Option<RawFd>,
    /// Whether the queue may hold records; edge-triggered, so it is remembered until a drain reaches the end.
    has_records: bool,
    /// What the log last said of the way of watching.
    told_mode: Option<Mode>,
}

/// All that is known of a set of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The certificate's and the key's.
    pub(crate) files: &'a [PathBuf; 2],
    pub(crate) watcher: &'a Watcher,
    pub(crate) store: &'a Store,
    pub(crate) history: &'a History,
    /// What is wrong with the files now, told or not.
    pub(crate) standing: Option<&'a Complaint>,
}

/// What a turn came to.
#[derive(Debug)]
pub(crate) enum Reloaded {
    /// What is served stays.
    Nothing,
    /// The files hold nothing that can be served, as they have for a moment, and neither did they before.
    Unusable,
    /// This is in force now.
    Published(Arc<Generation>),
}

impl Reload {
    pub(crate) fn new(
        paths: [PathBuf; 2],
        timing: Timing,
        store: Store,
        metrics: Arc<Metrics>,
        now: Instant,
    ) -> Self {
        let [name, _] = paths.each_ref().map(|path| path.display().to_string());
        let targets = paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        Self {
            filesystem: RealFilesystem::new(),
            watcher: Watcher::new(targets, timing, now),
            history: History::new(name, metrics),
            material: Material::new(paths),
            store,
            served: None,
            complaints: Complaints::default(),
            lifetime: Lifetime::default(),
            chain_lifetime: Lifetime::default(),
            retry_at: None,
            registered: None,
            has_records: false,
            told_mode: None,
        }
    }

    /// The event queue has something.
    pub(crate) fn wake(&mut self) {
        self.has_records = true;
    }

    pub(crate) fn on_mounts_changed(&mut self, now: Instant) {
        self.watcher.on_mounts_changed(now);
    }

    /// A person asks for a look.
    pub(crate) fn look_now(&mut self, now: Instant) {
        self.watcher.look_now(Trigger::Signal, now);
    }

    /// What is wrong with the files now, in words.
    pub(crate) fn complaint(&self) -> String {
        self.complaints.standing().map_or_else(|| "no certificate".to_owned(), ToString::to_string)
    }

    /// All that is known of the set.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            files: self.material.paths(),
            watcher: &self.watcher,
            store: &self.store,
            history: &self.history,
            standing: self.complaints.standing(),
        }
    }

    /// When to take a turn although nothing happened; `None`: never.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.has_records {
            return Some(now);
        }
        let lifetimes = [self.lifetime.deadline(), self.chain_lifetime.deadline()];
        [self.watcher.deadline(), self.complaints.deadline(), self.retry_at]
            .into_iter()
            .chain(lifetimes)
            .flatten()
            .min()
    }

    /// Reads the records that wait, looks at the files if it is time, and publishes what is new.
    pub(crate) fn turn(&mut self, registry: &Registry, now: Instant) -> Reloaded {
        if self.has_records {
            self.drain(now);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.watcher.look_now(Trigger::Retry, now);
        }
        self.tell_lifetime(now);
        let reloaded = if self.watcher.is_due(now) { self.look(registry, now) } else { Reloaded::Nothing };
        if let Some(complaint) = self.complaints.due(now) {
            let served = self.store.current();
            self.history.refused(complaint, served.as_deref(), clock::wall());
            if served.is_none() {
                return Reloaded::Unusable;
            }
        }
        reloaded
    }

    fn tell_lifetime(&mut self, now: Instant) {
        let is_due = |lifetime: &Lifetime| lifetime.deadline().is_some_and(|at| at <= now);
        if !is_due(&self.lifetime) && !is_due(&self.chain_lifetime) {
            return;
        }
        let Some(served) = self.store.current() else { return };
        let Facts { not_before, not_after, chain_not_after, .. } = *served.facts;
        let moment = Moment { at: now, wall: clock::wall() };
        if let Some(standing) = self.lifetime.due(Life { not_before, not_after }, moment) {
            story::aged(&served, standing);
        }
        if let Some(standing) =
            self.chain_lifetime.due(Life { not_before, not_after: chain_not_after }, moment)
        {
            story::chain_aged(&served, standing);
        }
    }

    fn drain(&mut self, now: Instant) {
        let (watcher, metrics) = (&mut self.watcher, &self.history.metrics);
        let drained = self.filesystem.drain(|record| {
            if record == Record::Overflow {
                metrics.watch.overflows.inc();
            }
            watcher.on_record(record, now);
        });
        self.has_records = match drained {
            Ok(Drained::ToTheEnd) => false,
            Ok(Drained::MorePending) => true,
            Err(error) => {
                tracing::error!(%error, "the event queue broke; opening another");
                self.registered = None;
                self.watcher.on_queue_lost(now);
                false
            }
        };
    }

    fn look(&mut self, registry: &Registry, now: Instant) -> Reloaded {
        let pass = self.watcher.pass(&mut self.filesystem, now);
        if let Err(error) = self.register(registry) {
            tracing::error!(%error, "the event queue can't be polled");
        }
        let moment = Moment { at: now, wall: clock::wall() };
        let Found { reading, candidate, complaint, retry } =
            self.material.read(&pass.targets, self.served, &self.store, moment.wall);
        drop(pass);
        let decision = self.watcher.on_read(reading, now);
        tracing::debug!(trigger = ?self.watcher.last_trigger(), ?decision, "looked at the files");
        self.retry_at = retry.and_then(|at| later(now, moment.wall, at));
        let reloaded = match decision {
            Decision::Commit => self.commit(candidate, moment),
            Decision::Keep | Decision::Wait | Decision::Unchanged => Reloaded::Nothing,
        };
        self.note(complaint, decision, now);
        self.history.looked(self.watcher.last_trigger(), self.compare(reading), moment);
        self.tell_watches();
        reloaded
    }

    fn compare(&self, reading: Reading) -> OnDisk {
        match reading {
            Reading::Content { digest, .. } if self.served == Some(digest) => OnDisk::Same,
            Reading::Content { .. }
            | Reading::Unresolved
            | Reading::Unreadable
            | Reading::Failed
            | Reading::Moving => OnDisk::Other,
        }
    }

    fn note(&mut self, complaint: Option<Complaint>, decision: Decision, now: Instant) {
        if let Some(complaint) = complaint {
            self.complaints.raise(complaint, now);
        } else if matches!(decision, Decision::Unchanged | Decision::Commit) {
            let ended = self.complaints.settle();
            // A commit has a line of its own.
            if ended && decision == Decision::Unchanged {
                story::agreed(self.store.current().as_deref());
            }
        }
    }

    /// Reads the queue once more, and publishes unless that brought something that makes it unsafe.
    fn commit(&mut self, candidate: Option<Candidate>, moment: Moment) -> Reloaded {
        self.drain(moment.at);
        if self.has_records {
            // The next turn comes to the same decision, or to a better one.
            return Reloaded::Nothing;
        }
        let Some(commit) = self.watcher.confirm(moment.at) else { return Reloaded::Nothing };
        let Some(Candidate { bundle, staged }) = candidate else { return Reloaded::Nothing };
        self.served = Some(commit.digest);
        self.watcher.on_committed(commit.digest);
        self.material.forget();
        let before = self.store.current();
        if before.as_ref().is_some_and(|before| before.serves(&bundle)) {
            self.history.unchanged(&commit);
            return Reloaded::Nothing;
        }
        let published = clock::now();
        let generation = self.store.commit(staged, published);
        self.lifetime.begin(moment.at);
        self.chain_lifetime = Lifetime::default();
        if generation.facts.chain_not_after < generation.facts.not_after {
            self.chain_lifetime.begin(moment.at);
        }
        self.history.published(&commit, before.as_deref(), &generation, moment);
        Reloaded::Published(generation)
    }

    /// Registers the queue with the loop when a pass has opened one.
    fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let queue = self.filesystem.queue();
        if queue == self.registered {
            return Ok(());
        }
        if let Some(descriptor) = queue {
            registry.register(&mut SourceFd(&descriptor), Source::Watches.token(), Interest::READABLE)?;
        }
        self.registered = queue;
        Ok(())
    }

    /// One line when the way of watching changes.
    fn tell_watches(&mut self) {
        let mode = Some(self.watcher.mode());
        if self.told_mode != mode {
            story::watching(&self.watcher);
            self.told_mode = mode;
        }
    }
}

/// The moment on the loop's clock at which the calendar will say `at`; nothing for a past date.
fn later(now: Instant, wall: SystemTime, at: SystemTime) -> Option<Instant> {
    now.checked_add(at.duration_since(wall).ok()?)
}
