//! Paths to the look-ups behind them, and look-ups to decisions.
//!
//! A `Watcher` is told that something happened, walks all paths of its targets again, and decides when what
//! was read there is to be served. Events only ever wake it; what they say is not believed. It does not know
//! the event queue's descriptor, what a file contains beyond a digest and a verdict, or the clock.
//! `tests/sim/watch` plays it against a simulated file system.
//!
//! A turn of the shell: feed the records of the queue to `Watcher::on_record`; if `Watcher::is_due`, make a
//! `Watcher::pass`, read the files it found, and tell `Watcher::on_read`; on `Decision::Commit` read the
//! queue to its end once more, feed the records, ask `Watcher::confirm`, publish, and tell
//! `Watcher::on_committed`. Then wait until `Watcher::deadline` or the next event.

mod arrivals;
pub mod chain;
mod interest;
mod mode;
mod schedule;
mod settle;
mod swap;
mod walk;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub use arrivals::Arrival;
pub use chain::{
    Anchor, Cause, Facts, Filesystem, Found, Identity, Kind, LookUp, Place, Role, Unresolved, Unwatchable,
    WatchId,
};
pub use interest::{Record, Relevance};
pub use mode::{Mode, Reason};
pub use schedule::{Timing, Trigger};
pub use settle::{Announcement, Commit, Decision, Digest, Publication, Reading, Verdict};

use interest::Live;
use schedule::{Health, Persistence, Schedule};
use settle::{Again, Settling, Sight};

/// A refused or broken event queue is asked for again after this time.
const QUEUE_INTERVAL: Duration = Duration::from_secs(60);

/// How long a change that came without an event is reason to poll.
const MISSED_SPAN: Duration = Duration::from_secs(3600);

/// Passes in a row that must find the kernel of another opinion before it is given in to.
const DISAGREEMENTS: u8 = 3;

/// What one look at all paths found.
#[derive(Clone, Debug)]
pub struct Pass<N> {
    /// For each target the file behind it, or why there is none.
    pub targets: Vec<Result<N, Unresolved>>,
    /// What made the watcher look.
    pub trigger: Trigger,
    /// When that happened.
    pub noticed: Instant,
}

/// Watches the files of one set.
#[derive(Debug)]
pub struct Watcher {
    targets: Vec<Vec<u8>>,
    schedule: Schedule,
    settling: Settling,
    live: Live,
    reasons: BTreeSet<Reason>,
    queue: Queue,
    /// For each target, how many passes in a row the kernel found another file than the walk.
    disagreements: Vec<u8>,
    missed_until: Option<Instant>,
    health: Health,
    last_trigger: Trigger,
}

/// Whether there is an event queue.
#[derive(Clone, Copy, Debug)]
enum Queue {
    /// There is.
    Open { since: Instant },
    /// There is none; ask from this time on.
    Wanted { from: Instant },
}

impl Watcher {
    /// For absolute paths, looking for the first time at once.
    #[must_use]
    pub fn new(targets: Vec<Vec<u8>>, timing: Timing, now: Instant) -> Self {
        Self {
            disagreements: vec![0; targets.len()],
            targets,
            schedule: Schedule::new(timing, now),
            settling: Settling::new(timing.settle, timing.storm, now),
            live: Live::default(),
            reasons: BTreeSet::new(),
            queue: Queue::Wanted { from: now },
            missed_until: None,
            health: Health::Sound,
            last_trigger: Trigger::Start,
        }
    }

    /// Takes one entry of the event queue.
    pub fn on_record(&mut self, record: Record<'_>, now: Instant) -> Relevance {
        let relevance = self.live.relevance(record);
        if relevance == Relevance::Wakes {
            match record {
                Record::Overflow => self.settling.on_loss(),
                Record::Event { watch, name, arrival } => {
                    if let Some(directory) = self.live.directory(watch) {
                        self.settling.on_arrival(directory, name, arrival);
                    }
                    if self.live.is_file(watch) {
                        self.settling.on_file_changed();
                    }
                }
            }
            self.settling.on_event(now);
            self.schedule.on_event(now);
        }
        relevance
    }

    /// The mounts of this namespace changed.
    pub fn on_mounts_changed(&mut self, now: Instant) {
        self.settling.on_event(now);
        self.schedule.on_mounts_changed(now);
    }

    /// The event queue broke and was closed; all watches are gone with it.
    pub fn on_queue_lost(&mut self, now: Instant) {
        let from = match self.queue {
            Queue::Open { since } => now.max(since + QUEUE_INTERVAL),
            Queue::Wanted { from } => from,
        };
        self.queue = Queue::Wanted { from };
        self.live = Live::default();
        self.settling.on_loss();
        self.settling.on_event(now);
        self.schedule.on_event(now);
    }

    /// Look at everything at the next turn.
    pub fn look_now(&mut self, trigger: Trigger, now: Instant) {
        self.schedule.look_now(trigger, now);
    }

