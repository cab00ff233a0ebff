//! Paths to the look-ups behind them, and look-ups to decisions.
//!
//! A [`Watcher`] is told that something happened, walks all paths of its targets again, and decides when what
//! was read there is to be served. Events only ever wake it; what they say is not believed. It does not know
//! the event queue's descriptor, what a file contains beyond a digest and a verdict, or the clock.
//! `tests/sim/watch` plays it against a simulated file system.

pub mod chain;

use std::time::{Duration, Instant};

pub use chain::{
    Anchor, Cause, Facts, Filesystem, Found, Identity, Kind, LookUp, Place, Role, Unresolved, Unwatchable,
    WatchId,
};

/// SHA-256 over the files of the set, as the shell computes it.
pub type Digest = [u8; 32];

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Quiet time before files that were changed one by one are believed to be complete.
    pub settle: Duration,
    /// Half the time after which an unending stream of events no longer delays a commit.
    pub storm: Duration,
    /// How often to look without being asked; `None` looks on events only.
    pub interval: Option<Duration>,
    /// Spreads the timer by a tenth, so that replicas do not look in step.
    pub jitter_seed: u64,
}

impl Timing {
    /// The product's settling times with a given timer.
    #[must_use]
    pub fn new(interval: Option<Duration>, jitter_seed: u64) -> Self {
        Self { settle: Duration::from_millis(50), storm: Duration::from_millis(500), interval, jitter_seed }
    }
}

/// What made the watcher look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// It had never looked.
    Start,
    /// An event in a watched inode, a lost event, or a change of the mounts.
    Event,
    /// A person asked.
    Signal,
    /// A failure was due to be tried again.
    Retry,
    /// The safety net.
    Timer,
}

/// One entry of the event queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Entries were lost.
    Overflow,
    /// Something happened to the watched inode, or to this name in it (empty: to the inode itself).
    Event {
        /// Whose watch it was.
        watch: WatchId,
        /// The name in the watched directory, without padding.
        name: &'a [u8],
    },
}

/// Whether a record can have anything to do with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relevance {
    /// It woke the watcher.
    Wakes,
    /// It is about something else.
    Ignored,
}

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

/// What the shell found when it read the files of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At least one path leads nowhere.
    Unresolved,
    /// A file is refused for what it is: no permission, too large. Its repair shows as an event.
    Unreadable,
    /// Reading failed for a reason whose end no event announces (no descriptors, an input error).
    Failed,
    /// A file changed while it was read.
    Moving,
    /// All files were read.
    Content {
        /// The digest of all of them.
        digest: Digest,
        /// Whether they may be served.
        verdict: Verdict,
        /// Time since the newest of them was last written or touched.
        age: Duration,
    },
}

/// Whether a content may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Valid,
    /// It may, but looks like the beginning of something longer (fewer certificates than before): settle longer.
    Doubtful,
    /// It may not.
    Invalid,
}

/// What is to become of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is what is served.
    Unchanged,
    /// It is new and valid, and may not be complete yet: the watcher will look again.
    Wait,
    /// It can't be served: go on with what is.
    Keep,
    /// It is to be served. Read the event queue to its end, feed the records, then ask [`Watcher::confirm`].
    Commit,
}

/// Why a content needs no more waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Found at start, and old enough to be complete.
    Found,
    /// All files changed through one look-up, to files never seen before.
    Atomic,
    /// Read twice with quiet time in between.
    Settled,
    /// Read twice, and the events would not end.
    Storm,
}

/// Whether events had announced a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// They had, or could not be expected to.
    Announced,
    /// Only the timer or a retry found it although events should have told: a rotation that was nearly missed.
    Missed,
}

/// A change that is to be published now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The digest that was read.
    pub digest: Digest,
    /// What made the watcher notice.
    pub trigger: Trigger,
    /// When.
    pub noticed: Instant,
    /// Why it needs no more waiting.
    pub publication: Publication,
    /// Whether events had announced it.
    pub announcement: Announcement,
}

/// Whether events alone can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every change is an event.
    Events,
    /// Some changes may not be: the files are also looked at every few seconds.
    Polling,
}

/// What stands between a change and an event about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The system grants no event queue.
    NoQueue,
    /// The limit of watches is reached.
    NoRoom,
    /// This directory or file may not be watched.
    Unwatchable(Vec<u8>),
    /// This path lies on a file system of this name, where others change things without an event.
    Remote(Vec<u8>, &'static str),
    /// This path fails in a way whose end is no event.
    Failing(Vec<u8>),
    /// The kernel resolves this path to another file than the walk does.
    ResolvesElsewhere(Vec<u8>),
    /// Within the last hour a change was found that no event had announced.
    Missed,
    /// This file is itself a mount, or no directory names it any more: it can't be replaced, only written. Looking more often does not help.
    Pinned(Vec<u8>),
}

/// Watches the files of one set.
#[derive(Debug)]
pub struct Watcher {
    deadline: Option<Instant>,
}

impl Watcher {
    /// For absolute paths, looking for the first time at once.
    #[must_use]
    pub fn new(targets: Vec<Vec<u8>>, timing: Timing, now: Instant) -> Self {
        let _ = (targets, timing);
        Self { deadline: Some(now) }
    }

    /// Takes one entry of the event queue.
    pub fn on_record(&mut self, record: Record<'_>, now: Instant) -> Relevance {
        let _ = record;
        self.deadline = Some(now);
        Relevance::Wakes
    }

    /// The mounts of this namespace changed.
    pub fn on_mounts_changed(&mut self, now: Instant) {
        self.deadline = Some(now);
    }

    /// The event queue broke and was closed; all watches are gone with it.
    pub fn on_queue_lost(&mut self, now: Instant) {
        self.deadline = Some(now);
    }

    /// Look at everything at the next turn.
    pub fn look_now(&mut self, trigger: Trigger, now: Instant) {
        let _ = trigger;
        self.deadline = Some(now);
    }

    /// When to look next, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether it is time for a [`Watcher::pass`].
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Walks all paths, watching each directory before looking a name up in it. The nodes pin their inodes and mounts: read them, tell [`Watcher::on_read`], drop them.
    pub fn pass<F: Filesystem>(&mut self, filesystem: &mut F, now: Instant) -> Pass<F::Node> {
        let _ = filesystem;
        self.deadline = None;
        Pass { targets: Vec::new(), trigger: Trigger::Start, noticed: now }
    }

    /// Takes what was read in the files of the last pass.
    pub fn on_read(&mut self, reading: Reading, now: Instant) -> Decision {
        let _ = (reading, now);
        Decision::Unchanged
    }

    /// After [`Decision::Commit`] and one more drain of the queue: the change to publish, or `None` if the drain brought something that makes it unsafe.
    pub fn confirm(&mut self, now: Instant) -> Option<Commit> {
        let _ = now;
        None
    }

    /// The digest is being served.
    pub fn on_committed(&mut self, digest: Digest, now: Instant) {
        let _ = (digest, now);
    }

    /// Whether events alone can be relied on.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::Events
    }

    /// What stands between a change and an event about it, sorted.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        [].iter()
    }

    /// How many watches are held.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        0
    }

    /// The watched directories, sorted.
    #[must_use]
    pub fn directories(&self) -> Vec<&[u8]> {
        Vec::new()
    }

    /// What made the watcher look the last time.
    #[must_use]
    pub fn last_trigger(&self) -> Trigger {
        Trigger::Start
    }
}