    /// When to look next, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    /// Whether it is time for a [`Watcher::pass`].
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Walks all paths, watching each directory before looking a name up in it. The nodes pin their inodes and
    /// mounts: read them, tell [`Watcher::on_read`], drop them.
    pub fn pass<F: Filesystem>(&mut self, filesystem: &mut F, now: Instant) -> Pass<F::Node> {
        let cause = self.schedule.begin(now);
        let sight = if self.mode() == Mode::Events { Sight::Clear } else { Sight::Blind };
        self.want_queue(filesystem, now);
        let mut walked = walk::walk(filesystem, &self.targets);
        let old = std::mem::replace(&mut self.live, walked.live);
        // Waiting for the kernel to end a watch is not enough: it may be late, or never do it.
        for watch in old.ids().filter(|watch| !self.live.contains(*watch)) {
            filesystem.unwatch(watch);
        }
        self.reasons = std::mem::take(&mut walked.reasons);
        self.give_in(&mut walked.nodes, walked.elsewhere, now);
        if self.missed_until.is_some_and(|until| now < until) {
            self.reasons.insert(Reason::Missed);
        }
        if self.disagreements.iter().any(|count| *count >= DISAGREEMENTS) {
            // The chains do not lead to what is read.
            walked.chains.clear();
        }
        self.settling.on_walk(walked.chains, cause, sight);
        self.last_trigger = cause.trigger;
        self.rearm(now);
        Pass { targets: walked.nodes, trigger: cause.trigger, noticed: cause.since }
    }

    fn want_queue<F: Filesystem>(&mut self, filesystem: &mut F, now: Instant) {
        let Queue::Wanted { from } = self.queue else { return };
        if now >= from {
            self.queue = match filesystem.open_queue() {
                Ok(()) => Queue::Open { since: now },
                Err(_) => Queue::Wanted { from: now + QUEUE_INTERVAL },
            };
        }
    }

    /// Where walk and kernel disagree, look again; where they go on disagreeing, or the walk has not come to its end, take
    /// the kernel's file.
    fn give_in<N>(&mut self, nodes: &mut [Result<N, Unresolved>], elsewhere: Vec<Option<N>>, now: Instant) {
        let targets = self.targets.iter().zip(&mut self.disagreements).zip(nodes);
        for (((path, count), node), other) in targets.zip(elsewhere) {
            let Some(other) = other else {
                *count = 0;
                continue;
            };
            let is_cut = self.reasons.contains(&Reason::TooDeep(path.clone()));
            *count = if is_cut { DISAGREEMENTS } else { count.saturating_add(1) };
            if *count < DISAGREEMENTS {
                self.schedule.on_disagreement(now);
                continue;
            }
            *node = Ok(other);
            if !is_cut {
                self.reasons.insert(Reason::ResolvesElsewhere(path.clone()));
            }
        }
    }

    /// Takes what was read in the files of the last pass.
    pub fn on_read(&mut self, reading: Reading, now: Instant) -> Decision {
        let (decision, again) = self.settling.on_reading(reading, now);
        let persistence =
            if again == Again::BackoffAlways { Persistence::Always } else { Persistence::UntilAnEvent };
        self.health = Health::Sound;
        match again {
            Again::Never => self.schedule.recover(),
            Again::At(at) => {
                self.schedule.recover();
                self.schedule.again(at);
            }
            Again::Backoff | Again::BackoffAlways => {
                self.health = Health::Failing;
                self.schedule.fail(self.health(), persistence, now);
            }
        }
        self.rearm(now);
        decision
    }

    /// After [`Decision::Commit`] and one more drain of the queue, to its end: the change to publish, or `None` if the
    /// drain brought something that makes it unsafe, or did not bring what would make it safe. If the queue could not
    /// be read to its end, do not ask: the next turn will come to the same decision.
    pub fn confirm(&mut self, now: Instant) -> Option<Commit> {
        self.schedule.never_again();
        let commit = match self.settling.confirm(now) {
            Ok(commit) => commit,
            Err(again) => {
                if let Some(at) = again {
                    self.schedule.again(at);
                }
                return None;
            }
        };
        if commit.announcement == Announcement::Missed {
            self.missed_until = Some(now + MISSED_SPAN);
            self.reasons.insert(Reason::Missed);
            self.rearm(now);
        }
        Some(commit)
    }

    /// The digest is being served, whether or not it was the watcher's idea.
    pub fn on_committed(&mut self, digest: Digest) {
        self.settling.on_committed(digest);
    }

    /// Whether events alone can be relied on.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.reasons.iter().any(Reason::calls_for_polling) { Mode::Polling } else { Mode::Events }
    }

    /// What stands between a change and an event about it, sorted.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.reasons.iter()
    }

    /// How many watches are held.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.live.len()
    }

    /// The watched directories, sorted.
    #[must_use]
    pub fn directories(&self) -> Vec<&[u8]> {
        self.live.directories()
    }

    /// What made the watcher look the last time.
    #[must_use]
    pub fn last_trigger(&self) -> Trigger {
        self.last_trigger
    }

    fn health(&self) -> Health {
        if self.mode() == Mode::Polling { Health::Blind } else { self.health }
    }

    fn rearm(&mut self, now: Instant) {
        self.schedule.rearm(self.health(), now);
    }
}
